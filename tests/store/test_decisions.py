"""What people decide about runs: cancel, retry, replay, discard, run-now, pause."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import psycopg
import pytest

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import ThreadPoolExecutor

    from tests.store.sql_clients import SqlClient

pytestmark = pytest.mark.every_postgres


def dead(person: SqlClient, worker: SqlClient) -> int:
    """A run that was given up."""
    run = person.enqueue()
    (lease,) = [lease for lease in worker.claim() if lease.id == run]
    worker.fail(lease, outcome="discarded")
    return run


def declared(person: SqlClient, policy: str = "Allow", **columns: object) -> int:
    """A schedule that runs on demand; its id."""
    row = {
        "namespace": "team", "name": "report", "uid": "", "generation": 3, "spec_hash": "-", "job_type": "ping",
        "payload": {"n": 1}, "queue": "default", "priority": 4, "time_zone": "Etc/UTC", "dst_gap": "RunAfter",
        "dst_overlap": "First", "jitter_s": 0, "concurrency_policy": policy, "catch_up": "Latest",
        "catch_up_limit": 100, "max_attempts": 2, "backoff_strategy": "fixed", "backoff_base_s": 7,
        "backoff_cap_s": 8, "timeout_s": 9, "suspended": False, "tzdata_version": "-", **columns,
    }  # fmt: skip
    return person.value("select id from sync_definitions('file:test', %s)", json.dumps([row]))


def run_now(person: SqlClient, schedule: int) -> tuple[int | None, str]:
    found = person.sql("select id, answer from run_now(%s)", schedule)[0]
    return found.id, found.answer


# -- cancel ------------------------------------------------------------------------------------------------------------


def test_cancel_answers_for_each_run_in_order(person: SqlClient, worker: SqlClient) -> None:
    failed, running, given_up, done = (person.enqueue() for _ in range(4))
    leases = {lease.id: lease for lease in worker.claim()}
    worker.fail(leases[failed])
    worker.fail(leases[given_up], outcome="discarded")
    worker.complete(leases[done])
    queued, gone = person.enqueue(), person.enqueue()
    person.cancel(gone)
    answers = person.cancel(999, queued, failed, running, given_up, done, gone, queued)
    assert list(answers.items()) == [
        (failed, "cancelled"),
        (running, "requested"),
        (given_up, "refused: the run is dead; discard it"),
        (done, "refused: the run has succeeded"),
        (queued, "cancelled"),
        (gone, "refused: the run has finished: cancelled"),
        (999, "refused: there is no such run"),
    ]
    assert [person.past(run).status for run in (queued, failed)] == ["cancelled", "cancelled"]


def test_a_reason_is_kept(person: SqlClient) -> None:
    run = person.enqueue()
    person.sql("select cancel(%s::bigint[], 'the customer left')", [run])
    assert (person.past(run).reason, person.past(run).locked_by) == ("the customer left", 0)


def test_asking_twice_to_cancel_a_running_run_is_asking_once(person: SqlClient, worker: SqlClient) -> None:
    run = person.enqueue()
    worker.claim()
    person.cancel(run)
    requested_at = person.run(run).cancel_requested_at
    assert person.cancel(run) == {run: "requested"}
    assert person.run(run).cancel_requested_at == requested_at


def test_what_was_not_answered_as_cancelled_is_not_cancelled(
    person: SqlClient, other: SqlClient, player: Callable[[int], SqlClient], meanwhile: ThreadPoolExecutor
) -> None:
    """A run that commits while the move waits for another run's lock is unknown to it, and stays."""
    waits = person.enqueue()
    maker, locker = player(0), player(0)
    with locker.conn.transaction():
        locker.sql("select from job_runs where id = %s for update", waits)
        with maker.conn.transaction():
            unseen = maker.enqueue()
            cancelling = meanwhile.submit(other.cancel, waits, unseen)
            assert person.wait_until_blocked(other, cancelling.done)
    assert cancelling.result() == {
        waits: "cancelled",
        unseen: "refused: another transaction has locked the run; try again",
    }
    assert person.status(unseen) == "queued"


