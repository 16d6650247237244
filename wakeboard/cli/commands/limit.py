"""The command `wakeboard limit`: sets and lists how many runs of a limit key may run at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from wakeboard.cli.support.options import AsJson, Reason
from wakeboard.cli.support.output import print_json, print_message
from wakeboard.cli.support.session import with_session
from wakeboard.cli.support.tables import Column, print_table
from wakeboard.rules.humanize import counted
from wakeboard.rules.sanitize import one_line

if TYPE_CHECKING:
    from wakeboard.store.queries.listings import LimitRow

DEFAULT = 1
COLUMNS = (
    Column("KEY", shrinks=True),
    Column("AT ONCE", right=True),
    Column("RUNNING", right=True),
    Column("WAITING", right=True),
)

EXAMPLES = (
    "wakeboard limit                      list limit keys with their running and waiting runs",
    "wakeboard limit billing-api 3        run at most three at once",
    "wakeboard limit billing-api --default",
)


def command(
    key: Annotated[str | None, typer.Argument(metavar="KEY", help="The limit key.", show_default=False)] = None,
    max_running: Annotated[
        int | None,
        typer.Argument(metavar="N", min=0, max=1_000_000, help="Maximum number of running runs.", show_default=False),
    ] = None,
    default: Annotated[bool, typer.Option("--default", help="Restore the default, 1.", show_default=False)] = False,
    reason: Reason = "",
    as_json: AsJson = False,
) -> None:
    """Set how many runs of a limit key may run at once.

    Without N, list the limit keys. The default is 1. A lower limit does not stop running runs. The list does not
    contain the keys with which wakeboard enforces the concurrencyPolicy of schedules.
    """
    if default and (key is None or max_running is not None):
        raise typer.BadParameter("give a KEY and no N", param_hint="--default")
    if key is None or (max_running is None and not default):
        _print_limits(key, as_json)
        return

    with_session(lambda session: session.store.set_limit(key, max_running, reason))
    max_running = DEFAULT if max_running is None else max_running
    if as_json:
        print_json({"key": key, "max_running": max_running})
    else:
        print_message(f"at most {counted(max_running, 'run')} of {key} at once.")


def _print_limits(key: str | None, as_json: bool) -> None:
    rows = [row for row in with_session(lambda session: session.listings.limits()) if key in {None, row.key}]
    if as_json:
        print_json(rows)
    elif rows:
        print_table(COLUMNS, [_cells(row) for row in rows])
    else:
        print_message("no limit keys are in use." if key is None else f"{key} is not in use; its limit is {DEFAULT}.")


def _cells(row: LimitRow) -> list[str]:
    at_once = str(row.max_running) if row.is_explicit else f"{row.max_running} (default)"
    return [one_line(row.key), at_once, str(row.running), str(row.waiting)]
