"""The command `wakeboard compare`: what differs between two runs, step by step."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Annotated

import typer

from wakeboard.cli.support.options import AsJson
from wakeboard.cli.support.output import print_json
from wakeboard.cli.support.session import query_database
from wakeboard.cli.support.tables import Column, print_lines, styled, table, terminal_width
from wakeboard.text.humanize import lasted
from wakeboard.text.sanitize import one_line

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rich.text import Text

    from wakeboard.cli.support.session import DatabaseSession
    from wakeboard.views.rules.run_comparison import Difference, RunComparison

EXAMPLES = ("wakeboard compare 1042 1043", "wakeboard compare 1042 1043 --json")


def command(
    first: Annotated[
        str, typer.Argument(metavar="RUN", help="Its id, its uuid, or the first 8 characters of its uuid.")
    ],
    second: Annotated[str, typer.Argument(metavar="RUN", help="The run to compare it with.")],
    as_json: AsJson = False,
) -> None:
    """Compare two runs, such as two of one schedule.

    The output has the duration of each step, and the values of payload and result that differ. Values whose key looks
    like that of a credential are masked, also in JSON.
    """
    from wakeboard.cli.support.lookup import find_runs, no_such_run, parse_run

    wanted = [parse_run(first), parse_run(second)]

    async def query(session: DatabaseSession) -> RunComparison:
        from wakeboard.views.queries.run_comparison import read_comparison

        one, other = await find_runs(session.listings, wanted)
        found = await read_comparison(session.conn, one, other)
        if found is None:
            raise no_such_run(f"{first} or {second}")
        return found

    found, _ = query_database(query)
    if as_json:
        print_json(found)
    else:
        print_lines(list(_lines(found, terminal_width())))


def _lines(found: RunComparison, width: int) -> Iterator[Text | str]:
    names = (str(found.before), str(found.after))
    columns = (Column("", shrinks=True), *map(Column, names))
    yield from table(
        columns,
        [
            ["status", styled(found.before_status), styled(found.after_status)],
            ["last attempt", _took(found.before_s), _took(found.after_s)],
            *(
                [
                    f"step {one_line(step.name)}",
                    _took(step.before_s, step.before_state),
                    _took(step.after_s, step.after_state),
                ]
                for step in found.steps
            ),
        ],
        width,
    )
    yield from _differences("payload", found.payload, names, width)
    yield from _differences("result", found.result, names, width)


def _took(seconds: float | None, state: str | None = "done") -> str:
    """How long it took, and how it ended unless that is usual."""
    took = "-" if seconds is None else lasted(timedelta(seconds=seconds))
    return took if state in {"done", None} else f"{took}, {state}"


def _differences(title: str, found: Sequence[Difference], names: Sequence[str], width: int) -> Iterator[Text | str]:
    yield ""
    if not found:
        yield f"{title}: no difference"
        return
    columns = (Column(title.upper(), shrinks=True), *(Column(name, shrinks=True) for name in names))
    cells = [[one_line(each.path), one_line(each.before or "-"), one_line(each.after or "-")] for each in found]
    yield from table(columns, cells, width)
