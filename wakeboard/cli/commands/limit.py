"""The command `wakeboard limit`: sets and lists how many runs of a limit key run at once, and how often they start."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from wakeboard.cli.support.options import AsJson, Reason
from wakeboard.cli.support.output import print_answer, print_message
from wakeboard.cli.support.session import query_database, with_database
from wakeboard.cli.support.tables import Column, print_rows
from wakeboard.errors import InvalidValue
from wakeboard.limits.rules.rate import Rate
from wakeboard.text.humanize import counted
from wakeboard.text.sanitize import one_line

if TYPE_CHECKING:
    from wakeboard.cli.support.session import DatabaseSession
    from wakeboard.limits.queries import LimitRow

DEFAULT = 1
NO_RATE = "none"
COLUMNS = (
    Column("KEY", shrinks=True),
    Column("AT ONCE", right=True),
    Column("RATE", right=True),
    Column("RUNNING", right=True),
    Column("WAITING", right=True),
    Column("NEXT START", right=True),
)

EXAMPLES = (
    "wakeboard limit                                      list limit keys with their running and waiting runs",
    "wakeboard limit billing-api --at-once 3              run at most three at once",
    "wakeboard limit openai-api --rate 60/minute --burst 10",
    "wakeboard limit openai-api --rate none               no rate limit",
    "wakeboard limit billing-api --default                one at once, no rate limit",
    "wakeboard limit openai-api --declared                the limit that a file declares",
)


def command(
    key: Annotated[str | None, typer.Argument(metavar="KEY", help="The limit key.", show_default=False)] = None,
    at_once: Annotated[
        int | None,
        typer.Option(metavar="N", min=0, max=1_000_000, help="Maximum number of running runs.", show_default=False),
    ] = None,
    rate: Annotated[
        str | None,
        typer.Option(
            metavar="RATE",
            help="How many runs may start in a time: 60/minute, 5/second, 100/30s, or none.",
            show_default=False,
        ),
    ] = None,
    burst: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=1,
            max=1_000_000,
            help="With --rate: how many start at once after a pause. [default: 1]",
            show_default=False,
        ),
    ] = None,
    default: Annotated[
        bool, typer.Option("--default", help="Restore the default: 1 at once, no rate limit.", show_default=False)
    ] = False,
    declared: Annotated[
        bool,
        typer.Option("--declared", help="Restore what a file with kind: Limits declares.", show_default=False),
    ] = False,
    reason: Reason = "",
    as_json: AsJson = False,
) -> None:
    """Limit how many runs of a key run at once and start.

    Without options, list the limit keys. The default is 1 at once; with a rate limit, any number. A rate of 60/minute
    starts one run each second; with --burst 10, ten runs may start at once after a pause. The starts of retries count,
    too. A lower limit does not stop running runs. The list does not contain the keys with which wakeboard enforces the
    concurrencyPolicy of schedules.

    A limit that a file declares (kind: Limits) stays as you set it here until the file changes; the list names the
    keys that differ.
    """
    new_rate = None if rate is None or rate.strip().lower() == NO_RATE else Rate.parse(rate)
    changes = at_once is not None or rate is not None or default or declared
    if (default or declared) and (key is None or at_once is not None or rate is not None or (default and declared)):
        raise typer.BadParameter("give a KEY and no limit", param_hint="--declared" if declared else "--default")
    if key is None and changes:
        raise typer.BadParameter("give the KEY that is limited", param_hint="--at-once, --rate")
    if burst is not None and new_rate is None:
        raise InvalidValue("--burst goes with --rate: write for example --rate 60/minute --burst 10")
    if key is None or not changes:
        _print_limits(key, as_json)
        return

    async def change(session: DatabaseSession) -> LimitRow:
        if declared:
            return await _restore(session, key, reason)
        if rate is not None or default:
            await session.store.set_rate_limit(key, new_rate, burst or 1, reason)
        if at_once is not None or default:
            await session.store.set_limit(key, at_once, reason)
        return await _row(session, key) or _unused(key)

    row = with_database(change)
    print_answer(row, _sentence(row), as_json=as_json)


async def _restore(session: DatabaseSession, key: str, reason: str) -> LimitRow:
    row = await _row(session, key)
    if row is None or row.declared_by is None:
        raise InvalidValue(f"no file declares the limit of {one_line(key)}: `wakeboard limit` lists the keys")
    await session.store.set_rate_limit(key, row.declared_rate, row.declared_burst or 1, reason)
    await session.store.set_limit(key, row.declared_max_running, reason)
    return await _row(session, key) or row


async def _row(session: DatabaseSession, key: str) -> LimitRow | None:
    from wakeboard.limits.queries import list_limits

    return next((row for row in await list_limits(session.conn) if row.key == key), None)


def _unused(key: str) -> LimitRow:
    """A key that has no row, because its limit is the default."""
    from wakeboard.limits.queries import LimitRow

    return LimitRow(key=key, max_running=DEFAULT, is_explicit=False, running=0, waiting=0)


def _sentence(row: LimitRow) -> str:
    key = one_line(row.key)
    if row.rate is None:
        return f"at most {counted(row.max_running, 'run')} of {key} at once."
    at_once = "" if row.any_number else f", at most {row.max_running} at once"
    return f"runs of {key}: {row.rate}, burst {row.burst}{at_once}."


def _print_limits(key: str | None, as_json: bool) -> None:
    from wakeboard.limits.queries import list_limits

    found, _ = query_database(lambda session: list_limits(session.conn))
    rows = [row for row in found if key in {None, row.key}]
    otherwise = "no limit keys are in use." if key is None else f"{key} is not in use; its limit is {DEFAULT}."
    print_rows(rows, COLUMNS, _cells, otherwise, as_json=as_json)
    for row in [] if as_json else rows:
        if row.differs_from:
            print_message(_difference(row))


def _difference(row: LimitRow) -> str:
    """What declares another limit than the one in force."""
    key, sources = one_line(row.key), ", ".join(map(one_line, row.differs_from))
    if row.declared_by not in row.differs_from:
        return f"{key} is as {one_line(row.declared_by or '')} declares it; {sources} declares another limit."
    return (
        f"{key} differs from its declaration by {sources}: {row.declared_text}. To restore it, type: wakeboard limit"
        f" {key} --declared"
    )


def _cells(row: LimitRow) -> list[str]:
    at_once = "any" if row.any_number else str(row.max_running)
    rate = f"{row.rate}, burst {row.burst}" if row.rate else "-"
    is_full = row.running >= row.max_running  # a run that ends lets the next one start
    next_start = f"in {row.next_start_s:.0f} s" if row.next_start_s >= 1 else "-" if is_full else "now"
    return [
        one_line(row.key),
        at_once if row.is_explicit or row.any_number else f"{at_once} (default)",
        rate,
        str(row.running),
        str(row.waiting),
        next_start,
    ]
