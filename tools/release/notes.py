"""The release notes: what CHANGELOG.md says of a release."""

from __future__ import annotations

import re

RELATIVE_LINK = re.compile(r"\[([^\]]+)\]\((?![a-z]+:)[^)]+\)")


class NoNotes(Exception):
    """The changelog has no section of the release."""


SECTION = re.compile(r"^## \[([^\]]+)\][^\n]*\n(.*?)(?=^## \[|\Z)", re.MULTILINE | re.DOTALL)


def release_notes(changelog: str, version: str, *, released: bool) -> str:
    """The section of this version, or of what is unreleased. Links into the repository become their text.

    Raises NoNotes for a release (`released`) without a section of its own.
    """
    sections = dict(SECTION.findall(changelog))
    section = sections.get(version) or (None if released else sections.get("Unreleased"))
    if not section:
        raise NoNotes(f"CHANGELOG.md has no section of {version}: rename [Unreleased] to [{version}] - YYYY-MM-DD.")
    text = RELATIVE_LINK.sub(r"\1", section).strip()
    return f"# wakeboard {version}\n\n{text}\n"
