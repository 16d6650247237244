"""suspendAfterDead: a schedule whose runs die one after another creates no more, and continues after a success."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import ThreadPoolExecutor

    from tests.store.sql_clients import SqlClient

TICK = (
    "select * from enqueue_due_ticks(array[{id}], array[1], array[{at}], array[{at} + interval '1 h'], array[{at}],"
    " array[null]::text[], array[{id}], array[{at}], '{{}}', '{{}}', '{{}}', '{{}}', '{{}}')"
)


def define(admin: SqlClient, dead: int | None = 3, **columns: Any) -> int:
    return admin.define(schedule="0 * * * *", cron_fields="", suspend_after_dead=dead, max_attempts=1, **columns)


def tick(admin: SqlClient, definition: int) -> str:
    """A tick, now: 'run', or why it was skipped."""
    query = "update job_definitions set next_run_at = statement_timestamp() where id = %s returning next_run_at::text"
    at = f"timestamptz '{admin.value(query, definition)}'"
    (done,) = admin.sql(TICK.format(id=definition, at=at))
    if done.runs:
        return "run"
    return admin.value("select reason from job_run_history where definition_id = %s order by id desc", definition)


def tick_run(admin: SqlClient, definition: int) -> int:
    """A tick that becomes a run; its id."""
    assert tick(admin, definition) == "run"
    return admin.value("select max(id) from job_runs where definition_id = %s", definition)


def die(worker: SqlClient, run: int, epoch: int) -> None:
    query = (
        "select fail(%s, array[%s]::bigint[], array[%s]::bigint[], '{discarded}', '{E}', '{no}', '{stack}', '{null}')"
    )
    assert worker.sql(query, worker.worker_id, run, epoch) == []


def succeed(worker: SqlClient, run: int, epoch: int) -> None:
    assert (
        worker.sql("select complete(%s, array[%s]::bigint[], array[%s]::bigint[])", worker.worker_id, run, epoch) == []
    )


def end(worker: SqlClient, run: int, *, dead: bool) -> None:
    """Claims the run and ends it."""
    (lease,) = [lease for lease in worker.claim() if lease.id == run]
    (die if dead else succeed)(worker, lease.id, lease.epoch)


def dead_runs(admin: SqlClient, worker: SqlClient, definition: int, times: int) -> list[int]:
    """So many ticks, each of whose runs dies before the next tick."""
    runs: list[int] = []
    for _ in range(times):
        runs.append(tick_run(admin, definition))
        end(worker, runs[-1], dead=True)
    return runs


def circuit(admin: SqlClient, definition: int) -> Any:
    return admin.sql(
        "select circuit_opened_at is not null as is_open, circuit_probe_id as probe, circuit_probes as probes,"
        "  extract(epoch from circuit_probe_at - statement_timestamp())::float as probe_in_s"
        "  from job_definitions where id = %s",
        definition,
    )[0]


def end_pause(admin: SqlClient, definition: int) -> None:
    admin.sql("update job_definitions set circuit_probe_at = statement_timestamp() where id = %s", definition)


def test_the_pause_doubles_with_each_dead_probe_up_to_an_hour(admin: SqlClient, worker: SqlClient) -> None:
    definition = define(admin)
    dead_runs(admin, worker, definition, 3)
    assert tick(admin, definition) == "CircuitOpen"
    pauses: list[float] = []
    for _ in range(8):
        end_pause(admin, definition)
        end(worker, tick_run(admin, definition), dead=True)
        assert tick(admin, definition) == "CircuitOpen"
        pauses.append(round((circuit(admin, definition).probe_in_s + 5) / 60))
    assert pauses == [2, 4, 8, 16, 32, 60, 60, 60]


def test_resume_closes_it_and_resets_the_count(admin: SqlClient, worker: SqlClient) -> None:
    definition = define(admin)
    dead_runs(admin, worker, definition, 3)
    assert tick(admin, definition) == "CircuitOpen"
    assert admin.value("select resume(%s, 'fixed')", f"schedule:{definition}")
    assert not admin.value("select resume(%s)", f"schedule:{definition}")
    (row,) = admin.sql("select scope, schedule, reason, detail from audit_log where action = 'resume'")
    assert row[:3] == (f"schedule:{definition}", "billing/report", "fixed")
    assert list(row.detail) == ["circuit_opened_at"]
    dead_runs(admin, worker, definition, 2)
    assert tick(admin, definition) == "run"
    end(worker, admin.value("select max(id) from job_runs"), dead=True)
    assert tick(admin, definition) == "CircuitOpen"


def test_of_several_late_ticks_the_newest_is_the_probe(admin: SqlClient, worker: SqlClient) -> None:
    definition = define(admin)
    dead_runs(admin, worker, definition, 3)
    assert tick(admin, definition) == "CircuitOpen"
    end_pause(admin, definition)
    admin.sql("update job_definitions set next_run_at = statement_timestamp() where id = %s", definition)
    at = "next_run_at + interval '1 microsecond' * {}"
    ticks = ", ".join(at.format(number) for number in range(3))
    (done,) = admin.sql(
        f"select made.* from job_definitions cross join lateral enqueue_due_ticks(array[{definition}], array[1],"
        f" array[next_run_at], array[next_run_at + interval '1 h'], array[{at.format(2)}], array[null]::text[],"
        f" array[{definition}, {definition}, {definition}], array[{ticks}], '{{}}', '{{}}', '{{}}', '{{}}', '{{}}')"
        f" as made"
        f" where job_definitions.id = {definition}"
    )
    assert (done.runs, done.skipped) == (1, 2)
    skipped = admin.sql("select skipped_count, reason from job_run_history where skipped_count > 1")
    assert skipped == [(2, "CircuitOpen")]


@pytest.mark.parametrize("cause", ["release", "report"])
def test_a_discarded_run_whose_workers_stopped_too_often_counts_too(
    admin: SqlClient, worker: SqlClient, cause: str
) -> None:
    definition = define(admin, 1)
    run = tick_run(admin, definition)
    admin.sql("update job_runs set release_count = 4 where id = %s", run)
    worker.register()
    lease = worker.claims(run)
    if cause == "release":
        assert worker.release(lease) == []
    else:
        assert admin.value("select dead from report_worker_terminated(%s, 'Evicted')", worker.worker_id) == 1
    admin.sql("select discard(%s)", [run])
    assert tick(admin, definition) == "CircuitOpen"


def row_of(suspend_after_dead: int | None, generation: int) -> str:
    return json.dumps(
        [
            {
                "namespace": "billing",
                "name": "report",
                "uid": "",
                "generation": generation,
                "job_type": "ping",
                "spec_hash": f"h{generation}",
                "payload": {},
                "queue": "default",
                "priority": 3,
                "schedule": "0 * * * *",
                "cron_fields": "",
                "time_zone": "Etc/UTC",
                "dst_gap": "RunAfter",
                "dst_overlap": "First",
                "jitter_s": 0,
                "concurrency_policy": "Allow",
                "catch_up": "Latest",
                "catch_up_limit": 100,
                "max_attempts": 1,
                "backoff_strategy": "fixed",
                "backoff_base_s": 1,
                "backoff_cap_s": 1,
                "timeout_s": 60,
                "suspended": False,
                "next_run_at": "2030-01-01",
                "tzdata_version": "x",
                "suspend_after_dead": suspend_after_dead,
            }
        ]
    )


def edit(admin: SqlClient, suspend_after_dead: int | None, generation: int) -> None:
    admin.sql("update job_definitions set next_run_at = now() + interval '1 h'")
    query = "select answer from sync_definitions('k8s:one', %s::text::jsonb)"
    assert admin.value(query, row_of(suspend_after_dead, generation)) == "updated"
    admin.sql("update job_definitions set generation = 1")


def test_an_edit_keeps_it_open_unless_it_removes_the_setting(admin: SqlClient, worker: SqlClient) -> None:
    definition = define(admin)
    dead_runs(admin, worker, definition, 3)
    assert tick(admin, definition) == "CircuitOpen"
    edit(admin, 5, 2)
    assert tick(admin, definition) == "CircuitOpen"
    edit(admin, None, 3)
    assert not circuit(admin, definition).is_open
    assert tick(admin, definition) == "run"


def test_two_maintainers_create_one_probe(
    admin: SqlClient, worker: SqlClient, open_client: Callable[[int], SqlClient], meanwhile: ThreadPoolExecutor
) -> None:
    definition = define(admin)
    dead_runs(admin, worker, definition, 3)
    assert tick(admin, definition) == "CircuitOpen"
    clients = [open_client(0) for _ in range(4)]
    for _ in range(10):
        end_pause(admin, definition)
        at = admin.value(
            "update job_definitions set next_run_at = statement_timestamp() where id = %s returning next_run_at::text",
            definition,
        )
        query = TICK.format(id=definition, at=f"timestamptz '{at}'")
        done = [meanwhile.submit(client.sql, query) for client in clients]
        done += [meanwhile.submit(client.sql, "select update_circuits()") for client in clients]
        for each in done:
            each.result()
        admin.sql(query)  # each of them may have skipped the locked schedule
        probe = circuit(admin, definition).probe
        assert admin.column("select id from job_runs where status = 'queued'") == [probe]
        end(worker, probe, dead=True)
        admin.sql("select update_circuits()")


def test_a_circuit_that_stays_open_is_not_locked(admin: SqlClient, worker: SqlClient) -> None:
    definition = define(admin)
    dead_runs(admin, worker, definition, 3)
    assert admin.value("select update_circuits()") == 1
    locked_by = "select xmax::text from job_definitions where id = %s"
    before = admin.value(locked_by, definition)
    for _ in range(2):
        assert admin.value("select update_circuits()") == 1
        assert admin.value(locked_by, definition) == before
    end_pause(admin, definition)
    end(worker, tick_run(admin, definition), dead=False)
    assert admin.value("select update_circuits()") == 0


def test_a_success_that_commits_late_is_taken_in_its_order(
    admin: SqlClient, worker: SqlClient, other: SqlClient
) -> None:
    """It ended before the third run died, and its transaction commits after the circuit has opened."""
    definition = define(admin)
    dead_runs(admin, worker, definition, 2)
    slow = tick_run(admin, definition)
    (lease,) = other.claim()
    other.sql("begin")
    succeed(other, slow, lease.epoch)
    dead_runs(admin, worker, definition, 1)
    assert tick(admin, definition) == "CircuitOpen"
    other.sql("commit")
    assert tick(admin, definition) == "run"
