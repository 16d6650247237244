"""Dependencies: a schedule runs after others, a run waits for others. Each tick becomes one run, in whatever order."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from wakeboard.errors import InvalidValue, WakeboardError
from wakeboard.store.enqueue import Job, enqueue_many

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor

    from tests.store.sql_clients import Lease, SqlClient

pytestmark = pytest.mark.every_postgres

MONDAY, TUESDAY = "2026-01-05 00:00+00", "2026-01-06 00:00+00"
WAITING = "2999-12-31 00:00+00"


def after(admin: SqlClient, child: int, *parents: str, outcome: str = "Succeeded", ticks: str = "Same") -> None:
    """Declares `spec.after` of a schedule, as a sync does."""
    for place, parent in enumerate(parents, 1):
        admin.sql(
            "insert into schedule_dependencies (definition_id, place, parent_name, parent_id, outcome, ticks)"
            " values (%s, %s, %s::text, (select id from job_definitions where name = %s), %s, %s)",
            *(child, place, parent, parent, outcome, ticks),
        )
        admin.sql("update job_definitions set has_dependents = true where name = %s", parent)


def tick(admin: SqlClient, definition: int, at: str = MONDAY, trigger: str = "tick") -> int:
    """Creates the run of a tick, as maintenance or a backfill does; its id."""
    with admin.conn.transaction():
        admin.sql("set local search_path = pg_catalog, wakeboard, pg_temp")  # as an SQL function
        return admin.value(
            "insert into job_runs (job_type, definition_id, scheduled_for, trigger, schedule, has_dependents)"
            " select 'ping', id, %s, %s::run_trigger, 'billing/x', has_dependents from job_definitions where id = %s"
            " returning id",
            *(at, trigger, definition),
        )


def lease(worker: SqlClient, *ids: int) -> list[Lease]:
    """Leases these runs, and no others. A run that waits is not leased."""
    worker.sql(
        "update job_runs set run_at = now() - interval '1 day' where id = any(%s) and run_at < '2999-12-31 00:00+00'",
        list(ids),
    )
    worker.register()
    return worker.claim(worker.value("select count(*) from job_runs where run_at <= now() - interval '1 day'"))


def succeed(worker: SqlClient, *ids: int, result: str | None = None) -> None:
    """Executes runs; no other run may be due."""
    for one in lease(worker, *ids):
        results = None if result is None else f'{{"{one.id}": {result}}}'
        worker.sql("select complete(%s, %s, %s, %s)", worker.worker_id, [one.id], one.epoch, results)


def die(worker: SqlClient, run: int) -> None:
    (one,) = lease(worker, run)
    worker.sql(
        "select fail(%s, %s, %s, '{discarded}', '{E}', '{no}', '{\"\"}', '{null}')",
        *(worker.worker_id, [one.id], [one.epoch]),
    )


def pass_on(client: SqlClient) -> Any:
    """Lets maintenance consume the ends of runs."""
    return client.sql("select * from enqueue_dependents()")[0]


def made(admin: SqlClient, definition: int) -> list[tuple[int, str]]:
    """The ticks of a schedule that became runs, live or finished: id and tick."""
    return [
        (row.id, f"{row.day}")
        for row in admin.sql(
            "select id, to_char(scheduled_for at time zone 'UTC', 'Dy') as day from all_runs"
            " where definition_id = %s and status <> 'skipped' order by scheduled_for, id",
            definition,
        )
    ]


def days(admin: SqlClient, definition: int) -> list[str]:
    return [day for _, day in made(admin, definition)]


@pytest.fixture
def pipeline(admin: SqlClient) -> tuple[int, int, int]:
    """Schedules extract and rates, and transform after both."""
    extract, rates, transform = admin.define("extract"), admin.define("rates"), admin.define("transform")
    after(admin, transform, "extract", "rates")
    return extract, rates, transform


# -- schedules


def test_a_run_is_created_when_the_runs_of_all_parents_have_succeeded(
    admin: SqlClient, worker: SqlClient, pipeline: tuple[int, int, int]
):
    extract, rates, transform = pipeline
    first, second = tick(admin, extract), tick(admin, rates)
    succeed(worker, first)
    assert pass_on(worker).runs == 0
    succeed(worker, second)
    assert pass_on(worker).runs == 1
    assert days(admin, transform) == ["Mon"]
    assert admin.column("select parent_id from run_dependencies order by place") == [first, second]


def test_ticks_do_not_mix(admin: SqlClient, worker: SqlClient, pipeline: tuple[int, int, int]):
    extract, rates, transform = pipeline
    succeed(worker, tick(admin, extract, MONDAY), tick(admin, rates, TUESDAY))
    assert pass_on(worker).runs == 0
    succeed(worker, tick(admin, extract, TUESDAY))
    pass_on(worker)
    assert days(admin, transform) == ["Tue"]


def test_a_dead_parent_blocks_its_child_until_a_retry_succeeds(
    admin: SqlClient, worker: SqlClient, pipeline: tuple[int, int, int]
):
    extract, rates, transform = pipeline
    first, second = tick(admin, extract), tick(admin, rates)
    die(worker, first)
    succeed(worker, second)
    pass_on(worker)
    assert days(admin, transform) == []
    admin.sql("select pop_changed_definitions()")
    admin.sql("select retry(%s)", [first])
    assert transform in admin.column("select pop_changed_definitions()"), "its status named the dead run"
    succeed(worker, first)
    pass_on(worker)
    assert days(admin, transform) == ["Mon"]


def test_a_replay_of_a_discarded_parent_continues_its_tick(
    admin: SqlClient, worker: SqlClient, pipeline: tuple[int, int, int]
):
    extract, rates, transform = pipeline
    first = tick(admin, extract)
    die(worker, first)
    admin.sql("select discard(%s)", [first])
    succeed(worker, tick(admin, rates))
    pass_on(worker)
    succeed(worker, admin.value("select new_id from replay(%s)", [first]))
    pass_on(worker)
    assert days(admin, transform) == ["Mon"]


def test_a_replay_of_a_parent_that_succeeded_creates_no_second_run(
    admin: SqlClient, worker: SqlClient, pipeline: tuple[int, int, int]
):
    extract, rates, transform = pipeline
    first = tick(admin, extract)
    succeed(worker, first, tick(admin, rates))
    pass_on(worker)
    succeed(worker, *[run for run, _ in made(admin, transform)])
    succeed(worker, admin.value("select new_id from replay(%s)", [first]))
    pass_on(worker)
    assert days(admin, transform) == ["Mon"]


ENDS = ("die", "cancel", "discard", "succeed", "lapse", "terminate", "release")


@pytest.mark.parametrize("end", ENDS)
def test_ended_counts_every_end(admin: SqlClient, worker: SqlClient, end: str):
    extract, clean = admin.define("extract"), admin.define("clean")
    after(admin, clean, "extract", outcome="Ended")
    run = tick(admin, extract)
    if end == "succeed":
        succeed(worker, run)
    elif end == "cancel":
        admin.sql("select cancel(%s)", [run])
    elif end in {"lapse", "terminate", "release"}:
        admin.sql("update job_runs set crash_count = 2, release_count = 4, max_attempts = 1 where id = %s", run)
        worker.register()
        (one,) = worker.claim_quarantined()
        if end == "lapse":
            admin.let_lapse(run)
            admin.reap()
        elif end == "terminate":
            admin.sql("select report_worker_terminated(%s, 'OOMKilled')", worker.worker_id)
        else:
            worker.release(one)
    else:
        die(worker, run)
    if end not in {"succeed", "cancel"}:
        assert admin.status(run) == "dead"
    pass_on(worker)
    if end == "discard":
        admin.sql("select discard(%s)", [run])
        pass_on(worker)
    assert days(admin, clean) == ["Mon"]


@pytest.mark.parametrize("end", ["die", "cancel"])
def test_only_a_success_counts_unless_the_schedule_says_ended(admin: SqlClient, worker: SqlClient, end: str):
    extract, clean = admin.define("extract"), admin.define("clean")
    after(admin, clean, "extract")
    run = tick(admin, extract)
    if end == "die":
        die(worker, run)
    else:
        admin.sql("select cancel(%s)", [run])
    pass_on(worker)
    assert days(admin, clean) == []
    assert admin.column("select run_id from ended_runs") == []


def test_a_run_that_a_person_started_has_no_tick_to_pass_on_and_neither_has_its_replay(
    admin: SqlClient, worker: SqlClient
):
    extract, transform = admin.define("extract"), admin.define("transform")
    after(admin, transform, "extract", outcome="Ended")
    run = admin.value("select id from run_now(%s)", extract)
    succeed(worker, run)
    pass_on(worker)
    for end in (succeed, die):
        end(worker, admin.value("select new_id from replay(%s)", [run]))
        pass_on(worker)
    assert days(admin, transform) == []


def test_a_tick_that_started_too_late_starts_nothing(admin: SqlClient, worker: SqlClient):
    extract, clean = admin.define("extract"), admin.define("clean")
    after(admin, clean, "extract", outcome="Ended")
    run = tick(admin, extract)
    admin.sql("update job_runs set start_before = now() - interval '1 s' where id = %s", run)
    assert admin.value("select skip_past_deadline()") == 1
    pass_on(worker)
    assert days(admin, clean) == []


def test_a_tick_flows_through_the_whole_graph(admin: SqlClient, worker: SqlClient):
    chain = [admin.define(f"level-{level}") for level in range(5)]
    for level, definition in enumerate(chain[1:]):
        after(admin, definition, f"level-{level}")
    succeed(worker, tick(admin, chain[0]))
    for definition in chain[1:]:
        pass_on(worker)
        succeed(worker, *[run for run, _ in made(admin, definition)])
    assert days(admin, chain[-1]) == ["Mon"]


def test_a_replay_of_an_old_parent_creates_no_second_run(admin: SqlClient, worker: SqlClient):
    """The history is dropped by weeks, so it may have a run for longer than its retention."""
    extract, transform = admin.define("extract"), admin.define("transform")
    after(admin, transform, "extract")
    first = tick(admin, extract)
    succeed(worker, first)
    pass_on(worker)
    succeed(worker, *[run for run, _ in made(admin, transform)])
    admin.sql("update schedule_ticks set recorded_at = now() - interval '1 year'")
    admin.sql("select delete_expired(always => true)")
    succeed(worker, admin.value("select new_id from replay(%s)", [first]))
    pass_on(worker)
    assert days(admin, transform) == ["Mon"]
    admin.sql("truncate job_run_history")
    admin.sql("select delete_expired(always => true)")
    assert admin.column("select true from schedule_ticks") == []


@pytest.mark.parametrize("seed", range(5))
def test_each_tick_becomes_one_run_whatever_happens_in_whatever_order(
    admin: SqlClient, worker: SqlClient, other: SqlClient, pipeline: tuple[int, int, int], seed: int
):
    """Random retries, replays, edits and backfills; two callers of maintenance."""
    extract, rates, transform = pipeline
    chance = random.Random(seed)
    ticks = [f"2026-01-{day:02} 00:00+00" for day in range(1, 11)]
    open_runs = [tick(admin, parent, at) for parent in (extract, rates) for at in ticks]
    chance.shuffle(open_runs)
    done: list[int] = []
    while open_runs:
        run = open_runs.pop()
        match chance.random():
            case x if x < 0.2:
                die(worker, run)
                admin.sql("select retry(%s)", [run])
                open_runs.insert(0, run)
            case x if x < 0.3:
                admin.sql("select cancel(%s)", [run])
                open_runs.insert(0, admin.value("select new_id from replay(%s)", [run]))
            case x if x < 0.4 and done:
                open_runs[:0] = [run, admin.value("select new_id from replay(%s)", [chance.choice(done)])]
            case _:
                succeed(worker, run)
                done.append(run)
        if chance.random() < 0.2:  # an edit that changes nothing of the graph
            admin.sql("update job_definitions set generation = generation + 1 where id = %s", transform)
        if chance.random() < 0.4:
            pass_on(chance.choice([worker, other]))
        children = [run for run, _ in made(admin, transform)]
        if children and chance.random() < 0.5:
            succeed(worker, *children)
    pass_on(worker)
    assert admin.column(
        "select count(*) from all_runs where definition_id = %s and trigger = 'tick' group by scheduled_for", transform
    ) == [1] * len(ticks)


def test_two_callers_at_the_ends_of_two_parents_create_the_run(
    admin: SqlClient, worker: SqlClient, other: SqlClient, pipeline: tuple[int, int, int]
):
    extract, rates, transform = pipeline
    first, second = tick(admin, extract), tick(admin, rates)
    succeed(worker, first)
    with other.conn.transaction():
        assert pass_on(other).ended == 1
        succeed(worker, second)
        assert pass_on(worker).ended == 0  # the child is locked
    assert pass_on(worker).runs == 1
    assert days(admin, transform) == ["Mon"]


def test_a_locked_schedule_stops_no_other_schedule(admin: SqlClient, worker: SqlClient, other: SqlClient):
    """Neither one that runs after the same parent, nor one of which the ends of parents are behind many others."""
    extract, rates = admin.define("extract"), admin.define("rates")
    locked, sibling, neighbour = admin.define("locked"), admin.define("sibling"), admin.define("neighbour")
    for child, parent in ((locked, "extract"), (sibling, "extract"), (neighbour, "rates")):
        after(admin, child, parent)
    ticks = [f"2026-01-{day:02} 00:00+00" for day in range(1, 11)]
    succeed(worker, *[tick(admin, extract, at) for at in ticks])
    succeed(worker, tick(admin, rates))
    with other.conn.transaction():
        other.sql("select run_now(%s)", locked)
        for _ in range(200):  # with a few rows in each call; the one that is behind them is found by chance
            admin.sql("select * from enqueue_dependents(3)")
            if days(admin, neighbour):
                break
        pass_on(worker)
        assert (days(admin, neighbour), len(days(admin, sibling)), days(admin, locked)) == (["Mon"], 10, [])
    pass_on(worker)
    assert len(days(admin, locked)) == 11
    assert admin.column("select run_id from ended_runs") == []


def test_ticks_that_wait_for_a_locked_schedule_stop_no_other_ones(
    admin: SqlClient, worker: SqlClient, other: SqlClient
):
    extract, first, second = admin.define("extract"), admin.define("first"), admin.define("second")
    for child in (first, second):
        after(admin, child, "extract")
        admin.sql("select pause(%s)", f"schedule:{child}")
    succeed(worker, tick(admin, extract, MONDAY), tick(admin, extract, TUESDAY))
    pass_on(worker)
    for child in (first, second):
        admin.sql("select resume(%s)", f"schedule:{child}")
    with other.conn.transaction():
        other.sql("select from job_definitions where id = %s for update", first)
        assert [admin.value("select runs from enqueue_dependents(1)") for _ in range(3)] == [1, 1, 0]
    assert [admin.value("select runs from enqueue_dependents(2)") for _ in range(2)] == [2, 0]
    assert days(admin, first) == days(admin, second) == ["Mon", "Tue"]


def test_a_paused_or_suspended_schedule_gets_its_runs_later(admin: SqlClient, worker: SqlClient):
    extract, transform = admin.define("extract"), admin.define("transform")
    after(admin, transform, "extract")
    admin.sql("select pause(%s)", f"schedule:{transform}")
    succeed(worker, tick(admin, extract))
    pass_on(worker)
    assert days(admin, transform) == []
    admin.sql("select resume(%s)", f"schedule:{transform}")
    pass_on(worker)
    assert days(admin, transform) == ["Mon"]


@pytest.mark.parametrize(
    ("policy", "runs", "reasons"),
    [("Allow", 2, []), ("Queue", 2, []), ("Forbid", 1, ["Forbidden"]), ("Replace", 1, ["Replaced"])],
)
def test_the_concurrency_policy_of_a_child_applies(
    admin: SqlClient, worker: SqlClient, policy: str, runs: int, reasons: list[str]
):
    extract, transform = admin.define("extract"), admin.define("transform", policy)
    after(admin, transform, "extract")
    for day in (MONDAY, TUESDAY):
        succeed(worker, tick(admin, extract, day))
        pass_on(worker)
    assert admin.value("select count(*) from job_runs where definition_id = %s", transform) == runs
    assert admin.column("select reason from job_run_history where definition_id = %s", transform) == reasons


def test_nothing_is_noted_while_nothing_waits(admin: SqlClient, worker: SqlClient):
    succeed(worker, tick(admin, admin.define("extract")), admin.enqueue())
    assert admin.value("select count(*) from ended_runs") == 0


# -- runs


def test_a_run_waits_until_its_parents_have_succeeded(admin: SqlClient, worker: SqlClient):
    pay, pack = admin.enqueue(), admin.enqueue()
    ship = admin.enqueue(after=[pay, pack])
    assert lease(worker, ship) == []
    succeed(worker, pay)
    pass_on(worker)
    assert worker.value("select run_at from job_runs where id = %s", ship).year == 2999
    succeed(worker, pack)
    assert pass_on(worker).started == 1
    assert [one.id for one in lease(worker, ship)] == [ship]


def test_a_run_waits_for_no_run_that_has_succeeded(admin: SqlClient, worker: SqlClient):
    pay = admin.enqueue()
    succeed(worker, pay)
    ship = admin.enqueue(after=[pay])
    assert [one.id for one in lease(worker, ship)] == [ship]


def test_a_run_that_waits_is_due_at_its_own_time_at_the_earliest(admin: SqlClient, worker: SqlClient):
    pay = admin.enqueue()
    ship = admin.enqueue(after=[pay], run_at="2030-01-01 00:00+00")
    succeed(worker, pay)
    pass_on(worker)
    assert admin.value("select run_at from job_runs where id = %s", ship).year == 2030


def test_each_run_of_enqueue_many_waits_for_its_own_parents(admin: SqlClient, worker: SqlClient):
    with admin.conn.transaction():
        pay, pack = enqueue_many(admin.conn, [Job("ping"), Job("ping", priority=4)])
        jobs = [
            Job("ping", after=[pay, pack.id]),
            Job("ping", limit_key="k"),
            Job("ping", after=[]),
            Job("ping", after=[pack]),
        ]
        both, free, empty, packed = enqueue_many(admin.conn, jobs)
    due = "select id from job_runs where run_at <= now() order by id"
    assert admin.column(due) == [pay.id, pack.id, free.id, empty.id]
    admin.sql("select cancel(%s)", [pay.id])
    succeed(worker, pack.id)
    assert pass_on(worker).started == 1
    assert admin.column("select id from job_runs where run_at <= now() and id = any(%s)", [both.id, packed.id]) == [
        packed.id
    ]


def test_a_run_of_enqueue_many_that_exists_already_is_left_as_it_is(admin: SqlClient):
    jobs = [Job("ping", idempotency_key="a"), Job("ping", idempotency_key="b")]
    first, parent = enqueue_many(admin.conn, jobs)
    again = enqueue_many(admin.conn, [Job("ping", idempotency_key="a", after=[parent]), Job("ping", after=[first])])
    assert [run.created for run in again] == [False, True]
    assert admin.column("select run_id from run_dependencies") == [again[1].id]
    with pytest.raises(WakeboardError, match="holds run 99999, which does not exist; write ids that enqueue returned"):
        enqueue_many(admin.conn, [Job("ping"), Job("ping", after=[99999])])
    with pytest.raises(InvalidValue, match=r"after is 7; write a list, such as \[7\]"):
        enqueue_many(admin.conn, [Job("ping", after=7)])  # pyright: ignore[reportArgumentType]


def test_runs_of_one_transaction_may_wait_for_each_other(admin: SqlClient, worker: SqlClient):
    with admin.conn.transaction():
        pay = admin.enqueue()
        ship = admin.enqueue(after=[pay])
    succeed(worker, pay)
    pass_on(worker)
    succeed(worker, ship)
    assert admin.column("select id from job_run_history order by id") == [pay, ship]


def test_a_parent_that_ends_while_its_child_is_enqueued_frees_it(
    admin: SqlClient, worker: SqlClient, meanwhile: ThreadPoolExecutor
):
    """The completion waits for the transaction, so that it finds the run."""
    pay = admin.enqueue()
    (one,) = lease(worker, pay)
    with admin.conn.transaction():
        ship = admin.enqueue(after=[pay])
        refused = meanwhile.submit(
            worker.sql, "select complete(%s, %s, %s)", worker.worker_id, [pay], one.epoch
        ).result()
    if refused:  # it waits for 200 ms, and the worker reports again
        worker.sql("select complete(%s, %s, %s)", worker.worker_id, [pay], one.epoch)
    assert pass_on(worker).started == 1
    assert [each.id for each in lease(worker, ship)] == [ship]


def test_a_waiting_run_continues_with_the_replay_of_a_cancelled_parent(admin: SqlClient, worker: SqlClient):
    pay = admin.enqueue()
    ship = admin.enqueue(after=[pay])
    admin.sql("select cancel(%s)", [pay])
    again = admin.value("select new_id from replay(%s)", [pay])
    succeed(worker, again)
    pass_on(worker)
    assert [one.id for one in lease(worker, ship)] == [ship]


def test_a_replay_of_a_parent_that_succeeded_does_not_stop_the_run_that_waited_for_it(
    admin: SqlClient, worker: SqlClient, other: SqlClient
):
    """Also while its end is not yet passed on, and while the replay's transaction is open."""
    pay = admin.enqueue()
    ship = admin.enqueue(after=[pay])
    succeed(worker, pay)
    with other.conn.transaction():
        other.sql("select replay(%s)", [pay])
        assert pass_on(worker).started == 1
    assert admin.run(ship).run_at.year < 2999


