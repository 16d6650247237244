"""The command `wakeboard check`: runs the production checks (wakeboard/health) on the database, or checks files."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from wakeboard.cli.support.after_restore import after_restore as report_restore
from wakeboard.cli.support.findings import has_failed, print_findings
from wakeboard.cli.support.options import AsJson, Reason, Strict, read_path
from wakeboard.cli.support.output import print_error, print_json
from wakeboard.cli.support.session import configured_read_dsn, database_dsn, dsn_hint
from wakeboard.errors import DatabaseUnavailable, InvalidValue, Locked, MissingRight, SchemaMismatch

if TYPE_CHECKING:
    from wakeboard.health.findings import Finding
    from wakeboard.health.queries.facts import LocalFacts, ReplicaFacts
    from wakeboard.settings import Settings
    from wakeboard.store.connection import AsyncConnection

ANSWER_S: Final = 20.0  # for all that it asks; a cancelled statement may take another four
OF_ANY_ROLE: Final = {"clock", "connection", "commits", "locks"}  # checks that need no right

EXAMPLES = (
    "wakeboard check                  all checks, with hints for those that are not ok",
    "wakeboard check --strict         also fail for warnings",
    "wakeboard check --after-restore  what may run twice after a failover or restore, and acknowledge it",
    "wakeboard check schedules/       files, without a database",
    "wakeboard check --json | jq '.[] | select(.level != \"ok\")'",
)


def command(
    files: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="[FILES]...",
            parser=read_path,
            help="Folders and files of YAML to check instead, without a database.",
            show_default=False,
        ),
    ] = None,
    strict: Strict = False,
    after_restore: Annotated[
        bool,
        typer.Option(
            "--after-restore",
            help="After a failover or restore: what may run twice and what is gone; then acknowledge it.",
            show_default=False,
        ),
    ] = False,
    yes: Annotated[
        bool, typer.Option("--yes", help="Acknowledge without a question (--after-restore).", show_default=False)
    ] = False,
    reason: Reason = "",
    as_json: AsJson = False,
) -> None:
    """Check that the installation works, or that files are right.

    The checks cover the schema, what it lacks, the rights and logins of roles, clocks, the pooler, durability, commits
    and vacuum; workers, ticks, queues, job types, due and stuck runs; partitions, retention and maintenance. Of files
    they cover what `wakeboard plan` finds: mistakes, chains, names, secrets, clock changes, and minutes with too many
    ticks.
    The exit code is 1 if a check failed.

    After a failover or restore that lost commits, or may have, a check fails until a user acknowledges it with
    --after-restore.
    """
    if after_restore:
        if files:
            raise typer.BadParameter("it reads the database; leave the files out", param_hint="--after-restore")
        report_restore(reason, yes=yes, as_json=as_json)
        return
    findings = _findings_of(files) if files else asyncio.run(_findings(database_dsn()))
    if as_json:
        print_json(findings)
    else:
        print_findings(findings)
    if has_failed(findings, strict=strict):
        raise typer.Exit(1)


def _findings_of(files: list[Path]) -> list[Finding]:
    from wakeboard.manifests import load_paths
    from wakeboard.plan.plan import DAYS, plan
    from wakeboard.plan.rules.state import NOTHING
    from wakeboard.plan.states import state_of

    manifests = load_paths(files, with_alerts=True)
    for note in manifests.notes:
        print_error(f"note: {note}")
    state = state_of("", manifests)
    if state.is_empty and not manifests.alert_rules:
        names = ", ".join(map(str, files))
        raise InvalidValue(
            f"nothing is declared in {names}: no document has a JobSchedule, limits or alert rules; name the folder"
            " with them. Of a folder, files that end in .yaml or .yml are read."
        )
    return plan(NOTHING, state, datetime.now(UTC), DAYS).findings


async def _findings(dsn: str) -> list[Finding]:
    """All findings, or those up to what keeps the rest from being read: no database, no suitable schema, no right."""
    from wakeboard.health.findings import Finding
    from wakeboard.store.statements import translating

    found: list[Finding] = []
    try:
        with translating():
            return await _of_the_database(dsn, found)
    except SchemaMismatch as exc:
        return [*found, Finding(level="fail", check="schema", message=str(exc), hint="")]
    except DatabaseUnavailable as exc:
        hint = exc.hint if dsn else dsn_hint()
        if isinstance(exc, Locked) and found:
            hint = found[-1].hint or hint  # that about the sessions that keep the locks
        return [*found, Finding(level="fail", check="database", message=str(exc), hint=hint or "See the server's log.")]


async def _of_the_database(dsn: str, found: list[Finding]) -> list[Finding]:
    """All findings. `found` gets those that are worth saying if a later read fails."""
    from wakeboard.health.findings import Finding, findings
    from wakeboard.health.queries.commits import read_commit_facts
    from wakeboard.health.queries.facts import Health, read_installation
    from wakeboard.health.queries.server import read_checkers
    from wakeboard.settings import read_settings
    from wakeboard.store.connection import connect, require_schema
    from wakeboard.store.migration_locks import sessions_in_the_way
    from wakeboard.store.reply_limit import ReplyLimit
    from wakeboard.store.schema_differences import read_differences
    from wakeboard.store.statements import bounded_transaction

    limit = ReplyLimit(ANSWER_S)
    limit.until = time.monotonic() + ANSWER_S
    conn = await connect(dsn, name="wakeboard check", reply_limit=limit)
    async with conn:
        async with bounded_transaction(conn, int(ANSWER_S)):  # an administrator may have set a short timeout
            commits = await read_commit_facts(conn, dsn)  # first, because a later read may get no answer
            holders = await sessions_in_the_way(conn)
        hanging = findings(Health(now=datetime.now(UTC), commits=commits, lock_holders=holders))
        found += [each for each in hanging if each.check in {"commits", "locks"} and each.level == "fail"]
        local = await _local_facts(dsn, conn, read_settings())
        try:
            async with bounded_transaction(conn, int(ANSWER_S)):
                await require_schema(conn)
                health = replace(await read_installation(conn), local=local, differences=await read_differences(conn))
        except MissingRight as exc:
            measured = findings(Health(now=datetime.now(UTC), commits=commits, lock_holders=holders, local=local))
            refused = Finding(
                level="fail",
                check="rights",
                message=f"{str(exc).partition('; ')[0].removesuffix('.')}.",
                hint=f"Check with a role that may: {', '.join(await read_checkers(conn))}.",
            )
            return [*(each for each in measured if each.check in OF_ANY_ROLE), refused]
        return [*findings(replace(health, commits=commits, lock_holders=holders))]


async def _local_facts(dsn: str, conn: AsyncConnection, settings: Settings) -> LocalFacts:
    from wakeboard import __version__
    from wakeboard.engine.retention import Retention
    from wakeboard.health.queries.facts import LocalFacts, route_to
    from wakeboard.store.schema_files import functions_hash, functions_revision
    from wakeboard.ticks.zones import tzdata_version
    from wakeboard.views.queries.listings import Listings

    before = datetime.now(UTC)
    database_now = await Listings(conn).now()
    after = datetime.now(UTC)
    return LocalFacts(
        clock_ahead=database_now - (before + (after - before) / 2),
        route=await route_to(dsn, conn),
        functions_hash=functions_hash(),
        functions_revision=functions_revision(),
        version=__version__,
        tzdata=tzdata_version(),
        listen=settings.listen,
        prepared_statements=settings.prepared_statements,
        history_days=Retention.from_settings(settings).history.days,
        max_timeout_s=settings.max_timeout_seconds,
        replica=await _replica_facts(dsn),
    )


async def _replica_facts(dsn: str) -> ReplicaFacts | None:
    """What is known of the standby of WAKEBOARD_READ_DSN; None: there is none."""
    from wakeboard.health.queries.facts import ReplicaFacts
    from wakeboard.views.replica import connect_to_replica

    if not (read_dsn := configured_read_dsn()):
        return None
    try:
        conn, usable = await connect_to_replica(read_dsn, dsn, name="wakeboard check")
    except (DatabaseUnavailable, SchemaMismatch) as error:
        return ReplicaFacts(problem=str(error).removesuffix("."))
    await conn.close()
    return ReplicaFacts(lag=usable.lag, is_primary=usable.is_primary)
