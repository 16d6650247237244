"""What CHANGELOG.md says of a release and of those before: its notes, and the list of versions of the site."""

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


def versions_page(changelog: str, version: str) -> str:
    """The page with the list of the versions of the documentation, newest first: each is a folder beside the page."""
    earlier = [name for name, _ in SECTION.findall(changelog) if name not in {"Unreleased", version}]
    items = "".join(f'<li><a href="{name}/index.html">{name}</a></li>\n' for name in (version, *earlier))
    return (
        '<!doctype html>\n<html lang="en">\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width">\n'
        '<meta name="color-scheme" content="light dark">\n<title>wakeboard documentation</title>\n'
        f"<main>\n<h1>wakeboard documentation</h1>\n<p>Versions, the newest first:</p>\n<ul>\n{items}</ul>\n</main>\n"
    )
