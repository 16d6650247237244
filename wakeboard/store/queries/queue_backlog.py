"""The work of each queue, now and soon, for the operator's metrics and so for autoscalers that read them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, LiteralString

from psycopg.rows import tuple_row

from wakeboard.store.queries.listings import Listings
from wakeboard.store.statements import read

if TYPE_CHECKING:
    from collections.abc import Mapping

    import psycopg

MAX_QUEUES = 200
MAX_ROWS = 1000  # of each queue and priority
_BACKLOG: LiteralString = """
select queue, due + soon + ticks
  from wakeboard.backlog(%(queues)s, %(within_s)s, scan_limit => %(scan_limit)s)
"""


async def read_queue_backlog(conn: psycopg.AsyncConnection[Any], within_s: float) -> Mapping[str, int]:
    """How many runs of each queue execute, are due, or become due within `within_s` seconds, ticks included.

    Numbers above MAX_ROWS are lower bounds. At most MAX_QUEUES queues, in the order of their names.
    """
    queues = (await Listings(conn).queues())[:MAX_QUEUES]
    values = {"queues": queues, "within_s": within_s, "scan_limit": MAX_ROWS}
    return dict(await read(conn, tuple_row, _BACKLOG, values))