def test_a_locked_run_stops_no_other_run_that_waits(admin: SqlClient, worker: SqlClient, other: SqlClient):
    """And idle workers do not look for it again and again."""
    due = "select next_due('{default}', '{ping}', 60)"
    pay = admin.enqueue()
    ships = [admin.enqueue(after=[pay]) for _ in range(3)]
    succeed(worker, pay)
    with other.conn.transaction():
        other.sql("select from job_runs where id = %s for update", ships[1])
        assert pass_on(worker).started == 2
        for age, answer in ((0, 0), (30, 1), (3600, None)):
            admin.sql("update ended_runs set ended_at = now() - make_interval(secs => %s)", age)
            assert admin.value(due) == answer or (age == 0 and admin.value(due) == 1)  # on a slow machine
    assert pass_on(worker).started == 1
    assert {one.id for one in lease(worker, *ships)} == set(ships)


def test_a_run_cannot_wait_for_itself(admin: SqlClient):
    """Its id can be guessed: ids are numbered."""
    for guess in range(1, 4):  # one call may take several numbers
        last = admin.value("select last_value from job_runs_id_seq")
        with pytest.raises(psycopg.Error, match="which does not exist"):
            admin.enqueue(after=[last + guess])
    for guess in range(1, 4):
        last = admin.value("select last_value from job_runs_id_seq")
        with pytest.raises(WakeboardError, match="which does not exist"):
            enqueue_many(admin.conn, [Job("ping", after=[last + guess])])


