"""Commands that prepare databases: migrate, effects install; and version."""

from __future__ import annotations

import asyncio
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from wakeboard.cli.echo import AsJson, complain, print_json, say
from wakeboard.cli.help_examples import examples
from wakeboard.cli.session import database_dsn
from wakeboard.errors import DatabaseUnavailable, LoginRefused, WakeboardError
from wakeboard.output import write_line

if TYPE_CHECKING:
    from wakeboard.store.migrate import Migrated, Roles

commands = typer.Typer()
effects_commands = typer.Typer(no_args_is_help=True, help="Exactly-once effects in other databases.")

TRY_EVERY_S = 0.5
TELL_EVERY_S = 10.0


class Part(StrEnum):
    """What a database role is for."""

    OPERATOR = "operator"
    WORKER = "worker"
    CLIENT = "client"
    VIEWER = "viewer"


@commands.command(
    "migrate",
    epilog=examples(
        "wakeboard migrate",
        "wakeboard migrate --wait 60              in a start-up script",
        "WAKEBOARD_WORKER_ROLE=wb_worker wakeboard migrate --print-roles | psql",
        "wakeboard migrate --revoke-role client   applications may enqueue no more",
    ),
)
def migrate(
    wait: Annotated[
        float,
        typer.Option(metavar="SECONDS", min=0, max=604_800, help="Wait so long for the database.", show_default=False),
    ] = 0.0,
    print_roles: Annotated[
        bool, typer.Option("--print-roles", help="Print SQL that makes the roles; do nothing.", show_default=False)
    ] = False,
    revoke_role: Annotated[
        list[Part] | None,
        typer.Option(
            metavar="PART", help="Take all rights from the role of this part: operator, worker, client, viewer."
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Make the schema `wakeboard`, or bring it up to this release.

    Forward only, each migration once, safe when two start at once, and while workers of the release before run. It
    takes only CREATE on the database. The roles in WAKEBOARD_OPERATOR_ROLE, _WORKER_ROLE, _CLIENT_ROLE and _VIEWER_ROLE
    get exactly their moves. The retention of WAKEBOARD_HISTORY_RETENTION_DAYS and the like is written down, where one
    of them is set. A part whose variable is missing keeps the role that it has; where no part has one, one
    role does everything.
    """
    roles = _roles()
    if print_roles:
        _print_roles(roles)
        return
    done = asyncio.run(_migrate(database_dsn(), roles, tuple(revoke_role or ()), wait))
    asyncio.run(_say_retention(database_dsn()))
    if as_json:
        print_json(done)
    else:
        _tell(done)


def _roles() -> Roles:
    from wakeboard.settings import read_settings
    from wakeboard.store.migrate import Roles

    settings = read_settings()
    return Roles(settings.operator_role, settings.worker_role, settings.client_role, settings.viewer_role)


async def _say_retention(dsn: str) -> None:
    """Stores the retention settings of the environment; without any of them the stored ones stay."""
    from datetime import timedelta

    from wakeboard.settings import read_settings
    from wakeboard.store.connection import connect
    from wakeboard.store.maintenance_api import Store

    settings = read_settings()
    if not settings.model_fields_set & {
        "history_retention_days",
        "idempotency_key_retention_days",
        "dead_retention_days",
    }:
        return
    dead = settings.dead_retention_days
    async with await connect(dsn) as conn:
        await Store(conn).set_retention(
            timedelta(days=settings.history_retention_days),
            timedelta(days=settings.idempotency_key_retention_days),
            None if dead is None else timedelta(days=dead),
        )


def _print_roles(roles: Roles) -> None:
    from wakeboard.store.migrate import create_roles

    if not roles.named():
        raise WakeboardError(
            "no roles are named: set WAKEBOARD_WORKER_ROLE and the like first, or migrate without: one role does all."
        )
    write_line(create_roles(roles))


async def _migrate(dsn: str, roles: Roles, revoke: tuple[Part, ...], wait_s: float) -> Migrated:
    """Migrates once the database answers. Raises DatabaseUnavailable when it has not after `wait_s`.

    A login that is refused and a DSN that cannot be read end it at once. A database that does not exist is waited for.
    """
    from wakeboard.store.migrate import migrate as bring_up

    loop = asyncio.get_running_loop()
    until, tell_at = loop.time() + wait_s, loop.time()
    while True:
        try:
            return await bring_up(dsn, roles=roles, revoke=revoke)
        except LoginRefused:
            raise
        except DatabaseUnavailable as error:
            now = loop.time()
            if now >= until:
                raise
            if now >= tell_at:
                complain(f"waiting up to {until - now:.0f} s more: {error}")
                tell_at = now + TELL_EVERY_S
            await asyncio.sleep(min(TRY_EVERY_S, until - now))


def _tell(done: Migrated) -> None:
    if done.applied:
        say(f"applied {', '.join(done.applied)}; the schema is at migration {done.version}.")
    elif done.functions_written:
        say(f"the moves are written anew; the schema is at migration {done.version}.")
    elif not done.revoked:
        say(f"nothing to do: the schema is at migration {done.version}.")
    for name in done.revoked:
        say(f"the database role {name} has lost its rights.")


@effects_commands.command(
    "install",
    epilog=examples(
        "wakeboard effects install postgresql://owner@shop-db/shop",
        "wakeboard effects install postgresql://owner@shop-db/shop --role shop_app",
    ),
)
def install(
    target: Annotated[
        str,
        typer.Argument(
            metavar="DSN",
            envvar="WAKEBOARD_EFFECTS_DSN",
            help="The application's database. With a password, name it in the environment: others on this machine can"
            " read the command line.",
            show_envvar=True,
            show_default=False,
        ),
    ],
    role: Annotated[
        str | None, typer.Option(metavar="ROLE", help="The application's role there, if it is not the owner.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Make the effects ledger in an application's database.

    Where wakeboard lives in another database than the application, `run.once(conn, key)` needs it there: one effect per
    run and key, in the application's own transaction. May be repeated.
    """
    from wakeboard.store.connection import describe_dsn
    from wakeboard.store.effects import install_ledger

    asyncio.run(install_ledger(target, role))
    if as_json:
        print_json({"installed": describe_dsn(target)})
    else:
        say(f"the effects ledger is in {describe_dsn(target)}.")


@commands.command("version", epilog=examples("wakeboard version --json"))
def version(as_json: AsJson = False) -> None:
    """Print the release, and what it stands on."""
    import platform

    from wakeboard import __version__
    from wakeboard.rules.zones import tzdata_version

    if as_json:
        print_json({"wakeboard": __version__, "python": platform.python_version(), "tzdata": tzdata_version()})
    else:
        say(f"wakeboard {__version__}, Python {platform.python_version()}, zone data {tzdata_version()}")
