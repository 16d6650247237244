"""Actions of administrators on runs: cancel, retry, replay, discard, run-now, pause."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import ThreadPoolExecutor

    from tests.store.sql_clients import SqlClient


def dead(admin: SqlClient, worker: SqlClient) -> int:
    """A run that was given up."""
    run = admin.enqueue()
    (lease,) = [lease for lease in worker.claim() if lease.id == run]
    worker.fail(lease, outcome="discarded")
    return run


SPEC: dict[str, Any] = {"generation": 3, "payload": '{"n": 1}', "priority": 4, "max_attempts": 2, "timeout_s": 9}


def run_now(admin: SqlClient, schedule: int) -> tuple[int | None, str]:
    found = admin.sql("select id, answer from run_now(%s)", schedule)[0]
    return found.id, found.answer


# -- cancel ------------------------------------------------------------------------------------------------------------


def test_cancel_answers_for_each_run_in_order(admin: SqlClient, worker: SqlClient) -> None:
    failed, running, given_up, done = (admin.enqueue() for _ in range(4))
    leases = {lease.id: lease for lease in worker.claim()}
    worker.fail(leases[failed])
    worker.fail(leases[given_up], outcome="discarded")
    worker.complete(leases[done])
    queued, gone = admin.enqueue(), admin.enqueue()
    admin.cancel(gone)
    answers = admin.cancel(999, queued, failed, running, given_up, done, gone, queued)
    assert list(answers.items()) == [
        (failed, "cancelled"),
        (running, "requested"),
        (given_up, "refused: the run is dead; discard it"),
        (done, "refused: the run has succeeded"),
        (queued, "cancelled"),
        (gone, "refused: the run has finished: cancelled"),
        (999, "refused: there is no such run"),
    ]
    assert [admin.past(run).status for run in (queued, failed)] == ["cancelled", "cancelled"]


def test_what_was_not_answered_as_cancelled_is_not_cancelled(
    admin: SqlClient, other: SqlClient, open_client: Callable[[int], SqlClient], meanwhile: ThreadPoolExecutor
) -> None:
    """A run that commits while the call waits for another run's lock is unknown to it, and stays."""
    waits = admin.enqueue()
    maker, locker = open_client(0), open_client(0)
    with locker.conn.transaction():
        locker.sql("select from job_runs where id = %s for update", waits)
        with maker.conn.transaction():
            unseen = maker.enqueue()
            cancelling = meanwhile.submit(other.cancel, waits, unseen)
            assert admin.wait_until_blocked(other, cancelling.done)
    assert cancelling.result() == {
        waits: "cancelled",
        unseen: "refused: another transaction has locked the run; try again",
    }
    assert admin.status(unseen) == "queued"


# -- discard and replay ------------------------------------------------------------------------------------------------


def test_what_was_answered_as_discarded_is_discarded(
    admin: SqlClient,
    worker: SqlClient,
    other: SqlClient,
    open_client: Callable[[int], SqlClient],
    meanwhile: ThreadPoolExecutor,
) -> None:
    """Also a run that dies while the call waits for another run's lock."""
    waits, dies = dead(admin, worker), admin.enqueue()
    (lease,) = worker.claim()
    locker = open_client(0)
    with locker.conn.transaction():
        locker.sql("select from job_runs where id = %s for update", waits)
        discarding = meanwhile.submit(other.discard, waits, dies)
        assert admin.wait_until_blocked(other, discarding.done)
        worker.fail(lease, outcome="discarded")
    assert {run: answer == "discarded" for run, answer in discarding.result().items()} == {
        run: admin.value("select exists (select from job_run_history where id = %s)", run) for run in (waits, dies)
    }


