"""procrastinate: one asyncio worker that runs ten jobs at once; it takes jobs one by one."""

from __future__ import annotations

import logging

import procrastinate
from python_side import DSN, Stopwatch, batches, began, serve

AT_ONCE = 10

logging.basicConfig(level=logging.WARNING)
connector = procrastinate.PsycopgConnector(conninfo=DSN, min_size=1, max_size=AT_ONCE)
app = procrastinate.App(connector=connector)


@app.task(name="noop")
async def noop() -> None:
    began()


async def prepare() -> None:
    async with app.open_async():
        await app.schema_manager.apply_schema_async()


async def enqueue(jobs: int) -> None:
    async with app.open_async():
        await app.check_connection_async()
        watch = Stopwatch()
        for size in batches(jobs):
            await noop.batch_defer_async(*({} for _ in range(size)))
        watch.stop()


async def work() -> None:
    async with app.open_async():
        await app.run_worker_async(concurrency=AT_ONCE)


if __name__ == "__main__":
    serve(prepare, enqueue, work)
