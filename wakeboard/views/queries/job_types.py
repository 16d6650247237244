"""Which job type a misspelled one may mean: the most similar one that workers of its queue know."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, LiteralString

from psycopg.rows import tuple_row

from wakeboard.store.statements import read
from wakeboard.text.similar_names import closest

if TYPE_CHECKING:
    from collections.abc import Collection

    import psycopg

_KNOWN: LiteralString = """
select queue, array_agg(distinct job_type) from wakeboard.worker_types where queue = any (%(queues)s) group by queue
"""


async def meant_job_types(
    conn: psycopg.AsyncConnection[Any], unserved: Collection[tuple[str, str]]
) -> dict[tuple[str, str], str]:
    """The job types that these (queue, job type) may mean.

    One that a worker of the queue has known means itself, and is not in the answer. Neither is one without a similar
    one.
    """
    if not unserved:
        return {}
    queues = sorted({queue for queue, _ in unserved})
    known: dict[str, list[str]] = dict(await read(conn, tuple_row, _KNOWN, {"queues": queues}))
    similar = {
        (queue, job_type): closest(job_type, known.get(queue, ()))
        for queue, job_type in unserved
        if job_type not in known.get(queue, ())
    }
    return {key: meant for key, meant in similar.items() if meant}
