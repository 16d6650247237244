"""The command `wakeboard migrate`: creates or upgrades the schema, grants rights to roles, stores settings."""

from __future__ import annotations

import asyncio
import math
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from wakeboard.cli.support.options import AsJson
from wakeboard.cli.support.output import print_error, print_json, print_message
from wakeboard.cli.support.session import database_dsn, dsn_hint
from wakeboard.errors import DatabaseUnavailable, LoginRefused, WakeboardError
from wakeboard.process.output import write_line

if TYPE_CHECKING:
    from collections.abc import Callable

    from wakeboard.store.migrate import Migrated
    from wakeboard.store.migration_plan import MigrationPlan
    from wakeboard.store.roles import Roles

RETRY_INTERVAL_S = 0.5
MESSAGE_INTERVAL_S = 10.0
RETENTION_SETTINGS = {
    "history_retention_days",
    "idempotency_key_retention_days",
    "dead_retention_days",
    "effect_retention_days",
    "log_retention_days",
}
AUDIT_SETTING = "audit_retention_days"


class Part(StrEnum):
    """The parts of wakeboard that can have a database role of their own."""

    OPERATOR = "operator"
    WORKER = "worker"
    CLIENT = "client"
    VIEWER = "viewer"
    SCALER = "scaler"
    SCHEDULER = "scheduler"


EXAMPLES = (
    "wakeboard migrate",
    "wakeboard migrate --dry-run              what it would do, and whether releases can go back",
    "wakeboard migrate --wait 60              in a start-up script",
    "WAKEBOARD_WORKER_ROLE=wb_worker wakeboard migrate --print-roles | psql",
    "wakeboard --dsn OLD migrate --print-roles | psql NEW",
    "wakeboard migrate --revoke-role client   applications can no longer enqueue",
)


