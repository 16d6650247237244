"""Writes docs/benchmarks.md, which has one section for each command that measures."""

from __future__ import annotations

from typing import Final

from testbed.processes import ROOT

PAGE: Final = ROOT / "docs" / "benchmarks.md"
PLOTS: Final = ROOT / "docs" / "benchmarks"
SECTIONS: Final = (
    "make bench-competitors BENCH_ARGS=--ordinary",  # first: it is what most installations have
    "make bench",
    "make bench-large",
    "make bench-competitors",
)
HEADING: Final = """\
# Benchmarks

Each section is the output of the command that it names. Figures are medians, with minimum and maximum in parentheses.
Compare figures of one table only: its cases were measured in turn.
"""


def write_section(command: str, text: str) -> None:
    """Replaces a command's section of the page by its output."""
    page = PAGE.read_text(encoding="utf-8") if PAGE.exists() else ""
    PAGE.write_text(with_section(page, command, text), encoding="utf-8")
    print(f"written to {PAGE.relative_to(ROOT)}")


def with_section(page: str, command: str, text: str) -> str:
    """The page with this command's section replaced, and those of the other commands as they were."""
    kept = {name: section_of(page, name) for name in SECTIONS} | {command: text.strip()}
    parts = [f"<!-- {name} -->\n\n{kept[name]}\n\n<!-- end of {name} -->\n" for name in SECTIONS if kept[name]]
    return "\n".join([HEADING, *parts])


def section_of(page: str, command: str) -> str:
    """This command's section of the page, or nothing."""
    _, begins, rest = page.partition(f"<!-- {command} -->")
    section, ends, _ = rest.partition(f"<!-- end of {command} -->")
    return section.strip() if begins and ends else ""
