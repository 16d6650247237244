"""A row that another transaction has locked delays nothing else: a matrix of SQL functions and locked tables.

Applications and administrators lock rows of job_runs, job_effects, job_definitions and the limits. For these tables,
each public function is called for what is locked and for what is free, in one call where it takes several. It must
neither wait nor fail, and do the free part. For other tables, a bounded wait and an error are enough.
"""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

import psycopg
import pytest

from tests.store.dependencies import after, tick
from wakeboard.store.schema_files import sql_functions

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.store.sql_clients import SqlClient

pytestmark = pytest.mark.every_postgres

LOCKS: Final = {
    "job_runs": "select from job_runs where id <= {last_held} for update",
    "job_effects": "select from job_effects where run_id <= {last_held} for update",
    "job_forever_effects": "select from job_forever_effects where run_id <= {last_held} for update",
    "job_definitions": "select from job_definitions where name like '% held' for update",
    "job_limits": "select from job_limits where key = 'held' or key = 'schedule:' || {schedule_held} for update",
    "declared_limits": "select from declared_limits where key = 'held' for update",
}
TICKS: Final = "'{2026-01-01 02:00Z, 2026-01-02 02:00Z}'"
RANGE: Final = f"{TICKS}, '2026-01-01 02:00Z', '2026-01-02 02:01Z'"
ROWS: Final = 'jsonb_agg(to_jsonb(def) || \'{"spec_hash": "new"}\')::text::jsonb'
BATCH: Final = "array[gen_random_uuid()], '{1}', '{1}', '{1}', '{1}', '{1}', '{20}', array[now()], '{a}', '{0}', '{0}'"
DUE: Final = (
    "array_agg(id order by id), array_agg(generation order by id), array_agg(next_run_at order by id),"
    " array_agg(null::timestamptz), array_agg(next_run_at order by id), array_agg(null::text),"
    " array_agg(id order by id), array_agg(next_run_at order by id), '{}', '{}', '{}', '{}', '{}'"
)
LIMIT: Final = {"max_running": 50, "rate_count": 50, "rate_period_s": 1, "rate_burst": 50}
DECLARE: Final = f"declare_limits('t', '{json.dumps([LIMIT | {'key': key} for key in ('held', 'free')])}')"
WORK: Final = "7, 60, '{default}', '{ping}'"


def status(kind: str, then: str) -> str:
    return f"select status = '{then}' from all_runs where id = {{{kind}_free}}"


