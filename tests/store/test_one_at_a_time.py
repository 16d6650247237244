"""A schedule whose concurrencyPolicy is not Allow has one live lease at most, and a limit key no more than its limit.

Whatever makes its runs (ticks, run-now, replay, retry), whatever key it shares, and whatever edits come between.
"""

from __future__ import annotations

import asyncio
import random
import threading
from typing import TYPE_CHECKING, Any

import pytest

from tests.maintenance.schedules import MISFIRE_GRACE, connected, declared, put, rows
from wakeboard.maintenance.scheduler import schedule_due_ticks

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import ThreadPoolExecutor

    from tests.store.sql_clients import Lease, SqlClient

pytestmark = pytest.mark.every_postgres

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


def run_now(person: SqlClient, name: str = "a") -> int | None:
    return person.value("select id from run_now((select id from job_definitions where name = %s))", name)


def claim_all(worker: SqlClient) -> list[Lease]:
    return [*worker.claim(), *worker.claim_limited(), *worker.claim_quarantined()]


@pytest.mark.parametrize("policy", ["Queue", "Replace", "Forbid"])
def test_runs_of_a_schedule_with_a_policy_and_a_shared_key_start_one_by_one(
    database: str, person: SqlClient, worker: SqlClient, policy: str
) -> None:
    person.sql("select set_limit('printer', 50)")
    schedule(database, concurrencyPolicy=policy, limitKey="printer")
    first = run_now(person)
    assert first
    (lease,) = claim_all(worker)
    worker.complete(lease)
    assert len([person.replay(first) for _ in range(3)]) == 3
    run_now(person)
    assert len(claim_all(worker)) == 1
    assert claim_all(worker) == []


@pytest.mark.parametrize("edit", [{}, {"limitKey": "printer"}])
def test_runs_that_wait_when_a_schedule_becomes_one_at_a_time_start_one_by_one(
    database: str, person: SqlClient, worker: SqlClient, edit: dict[str, str]
) -> None:
    person.sql("select set_limit('printer', 50)")
    schedule(database)
    running = run_now(person)
    leases = claim_all(worker)
    assert [lease.id for lease in leases] == [running]
    waiting = [run_now(person) for _ in range(3)]
    schedule(database, concurrencyPolicy="Queue", **edit)
    assert claim_all(worker) == []  # the one that was running goes on
    done: list[int] = []
    while leases:
        worker.complete(leases[0])
        leases = claim_all(worker)
        assert len(leases) <= 1
        done += [lease.id for lease in leases]
    assert done == waiting


def test_runs_that_wait_when_a_schedule_is_allowed_all_at_once_start_together(
    database: str, person: SqlClient, worker: SqlClient
) -> None:
    schedule(database, concurrencyPolicy="Queue", limitKey="printer")
    for _ in range(3):
        run_now(person)
    schedule(database)
    assert len(claim_all(worker)) == 3


def test_another_limit_key_counts_for_runs_that_exist(database: str, person: SqlClient, worker: SqlClient) -> None:
    schedule(database, limitKey="one")
    for _ in range(3):
        run_now(person)
    assert len(claim_all(worker)) == 1
    person.sql("select set_limit('two', 2)")
    schedule(database, limitKey="two")
    assert len(claim_all(worker)) == 1  # one of two slots is taken by the run that was running


def test_a_shared_key_counts_runs_of_all_policies(database: str, person: SqlClient, worker: SqlClient) -> None:
    person.sql("select set_limit('printer', 2)")
    for name, policy in {"a": "Queue", "b": "Forbid", "c": "Replace", "d": "Allow"}.items():
        schedule(database, name, concurrencyPolicy=policy, limitKey="printer")
        run_now(person, name)
    person.enqueue(limit_key="printer")
    assert len(claim_all(worker)) == 2
    assert claim_all(worker) == []


def test_a_suspect_needs_a_slot_of_both_keys(database: str, person: SqlClient, worker: SqlClient) -> None:
    schedule(database, concurrencyPolicy="Queue", limitKey="printer")
    run = run_now(person)
    assert run
    person.crashed(run, 2)
    person.enqueue(limit_key="printer")
    (lease,) = worker.claim_limited("printer")
    assert worker.claim_quarantined() == []
    worker.complete(lease)
    assert [lease.id for lease in worker.claim_quarantined()] == [run]


def test_an_edit_waits_for_no_lock_and_is_made_when_the_runs_can_get_the_new_keys(
    database: str, person: SqlClient, other: SqlClient, worker: SqlClient
) -> None:
    schedule(database)
    run = run_now(person)
    with other.conn.transaction():
        other.sql("select from job_runs where id = %s for update", run)
        assert schedule(database, concurrencyPolicy="Queue") == ["team/a"]
        assert person.value("select concurrency_policy from job_definitions") == "Allow"
    assert schedule(database, concurrencyPolicy="Queue") == []
    assert len(claim_all(worker)) == 1


def test_a_handlers_own_transaction_blocks_no_edit(
    database: str, person: SqlClient, other: SqlClient, worker: SqlClient
) -> None:
    """It holds the run as `once` does."""
    schedule(database)
    run_now(person)
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

    def __init__(self, dsn: str, player: Callable[[int], SqlClient]) -> None:
        self.dsn, self.player, self.dice = dsn, player, random.Random(7)
        self.person, self.stop = player(0), threading.Event()
        self.person.sql("select set_limit('k', 2)")
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
            run_now(self.person, name)
        self.person.enqueue(limit_key="k")

    def replay(self) -> None:
        query = "select id from job_run_history where status = 'succeeded' order by random() limit 3"
        for past in self.person.column(query):
            self.person.replay(past)

    def retry(self) -> None:
        self.person.retry(*self.person.column("select id from job_runs where dead_at is not null"))

    def edit(self) -> None:
        key = self.dice.choice([{}, {"limitKey": "m"}])
        schedule(self.dsn, "queue", concurrencyPolicy="Queue", maxAttempts=9, **key)
        policy = self.dice.choice(["Allow", "Queue"])
        schedule(self.dsn, "edited", concurrencyPolicy=policy, maxAttempts=9, **key)

    def work(self, worker_id: int) -> int:
        """A worker; how many runs it had."""
        me, dice, done = self.player(worker_id), random.Random(worker_id), 0
        while not self.stop.is_set():
            for lease in claim_all(me):
                dice.choice([me.complete, me.complete, me.fail, me.release])(lease)
                done += 1
        return done

    def watch(self) -> tuple[int, int]:
        """How often it looked, and how often something was broken."""
        me, looks, broken = self.player(1), 0, 0
        while not self.stop.is_set():
            broken += me.value(WITNESS)
            looks += 1
        return looks, broken


def test_workers_never_break_a_policy_or_a_limit_whatever_is_done_to_the_schedules(
    database: str, player: Callable[[int], SqlClient], meanwhile: ThreadPoolExecutor
) -> None:
    shop = Shop(database, player)
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