def command(
    wait: Annotated[
        float | None,
        typer.Option(
            metavar="SECONDS",
            min=0,
            max=604_800,
            help="Wait this long for the database (otherwise not), and for transactions in the way (otherwise 60 s).",
            show_default=False,
        ),
    ] = None,
    print_roles: Annotated[
        bool,
        typer.Option("--print-roles", help="Print the SQL that creates the roles; do not migrate.", show_default=False),
    ] = False,
    dry_run: Annotated[
        bool,
        typer.Option("--dry-run", help="Print what it would do, and change nothing.", show_default=False),
    ] = False,
    revoke_role: Annotated[
        list[Part] | None,
        typer.Option(
            metavar="PART",
            help="Revoke all rights of the role of this part: operator, worker, client, viewer, scaler or scheduler.",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Create the schema `wakeboard`, or upgrade it.

    The command needs only the right CREATE on the database. Each migration is applied once. Two migrations can start at
    once, and workers of the previous release can be running.

    While transactions use a table that must change, it names their sessions, at once and every 5 seconds, and waits. It
    holds up other statements for 0.2 s at a time, and says how long it was. If the transactions do not end, it fails
    and changes nothing.

    At the end it builds indexes of tables that may be large. No statement waits for that. If transactions are in the
    way for so long again, it says which indexes are not built, and succeeds: all else works without them, only slower.

    Before it starts, it prints what it will do to an existing schema, and whether the former release can be used again
    afterwards; --dry-run prints only that.

    It also restores functions, triggers and such indexes of this release that are missing or altered.

    The roles in WAKEBOARD_OPERATOR_ROLE, _WORKER_ROLE, _CLIENT_ROLE, _VIEWER_ROLE, _SCALER_ROLE and _SCHEDULER_ROLE are
    granted exactly what they need. A part without its variable keeps its role. If no part has a role, the owner of the
    schema does everything.

    --print-roles prints these roles for a database administrator, and the owner in WAKEBOARD_OWNER_ROLE, with CREATE on
    the database. If no such variable is set, it prints the roles of the installation in the database.

    If WAKEBOARD_MISFIRE_GRACE_SECONDS or one of the retention settings, such as WAKEBOARD_HISTORY_RETENTION_DAYS, is
    set, it is stored for the installation.
    """
    if print_roles:
        _print_roles()
        return
    if dry_run:
        from wakeboard.store.migrate import plan_migration

        plan = asyncio.run(plan_migration(database_dsn()))
        if as_json:
            print_json(plan)
        else:
            _print_plan(plan)
        return
    announce = None if as_json else _announce
    done = asyncio.run(_migrate(database_dsn(), _roles(), tuple(revoke_role or ()), wait, announce))
    asyncio.run(_store_settings(database_dsn()))
    if as_json:
        print_json(done)
    else:
        _print(done)


def _roles() -> Roles:
    from wakeboard.settings import read_settings
    from wakeboard.store.roles import Roles

    settings = read_settings()
    return Roles(
        settings.operator_role,
        settings.worker_role,
        settings.client_role,
        settings.viewer_role,
        settings.scaler_role,
        settings.scheduler_role,
    )


async def _store_settings(dsn: str) -> None:
    """Stores the settings of the installation that the environment has. The others do not change."""
    from wakeboard.engine.maintenance_api import MaintenanceStore
    from wakeboard.engine.retention import Retention
    from wakeboard.settings import read_settings
    from wakeboard.store.connection import connect

    settings = read_settings()
    given = settings.model_fields_set & {*RETENTION_SETTINGS, AUDIT_SETTING}
    if not given and not settings.has_misfire_grace:
        return
    retention = Retention.from_settings(settings)
    async with await connect(dsn) as conn:
        store = MaintenanceStore(conn)
        if given & RETENTION_SETTINGS:
            await store.set_retention(
                retention.history, retention.keys, retention.dead, retention.effects, retention.logs
            )
        if AUDIT_SETTING in given:
            await store.set_audit_retention(retention.audit)
        if settings.has_misfire_grace:
            await store.set_misfire_grace(settings.misfire_grace)


def _print_roles() -> None:
    from wakeboard.settings import read_settings
    from wakeboard.store.roles import create_roles, installed_roles

    owner, roles = read_settings().owner_role, _roles()
    if owner is None and not roles.named():
        if not (dsn := database_dsn()):
            raise WakeboardError(f"no roles are set: set WAKEBOARD_WORKER_ROLE or another role. {dsn_hint()}")
        owner, roles = asyncio.run(installed_roles(dsn))
    write_line(create_roles(roles, owner))


async def _migrate(
    dsn: str,
    roles: Roles,
    revoke: tuple[Part, ...],
    wait_s: float | None,
    announce: Callable[[MigrationPlan], None] | None,
) -> Migrated:
    """Migrates, and retries for `wait_s` while the database is unavailable or does not exist.

    Raises DatabaseUnavailable after that, and immediately for a refused login or an invalid DSN.
    """
    from wakeboard.store.migrate import WAIT_S
    from wakeboard.store.migrate import migrate as migrate_schema

    loop = asyncio.get_running_loop()
    deadline, next_message = loop.time() + (wait_s or 0.0), loop.time()
    while True:
        try:
            left_s = WAIT_S if wait_s is None else max(deadline - loop.time(), 0.0)
            return await migrate_schema(
                dsn, roles=roles, revoke=revoke, wait_s=left_s, say=print_error, announce=announce
            )
        except LoginRefused:
            raise
        except DatabaseUnavailable as error:
            now = loop.time()
            if now >= deadline:
                raise
            if now >= next_message:
                print_error(f"waiting up to {math.ceil(deadline - now)} s more: {error}")
                next_message = now + MESSAGE_INTERVAL_S
            await asyncio.sleep(min(RETRY_INTERVAL_S, deadline - now))


def _announce(plan: MigrationPlan) -> None:
    """Prints what it is going to do to an existing schema."""
    if plan.version and not plan.changes_nothing:
        _print_plan(plan)


def _print_plan(plan: MigrationPlan) -> None:
    for sentence in plan.sentences():
        print_message(sentence)


def _print(done: Migrated) -> None:
    if done.applied:
        held_up = f" No statement waited for longer than {done.held_up_s:.3f} s." if done.held_up_s else ""
        print_message(f"applied {', '.join(done.applied)}; the schema is at migration {done.version}.{held_up}")
    elif done.functions_written:
        print_message(f"updated the SQL functions; the schema is at migration {done.version}.")
    elif not (done.revoked or done.granted or done.released or done.restored or done.built or done.unbuilt):
        print_message(f"nothing to do: the schema is at migration {done.version}.")
    if done.built:
        print_message(f"built {', '.join(done.built)}; no statement waited for that.")
    if done.restored:
        print_message(f"restored what was missing or altered: {', '.join(done.restored)}.")
    for name in done.revoked:
        print_message(f"revoked all rights of the database role {name}.")
    for part, name in done.released.items():
        print_message(f"revoked the rights of the part {part} from the database role {name}, which keeps others.")
    for part, name in done.granted.items():
        print_message(f"granted the rights of the part {part} to the database role {name}.")
