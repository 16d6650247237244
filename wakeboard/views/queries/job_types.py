"""Whether workers know a job type, and which one a misspelled one may mean: the most similar one of its queue."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, LiteralString

from psycopg.rows import tuple_row

from wakeboard.errors import MissingRight
from wakeboard.store.statements import read
from wakeboard.text.facts import unserved_fact
from wakeboard.text.similar_names import closest
from wakeboard.views.queries.listings import SERVED

if TYPE_CHECKING:
    from collections.abc import Collection

    import psycopg

    from wakeboard.text.facts import Fact

_KNOWN: LiteralString = """
select queue, array_agg(distinct job_type) from wakeboard.worker_types where queue = any (%(queues)s) group by queue
"""
_SERVED: LiteralString = f"""
select {SERVED.replace("{of}", "wanted")} from (select %(queue)s as queue, %(job_type)s as job_type) as wanted
"""


async def read_unserved(conn: psycopg.AsyncConnection[Any], queue: str, job_type: str) -> Fact | None:
    """That no worker would claim a run of this queue and job type.

    None: one would, or the caller may not read what workers serve, as a role that may only enqueue.
    """
    values = {"queue": queue, "job_type": job_type}
    try:
        type_served, queue_served = (await read(conn, tuple_row, _SERVED, values))[0]
    except MissingRight:
        return None
    meant = {} if type_served else await meant_job_types(conn, [(queue, job_type)])
    return unserved_fact(
        queue,
        job_type,
        queue_served=queue_served,
        type_served=type_served,
        meant=meant.get((queue, job_type)),
    )


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
