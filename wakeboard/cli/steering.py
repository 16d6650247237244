"""Commands that steer what may run: pause, resume, limit, confirm removal."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from wakeboard.cli.echo import AsJson, complain, print_json, say
from wakeboard.cli.help_examples import examples
from wakeboard.cli.session import open_store
from wakeboard.cli.shell_completion import complete_paused_name, complete_source
from wakeboard.errors import WakeboardError
from wakeboard.rules.humanize import counted

if TYPE_CHECKING:
    from datetime import datetime

    from wakeboard.cli.session import Session
    from wakeboard.store.queries.listings import LimitRow, PauseRow

commands = typer.Typer()
confirm_commands = typer.Typer(no_args_is_help=True, help="Say yes to what waits for a person.")


class What(StrEnum):
    """What can be paused."""

    ALL = "all"
    QUEUE = "queue"
    SCHEDULE = "schedule"


WhatToPause = Annotated[What | None, typer.Argument(metavar="all|queue|schedule", show_default=False)]
ItsName = Annotated[
    str | None,
    typer.Argument(metavar="NAME", help="Of the queue or schedule.", autocompletion=complete_paused_name),
]


@commands.command(
    "pause",
    epilog=examples(
        "wakeboard pause                                  what is paused",
        "wakeboard pause all --reason 'moving house'",
        "wakeboard pause queue mail",
        "wakeboard pause schedule billing/weekly-report",
    ),
)
def pause(
    what: WhatToPause = None,
    name: ItsName = None,
    reason: Annotated[str, typer.Option(metavar="TEXT", help="Why, for whoever finds it paused.")] = "",
    as_json: AsJson = False,
) -> None:
    """Pause everything, a queue or a schedule.

    Alone it lists what is paused. Nothing of it is claimed and no ticks of it are made until `wakeboard resume`; what
    runs goes on. Afterwards each schedule's catchUp decides about the ticks that were missed, as after any outage.
    """
    if what is None:
        _list_pauses(as_json)
        return

    _require_name(what, name)

    async def ask(session: Session) -> tuple[str, str, bool]:
        key, shown = await _pausable(session, what, name)
        if what is What.QUEUE and name not in await session.reports.queues():
            complain(f"note: no schedule, run or worker knows a queue {name!r} yet.")
        return key, shown, await session.store.pause(key, reason)

    key, shown, changed = open_store(ask)
    if as_json:
        print_json({"what": key, "changed": changed})
    else:
        say(f"{shown} is paused." if changed else f"{shown} was paused already.")


@commands.command(
    "resume", epilog=examples("wakeboard resume all", "wakeboard resume queue mail", "wakeboard resume schedule tidy")
)
def resume(what: WhatToPause = None, name: ItsName = None, as_json: AsJson = False) -> None:
    """End a pause.

    Alone it lists what is paused. Ticks that were missed meanwhile are treated as after any outage: the schedule's
    catchUp decides.
    """
    if what is None:
        _list_pauses(as_json)
        return

    _require_name(what, name)

    async def ask(session: Session) -> tuple[str, str, bool]:
        key, shown = await _pausable(session, what, name)
        return key, shown, await session.store.resume(key)

    key, shown, changed = open_store(ask)
    if as_json:
        print_json({"what": key, "changed": changed})
    else:
        say(f"{shown} is resumed." if changed else _not_paused(what, shown))


def _not_paused(what: What, shown: str) -> str:
    if what is What.ALL:  # queues and schedules have pauses of their own
        return "no pause of everything is in force; `wakeboard pause` lists what is paused."
    return f"{shown} was not paused."


def _require_name(what: What, name: str | None) -> None:
    if (name is None) != (what is What.ALL):
        asked = "all stands alone" if what is What.ALL else f"say which {what}"
        raise typer.BadParameter(asked, param_hint="NAME")


async def _pausable(session: Session, what: What, name: str | None) -> tuple[str, str]:
    """An action: the name that the SQL functions use, and the words for users."""
    if name is None:
        return "all", "everything"
    if what is What.QUEUE:
        return f"queue:{name}", f"queue {name}"
    from wakeboard.cli.lookup import find_schedule

    known = await find_schedule(session.reports, name)
    return f"schedule:{known.id}", f"schedule {known.short}"


def _list_pauses(as_json: bool) -> None:
    async def ask(session: Session) -> tuple[list[PauseRow], datetime]:
        return await session.reports.pauses(), session.now

    rows, now = open_store(ask)
    if as_json:
        print_json(rows)
    elif not rows:
        say("nothing is paused.")
    else:
        from wakeboard.cli.listings import PAUSE_COLUMNS, pause_cells
        from wakeboard.cli.tables import print_table

        print_table(PAUSE_COLUMNS, [pause_cells(row, now) for row in rows])


@commands.command(
    "limit",
    epilog=examples(
        "wakeboard limit                      all limit keys, and who waits behind them",
        "wakeboard limit billing-api 3        at most three at once",
        "wakeboard limit billing-api --default",
    ),
)
def limit(
    key: Annotated[str | None, typer.Argument(metavar="KEY", help="A limit key.", show_default=False)] = None,
    at_once: Annotated[
        int | None, typer.Argument(metavar="N", min=0, max=1_000_000, help="Runs at once.", show_default=False)
    ] = None,
    default: Annotated[
        bool, typer.Option("--default", help="One at once, as before anybody set it.", show_default=False)
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Say how many runs of a limit key may run at once.

    Alone it lists them. A key that nobody said anything about has 1. What runs already goes on. The keys by which
    schedules keep their concurrencyPolicy are not among them.
    """
    if default and (key is None or at_once is not None):
        raise typer.BadParameter("write a KEY and no N", param_hint="--default")
    if key is None or (at_once is None and not default):
        _list_limits(key, as_json)
        return

    async def ask(session: Session) -> None:
        await session.store.set_limit(key, at_once)

    open_store(ask)
    at_once = 1 if at_once is None else at_once
    if as_json:
        print_json({"key": key, "max_running": at_once})
    else:
        say(f"at most {counted(at_once, 'run')} of {key} at once.")