# -- retry -------------------------------------------------------------------------------------------------------------


def test_a_retried_run_is_the_same_run_due_now_and_begins_anew(person: SqlClient, worker: SqlClient) -> None:
    run = person.enqueue(max_attempts=1, run_at="2020-01-01 00:00Z")
    person.crashed(run, 1)
    (lease,) = worker.claim()
    worker.once(lease, "charge")
    worker.step(lease, "Render", {"page": 1})
    worker.fail(lease)
    uuid = person.run(run).uuid
    assert person.retry(run) == {run: "queued"}
    row = person.run(run)
    assert (row.status, row.attempts, row.crash_count, row.release_count, row.dead_at) == ("queued", 0, 0, 0, None)
    assert row.uuid == uuid
    assert person.value("select run_at = statement_timestamp() - (statement_timestamp() - run_at) from job_runs")
    (again,) = worker.claim()
    assert again.epoch == 2
    assert worker.once(again, "charge") is False
    assert worker.step(again, "Render") == (True, {"page": 1})


def test_a_failed_run_may_be_retried_at_once(person: SqlClient, worker: SqlClient) -> None:
    run = person.enqueue()
    worker.fail(*worker.claim(), delay_s=3600)
    assert worker.claim() == []
    assert person.retry(run) == {run: "queued"}
    assert worker.claim() == [(run, 2)]


def test_retry_refuses_what_is_neither_dead_nor_failed(person: SqlClient, worker: SqlClient) -> None:
    running, done = person.enqueue(), person.enqueue()
    worker.complete(next(lease for lease in worker.claim() if lease.id == done))
    queued = person.enqueue()
    assert person.retry(queued, running, done, 999) == {
        running: "refused: the run is running",
        done: "refused: the run is finished (succeeded); replay makes a new run from it",
        queued: "refused: the run is queued",
        999: "refused: there is no such run",
    }


def test_a_cancel_is_forgotten_by_a_retry(person: SqlClient, worker: SqlClient) -> None:
    run = dead(person, worker)
    person.sql("update job_runs set cancel_requested_at = now()")
    person.retry(run)
    assert worker.renew(*worker.claim()) == {}


# -- discard and replay ------------------------------------------------------------------------------------------------


def test_a_discarded_run_is_history(person: SqlClient, worker: SqlClient) -> None:
    run = dead(person, worker)
    queued = person.enqueue()
    assert person.discard(run, queued, 999) == {
        run: "discarded",
        queued: "refused: the run is queued, not dead",
        999: "refused: it is no live run",
    }
    row = person.past(run)
    assert (row.status, row.reason, row.last_error) == ("dead", "Discarded", "boom")
    assert person.discard(run) == {run: "refused: it is no live run"}


def test_what_was_answered_as_discarded_is_discarded(
    person: SqlClient,
    worker: SqlClient,
    other: SqlClient,
    player: Callable[[int], SqlClient],
    meanwhile: ThreadPoolExecutor,
) -> None:
    """Also a run that dies while the move waits for another run's lock."""
    waits, dies = dead(person, worker), person.enqueue()
    (lease,) = worker.claim()
    locker = player(0)
    with locker.conn.transaction():
        locker.sql("select from job_runs where id = %s for update", waits)
        discarding = meanwhile.submit(other.discard, waits, dies)
        assert person.wait_until_blocked(other, discarding.done)
        worker.fail(lease, outcome="discarded")
    assert {run: answer == "discarded" for run, answer in discarding.result().items()} == {
        run: person.value("select exists (select from job_run_history where id = %s)", run) for run in (waits, dies)
    }


