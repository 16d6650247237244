"""pgqueuer: two managers in each process, each with a connection of its own and batches of 500."""

from __future__ import annotations

import asyncio

import asyncpg
from pgqueuer import PgQueuer
from pgqueuer.db import AsyncpgDriver
from pgqueuer.models import Job
from pgqueuer.queries import Queries
from python_side import DSN, Stopwatch, asked_to_stop, batches, began, serve

MANAGERS = 2
AT_ONCE = 500


async def prepare() -> None:
    connection = await asyncpg.connect(DSN)
    queries = Queries(AsyncpgDriver(connection))
    await queries.install()
    await queries.optimize_autovacuum()
    await connection.close()


async def enqueue(jobs: int) -> None:
    connection = await asyncpg.connect(DSN)
    queries = Queries(AsyncpgDriver(connection))
    watch = Stopwatch()
    for size in batches(jobs):
        await queries.enqueue(["noop"] * size, [None] * size, [0] * size)
    watch.stop()
    await connection.close()


async def work() -> None:
    stop = asked_to_stop()
    managers = [await manager() for _ in range(MANAGERS)]
    running = asyncio.gather(*(each.run(batch_size=AT_ONCE) for each in managers))
    await stop.wait()
    for each in managers:
        each.shutdown.set()
    await running


async def manager() -> PgQueuer:
    made = PgQueuer(AsyncpgDriver(await asyncpg.connect(DSN)))

    @made.entrypoint("noop")
    async def noop(_job: Job) -> None:
        began()

    return made


if __name__ == "__main__":
    serve(prepare, enqueue, work)
