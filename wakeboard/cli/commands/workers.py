"""The command `wakeboard workers`: the pools of workers that live, or ended in the last hour."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wakeboard.cli.support.options import AsJson
from wakeboard.cli.support.output import print_json, print_message
from wakeboard.cli.support.session import query_store
from wakeboard.cli.support.tables import Column, print_table
from wakeboard.text.humanize import relative
from wakeboard.text.sanitize import one_line

if TYPE_CHECKING:
    from wakeboard.cli.support.session import CommandSession
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

    async def query(session: CommandSession) -> list[PoolRow]:
        from wakeboard.views.queries.overview import OverviewQueries

        return await OverviewQueries(session.conn, None).pools()

    rows, now = query_store(query)
    if as_json:
        print_json(rows)
    elif rows:
        cells = [
            [
                row.pool,
                f"{row.workers:,}",
                f"{row.capacity:,}",
                relative(row.last_seen, now),
                f"{len(row.wakes):,}",
                one_line(", ".join(row.versions)) or "-",
                one_line(", ".join(row.queues)),
            ]
            for row in rows
        ]
        print_table(COLUMNS, cells)
    else:
        print_message("no worker has run in the last hour. `wakeboard worker --handlers MODULE` starts one.")