def test_a_replayed_run_is_a_new_one_whose_effects_happen_again(person: SqlClient, worker: SqlClient) -> None:
    run = person.enqueue(
        "ping", {"n": 1}, priority=4, max_attempts=7, timeout_s=77, run_at="2020-01-01 00:00Z", idempotency_key="k"
    )
    (lease,) = worker.claim()
    assert worker.once(lease, "charge") is True
    worker.complete(lease)
    answer, new = person.replay(run)
    assert answer == "queued"
    assert new
    old, row = person.past(run), person.run(new)
    same = ("job_type", "payload", "queue", "priority", "max_attempts", "timeout_s", "scheduled_for", "schedule")
    assert [getattr(row, name) for name in same] == [getattr(old, name) for name in same]
    assert (row.trigger, row.idempotency_key, row.attempts) == ("replay", None, 0)
    assert row.uuid != old.uuid
    (again,) = worker.claim()
    assert again.id == new
    assert worker.once(again, "charge") is True


def test_a_discarded_and_a_cancelled_run_may_be_replayed_too(person: SqlClient, worker: SqlClient) -> None:
    given_up, cancelled = dead(person, worker), person.enqueue()
    person.discard(given_up)
    person.cancel(cancelled)
    assert [person.replay(run)[0] for run in (given_up, cancelled)] == ["queued", "queued"]


def test_replay_refuses_what_is_not_finished_or_never_ran(person: SqlClient, worker: SqlClient) -> None:
    given_up, late = dead(person, worker), person.enqueue()
    person.sql("update job_runs set start_before = now() - interval '1 s' where id = %s", late)
    person.sql("select skip_past_deadline()")
    assert person.replay(given_up) == ("refused: the run is dead; replay takes finished runs", None)
    assert person.replay(late) == ("refused: these ticks were skipped and never ran; use run-now", None)
    assert person.replay(999) == ("refused: there is no such run", None)


# -- run-now -----------------------------------------------------------------------------------------------------------


def test_run_now_makes_a_run_as_the_schedule_says(person: SqlClient) -> None:
    schedule = declared(person, suspended=True)
    run, answer = run_now(person, schedule)
    assert answer == "queued"
    assert run
    row = person.run(run)
    assert (row.trigger, row.payload, row.priority, row.max_attempts, row.timeout_s, row.schedule) == (
        *("manual", {"n": 1}, 4, 2, 9, "team/report"),
    )
    assert (row.definition_id, row.definition_generation, row.limit_key) == (schedule, 3, None)
    assert run_now(person, 999) == (None, "refused: there is no such schedule")


@pytest.mark.parametrize("status", ["queued", "running", "failed"])
def test_forbid_refuses_while_a_run_is_unfinished(person: SqlClient, worker: SqlClient, status: str) -> None:
    schedule = declared(person, "Forbid")
    first, _ = run_now(person, schedule)
    assert first
    leases = worker.claim_limited() if status != "queued" else []
    if status == "failed":
        worker.fail(*leases)
    refusal = (None, "refused: concurrencyPolicy is Forbid and a run of it is unfinished")
    assert run_now(person, schedule) == refusal
    person.cancel(first)
    if status == "running":
        assert run_now(person, schedule) == refusal
        worker.release(*leases)
    assert run_now(person, schedule)[1] == "queued"


def test_forbid_lets_one_run_pass_when_two_people_ask_at_once(
    person: SqlClient, worker: SqlClient, other: SqlClient, meanwhile: ThreadPoolExecutor
) -> None:
    schedule = declared(person, "Forbid")
    with worker.conn.transaction():
        assert run_now(worker, schedule)[1] == "queued"
        second = meanwhile.submit(run_now, other, schedule)
        assert person.wait_until_blocked(other, second.done)
    assert second.result()[1].startswith("refused")


