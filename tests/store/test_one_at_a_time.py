"""A schedule whose concurrencyPolicy is not Allow has one live lease at most, and a limit key no more than its limit.

Whatever makes its runs (ticks, run-now, replay, retry), whatever key it shares, and whatever edits come between.
"""

from __future__ import annotations

import asyncio
import random
import threading
from typing import TYPE_CHECKING, Any

from tests.maintenance.schedules import MISFIRE_GRACE, connected, declared, put, rows
from wakeboard.schedules.scheduler import schedule_due_ticks

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import ThreadPoolExecutor

    from tests.store.sql_clients import Lease, SqlClient

NEXT_TICK = (
    "update job_definitions set next_run_at ="
    " greatest(last_tick_at + interval '1 s', date_trunc('second', now() - interval '1 minute'))"
)


def schedule(dsn: str, name: str = "a", **spec: Any) -> list[str]:
    """Declares it; the names of those that could not be brought up to date."""

    async def declare() -> list[str]:
        async with connected(dsn) as store:
            return (await put(store, declared(name, **spec))).contended

    return asyncio.run(declare())


def tick(dsn: str) -> None:
    """One more tick of every schedule."""

    async def make() -> None:
        async with connected(dsn) as store:
            await rows(store, NEXT_TICK)
            await schedule_due_ticks(store, misfire_grace=MISFIRE_GRACE)

    asyncio.run(make())


def run_now(admin: SqlClient, name: str = "a") -> int | None:
    return admin.value("select id from run_now((select id from job_definitions where name = %s))", name)


def claim_all(worker: SqlClient) -> list[Lease]:
    return [*worker.claim(), *worker.claim_limited(), *worker.claim_quarantined()]


def test_an_edit_waits_for_no_lock_and_is_made_later(
    database: str, admin: SqlClient, other: SqlClient, worker: SqlClient
) -> None:
    schedule(database)
    run = run_now(admin)
    with other.conn.transaction():
        other.sql("select from job_runs where id = %s for update", run)
        assert schedule(database, concurrencyPolicy="Queue") == ["team/a"]
        assert admin.value("select concurrency_policy from job_definitions") == "Allow"
    assert schedule(database, concurrencyPolicy="Queue") == []
    assert len(claim_all(worker)) == 1


def test_a_handlers_own_transaction_blocks_no_edit(
    database: str, admin: SqlClient, other: SqlClient, worker: SqlClient
) -> None:
    """It holds the run as `once` does."""
    schedule(database)
    run_now(admin)
    (lease,) = worker.claim()
    with other.conn.transaction():
        other.worker_id = worker.worker_id
        assert other.once(lease, "charge")
        assert schedule(database, concurrencyPolicy="Queue") == []


WITNESS = """
select count(*) from (
  select from job_runs as run join job_definitions as def on def.id = run.definition_id
   where run.locked_by <> 0 and def.name <> 'edited' group by def.id having count(*) > 1
  union all
  select from job_runs as run join job_limits as bound on bound.key in (run.limit_key, run.shared_limit_key)
   where run.holds_slot and bound.is_explicit
   group by bound.key, bound.max_running having count(*) > bound.max_running) as broken
"""


class Shop:
    """Four schedules, what is done to them, and what must hold. `edited` is edited between Allow and Queue."""

    def __init__(self, dsn: str, open_client: Callable[[int], SqlClient]) -> None:
        self.dsn, self.client, self.dice = dsn, open_client, random.Random(7)
        self.admin, self.stop = open_client(0), threading.Event()
        self.admin.sql("select set_limit('k', 2)")
        for name in ("forbid", "replace"):
            schedule(dsn, name, concurrencyPolicy=name.title(), limitKey="k", maxAttempts=9)
        for name in ("queue", "edited"):
            schedule(dsn, name, concurrencyPolicy="Queue", maxAttempts=9)

    def act(self) -> None:
        """One of the things that people, clocks and applications do."""
        self.dice.choice([self.tick, self.replay, self.retry, self.edit, self.run, self.run, self.run])()

    def tick(self) -> None:
        tick(self.dsn)

    def run(self) -> None:
        name = self.dice.choice(["forbid", "replace", "queue", "edited"])
        for _ in range(4):
            run_now(self.admin, name)
        self.admin.enqueue(limit_key="k")

    def replay(self) -> None:
        query = "select id from job_run_history where status = 'succeeded' order by random() limit 3"
        for past in self.admin.column(query):
            self.admin.replay(past)

    def retry(self) -> None:
        self.admin.retry(*self.admin.column("select id from job_runs where dead_at is not null"))

    def edit(self) -> None:
        key = self.dice.choice([{}, {"limitKey": "m"}])
        schedule(self.dsn, "queue", concurrencyPolicy="Queue", maxAttempts=9, **key)
        policy = self.dice.choice(["Allow", "Queue"])
        schedule(self.dsn, "edited", concurrencyPolicy=policy, maxAttempts=9, **key)

    def work(self, worker_id: int) -> int:
        """A worker; how many runs it had."""
        me, dice, done = self.client(worker_id), random.Random(worker_id), 0
        while not self.stop.is_set():
            for lease in claim_all(me):
                dice.choice([me.complete, me.complete, me.fail, me.release])(lease)
                done += 1
        return done

    def watch(self) -> tuple[int, int]:
        """How often it looked, and how often something was broken."""
        me, looks, broken = self.client(1), 0, 0
        while not self.stop.is_set():
            broken += me.value(WITNESS)
            looks += 1
        return looks, broken


def test_workers_never_break_a_policy_or_a_limit(
    database: str, open_client: Callable[[int], SqlClient], meanwhile: ThreadPoolExecutor
) -> None:
    shop = Shop(database, open_client)
    watching = meanwhile.submit(shop.watch)
    working = [meanwhile.submit(shop.work, 100 + number) for number in range(4)]
    try:
        for _ in range(150):
            shop.act()
    finally:
        shop.stop.set()
    assert sum(future.result(60) for future in working) > 150
    looks, broken = watching.result(60)
    assert looks > 10
    assert broken == 0