def _list_limits(key: str | None, as_json: bool) -> None:
    async def ask(session: Session) -> list[LimitRow]:
        return [row for row in await session.reports.limits() if key in {None, row.key}]

    rows = open_store(ask)
    if as_json:
        print_json(rows)
    elif not rows:
        say("no limit keys are in use." if key is None else f"{key} is not in use; its limit is 1.")
    else:
        from wakeboard.cli.listings import LIMIT_COLUMNS, limit_cells
        from wakeboard.cli.tables import print_table

        print_table(LIMIT_COLUMNS, [limit_cells(row) for row in rows])


@confirm_commands.command(
    "removal", epilog=examples("wakeboard confirm removal k8s:5f3c…", "wakeboard check      says what is held")
)
def removal(
    source: Annotated[
        str, typer.Argument(metavar="SOURCE", help="Whose schedules vanish.", autocompletion=complete_source)
    ],
    as_json: AsJson = False,
) -> None:
    """Let a source remove many schedules at once.

    A sync that would remove more than a fifth of a source's schedules, and more than ten, holds until somebody says
    yes. The next sync that finds the very same list removes it.
    """

    async def ask(session: Session) -> int:
        count = await session.store.confirm_removal(source)
        if not count:
            raise WakeboardError(await _nothing_held(session, source))
        return count

    count = open_store(ask)
    if as_json:
        print_json({"source": source, "count": count})
    else:
        say(f"the next sync of {source} removes {counted(count, 'schedule')}.")


async def _nothing_held(session: Session, source: str) -> str:
    held = [row.source for row in await session.reports.removals()]
    others = f"; held is one of {', '.join(held)}" if held else ""
    return f"no removal of {source!r} is held{others}."
