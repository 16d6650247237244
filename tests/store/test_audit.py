"""Each accepted action of an administrator leaves an audit row, in the transaction of the action; nothing else does."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from tests.store.test_admin_actions import dead

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.store.sql_clients import SqlClient

BY = "reason => 'the invoice was wrong', actor => 'ada@example.com', source => 'board'"


def written(admin: SqlClient) -> list[Any]:
    """All audit rows, oldest first."""
    return admin.sql("select * from audit_log order by id")


def only_row(admin: SqlClient) -> Any:
    (row,) = written(admin)
    return row


def finished(admin: SqlClient, worker: SqlClient) -> int:
    run = admin.enqueue(payload={"n": 1})
    worker.complete(worker.claims(run))
    return run


# -- one row for each thing that an action changes ---------------------------------------------------------------------


def cancel_queued(admin: SqlClient, _: SqlClient) -> tuple[int, dict[str, Any]]:
    run = admin.enqueue()
    admin.sql(f"select cancel(array[%s::bigint], {BY})", run)
    return run, {"answer": "cancelled", "status_before": "queued"}


def cancel_running(admin: SqlClient, worker: SqlClient) -> tuple[int, dict[str, Any]]:
    run = admin.enqueue()
    worker.claims(run)
    admin.sql(f"select cancel(array[%s::bigint], {BY})", run)
    return run, {"answer": "requested", "status_before": "running"}


def retry_dead(admin: SqlClient, worker: SqlClient) -> tuple[int, dict[str, Any]]:
    run = dead(admin, worker)
    admin.sql(f"select retry(array[%s::bigint], {BY})", run)
    return run, {"answer": "queued", "status_before": "dead"}


def discard_dead(admin: SqlClient, worker: SqlClient) -> tuple[int, dict[str, Any]]:
    run = dead(admin, worker)
    admin.sql(f"select discard(array[%s::bigint], {BY})", run)
    return run, {"answer": "discarded", "status_before": "dead"}


def replay_finished(admin: SqlClient, worker: SqlClient) -> tuple[int, dict[str, Any]]:
    run = finished(admin, worker)
    admin.sql(f"select replay(array[%s::bigint], {BY})", run)
    return run, {"answer": "queued", "status_before": "succeeded", "other_payload": False}


@pytest.mark.parametrize("act", [cancel_queued, cancel_running, retry_dead, discard_dead, replay_finished])
def test_an_action_says_who_did_it_when_why_and_from_where(
    admin: SqlClient, worker: SqlClient, act: Callable[[SqlClient, SqlClient], tuple[int, dict[str, Any]]]
) -> None:
    run, detail = act(admin, worker)
    row = only_row(admin)
    assert (row.action, row.run_id, row.detail) == (act.__name__.partition("_")[0], run, detail)
    assert (row.actor, row.source, row.reason) == ("ada@example.com", "board", "the invoice was wrong")
    assert row.database_user == admin.value("select session_user")
    assert row.run_uuid == admin.value("select uuid from all_runs where id = %s", run)
    assert admin.value("select at between now() - interval '1 min' and clock_timestamp() from audit_log")


def test_a_pause_and_its_end_name_their_scope_and_schedule(admin: SqlClient) -> None:
    schedule = admin.define()
    admin.sql(f"select pause('schedule:{schedule}', {BY})")
    admin.sql("select resume(%s, 'fixed')", f"schedule:{schedule}")
    paused, resumed = written(admin)
    assert (paused.action, paused.scope, paused.schedule) == ("pause", f"schedule:{schedule}", "billing/report")
    assert (resumed.action, resumed.definition_id, resumed.reason) == ("resume", schedule, "fixed")
    assert resumed.detail["pause_reason"] == "the invoice was wrong"


def test_a_limit_is_written_with_its_value_before_and_after(admin: SqlClient) -> None:
    for value in ("3", "3", "null"):
        admin.sql(f"select set_limit('printer', {value}, {BY})")
    assert [(row.scope, row.detail) for row in written(admin)] == [
        ("printer", {"before": None, "after": 3}),
        ("printer", {"before": 3, "after": None}),
    ]


def test_a_changed_retention_is_written_once(admin: SqlClient) -> None:
    for _ in range(2):
        admin.sql("select set_retention('40 days', '7 days')")
    row = only_row(admin)
    assert (row.action, row.detail) == (
        "set_retention",
        {
            "before": {"history_days": 30, "keys_days": 7, "dead_days": None, "effects_days": None, "logs_days": 7},
            "after": {"history_days": 40, "keys_days": 7, "dead_days": None, "effects_days": None, "logs_days": 7},
        },
    )


@pytest.mark.parametrize(("action", "done"), [("retry-dead", "retry"), ("discard-dead", "discard")])
def test_an_annotation_is_the_reason_of_the_action_that_it_requests(
    admin: SqlClient, worker: SqlClient, action: str, done: str
) -> None:
    schedule = admin.define()
    run = admin.value("select id from run_now(%s)", schedule)
    worker.fail(worker.claims(run), outcome="discarded")
    for _ in range(2):
        admin.sql("select run_annotation_action(%s, %s, 'monday')", schedule, action)
    _, row = written(admin)
    assert (row.action, row.source, row.run_id, row.reason) == (done, "kubectl", run, f"wakeboard.dev/{action}=monday")


def test_plain_sql_is_written_with_the_database_user_as_its_actor(admin: SqlClient) -> None:
    admin.cancel(admin.enqueue())
    row = only_row(admin)
    assert (row.actor, row.source, row.reason) == (admin.value("select session_user"), "sql", "")


# -- nothing else writes one -------------------------------------------------------------------------------------------


def test_what_is_refused_or_changes_nothing_writes_no_row(admin: SqlClient, worker: SqlClient) -> None:
    done, given_up, running = finished(admin, worker), dead(admin, worker), admin.enqueue()
    worker.claims(running)
    queued = admin.enqueue()
    schedule = admin.define(policy="Forbid")
    admin.cancel(running)
    admin.sql("select pause('all')")
    admin.sql("select run_now(%s)", schedule)
    before = len(written(admin))
    admin.cancel(running, done, given_up, 999)
    admin.retry(queued, running, done, 999)
    admin.discard(queued, running, done, 999)
    for run in (queued, running, given_up, 999):
        admin.replay(run)
    admin.sql("select pause('all'), resume('queue:x'), confirm_removal('file:x'), cancel_bulk_action(1)")
    admin.sql("select run_now(%s) union all select run_now(999)", schedule)
    assert len(written(admin)) == before


def test_an_action_and_its_audit_row_are_rolled_back_together(
    admin: SqlClient, worker: SqlClient, database: str
) -> None:
    given_up, queued, done, schedule = (
        dead(admin, worker),
        admin.enqueue(job_type="other"),
        finished(admin, worker),
        admin.define(),
    )
    calls = (
        f"retry(array[{given_up}::bigint])",
        f"cancel(array[{queued}::bigint])",
        f"replay(array[{done}::bigint])",
        f"run_now({schedule})",
        "pause('all')",
        "resume('all')",
        "set_limit('k', 4)",
        "set_rate_limit('k', 4)",
        f"create_bulk_action('retry', array[{given_up}::bigint])",
    )
    with psycopg.connect(database, options="-c search_path=wakeboard") as conn:
        for call in calls:
            conn.execute(f"select {call}".encode())
        assert conn.execute("select count(*) from audit_log").fetchone() == (len(calls),)
        conn.rollback()
    assert written(admin) == []
    assert admin.status(given_up) == "dead"


def test_each_reveal_of_masked_values_is_a_row(admin: SqlClient, worker: SqlClient) -> None:
    live, past, schedule = admin.enqueue(job_type="other"), finished(admin, worker), admin.define()
    shown = [
        admin.sql(f"select reveal({call}, 'the bank asks', 'ada', 'board')")[0][0]
        for call in (
            f"{live}, null, 'payload'",
            f"{past}, null, 'result'",
            f"null, {schedule}, 'payload'",
            "99, null, 'x'",
        )
    ]

    assert shown == [True, True, True, False]
    assert admin.sql(
        "select actor, source, action, run_id, definition_id, reason, detail ->> 'what' from audit_log order by id"
    ) == [
        ("ada", "board", "reveal", live, None, "the bank asks", "payload"),
        ("ada", "board", "reveal", past, None, "the bank asks", "result"),
        ("ada", "board", "reveal", None, schedule, "the bank asks", "payload"),
    ]


# -- bounds ------------------------------------------------------------------------------------------------------------

ACTIONS = {
    "cancel": "cancel(array[{run}::bigint], ",
    "retry": "retry(array[{run}::bigint], ",
    "discard": "discard(array[{run}::bigint], ",
    "replay": "replay(array[{run}::bigint], ",
    "run_now": "run_now({schedule}, ",
    "send_test_notification": "send_test_notification('team', ",
    "silence_alert": "silence_alert('known', now() + '1 h', ",
    "pause": "pause('all', ",
    "resume": "resume('queue:held', ",
    "set_limit": "set_limit('k', 5, ",
    "set_rate_limit": "set_rate_limit('k', 5, 1, 1, ",
    "create_bulk_action": "create_bulk_action('retry', '{{}}', ",
    "reveal": "reveal({run}, null, 'payload', ",
    "create_backfill": "create_backfill({timed}, '{{2026-01-01Z}}', '2026-01-01Z', '2026-02-01Z', ",
    "cancel_backfill": "cancel_backfill(1, ",
}


@pytest.fixture(params=ACTIONS)
def accepted(request: pytest.FixtureRequest, admin: SqlClient, worker: SqlClient) -> str:
    """The beginning of a call that is accepted."""
    held, timed = admin.define(), admin.define("timed", schedule="0 0 * * *", cron_fields="-")
    admin.sql("select pause(%s)", f"schedule:{timed}")
    for day in ("2026-02-01", "2026-02-02"):  # backfills 1 and 2
        admin.sql(f"select create_backfill(%s, '{{{day}Z}}', '2026-02-01Z', '2026-03-01Z')", timed)
    admin.sql("select pause('backfill:2') as one, pause('queue:held') as two")
    admin.sql("insert into alert_rules (name, severity, definition) values ('known', 'info', '{}')")
    run = finished(admin, worker) if request.param == "replay" else dead(admin, worker)
    if request.param == "cancel":
        run = admin.enqueue()
    admin.sql("truncate audit_log")
    return "select " + ACTIONS[request.param].format(run=run, schedule=held, timed=timed)


def test_the_words_of_an_action_are_bounded(admin: SqlClient, accepted: str) -> None:
    bounds = r"^actor is .*; write 1 to 256 characters, no control characters"
    for actor in ("", "a\nb", "x" * 257):
        with pytest.raises(psycopg.DatabaseError, match=bounds):
            admin.sql(f"{accepted}actor => %s)", actor)
    with pytest.raises(psycopg.DatabaseError, match=r'^source is "elsewhere"; write cli, board, kubectl, up or sql'):
        admin.sql(f"{accepted}source => 'elsewhere')")
    assert written(admin) == []
    admin.sql(f"{accepted}reason => repeat('é', 300))")
    assert only_row(admin).reason == "é" * 200


# -- payloads ----------------------------------------------------------------------------------------------------------


def test_a_payload_that_no_run_may_have_creates_nothing(admin: SqlClient, worker: SqlClient) -> None:
    run, schedule = finished(admin, worker), admin.define()
    for payload, problem in (("3", "neither an object nor a list"), ('{"n": 9007199254740993}', "beyond 2^53")):
        for call in (f"replay(array[{run}::bigint], %s)", f"run_now({schedule}, %s)"):
            with pytest.raises(psycopg.DatabaseError, match=problem.replace("^", r"\^")):
                admin.sql(f"select {call}", payload)
    assert admin.value("select count(*) from job_runs") == 0


# -- retention ---------------------------------------------------------------------------------------------------------


def test_rows_older_than_400_days_are_deleted(admin: SqlClient) -> None:
    for _ in range(2):
        admin.cancel(admin.enqueue())
    admin.sql("update audit_log set at = now() - interval '399 days'")
    admin.sql("select delete_expired(always => true)")
    assert len(written(admin)) == 2
    admin.sql("update audit_log set at = now() - interval '401 days' where id = (select min(id) from audit_log)")
    assert admin.value("select delete_expired(always => true)") == 1
    assert len(written(admin)) == 1
