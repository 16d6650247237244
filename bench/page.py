"""Writes docs/benchmarks.md: each command that measures replaces its own section, between two comments that name it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from testbed.processes import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterable

PAGE: Final = ROOT / "docs" / "benchmarks.md"
PLOTS: Final = ROOT / "docs" / "benchmarks"


def write_section(command: str, text: str) -> None:
    """Replaces a command's section of the page by its output."""
    PAGE.write_text(with_section(PAGE.read_text(encoding="utf-8"), command, text), encoding="utf-8")
    print(f"written to {PAGE.relative_to(ROOT)}: {command}")


def require_sections(commands: Iterable[str]) -> None:
    """Raises ValueError if the page has no section for a command."""
    for command in commands:
        with_section(PAGE.read_text(encoding="utf-8"), command, "")


def with_section(page: str, command: str, text: str) -> str:
    """The page with this command's section replaced. Raises ValueError if the page has no such section."""
    begin, end = f"<!-- {command} -->\n", f"\n<!-- end of {command} -->"
    before, begins, rest = page.partition(begin)
    _, ends, after = rest.partition(end)
    if not begins or not ends:
        raise ValueError(
            f"docs/benchmarks.md has no section of {command}; write {begin!r} and {end!r} where it belongs"
        )
    return f"{before}{begin}\n{text.strip()}\n{end}{after}"