# What each public function is called with; then a query that is true if it has done the free part.
# {leased}: the runs of this kind, of which the first is held; {leased_free}: the free one.
CALLS: Final[dict[str, tuple[str, ...]]] = {
    # applications
    "enqueue": ("enqueue('ping', limit_key => 'held', after => array[{waiting_free}])",),
    "enqueue_many": ("enqueue_many('{ping,ping}', '{\"{}\",\"{}\"}', limit_keys => '{held,free}')",),
    "get_run": ("get_run(id, uuid) from all_runs where id = {queued_free}",),
    "cancel_run": ("cancel_run(id, uuid) from all_runs where id = {queued_free}", status("queued", "cancelled")),
    "once": (
        "once(71, id, uuid, 1, 'charge') from job_runs where id = {leased_free}",
        "select count(*) = 1 from job_effects where key = 'charge'",
    ),
    "schedule": (
        "schedule('billing/another', 'ping', cron => '@daily')",
        "select count(*) = 1 from job_definitions where name = 'another'",
    ),
    "unschedule": ("unschedule('billing/another')",),
    "schedule_many": ("""schedule_many('[{"name": "billing/many", "job_type": "ping"}]')""",),
    "unschedule_all": ("unschedule_all('billing/another*')",),
    "list_schedules": ("list_schedules('billing/*')",),
    "pause_schedules": ("pause_schedules('billing/another')",),
    "resume_schedules": ("resume_schedules('billing/another')",),
    "set_misfire_grace": ("set_misfire_grace('5 minutes')",),
    "set_max_schedules": ("set_max_schedules(100)",),
    # administrators
    "cancel": ("cancel({queued})", status("queued", "cancelled")),
    "retry": ("retry({dead})", status("dead", "queued")),
    "discard": ("discard({dead})", "select count(*) = 1 from job_run_history where id = {dead_free}"),
    "revoke": ("revoke({leased})", status("leased", "queued")),
    "replay": ("replay({past})", "select count(*) > 0 from job_runs where trigger = 'replay'"),
    "run_now": ("run_now({schedule_free})", "select count(*) > 0 from job_runs where trigger = 'manual'"),
    "send_test_notification": ("send_test_notification('team')",),
    "silence_alert": (
        "silence_alert('free', now() + '1 h')",
        "select silenced_until > now() from alert_rules where name = 'free'",
    ),
    "pause": (
        "pause(scope) from unnest(array['schedule:' || {schedule_free}, 'backfill:' || {backfill_free}]) as scope",
        "select paused_at is not null from backfills where id = {backfill_free}",
    ),
    "resume": ("resume('schedule:' || {schedule_free})",),
    "set_limit": ("set_limit('free', 7)", "select max_running = 7 from job_limits where key = 'free'"),
    "set_rate_limit": ("set_rate_limit('free', 7, 1, 7)", "select rate_burst = 7 from job_limits where key = 'free'"),
    "declare_limits": (DECLARE.replace("50", "9"), "select max_running = 9 from job_limits where key = 'free'"),
    "set_retention": ("set_retention('30 days', '7 days')",),
    "set_audit_retention": ("set_audit_retention('400 days')",),
    "acknowledge_server_changes": ("acknowledge_server_changes(0)",),
    "confirm_removal": ("confirm_removal('file:none')",),
    "reveal": ("reveal({queued_free}, null, 'payload')",),
    "create_bulk_action": ("create_bulk_action('retry', {dead})",),
    "run_bulk_action_batch": (
        "run_bulk_action_batch(id) from create_bulk_action('retry', {dead})",
        status("dead", "queued"),
    ),
    "cancel_bulk_action": ("cancel_bulk_action(id) from create_bulk_action('retry', {dead})",),
    "plan_backfill": (f"plan_backfill({{other_free}}, {TICKS})",),
    "create_backfill": (
        f"create_backfill({{other_free}}, {RANGE})",
        "select count(*) > 0 from job_runs where definition_id = {other_free}",
    ),
    "cancel_backfill": (
        "cancel_backfill({backfill_free})",
        "select cancelled_at is not null from backfills where id = {backfill_free}",
    ),
    # workers
    "register_worker": ("register_worker(7, 'w', 'p', 'h', '1', '{default}', 1, 60, '{ping}', 100)",),
    "fetch_runs": (
        f"fetch_runs({WORK}, 50)",
        "select bool_and(locked_by = 7) from job_runs where id in ({queued_free}, {limited_free})",
    ),
    "trace_contexts": ("trace_contexts({leased})",),
    "alert_delivery": ("alert_delivery({leased_free})",),
    "renew": (
        "renew(71, 3600, {leased}, '{1,1}', '{1,1}', '{0.5,0.5}')",
        "select progress = 0.5 from job_runs where id = {leased_free}",
    ),
    "complete": ("complete(71, {leased}, '{1,1}')", status("leased", "succeeded")),
    "fail": (
        "fail(71, {leased}, '{1,1}', '{failed,failed}', '{E,E}', '{e,e}', '{s,s}', '{null,null}')",
        status("leased", "failed"),
    ),
    "release": ("release(71, {leased}, '{1,1}', '{0,0}', '{true,true}')", status("leased", "queued")),
    "still_leased": ("still_leased(71, {leased}, '{1,1}')",),
    "deregister_worker": ("deregister_worker(71)",),
    "backoff": ("backoff('exponential', 10, 3600, 3)",),
    "run_states": ("run_states({queued})",),
    "effect": (
        "effect(71, {leased_free}, 1, 'mail', true)",
        "select finished_at is not null from job_effects where run_id = {leased_free}",
    ),
    "release_effect": ("release_effect('mail free', 'a test')",),
    "effect_forever": (
        "effect_forever(71, {leased_free}, 1, 'invoice', true)",
        "select finished_at is not null from job_forever_effects where key = 'invoice'",
    ),
    "step": (
        "step(71, {leased_free}, 1, 'Send', '1')",
        "select finished_at is not null from job_steps where run_id = {leased_free}",
    ),
    "consume": ("consume(71, {using_free}, 1, 1)",),
    "pause_limit": (
        "pause_limit(71, {using_free}, 1, 60)",
        "select paused_until > now() from job_limits where key = 'free'",
    ),
    "store_logs": (
        f"store_logs({BATCH})",
        "select count(*) = 1 from job_run_logs",
    ),
    "run_results": ("run_results(71, {leased_free}, 1)",),
    # maintenance
    "reap": ("reap(0, 5000, true)", status("expired", "queued")),
    "skip_past_deadline": ("skip_past_deadline()", status("late", "skipped")),
    "due_definitions": ("due_definitions()",),
    "due_schedules": ("due_schedules(now(), 10)",),
    "enqueue_due_ticks": (
        f"enqueue_due_ticks({DUE}) from job_definitions where id = any ({{schedule}})",
        "select count(*) > 0 from job_runs where definition_id = {schedule_free} and trigger = 'tick'",
    ),
    "update_circuits": ("update_circuits()",),
    "update_expectations": ("update_expectations()",),
    "end_pauses": ("end_pauses()",),
    "create_partitions": ("create_partitions()",),
    "drop_partitions": ("drop_partitions()",),
    "delete_expired": ("delete_expired(always => true)", "select count(*) = 0 from job_keys"),
    "enqueue_dependents": (
        "enqueue_dependents()",
        "select run_at <= clock_timestamp() from job_runs where id = {waiting_free}",
        "select count(*) = 1 from job_runs where definition_id = {child_free}",
    ),
    "joins_to_check": ("joins_to_check()",),
    "enqueue_joined_ticks": ("enqueue_joined_ticks('{}', '{}', '{}', '{}', '{}', '{}')",),
    "continue_backfills": ("continue_backfills()",),
    "roll_up": ("roll_up(always => true)",),
    "claim_alert_rules": (
        'claim_alert_rules(\'[{"name": "a", "severity": "info", "interval_s": 0, "definition": {}}]\')',
    ),
    "measure_alert": ("measure_alert('dead')",),
    "record_alert": ("record_alert('a', now(), true)",),
    "record_measured_rules": ("record_measured_rules('{a}', now())",),
    "unmeasured_rules": ("unmeasured_rules('{\"a\": 90}')",),
    "enqueue_heartbeats": ('enqueue_heartbeats(\'[{"name": "a", "every_s": 60}]\')',),
    # operators
    "list_definitions": ("list_definitions('file:t')",),
    "lacks_tick": ("lacks_tick('{}', null)",),
    "taken_by_application": ("taken_by_application('team', 'a')",),
    "sync_definitions": (
        f"sync_definitions('file:t', {ROWS}) from job_definitions as def where id = any ({{other}})",
        "select spec_hash = 'new' from job_definitions where id = {other_free}",
    ),
    "filter_due_definitions": ("filter_due_definitions({schedule})",),
    "remove_definitions": (
        "remove_definitions('file:t', {other})",
        "select removed_at is not null from job_definitions where id = {other_free}",
    ),
    "request_removal": ("request_removal('file:t', 'x', 3)",),
    "suspend_definitions": (
        "suspend_definitions('file:t', {other})",
        "select suspended from job_definitions where id = {other_free}",
    ),
    "pop_changed_definitions": ("pop_changed_definitions()",),
    "run_annotation_action": ("run_annotation_action({schedule_free}, 'run-now', 't')",),
    "acquire_leadership": ("acquire_leadership('k8s:one', 'me', '1', 15)",),
    "release_leadership": ("release_leadership('k8s:one', 1)",),
    "require_leadership": ("require_leadership('k8s:one', term) from acquire_leadership('k8s:one', 'me', '1', 15)",),
    "claim_alert_delivery": ("claim_alert_delivery(7, 'default', '{team}')",),
    "finish_alert_delivery": (
        "finish_alert_delivery(71, {notifying_free}, 1, 'sent')",
        status("notifying", "succeeded"),
    ),
    "report_worker_terminated": ("report_worker_terminated(71, 'OOMKilled')", status("leased", "queued")),
    # reads
    "advance_rate": ("advance_rate(bound, 0) from job_limits as bound",),
    "server_change": ("server_change()",),
    "full_tablespaces": ("full_tablespaces()",),
    "run_facts": ("run_facts(now() - interval '5 minutes', now())",),
    "backlog": ("backlog('{default}')",),
    "schema_state": ("schema_state()",),
    "check_payload": ("check_payload('{}')",),
    "refuse_value": ("refuse_value(null, null)",),
    "refuse_argument": ("where false",),
    "shortened": ("shortened('')",),
    "close_for_move": ("where false",),  # it refuses while another client is connected
}


