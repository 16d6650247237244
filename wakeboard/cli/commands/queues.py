"""The command `wakeboard queues`: what each queue has to do, who serves it, and whether it is paused."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wakeboard.cli.support.options import AsJson
from wakeboard.cli.support.session import query_database
from wakeboard.cli.support.tables import Column, print_rows, styled
from wakeboard.text.sanitize import one_line

if TYPE_CHECKING:
    from rich.text import Text

    from wakeboard.cli.support.session import DatabaseSession
    from wakeboard.views.queries.backlog import QueueRow

SOON_S = 60.0
COLUMNS = (
    Column("QUEUE", shrinks=True),
    Column("DUE", right=True),
    Column("SOON", right=True),
    Column("TICKS", right=True),
    Column("SERVED BY", shrinks=True),
    Column("STATE"),
)
EXAMPLES = ("wakeboard queues", "wakeboard queues --json")


def command(as_json: AsJson = False) -> None:
    """List the queues.

    DUE counts the runs that execute or are due, SOON those that become due within a minute, TICKS the schedules whose
    next tick does. Runs that no worker may claim, such as dead ones and those of a pause, are not counted.
    """

    async def query(session: DatabaseSession) -> list[QueueRow]:
        from wakeboard.views.queries.backlog import read_queues

        return await read_queues(session.conn, SOON_S)

    rows, _ = query_database(query)
    otherwise = "there are no queues yet: no schedule, run or worker names one."
    print_rows(rows, COLUMNS, _cells, otherwise, as_json=as_json)


def _cells(row: QueueRow) -> list[str | Text]:
    from wakeboard.views.queries.backlog import MAX_ROWS

    counts = [f"{count:,}" if count < MAX_ROWS else f"{MAX_ROWS:,}+" for count in (row.due, row.soon, row.ticks)]
    return [row.queue, *counts, one_line(", ".join(row.pools)) or "-", styled("paused" if row.paused else "active")]
