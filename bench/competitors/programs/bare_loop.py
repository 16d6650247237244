"""No queue at all, but what asyncpg and one loop can do: no fence, no history of its own, no heartbeat, no retries.

One statement finishes the last batch and claims the next, so a batch costs one commit.
"""

from __future__ import annotations

import asyncio
import os
from contextlib import suppress
from typing import TYPE_CHECKING

import asyncpg
from python_side import DSN, Stopwatch, asked_to_stop, batches, began, serve

if TYPE_CHECKING:
    from collections.abc import Iterable

AT_ONCE = 1000
PAUSE_S = 1.0  # without a notification

TABLES = """
create table jobs (
  id bigint generated always as identity primary key, state text not null default 'waiting',
  due timestamptz not null default now(), worker integer, attempts integer not null default 0,
  payload jsonb not null default '{}');
create index jobs_waiting on jobs (due) where state = 'waiting'
"""
ENQUEUE = "insert into jobs (payload) select payload::jsonb from unnest($1::text[]) as payload"
FINISH_AND_CLAIM = """
with finished as (update jobs set state = 'done' where id = any ($1::bigint[]) and worker = $2 and state = 'running')
update jobs set state = 'running', worker = $2, attempts = attempts + 1
 where id = any (array(
   select id from jobs where state = 'waiting' and due <= now() order by due limit $3 for update skip locked))
returning id, payload
"""


async def prepare() -> None:
    connection = await asyncpg.connect(DSN)
    await connection.execute(TABLES)
    await connection.close()


async def enqueue(jobs: int) -> None:
    connection = await asyncpg.connect(DSN)
    watch = Stopwatch()
    for size in batches(jobs):
        await connection.execute(ENQUEUE, ["{}"] * size)
    watch.stop()
    await connection.close()


async def work() -> None:
    stop = asked_to_stop()
    connection = await asyncpg.connect(DSN)
    news = asyncio.Event()
    await connection.add_listener("jobs", lambda *_: news.set())
    done: list[int] = []
    while not stop.is_set() or done:
        news.clear()
        claimed = await connection.fetch(FINISH_AND_CLAIM, done, os.getpid(), 0 if stop.is_set() else AT_ONCE)
        done = handled(claimed)
        if not claimed and not stop.is_set():
            with suppress(TimeoutError):
                async with asyncio.timeout(PAUSE_S):
                    await news.wait()
    await connection.close()


def handled(claimed: Iterable[asyncpg.Record]) -> list[int]:
    done: list[int] = []
    for row in claimed:
        began(row["payload"])
        done.append(row["id"])
    return done


if __name__ == "__main__":
    serve(prepare, enqueue, work)
