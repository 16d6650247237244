"""The command `wakeboard workers`: the pools of workers that live, or ended in the last hour."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wakeboard.cli.support.options import AsJson
from wakeboard.cli.support.session import query_database
from wakeboard.cli.support.tables import Column, print_rows
from wakeboard.text.humanize import relative
from wakeboard.text.sanitize import one_line

if TYPE_CHECKING:
    from wakeboard.cli.support.session import DatabaseSession
    from wakeboard.views.queries.overview import PoolRow

COLUMNS = (
    Column("POOL", shrinks=True),
    Column("WORKERS", right=True),
    Column("RUNS AT ONCE", right=True),
    Column("LAST SEEN"),
    Column("WAKES", right=True),
    Column("VERSION", shrinks=True),
    Column("QUEUES", shrinks=True),
)
EXAMPLES = ("wakeboard workers", "wakeboard workers --json")


def command(as_json: AsJson = False) -> None:
    """List the pools of workers.

    A pool has workers now, or had one in the last hour: WAKES are the workers that started and ended in it.
    """

    async def query(session: DatabaseSession) -> list[PoolRow]:
        from wakeboard.views.queries.overview import OverviewQueries

        return await OverviewQueries(session.conn, None).pools()

    rows, now = query_database(query)

    def cells(row: PoolRow) -> list[str]:
        counts = f"{row.workers:,}", f"{row.capacity:,}", relative(row.last_seen, now), f"{len(row.wakes):,}"
        return [row.pool, *counts, one_line(", ".join(row.versions)) or "-", one_line(", ".join(row.queues))]

    otherwise = "no worker has run in the last hour. `wakeboard worker --handlers MODULE` starts one."
    print_rows(rows, COLUMNS, cells, otherwise, as_json=as_json)
