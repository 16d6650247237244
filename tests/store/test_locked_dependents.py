"""Rows of dependencies that another transaction has locked: they wait for the next call, and the others do not."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from tests.store.dependencies import MONDAY, TUESDAY, after, days, die, pass_on, succeed, tick

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.store.sql_clients import SqlClient

NO_ROW_IS_AWAITED = "set statement_timeout = '1900ms'"  # less than the lock_timeout of the functions


@pytest.fixture
def holder(open_client: Callable[[int], SqlClient], admin: SqlClient, worker: SqlClient) -> Iterator[SqlClient]:
    """A client with an open transaction. The others must get their answers meanwhile."""
    one = open_client(0)
    one.sql("begin")
    for each in (admin, worker):
        each.sql(NO_ROW_IS_AWAITED)
    yield one
    one.sql("rollback")


def started(admin: SqlClient, *ids: int) -> list[int]:
    return admin.column("select id from job_runs where id = any (%s) and run_at <= now() order by id", list(ids))


def open_tick(holder: SqlClient, definition: int) -> None:
    """Inserts a tick in the open transaction."""
    holder.sql("insert into schedule_ticks (definition_id, scheduled_for) values (%s, %s)", definition, MONDAY)


def test_a_locked_edge_delays_only_its_run(admin: SqlClient, worker: SqlClient, holder: SqlClient) -> None:
    pay, pack = admin.enqueue(), admin.enqueue()
    locked, sibling, free = (admin.enqueue(after=[parent]) for parent in (pay, pay, pack))
    holder.sql("select from run_dependencies where run_id = %s for update", locked)
    succeed(worker, pay, pack)
    assert pass_on(worker).started == 2
    assert started(admin, locked, sibling, free) == [sibling, free]
    assert pass_on(worker).started == 0
    holder.sql("rollback")
    assert pass_on(worker).started == 1
    assert started(admin, locked) == [locked]
    assert admin.value("select count(*) from ended_runs") == 0


def test_a_run_waits_for_all_its_parents_although_one_edge_was_locked(
    admin: SqlClient, worker: SqlClient, holder: SqlClient
) -> None:
    pay, pack = admin.enqueue(), admin.enqueue()
    ship = admin.enqueue(after=[pay, pack])
    holder.sql("select from run_dependencies where parent_id = %s for update", pay)
    succeed(worker, pay, pack)
    assert (pass_on(worker).ended, started(admin, ship)) == (1, [])
    holder.sql("rollback")
    assert (pass_on(worker).ended, started(admin, ship)) == (1, [ship])


@pytest.mark.parametrize("lock", ["parent's tick", "child's tick", "child's run"])
def test_a_locked_tick_delays_only_its_schedule(
    admin: SqlClient, worker: SqlClient, holder: SqlClient, lock: str
) -> None:
    extract, other = admin.define("extract"), admin.define("other")
    held, neighbour, sibling = admin.define("held"), admin.define("neighbour"), admin.define("sibling")
    after(admin, held, "extract")
    after(admin, neighbour, "other")
    if lock != "parent's tick":
        after(admin, sibling, "extract")
    first = tick(admin, extract)
    die(worker, first)
    pass_on(worker)
    admin.sql("select retry(%s)", [first])
    if lock == "parent's tick":
        holder.sql("select from schedule_ticks where definition_id = %s for update", extract)
    elif lock == "child's tick":
        open_tick(holder, held)
    else:
        tick(holder, held)
    succeed(worker, first, tick(admin, other))
    siblings = [] if lock == "parent's tick" else ["Mon"]
    for _ in range(2):
        pass_on(worker)
        assert (days(admin, held), days(admin, neighbour), days(admin, sibling)) == ([], ["Mon"], siblings)
    holder.sql("rollback")
    pass_on(worker)
    assert (days(admin, held), days(admin, neighbour), days(admin, sibling)) == (["Mon"], ["Mon"], siblings)
    assert admin.value("select count(*) from ended_runs") == 0


def test_a_parents_tick_that_is_being_inserted_delays_only_its_children(
    admin: SqlClient, worker: SqlClient, holder: SqlClient
) -> None:
    extract, other = admin.define("extract"), admin.define("other")
    held, neighbour = admin.define("held"), admin.define("neighbour")
    after(admin, held, "extract")
    after(admin, neighbour, "other")
    open_tick(holder, extract)
    succeed(worker, tick(admin, extract), tick(admin, other))
    pass_on(worker)
    assert (days(admin, held), days(admin, neighbour)) == ([], ["Mon"])
    holder.sql("commit")
    pass_on(worker)
    assert (days(admin, held), days(admin, neighbour)) == (["Mon"], ["Mon"])


def test_very_many_ticks_that_are_being_inserted_cost_one_call_a_bounded_time(
    admin: SqlClient, worker: SqlClient, holder: SqlClient
) -> None:
    extract = admin.define("extract")
    children = [admin.define(f"child{i}") for i in range(1000)]
    for child in children:
        after(admin, child, "extract")
        open_tick(holder, child)
    succeed(worker, tick(admin, extract))
    admin.sql("set statement_timeout = 0")
    worker.sql("set statement_timeout = 0")
    began = time.monotonic()
    pass_on(worker)
    assert time.monotonic() - began < 1000 * 0.005  # what it would take to try each
    holder.sql("rollback")
    pass_on(worker)
    assert admin.value("select count(*) from job_runs where definition_id = any (%s)", children) == 1000


@pytest.mark.parametrize("policy", ["Allow", "Forbid"])
def test_a_locked_tick_that_waits_for_its_run_delays_only_its_schedule(
    admin: SqlClient, worker: SqlClient, holder: SqlClient, policy: str
) -> None:
    """The ticks of a schedule whose concurrencyPolicy is not Allow keep their order."""
    parents = [admin.define(name) for name in ("one", "two")]
    held, neighbour = admin.define("held", policy), admin.define("neighbour", policy)
    after(admin, held, "one")
    after(admin, neighbour, "two")
    for child in (held, neighbour):
        admin.sql("select pause(%s)", f"schedule:{child}")
    for parent in parents:
        succeed(worker, tick(admin, parent), tick(admin, parent, TUESDAY))
    pass_on(worker)
    holder.sql("select from schedule_ticks where definition_id = %s and scheduled_for = %s for update", held, MONDAY)
    for child in (held, neighbour):
        admin.sql("select resume(%s)", f"schedule:{child}")
    pass_on(worker)
    done = ["Mon", "Tue"] if policy == "Allow" else ["Mon"]
    assert (days(admin, held), days(admin, neighbour)) == (["Tue"] if policy == "Allow" else [], done)
    holder.sql("rollback")
    pass_on(worker)
    assert (days(admin, held), days(admin, neighbour)) == (done, done)


def test_a_locked_tick_that_waits_for_all_ticks_is_left_out_of_the_check(
    admin: SqlClient, worker: SqlClient, holder: SqlClient
) -> None:
    parents = [admin.define(name) for name in ("one", "two")]
    children = [admin.define(name) for name in ("held", "neighbour")]
    for child, parent in zip(children, ("one", "two"), strict=True):
        after(admin, child, parent, ticks="All")
        admin.sql(
            "insert into schedule_ticks (definition_id, scheduled_for, waits_for) values (%s, %s, 'ticks')",
            child,
            MONDAY,
        )
    waiting = "select definition_id from schedule_ticks where waits_for = %s"
    holder.sql("select from schedule_ticks where definition_id = %s for update", children[0])
    succeed(worker, *(tick(admin, parent) for parent in parents))
    pass_on(worker)
    assert admin.column(waiting, "check") == children[1:]
    holder.sql("rollback")
    pass_on(worker)
    assert sorted(admin.column(waiting, "check")) == children
    holder.sql("begin")
    holder.sql("select from schedule_ticks where definition_id = %s for update", children[0])
    assert {row.definition_id for row in worker.sql("select * from joins_to_check()")} == {children[1]}
    join = "select enqueue_joined_ticks(%s, %s::timestamptz[], %s::timestamptz[], '{1,2}', %s, %s::timestamptz[])"
    given = (children, [MONDAY, MONDAY], ["2026-01-04", "2026-01-04"], parents, [MONDAY, MONDAY])
    assert worker.value(join, *given) == 1
    assert (days(admin, children[0]), days(admin, children[1])) == ([], ["Mon"])
    holder.sql("rollback")
    assert worker.value(join, *given) == 1


@pytest.mark.parametrize("lock", ["update", "no key update", "share"])
def test_a_locked_tick_that_has_succeeded_delays_nothing_when_its_run_is_repeated(
    admin: SqlClient, worker: SqlClient, holder: SqlClient, lock: str
) -> None:
    extract, other = admin.define("extract"), admin.define("other")
    child, neighbour = admin.define("child"), admin.define("neighbour")
    after(admin, child, "extract")
    after(admin, neighbour, "other")
    succeed(worker, tick(admin, extract))
    pass_on(worker)
    succeed(worker, tick(admin, extract, trigger="backfill"), tick(admin, other))
    holder.sql(f"select from schedule_ticks where definition_id = %s for {lock}", extract)
    assert pass_on(worker).ended == 2
    assert (days(admin, child), days(admin, neighbour)) == (["Mon"], ["Mon"])


@pytest.mark.parametrize("parents", [4, 7, 20])
def test_a_locked_run_with_many_ended_parents_leaves_full_batches_to_the_others(
    admin: SqlClient, worker: SqlClient, holder: SqlClient, parents: int
) -> None:
    blocking, other = ([admin.enqueue() for _ in range(count)] for count in (parents, 12))
    locked = admin.enqueue(after=blocking)
    free = [admin.enqueue(after=[parent]) for parent in other]
    holder.sql("select from job_runs where id = %s for update", locked)
    succeed(worker, *blocking)
    succeed(worker, *other)
    batches = "select ended from enqueue_dependents(5)"
    assert [worker.value(batches) for _ in range(3)] == [5, 5, 2]  # a full batch makes the caller continue
    assert started(admin, locked, *free) == free
    holder.sql("rollback")
    while worker.value(batches):
        pass
    assert started(admin, locked) == [locked]
    assert admin.value("select count(*) from ended_runs") == 0