RUNNING: Final = (
    "status = 'running', attempts = 1, lease_epoch = 1, started_at = now(), locked_until = now() + interval '1 h'"
)
KINDS: Final = {  # of runs: what `enqueue` gets, and how their row is changed
    "queued": ("", ""),
    "late": (", run_at => '2999-01-01'", "start_before = now() - interval '1 s'"),
    "dead": ("", "status = 'dead', dead_at = now()"),
    "quarantined": ("", "crash_count = 2"),
    "limited": (", limit_key => '{side}'", ""),
    "leased": ("", f"{RUNNING}, locked_by = 71"),
    "using": (", limit_key => '{side}'", f"{RUNNING}, locked_by = 71, holds_slot = true"),
    "notifying": ("", f"{RUNNING}, locked_by = 71, job_type = 'wakeboard.alert'"),
    "expired": ("", f"{RUNNING}, locked_by = 72".replace("+ interval '1 h'", "- interval '1 s'")),
    "past": ("", f"{RUNNING}, locked_by = 70"),
    "ended": ("", f"{RUNNING}, locked_by = 70"),
}


def make(admin: SqlClient, side: str) -> dict[str, int]:
    """One thing of each kind; their ids."""
    made = dict[str, int]()
    admin.sql("insert into alert_rules (name, severity, definition) values (%s, 'info', '{}')", side)
    due = {"schedule": "* * * * *", "cron_fields": "{}", "next_run_at": datetime.now(UTC) + timedelta(hours=1)}
    for kind, columns in {"schedule": due, "other": due, "parent": {}, "child": {}}.items():
        policy = "Replace" if kind == "schedule" else "Allow"
        made[kind] = admin.define(f"{kind} {side}", policy, source="file:t", **columns)
    admin.sql("update job_definitions set next_run_at = now() - interval '1 s' where id = %s", made["schedule"])
    admin.sql("select run_now(%s)", made["schedule"])
    after(admin, made["child"], f"parent {side}")
    made["backfill"] = admin.value(f"select id from create_backfill(%s, {RANGE})", made["other"])
    for kind, (arguments, change) in KINDS.items():
        made[kind] = admin.value(f"select id from enqueue('ping'{arguments.format(side=side)})")
        if kind == "ended":
            made["waiting"] = admin.enqueue(after=[made[kind]])
        if change:
            admin.sql(f"update job_runs set {change} where id = {made[kind]}")
    made["parents tick"] = tick(admin, made["parent"])
    admin.sql(f"update job_runs set {RUNNING}, locked_by = 70 where id = %s", made["parents tick"])
    for kind in ("past", "ended", "parents tick"):
        assert admin.column("select complete(70, %s, '{1}')", [made[kind]]) == []
    admin.sql("select effect(71, %s, 1, 'mail'), step(71, %s, 1, 'Send')", made["leased"], made["leased"])
    admin.sql("select effect_forever(71, %s, 1, %s)", made["leased"], f"mail {side}")
    return made


