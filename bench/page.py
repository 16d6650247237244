"""docs/benchmarks.md: a section for each command that measures, which that command alone writes."""

from __future__ import annotations

from typing import Final

from bench.processes import PROJECT

PAGE: Final = PROJECT / "docs" / "benchmarks.md"
PLOTS: Final = PROJECT / "docs" / "benchmarks"
SECTIONS: Final = ("make bench", "make bench-large", "make bench-competitors")
HEADING: Final = """\
# Benchmarks

Each section is what the command that it names printed, and is written by it. Figures are medians, with the least and
the greatest in parentheses. Compare what stands in one table: its cases were measured in turn.
"""


def write_section(command: str, text: str) -> None:
    """Puts what a command printed in its place on the page."""
    page = PAGE.read_text(encoding="utf-8") if PAGE.exists() else ""
    PAGE.write_text(with_section(page, command, text), encoding="utf-8")
    print(f"written to {PAGE.relative_to(PROJECT)}")


def with_section(page: str, command: str, text: str) -> str:
    """The page with this command's section replaced, and those of the other commands as they were."""
    kept = {name: section_of(page, name) for name in SECTIONS} | {command: text.strip()}
    parts = [f"<!-- {name} -->\n\n{kept[name]}\n\n<!-- end of {name} -->\n" for name in SECTIONS if kept[name]]
    return "\n".join([HEADING, *parts])


def section_of(page: str, command: str) -> str:
    """What the page has of this command, or nothing."""
    _, begins, rest = page.partition(f"<!-- {command} -->")
    section, ends, _ = rest.partition(f"<!-- end of {command} -->")
    return section.strip() if begins and ends else ""
