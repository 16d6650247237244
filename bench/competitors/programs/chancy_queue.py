"""chancy: the executor for coroutines, a thousand jobs at once, looking again at once while there is work."""

from __future__ import annotations

import logging

from chancy import Chancy, Queue, Worker, job
from chancy.plugins.leadership import Leadership
from chancy.plugins.pruner import Pruner
from chancy.plugins.recovery import Recovery
from python_side import DSN, Stopwatch, asked_to_stop, began, serve

AT_ONCE = 1000
BATCH = 5_000  # of push_many
TELL_EVERY_S = 0.1  # results go to the database

log = logging.getLogger("chancy")
log.setLevel(logging.WARNING)


@job(queue="default")
async def noop() -> None:
    began()


def chancy() -> Chancy:
    return Chancy(DSN, log=log, no_default_plugins=True, plugins=[Leadership(), Pruner(), Recovery()])


async def prepare() -> None:
    async with chancy() as app:
        await app.migrate()
        queue = Queue(
            "default", concurrency=AT_ONCE, executor=Chancy.Executor.Async, polling_interval=1, eager_polling=True
        )
        await app.declare(queue, upsert=True)


async def enqueue(jobs: int) -> None:
    async with chancy() as app:
        watch = Stopwatch()
        async for _ in app.push_many([noop.job] * jobs, batch_size=BATCH):
            pass
        watch.stop()


async def work() -> None:
    stop = asked_to_stop()
    async with chancy() as app:
        worker = Worker(app, register_signal_handlers=False)
        worker.send_outgoing_interval = TELL_EVERY_S
        async with worker:
            await stop.wait()


if __name__ == "__main__":
    serve(prepare, enqueue, work)