def test_a_waiting_run_can_be_cancelled(admin: SqlClient, worker: SqlClient):
    pay = admin.enqueue()
    ship = admin.enqueue(after=[pay])
    assert admin.value("select answer from cancel(%s)", [ship]) == "cancelled"
    succeed(worker, pay)
    assert pass_on(worker).started == 0


@pytest.mark.parametrize(
    ("parents", "message"),
    [
        ([999], "after holds run 999, which does not exist; write ids that enqueue returned"),
        ([None], 'after is "{NULL}"; write the ids of up to 1000 runs, such as {12,13}'),
        ([[1], [2]], 'after is "{{1},{2}}"; write the ids of up to 1000 runs, such as {12,13}'),
        ([1] * 1001, "write the ids of up to 1000 runs"),
    ],
)
def test_a_wrong_parent_is_refused(admin: SqlClient, parents: list[Any], message: str):
    with pytest.raises(psycopg.Error) as refused:
        admin.enqueue(after=parents)
    assert message in str(refused.value)
    assert admin.value("select count(*) from job_runs") == 0


def test_a_parent_that_will_not_succeed_is_refused(admin: SqlClient):
    pay = admin.enqueue()
    admin.sql("select cancel(%s)", [pay])
    with pytest.raises(
        psycopg.Error, match=f"after holds run {pay}, which is cancelled and will not succeed; replay it"
    ):
        admin.enqueue(after=[pay])


# -- results


def test_a_parent_that_is_named_twice_has_two_results(admin: SqlClient, worker: SqlClient):
    """`first, second = run.results()`, where an idempotency key made two enqueues one run."""
    pay, pack = admin.enqueue(), admin.enqueue()
    ship = admin.enqueue(after=[pay, pack, pay])
    succeed(worker, pay, pack, result="1")
    pass_on(worker)
    (one,) = lease(worker, ship)
    assert worker.value("select run_results(%s, %s, %s)", worker.worker_id, ship, one.epoch) == [1, 1, 1]


def test_a_run_reads_the_results_of_its_parents_in_their_order(admin: SqlClient, worker: SqlClient):
    pay, pack = admin.enqueue(), admin.enqueue()
    ship = admin.enqueue(after=[pack, pay])
    succeed(worker, pay, result='{"paid": 3}')
    succeed(worker, pack)
    pass_on(worker)
    (one,) = lease(worker, ship)
    query = "select run_results(%s, %s, %s)"
    assert worker.value(query, worker.worker_id, ship, one.epoch) == [None, {"paid": 3}]
    with pytest.raises(psycopg.Error, match="the lease of run"):
        worker.value(query, worker.worker_id, ship, one.epoch + 1)
