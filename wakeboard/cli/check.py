"""The command that checks: is this board fit for production, and is all well now?"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Annotated

import typer

from wakeboard.cli.echo import AsJson, print_json
from wakeboard.cli.help_examples import examples
from wakeboard.cli.session import HOW_TO_SAY_WHICH, database_dsn
from wakeboard.errors import DatabaseUnavailable, SchemaMismatch

if TYPE_CHECKING:
    from wakeboard.cli.checklist import Finding, Here
    from wakeboard.settings import Settings
    from wakeboard.store.connection import AsyncConnection

commands = typer.Typer()


@commands.command(
    "check",
    epilog=examples(
        "wakeboard check                  all lines, and what to do about those that are not ok",
        "wakeboard check --strict         warnings count too",
        "wakeboard check --json | jq '.[] | select(.level != \"ok\")'",
    ),
)
def check(
    strict: Annotated[bool, typer.Option("--strict", help="Exit 1 for warnings too.", show_default=False)] = False,
    as_json: AsJson = False,
) -> None:
    """Go through the production checklist.

    Schema, clocks, pooler, durability, vacuum; workers, ticks, queues, job types, due and stuck runs; partitions,
    retention, duties. Exit code 0: nothing failed; 1: something did.
    """
    findings = asyncio.run(_findings(database_dsn()))
    from wakeboard.cli.checklist import worst

    if as_json:
        print_json(findings)
    else:
        _print(findings)
    if worst(findings) in ({"fail", "warn"} if strict else {"fail"}):
        raise typer.Exit(1)


async def _findings(dsn: str) -> list[Finding]:
    """The checklist, or the one line that makes all others pointless."""
    from wakeboard.cli.checklist import Finding, checklist
    from wakeboard.settings import read_settings
    from wakeboard.store.connection import connect, require_schema
    from wakeboard.store.queries.health_checks import read_health_facts

    settings = read_settings()
    try:
        conn = await connect(dsn, name="wakeboard check")
        async with conn:
            await require_schema(conn)
            here = await _here(dsn, conn, settings)
            return checklist(await read_health_facts(conn), here)
    except SchemaMismatch as exc:
        return [Finding(level="fail", what="schema", says=str(exc), do="run `wakeboard migrate`")]
    except DatabaseUnavailable as exc:
        do = "see that it runs and that the DSN is right" if dsn else HOW_TO_SAY_WHICH
        return [Finding(level="fail", what="database", says=str(exc), do=do)]


async def _here(dsn: str, conn: AsyncConnection, settings: Settings) -> Here:
    from datetime import UTC, datetime, timedelta

    from wakeboard import __version__
    from wakeboard.cli.checklist import Here
    from wakeboard.rules.zones import tzdata_version
    from wakeboard.store.migrate import functions_hash, functions_revision
    from wakeboard.store.queries.health_checks import route_to
    from wakeboard.store.queries.listings import Listings

    before = datetime.now(UTC)
    there = await Listings(conn).now()
    after = datetime.now(UTC)
    return Here(
        clock_ahead=there - (before + (after - before) / 2),
        route=await route_to(dsn, conn),
        functions_hash=functions_hash(),
        functions_revision=functions_revision(),
        version=__version__,
        tzdata=tzdata_version(),
        listen=settings.listen,
        prepared_statements=settings.prepared_statements,
        history_retention=timedelta(days=settings.history_retention_days),
        max_timeout_s=settings.max_timeout_seconds,
    )


def _print(findings: list[Finding]) -> None:
    from rich.text import Text

    from wakeboard.cli.tables import print_lines, word
    from wakeboard.rules.sanitize import one_line

    for finding in findings:
        line = word(finding.level) + Text(f"{'':{6 - len(finding.level)}}{finding.what:<12}{one_line(finding.says)}")
        print_lines([line, *([Text(f"{'':18}-> {finding.do}")] if finding.do else [])])
