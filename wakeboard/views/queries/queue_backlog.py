"""The work of each queue, now and soon: for `wakeboard queues` and the metrics of the operator, so for autoscalers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, LiteralString

from psycopg.rows import class_row

from wakeboard.store.statements import read
from wakeboard.views.queries.listings import Listings

if TYPE_CHECKING:
    import psycopg

MAX_QUEUES = 200
MAX_ROWS = 1000  # of each queue and priority


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueRow:
    """A queue. `due`: runs that execute or are due; `soon`: those that become due soon; `ticks`: of schedules, by then.

    Numbers above MAX_ROWS are lower bounds. `pools`: those with workers that serve it. `paused`: it, or everything, is.
    """

    queue: str
    due: int
    soon: int
    ticks: int
    pools: list[str]
    paused: bool


_QUEUES: LiteralString = """
select queue, due, soon, ticks,
       array(select distinct pool from wakeboard.worker_types as known
              where known.queue = waiting.queue and last_known_at > statement_timestamp() - interval '10 minutes'
              order by 1) as pools,
       exists (select from wakeboard.pauses where scope in ('all', 'queue:' || waiting.queue)) as paused
  from wakeboard.backlog(%(queues)s, %(within_s)s, scan_limit => %(scan_limit)s) as waiting
"""


async def read_queues(conn: psycopg.AsyncConnection[Any], within_s: float) -> list[QueueRow]:
    """The queues by name, at most MAX_QUEUES. `within_s`: what becomes due within so many seconds is due soon."""
    queues = (await Listings(conn).queues())[:MAX_QUEUES]
    values = {"queues": queues, "within_s": within_s, "scan_limit": MAX_ROWS}
    return await read(conn, class_row(QueueRow), _QUEUES, values)