def test_a_replayed_run_is_a_new_one_whose_effects_happen_again(admin: SqlClient, worker: SqlClient) -> None:
    run = admin.enqueue(
        "ping", {"n": 1}, priority=4, max_attempts=7, timeout_s=77, run_at="2020-01-01 00:00Z", idempotency_key="k"
    )
    (lease,) = worker.claim()
    assert worker.once(lease, "charge") is True
    worker.complete(lease)
    answer, new = admin.replay(run)
    assert answer == "queued"
    assert new
    old, row = admin.past(run), admin.run(new)
    same = ("job_type", "payload", "queue", "priority", "max_attempts", "timeout_s", "scheduled_for", "schedule")
    assert [getattr(row, name) for name in same] == [getattr(old, name) for name in same]
    assert (row.trigger, row.idempotency_key, row.attempts) == ("replay", None, 0)
    assert row.uuid != old.uuid
    (again,) = worker.claim()
    assert again.id == new
    assert worker.once(again, "charge") is True


# -- run-now -----------------------------------------------------------------------------------------------------------


def test_run_now_makes_a_run_as_the_schedule_says(admin: SqlClient) -> None:
    schedule = admin.define(**SPEC, suspended=True)
    run, answer = run_now(admin, schedule)
    assert answer == "queued"
    assert run
    row = admin.run(run)
    assert (row.trigger, row.payload, row.priority, row.max_attempts, row.timeout_s, row.schedule) == (
        *("manual", {"n": 1}, 4, 2, 9, "billing/report"),
    )
    assert (row.definition_id, row.definition_generation, row.limit_key) == (schedule, 3, None)
    assert run_now(admin, 999) == (None, "refused: there is no such schedule")


def test_forbid_creates_one_run_for_two_concurrent_calls(
    admin: SqlClient, worker: SqlClient, other: SqlClient, meanwhile: ThreadPoolExecutor
) -> None:
    schedule = admin.define(policy="Forbid")
    with worker.conn.transaction():
        assert run_now(worker, schedule)[1] == "queued"
        second = meanwhile.submit(run_now, other, schedule)
        assert admin.wait_until_blocked(other, second.done)
    assert second.result()[1].startswith("refused")


def test_replace_misses_no_run_that_starts_meanwhile(
    admin: SqlClient,
    worker: SqlClient,
    other: SqlClient,
    open_client: Callable[[int], SqlClient],
    meanwhile: ThreadPoolExecutor,
) -> None:
    """It waits for the row that a worker is claiming, and asks that worker to stop."""
    schedule = admin.define(policy="Replace")
    run, _ = run_now(admin, schedule)
    assert run
    with worker.conn.transaction():
        assert [lease.id for lease in worker.claim_limited()] == [run]
        replacing = meanwhile.submit(run_now, other, schedule)
        assert admin.wait_until_blocked(other, replacing.done)
    assert replacing.result()[1] == "queued"
    assert admin.run(run).cancel_requested_at


# -- pause -------------------------------------------------------------------------------------------------------------


def test_a_pause_and_a_resume_return_whose_status_changed(admin: SqlClient) -> None:
    schedule = admin.define(queue="mail")
    for call in ("pause", "resume"):
        for what in ("all", "queue:mail", f"schedule:{schedule}", "queue:other"):
            admin.sql("delete from definition_changes")
            assert admin.value(f"select {call}(%s)", what) is True
            assert admin.column("select * from pop_changed_definitions()") == (
                [schedule] if what != "queue:other" else []
            )


@pytest.mark.parametrize("call", ["cancel", "retry", "discard", "revoke", "replay", "run_now"])
def test_actions_on_the_run_of_a_schedule_change_its_status(admin: SqlClient, worker: SqlClient, call: str) -> None:
    schedule = admin.define()
    run, _ = run_now(admin, schedule)
    assert run
    (lease,) = worker.claim()
    match call:
        case "retry" | "discard":
            worker.fail(lease, outcome="discarded")
        case "replay":
            worker.complete(lease)
        case _:
            pass
    admin.sql("delete from definition_changes")
    if call == "run_now":
        run_now(admin, schedule)
    else:
        getattr(admin, call)(run)
    assert admin.column("select * from pop_changed_definitions()") == [schedule]
    assert admin.column("select * from pop_changed_definitions()") == []


def test_a_release_of_a_run_that_has_finished_says_so(admin: SqlClient, worker: SqlClient):
    done = admin.enqueue()
    worker.complete(*worker.claim())
    assert admin.revoke(done, 999) == dict.fromkeys((done, 999), "refused: the run has finished, or there is none")
