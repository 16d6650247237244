"""What the harness asks of a peer's program; `work` and `once` become the real worker, whose handler stands here too.

BENCH_OPTS: `definitions` (1) is how many definitions the runs belong to, `env` sets WAKEBOARD_ variables of the worker.
"""

from __future__ import annotations

import os
import runpy
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from _py import DSN, OPTS, feed, handled, main, now_ms, opt

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

BATCH = 10_000
OPTS.setdefault("uvloop", False)  # the project does not install it


def declare_handlers() -> None:
    """What `WAKEBOARD_HANDLERS=wakeboard_prog` finds."""
    import wakeboard

    place = os.environ.get("BENCH_LAT")  # written line by line: the worker leaves by os._exit
    lateness = Path(f"{place}.{os.getpid()}").open("w", buffering=1) if place else None  # noqa: SIM115

    @wakeboard.handler("noop")
    async def noop(run: wakeboard.Run) -> None:
        enqueued_at = run.payload.get("t")
        handled()
        if lateness and enqueued_at:
            lateness.write(f"{now_ms() - enqueued_at:.3f}\n")


async def init() -> None:
    """The schema, and definitions that new runs belong to (as defaults: so the bulk API is the real one)."""
    import psycopg

    from wakeboard.store.migrate import migrate

    await migrate(DSN)
    definitions = int(opt("definitions", 1))
    with psycopg.connect(DSN) as conn:
        conn.execute(
            "insert into wakeboard.job_definitions (source, namespace, name, spec_hash, job_type)"
            " select 'file:bench', 'bench', 'noop-' || i, '', 'noop' from generate_series(1, %s::integer) as i",
            [definitions],
        )
        conn.execute(
            "alter table wakeboard.job_runs"
            f" alter definition_id set default 1 + floor(random() * {definitions})::bigint,"
            " alter definition_generation set default 1, alter schedule set default 'bench/noop'"
        )


async def enqueue(runs: int) -> AsyncIterator[None]:
    """Connects, yields once, then inserts: only that is timed."""
    import psycopg

    import wakeboard

    jobs = [wakeboard.Job("noop")] * BATCH
    async with await psycopg.AsyncConnection.connect(DSN, autocommit=True) as conn:
        yield
        for start in range(0, runs, BATCH):
            await wakeboard.enqueue_many(conn, jobs[: runs - start])


async def send_all(rate: float, seconds: float) -> None:
    """Enqueues single runs at a steady pace."""
    import psycopg_pool

    import wakeboard

    async with psycopg_pool.AsyncConnectionPool(DSN, min_size=2, max_size=4, kwargs={"autocommit": True}) as pool:

        async def send(enqueued_at: float) -> None:
            async with pool.connection() as conn:
                await wakeboard.enqueue(conn, "noop", {"t": enqueued_at})

        await feed(rate, seconds, send)


def work(*options: str) -> None:
    """Becomes the worker, in this very process."""
    given: dict[str, Any] = opt("env", {})
    os.environ.update(WAKEBOARD_DSN=DSN, WAKEBOARD_HANDLERS="wakeboard_prog", WAKEBOARD_PREPARED_STATEMENTS="true")
    os.environ.update({name: str(value) for name, value in given.items()})
    sys.argv[1:] = options
    runpy.run_module("wakeboard_worker", run_name="__main__")


if __name__ == "__main__":
    match sys.argv[1]:
        case "work":
            work("--forever")
        case "once":
            work()
        case _:
            main(init, enqueue, None, None, send_all)
else:
    declare_handlers()