def test_replace_cancels_what_waits_and_asks_what_runs_to_stop(person: SqlClient, worker: SqlClient) -> None:
    schedule = declared(person, "Replace")
    running, _ = run_now(person, schedule)
    assert running
    worker.claim_limited()
    waiting, _ = run_now(person, schedule)
    assert waiting
    newest, _ = run_now(person, schedule)
    assert newest
    assert person.run(running).cancel_requested_at
    assert (person.past(waiting).status, person.past(waiting).reason) == ("cancelled", "Replaced")
    assert person.run(newest).limit_key == f"schedule:{schedule}"
    assert worker.claim_limited() == []


def test_replace_forgets_no_run_that_starts_meanwhile(
    person: SqlClient,
    worker: SqlClient,
    other: SqlClient,
    player: Callable[[int], SqlClient],
    meanwhile: ThreadPoolExecutor,
) -> None:
    """It waits for the row that a worker is claiming, and asks that worker to stop."""
    schedule = declared(person, "Replace")
    run, _ = run_now(person, schedule)
    assert run
    with worker.conn.transaction():
        assert worker.claim_limited() == [(run, 1)]
        replacing = meanwhile.submit(run_now, other, schedule)
        assert person.wait_until_blocked(other, replacing.done)
    assert replacing.result()[1] == "queued"
    assert person.run(run).cancel_requested_at


# -- pause -------------------------------------------------------------------------------------------------------------


def test_a_pause_says_what_it_stops(person: SqlClient) -> None:
    for wrong in ("everything", "queue:", "schedule:x", ""):
        with pytest.raises(psycopg.errors.CheckViolation, match="scope_is_all_or_queue_NAME_or_schedule_ID"):
            person.sql("select pause(%s)", wrong)


def test_a_pause_and_a_resume_tell_whose_status_changed(person: SqlClient) -> None:
    schedule = declared(person, queue="mail")
    for move in ("pause", "resume"):
        for what in ("all", "queue:mail", f"schedule:{schedule}", "queue:other"):
            person.sql("delete from definition_changes")
            assert person.value(f"select {move}(%s)", what) is True
            assert person.column("select * from pop_changed_definitions()") == (
                [schedule] if what != "queue:other" else []
            )


@pytest.mark.parametrize("move", ["cancel", "retry", "discard", "replay", "run_now"])
def test_what_people_decide_about_a_schedules_run_is_noted(person: SqlClient, worker: SqlClient, move: str) -> None:
    schedule = declared(person)
    run, _ = run_now(person, schedule)
    assert run
    (lease,) = worker.claim()
    match move:
        case "retry" | "discard":
            worker.fail(lease, outcome="discarded")
        case "replay":
            worker.complete(lease)
        case _:
            pass
    person.sql("delete from definition_changes")
    if move == "run_now":
        run_now(person, schedule)
    else:
        getattr(person, move)(run)
    assert person.column("select * from pop_changed_definitions()") == [schedule]
    assert person.column("select * from pop_changed_definitions()") == []


def test_a_reason_is_kept_to_two_hundred_characters(person: SqlClient, worker: SqlClient) -> None:
    long = "because " * 10_000
    waiting, running = person.enqueue(), person.enqueue()
    assert person.value("select answer from cancel(array[%s::bigint], %s)", waiting, long) == "cancelled"
    assert person.past(waiting).reason == long[:200]
    worker.claim()
    assert person.value("select answer from cancel(array[%s::bigint], %s)", running, long) == "requested"
    assert person.value("select cancel_reason from job_runs where id = %s", running) == long[:200]
    assert person.value("select pause('all', %s)", long) is True
    assert person.value("select reason from pauses") == long[:200]


def test_a_leader_cannot_lead_for_longer_than_five_minutes(person: SqlClient) -> None:
    for asked, given in ((2_000_000_000, 300), (-5, 1), (None, 1), (15, 15)):
        person.sql("delete from leadership")
        query = "select expires_in_s from acquire_leadership('k8s:a', 'me', '1', %s)"
        assert round(person.value(query, asked)) == given