@pytest.fixture
def names(admin: SqlClient, worker: SqlClient) -> dict[str, object]:
    admin.sql("create or replace function lease_step() returns bigint language sql as 'select 1::bigint'")
    for function in ("lock_runs", "lock_definitions"):  # administrators wait for what they name
        admin.sql(f"alter function {function} set lock_timeout = '100ms'")
    worker.register()
    admin.sql(f"select {DECLARE}")
    held = make(admin, "held")
    names: dict[str, object] = {"last_held": admin.value("select last_value from job_runs_id_seq")}
    free = make(admin, "free")
    for kind in held:
        names |= {kind: f"'{{{held[kind]},{free[kind]}}}'", f"{kind}_held": held[kind], f"{kind}_free": free[kind]}
    worker.sql("set statement_timeout = '1900ms'")  # less than the lock_timeout of most functions
    return names


@pytest.mark.parametrize("table", LOCKS)
def test_a_held_lock_delays_nothing_else(
    worker: SqlClient, other: SqlClient, names: Mapping[str, object], table: str
) -> None:
    other.sql("begin")
    other.sql(fill(LOCKS[table], names))
    wrong = {function: found for function in CALLS if (found := problem(worker, function, names))}
    assert wrong == {}


def test_the_matrix_has_every_public_function() -> None:
    assert {one.name for one in sql_functions() if one.roles} == set(CALLS)


@pytest.mark.parametrize(
    ("table", "call"),
    [
        ("job_runs", "step(71, {leased_held}, 1, 'Send')"),
        ("job_effects", "effect(71, {leased_held}, 1, 'mail', true)"),
        ("job_forever_effects", "effect_forever(71, {leased_free}, 1, 'mail held')"),
        ("job_limits", "consume(71, {using_held}, 1, 1)"),
        ("job_limits", "pause_limit(71, {using_held}, 1, 60)"),
    ],
)
def test_a_handlers_call_for_a_locked_row_fails_at_once(
    worker: SqlClient, other: SqlClient, names: Mapping[str, object], table: str, call: str
) -> None:
    """All handlers of a worker share one connection."""
    other.sql("begin")
    other.sql(fill(LOCKS[table], names))
    with pytest.raises(psycopg.errors.LockNotAvailable, match="could not obtain lock on row"):  # not: lock timeout
        worker.sql(f"select {fill(call, names)}")


def fill(query: str, names: Mapping[str, object]) -> str:
    return re.sub(r"\{(\w+)\}", lambda found: str(names.get(found[1], found[0])), query)


def problem(client: SqlClient, function: str, names: Mapping[str, object]) -> str | None:
    """What is wrong with a call, which is rolled back."""
    call, *check = [fill(query, names) for query in CALLS[function]]
    try:
        with client.conn.transaction(force_rollback=True):
            client.sql(f"select {call}")
            return None if all(client.value(query) for query in check) else "it did not do the free part"
    except psycopg.Error as error:
        return str(error).splitlines()[0]
