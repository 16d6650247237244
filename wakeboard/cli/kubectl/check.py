"""The command `kubectl wakeboard check`: what the board finds wrong. It shows findings as `wakeboard check` does."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import typer

from wakeboard.cli.support.findings import has_failed, print_findings
from wakeboard.cli.support.options import AsJson, Strict
from wakeboard.cli.support.output import print_json, print_message
from wakeboard.cli.support.session import with_session

if TYPE_CHECKING:
    from wakeboard.cli.kubectl.board_reads import BoardReads
    from wakeboard.cli.support.session import CommandSession
    from wakeboard.health.findings import Finding

EXAMPLES = ("kubectl wakeboard check", "kubectl wakeboard check --strict --json")


def command(strict: Strict = False, as_json: AsJson = False) -> None:
    """Check that the installation works, as far as you may see.

    These are the problems of the board's overview, in all namespaces that you may see. `wakeboard check` also looks at
    the database from where it runs. The exit code is 1 if a check failed.
    """

    async def read(session: CommandSession) -> list[Finding]:
        return await cast("BoardReads", session.listings).findings()

    findings = with_session(read)
    if as_json:
        print_json(findings)
    elif findings:
        print_findings(findings)
    else:
        print_message("nothing is wrong.")
    if has_failed(findings, strict=strict):
        raise typer.Exit(1)
