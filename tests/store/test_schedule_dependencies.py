"""A schedule runs after others: each tick becomes one run, in whatever order the runs of its parents end."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest

from tests.store.dependencies import MONDAY, TUESDAY, after, days, die, made, pass_on, succeed, tick

if TYPE_CHECKING:
    from tests.store.sql_clients import SqlClient

pytestmark = pytest.mark.every_postgres


@pytest.fixture
def pipeline(admin: SqlClient) -> tuple[int, int, int]:
    """Schedules extract and rates, and transform after both."""
    extract, rates, transform = admin.define("extract"), admin.define("rates"), admin.define("transform")
    after(admin, transform, "extract", "rates")
    return extract, rates, transform


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


def test_a_run_now_and_its_replay_have_no_tick_to_pass_on(admin: SqlClient, worker: SqlClient):
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


@pytest.mark.parametrize("scope", ["schedule:{}", "queue:later", "all"])
def test_a_paused_schedule_gets_its_runs_later(admin: SqlClient, worker: SqlClient, scope: str):
    extract, transform = admin.define("extract"), admin.define("transform", queue="later")
    after(admin, transform, "extract")
    run = tick(admin, extract)
    succeed(worker, run)
    admin.sql("select pause(%s)", scope.format(transform))
    pass_on(worker)
    assert days(admin, transform) == []
    admin.sql("select resume(%s)", scope.format(transform))
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


def test_a_child_whose_runs_die_creates_no_more_and_probes_after_a_pause_that_doubles(
    admin: SqlClient, worker: SqlClient
):
    extract = admin.define("extract")
    transform = admin.define("transform", suspend_after_dead=3, max_attempts=1)
    after(admin, transform, "extract")
    days_of_2026 = iter(range(1, 100))

    def next_tick() -> str:
        """A tick of both: `run`, or why the child skipped it."""
        at = admin.value("select ('2026-01-01 00:00+00'::timestamptz + %s * interval '1 d')::text", next(days_of_2026))
        succeed(worker, tick(admin, extract, at))
        pass_on(worker)
        reason = "select reason from job_run_history where definition_id = %s and scheduled_for = %s"
        return admin.value("select max('run') from job_runs where definition_id = %s", transform) or admin.value(
            reason, transform, at
        )

    def live_run() -> int:
        return admin.value("select id from job_runs where definition_id = %s and dead_at is null", transform)

    def end_dead() -> None:
        run = live_run()
        die(worker, run)
        admin.sql("select discard(%s)", [run])

    def pause() -> int:
        """Its length in minutes. It is over then, and the ticks that were skipped are older."""
        admin.sql("select update_circuits()")
        left = "extract(epoch from circuit_probe_at - statement_timestamp())::float"
        left_s = admin.value(f"select {left} from job_definitions where id = %s", transform)
        admin.sql("update job_definitions set circuit_probe_at = statement_timestamp() where id = %s", transform)
        admin.sql("update job_run_history set finished_at = finished_at - interval '2 h' where reason = 'CircuitOpen'")
        return round(left_s / 60)

    for _ in range(3):
        assert next_tick() == "run"
        end_dead()
    assert next_tick() == "CircuitOpen"
    pauses: list[int] = []
    for _ in range(3):
        pauses.append(pause())
        assert next_tick() == "CircuitOpen", "one tick at least is skipped before each probe"
        assert next_tick() == "run"
        assert admin.value("select circuit_probe_id from job_definitions where id = %s", transform) == live_run()
        succeed(worker, tick(admin, extract, f"{2026 + len(pauses)}-01-01 00:00+00"))
        assert pass_on(worker).runs == 0, "one probe at a time"
        end_dead()
    assert pauses == [1, 2, 4]
    assert next_tick() == "CircuitOpen"
    pause()
    assert next_tick() == "CircuitOpen"
    assert next_tick() == "run"
    succeed(worker, live_run())
    assert next_tick() == "run", "the success of the probe has closed it"
    end_dead()
    for _ in range(2):
        assert next_tick() == "run", "dead runs count from zero"
        end_dead()
    assert next_tick() == "CircuitOpen"
    admin.sql("select resume(%s)", f"schedule:{transform}")
    assert next_tick() == "run"


@pytest.mark.parametrize("policy", ["Allow", "Forbid", "Replace", "Queue"])
def test_of_several_ready_ticks_of_an_open_circuit_the_newest_is_the_probe(
    admin: SqlClient, worker: SqlClient, policy: str
):
    extract, transform = admin.define("extract"), admin.define("transform", policy, suspend_after_dead=1)
    after(admin, transform, "extract")
    waiting = admin.value("select id from run_now(%s)", transform) if policy == "Replace" else None
    admin.sql(
        "update job_definitions set circuit_opened_at = now() - interval '1 h', circuit_probes = 0,"
        " circuit_probe_at = now() + interval '1 s', dead_counted_from = now() where id = %s",
        transform,
    )
    succeed(worker, tick(admin, extract, MONDAY))
    done = pass_on(worker)
    assert (done.runs, done.skipped) == (0, 1)
    assert waiting is None or admin.status(waiting) == "queued", "a tick that is skipped replaces nothing"
    admin.sql("update job_definitions set circuit_probe_at = now() where id = %s", transform)
    for day in ("2026-01-06 00:00+00", "2026-01-07 00:00+00"):
        succeed(worker, tick(admin, extract, day))
    done = pass_on(worker)
    assert (done.runs, done.skipped) == (1, 1)
    assert admin.column(
        "select to_char(scheduled_for at time zone 'UTC', 'Dy') from job_runs where definition_id = %s", transform
    ) == ["Wed"]
    assert waiting is None or admin.status(waiting) == "cancelled"


def test_nothing_is_noted_while_nothing_waits(admin: SqlClient, worker: SqlClient):
    succeed(worker, tick(admin, admin.define("extract")), admin.enqueue())
    assert admin.value("select count(*) from ended_runs") == 0


def test_the_ticks_of_a_paused_schedule_are_not_read_again_and_again(admin: SqlClient, worker: SqlClient):
    transform = admin.define("transform")
    after(admin, transform, "extract")
    admin.sql("select pause(%s)", f"schedule:{transform}")
    admin.sql(
        "insert into schedule_ticks (definition_id, scheduled_for, waits_for)"
        " select %s, '2026-01-01'::timestamptz + minute * interval '1 minute', 'run'"
        " from generate_series(1, 5000) as minute",
        transform,
    )
    reads = "select idx_tup_fetch + seq_tup_read from pg_stat_xact_user_tables where relid = 'schedule_ticks'::regclass"
    with worker.conn.transaction():
        worker.sql("select * from enqueue_dependents(100)")
        assert worker.value(reads) < 200
