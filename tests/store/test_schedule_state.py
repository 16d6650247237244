"""What a schedule's status is computed from."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import anyio
import pytest
from psycopg.types.json import Jsonb

from wakeboard.store.connection import connect
from wakeboard.views.queries.schedule_state import ScheduleState, schedule_states

if TYPE_CHECKING:
    from tests.store.sql_clients import SqlClient


def run_of(admin: SqlClient, definition: int) -> int:
    run = admin.enqueue()
    admin.sql("update job_runs set definition_id = %s where id = %s", definition, run)
    return run


def facts(client: SqlClient, *ids: int) -> list[ScheduleState]:
    async def ask() -> list[ScheduleState]:
        async with await connect(client.dsn) as conn:
            return await schedule_states(conn, ids)

    return anyio.run(ask)


def test_live_runs_are_counted_by_status(admin: SqlClient, worker: SqlClient) -> None:
    definition = admin.define()
    runs = [run_of(admin, definition) for _ in range(4)]
    taken = {lease.id: lease for lease in worker.claim(3)}
    worker.fail(taken[runs[0]], outcome="discarded", error_type="Gone", error="no such customer")
    worker.fail(taken[runs[1]])
    (found,) = facts(admin, definition)
    assert (found.queued, found.running, found.failed, found.dead) == (1, 1, 1, 1)
    assert found.oldest_dead_at is not None
    assert (found.last_run_id, found.last_result) == (runs[0], "dead")
    assert found.last_failure_run_id in runs[:2]


def test_last_run_last_success_and_last_failure_may_be_three(admin: SqlClient, worker: SqlClient) -> None:
    definition = admin.define()
    well, badly = run_of(admin, definition), run_of(admin, definition)
    leases = {lease.id: lease for lease in worker.claim(2)}
    worker.complete(leases[well])
    worker.fail(leases[badly], error_type="HttpError", error="503")
    cancelled = run_of(admin, definition)
    admin.cancel(cancelled)
    (found,) = facts(admin, definition)
    assert (found.last_run_id, found.last_result) == (cancelled, "cancelled")
    assert found.last_success_at is not None
    assert (found.last_failure_run_id, found.last_failure_type, found.last_failure_message) == (
        badly,
        "HttpError",
        "503",
    )


def test_an_unknown_job_type_gets_a_suggestion_for_a_month(admin: SqlClient) -> None:
    admin.sql(
        "insert into worker_types (job_type, queue, pool, last_known_at) values"
        " ('send_mail', 'default', 'default', now()), ('monthly', 'reports', 'reports', now() - interval '31 days')"
    )
    admin.sql("select delete_expired(always => true)")
    known, typo, unserved = (
        admin.define("known", job_type="monthly", queue="reports"),
        admin.define("typo", job_type="send_mial"),
        admin.define("unserved", job_type="send_mail", queue="defualt"),
    )
    found = {state.id: state for state in facts(admin, known, typo, unserved)}
    assert found[known].type_known_at is not None
    assert (found[typo].type_known_at, found[typo].type_meant) == (None, "send_mail")
    assert found[typo].queue_known_at is not None
    assert (found[unserved].queue_known_at, found[unserved].type_meant) == (None, None)


@pytest.mark.parametrize(
    ("job_type", "payload", "offers", "missing"),
    [
        ("http", {"url": "https://api.example.com/x"}, ["*.example.com", "db:1"], None),
        (
            "http",
            {"url": "https://api.exmple.com/x"},
            ["api.example.com"],
            "api.exmple.com (httpAllowedHosts). Did you",
        ),
        ("http", {"url": "http://db:2"}, ["db:1"], "may call db (httpAllowedHosts)"),
        ("http", {"url": {"$secret": "hook"}}, ["db:1"], None),
        ("command", {"command": "bakcup"}, ["backup"], "has the command bakcup (commands). Did you mean backup?"),
        ("command", {"command": "backup"}, ["backup"], None),
        ("job", {"cronJob": "x"}, ["shop"], "runs CronJobs of the namespace billing (jobs.namespaces)."),
        ("job", {"cronJob": "x"}, ["*"], None),
        ("job", {"cronJob": "x"}, ["billing"], None),
        ("job", {"cronJob": "x"}, ["billing/x"], None),
        ("job", {"cronJob": "repotr"}, ["billing/report"], "billing has no CronJob repotr. Did you mean report?"),
        ("job", {"cronJob": "x"}, ["billing/"], "The namespace billing has no CronJob x."),
        ("job", {"cronJob": "x"}, None, None),
    ],
)
def test_what_no_worker_of_the_queue_offers_is_named(
    admin: SqlClient, job_type: str, payload: dict[str, Any], offers: list[str] | None, missing: str | None
) -> None:
    definition = admin.define(job_type=job_type, payload=Jsonb(payload))
    register = "select register_worker(%s, 'w', %s, 'h', '1', '{default}', 1, 60, %s, offers => %s)"
    for worker, pool, offered in ((1, "a", ["other"]), (2, "b", ["old"]), (3, "b", offers)):
        admin.sql(register, worker, pool, [job_type], Jsonb({job_type: offered}) if offered else None)
    (found,) = facts(admin, definition)
    assert (found.missing_offer is None) if missing is None else (missing in (found.missing_offer or ""))


def test_the_widest_pause_is_reported(admin: SqlClient) -> None:
    definition = admin.define()
    admin.sql("select pause('queue:default', 'moving house')")
    (found,) = facts(admin, definition)
    assert (found.paused, found.pause_reason) == ("queue:default", "moving house")


def test_the_named_schedules_are_returned_and_removed_ones_marked(admin: SqlClient) -> None:
    kept, gone, _ = admin.define(), admin.define("gone"), admin.define("another")
    admin.sql("update job_definitions set removed_at = now() where id = %s", gone)
    assert {found.id: found.removed for found in facts(admin, kept, gone, 12345)} == {kept: False, gone: True}


def test_states_are_read_without_jit_compilation(admin: SqlClient) -> None:
    """Servers whose tables are large would compile the query each time, which takes ten times as long as to run it."""
    plans: list[str] = []

    async def ask() -> None:
        async with await connect(admin.dsn) as conn:
            conn.add_notice_handler(lambda notice: plans.append(notice.message_primary or ""))
            for setting in ("jit = on", "jit_above_cost = 0", "client_min_messages = log"):
                await conn.execute(f"set {setting}".encode())
            await conn.execute("load 'auto_explain'")
            await conn.execute("set auto_explain.log_min_duration = 0")
            await conn.execute("set auto_explain.log_analyze = on")
            await schedule_states(conn, [1])

    anyio.run(ask)
    assert "job_run_history" in plans[-1]
    assert "JIT:" not in plans[-1]
