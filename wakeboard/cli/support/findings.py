"""Prints findings, and decides whether a command fails because of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wakeboard.cli.support.advice import advice
from wakeboard.cli.support.tables import print_lines, styled
from wakeboard.text.sanitize import one_line

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wakeboard.health.findings import Finding


def has_failed(findings: Sequence[Finding], *, strict: bool) -> bool:
    """Whether one of them fails, or with `strict` is a warning."""
    return bool({finding.level for finding in findings} & ({"fail", "warn"} if strict else {"fail"}))


def print_findings(findings: Sequence[Finding]) -> None:
    """Prints each with its level in colour, and below it what to do."""
    for finding in findings:
        padding = " " * (6 - len(finding.level))
        print_lines([styled(finding.level, f"{padding}{finding.check:<14}{one_line(advice(finding.message))}")])
        if finding.hint:
            print_lines([f"{'':20}-> {advice(finding.hint)}"])
