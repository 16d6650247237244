"""Each argument of each SQL function is bounded: a function works as documented, or says in one sentence what to write.

The table is the catalogue of the database, so a new function or argument is called without a change here. An argument
with a new name or type needs a valid value in VALID.
"""

from __future__ import annotations

import re
from contextlib import closing
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import psycopg
import pytest

from wakeboard.store.schema_files import sql_functions

if TYPE_CHECKING:
    from collections.abc import Iterator


WORKER: Final = 71
SOURCE: Final = "file:t"
DUE: Final = (
    "insert into wakeboard.job_definitions"
    " (source, namespace, name, spec_hash, job_type, schedule, cron_fields, next_run_at)"
    " values ('{}', 't', 'due', 'x', 'ping', '* * * * *', '', date_trunc('second', now() - interval '1 s'))"
)

ACTIONS: Final = (
    *("cancel", "retry", "discard", "revoke", "replay", "run_now", "pause", "resume", "set_limit", "set_rate_limit"),
    *("reveal", "send_test_notification", "silence_alert"),
    *("create_backfill", "cancel_backfill"),
)
ACTIONS_ON_MANY: Final = ("create_bulk_action", "cancel_bulk_action")

# By function and argument, or by argument: SQL for a value with which the function does its work.
VALID: Final = {
    "fetch_runs.state": "null",
    "alone": "false",
    "bound": "(select bound from wakeboard.job_limits as bound limit 1)",
    "limited_count": "5",
    "schedule.name": "'team/report'",
    "unschedule.name": "'team/report'",
    "taken_by_application.namespace": "'team'",
    "taken_by_application.name": "'report'",
    "schedules": """'[{"name": "team/report", "job_type": "ping"}]'""",
    "pattern": "'team/*'",
    "list_schedules.after": "'team/a'",
    "set_max_schedules.count": "9",
    "shortened.value": "'a'",
    "shortened.most": "60",
    "set_misfire_grace.grace": "'5 minutes'",
    "cron": "'@daily'",
    "every": "null",
    "schedule.at": "null",
    "starts_at": "'2031-01-01 00:00Z'",
    "ends_at": "'2032-01-01 00:00Z'",
    "time_zone": "'Europe/Lisbon'",
    "concurrency_policy": "'Queue'",
    "catch_up": "'All'",
    "catch_up_limit": "7",
    "starting_deadline_s": "60",
    "jitter_s": "5",
    "dst_gap": "'Skip'",
    "dst_overlap": "'Both'",
    "suspended": "false",
    "suspend_after_dead": "3",
    "expect_success_within_s": "60",
    "alert_after_missed": "2",
    "finish_alert_delivery.outcome": "'failed'",
    "finish_alert_delivery.delay_s": "1",
    "finish_alert_delivery.result": "'{}'",
    "error_type": "'E'",
    "error": "'no'",
    "finish_alert_delivery.run_id": "999",
    "claimed_at": "now()",
    "record_measured_rules.names": "'{r}'",
    "condition": "'dead'",
    "heartbeats": "'[]'",
    "is_firing": "true",
    "job_type_pattern": "null",
    "notification": "'open'",
    "queue_pattern": "null",
    "receiver": "'ops'",
    "receivers": "'{ops}'",
    "rule": "'r'",
    "unmeasured_rules.rules": """'{"r": 90}'""",
    "rules": """'[{"name": "r", "severity": "warning", "interval_s": 15, "definition": {"dead": 1}}]'""",
    "schedule_pattern": "null",
    "share": "0.95",
    "span": "'1 hour'",
    "summary": "'dead runs'",
    "examples": "'{a}'",
    "record_alert.value": "1",
    "acquire_leadership.lease_s": "15",
    "acquire_leadership.problem": "'refused'",
    "all_types": "'{ping}'",
    "action": "'run-now'",
    "after bigint[]": "'{1}'",
    "after_uuids": "array(select uuid from wakeboard.job_runs where id = 1)",
    "after jsonb": "'[[1]]'",
    "enqueue_joined_ticks.definitions": "'{1}'",
    "enqueue_joined_ticks.ticks": "array[statement_timestamp()]",
    "enqueue_joined_ticks.since": "array[statement_timestamp()]",
    "owners": "'{1}'",
    "parents": "'{1}'",
    "parent_ticks": "array[statement_timestamp()]",
    "after_id bigint": "0",
    "newest": "0",
    "acquire_leadership.seen": "null",
    "offers": """'{"http": ["api.example.com"]}'""",
    "after_run_at timestamp with time zone": "'-infinity'",
    "ages_s": "'{1}'",
    "always": "true",
    "attempts": "3",
    "backoff": "'fixed'",
    "backoff_base_s": "1",
    "backoff_cap_s": "2",
    "base_s": "1",
    "by_minute": "true",
    "cap_s": "2",
    "capacity": "1",
    "cause": "'OOMKilled'",
    "client_pid": "pg_backend_pid()",
    "complete.results": "'{\"1\": 2}'",
    "count": "10",
    "counted": "'{true}'",
    "cron_fields": "'1 1 1 fffffffe 1ffe 7f - -'",
    "cursors": "array(select next_run_at from wakeboard.job_definitions)",
    "dead": "'30 days'",
    "dead_retention": "'30 days'",
    "definition": "(select id from wakeboard.job_definitions)",
    "delays_s": "'{1}'",
    "detail": "'exit code 1'",
    "done": "false",
    "effects": "'90 days'",
    "dropped_from": "'{1}'",
    "dropped_to": "'{1}'",
    "first_ats": "array[statement_timestamp()]",
    "first_lines": "'{1}'",
    "last_lines": "'{1}'",
    "levels": "'{20}'",
    "lines": r"array['\x5b5d'::bytea]",
    "logs": "'7 days'",
    "run_uuids": "array(select uuid from wakeboard.all_runs where id = 1)",
    "sequences": "'{1}'",
    "store_logs.attempts": "'{1}'",
    "epoch": "(select lease_epoch from wakeboard.all_runs where id = 1)",
    "epochs": "array(select lease_epoch from wakeboard.all_runs where id = 1)",
    "error_types": "'{ValueError}'",
    "errors": "'{null}'",
    "fail.errors": "'{boom}'",
    "generations": "'{1}'",
    "history": "'30 days'",
    "history_retention": "'30 days'",
    "holder": "'operator-1'",
    "host": "'here'",
    "idempotency_key": "'key'",
    "idempotency_keys": "'{key}'",
    "if_exists": "'keep'",
    "ids": "'{1}'",
    "enqueue_due_ticks.ids": "array(select id from wakeboard.job_definitions)",
    "job_type": "'ping'",
    "job_types": "'{ping}'",
    "key": "'printer'",
    "key_retention": "'7 days'",
    "keys": "'7 days'",
    "lease_s": "60",
    "limit_key": "'printer'",
    "limits": """'[{"key": "printer", "max_running": 2}]'""",
    "program": "'sql'",
    "limit_keys": "'{printer}'",
    "burst": "10",
    "max_attempts": "2",
    "max_running": "2",
    "max_timeout_s": "600",
    "max_workers": "100",
    "min_interval": "'1 s'",
    "name": "'a name'",
    "names_hash": "'abc'",
    "next_cursors": "array[statement_timestamp() + interval '1 h']",
    "next_run_at": "now()",
    "only_definition": "1",
    "outcomes": "'{failed}'",
    "payload": "'{\"a\": 1}'",
    "pod": "'worker-1'",
    "pod_uid": "'c0ffee'",
    "payloads": "array['{\"a\": 1}']::jsonb[]",
    "pause_s": "1",
    "pool": "'default'",
    "priorities": "'{3}'",
    "priority": "3",
    "rate_count": "60",
    "rate_period_s": "60",
    "unique_by": "null",
    "unique_for": "null",
    "units": "2",
    "progresses": "'{0.5}'",
    "messages": "'{half}'",
    "steps": """'[{"id": 1, "name": "import", "progress": 0.5}]'""",
    "queue": "'default'",
    "queues": "'{default}'",
    "reason": "'why'",
    "reasons": "'{worker_stopped}'",
    "record_only": "false",
    "release": "'0.1.0'",
    "result": "'{\"a\": 1}'",
    "retention": "'30 days'",
    "rows": """'[{"namespace": "t", "name": "new", "uid": "", "generation": 1, "spec_hash": "x", "job_type": "ping",
        "payload": {}, "queue": "default", "priority": 3, "schedule": null, "cron_fields": null, "time_zone": "Etc/UTC",
        "dst_gap": "RunAfter", "dst_overlap": "First", "jitter_s": 0, "concurrency_policy": "Allow", "limit_key": null,
        "catch_up": "Latest", "catch_up_limit": 100, "max_attempts": 5, "backoff_strategy": "fixed",
        "backoff_base_s": 1, "backoff_cap_s": 2, "timeout_s": 60, "suspended": false, "tzdata_version": "1"}]'""",
    "run_at": "statement_timestamp()",
    "run_ats": "array[statement_timestamp()]",
    "run_id": "1",
    "run_uuid": "(select uuid from wakeboard.job_runs where id = 1)",
    "scan_limit": "100",
    "scope": "'queue:default'",
    "since": "statement_timestamp() - interval '1 h'",
    "skip_counts": "'{1}'",
    "skip_definitions": "array(select id from wakeboard.job_definitions)",
    "skip_from": "array(select next_run_at from wakeboard.job_definitions)",
    "skip_reasons": "'{Skipped}'",
    "compiled": "'{}'",
    "skip_until": "array(select next_run_at from wakeboard.job_definitions)",
    "slice": "100",
    "source": f"'{SOURCE}'",
    **{f"{name}.source": "'sql'" for name in (*ACTIONS, *ACTIONS_ON_MANY)},
    "acted_through": "'sql'",
    "actor": "'me'",
    "bulk_action_id": "null",
    "again": "true",
    "at_once": "2",
    "backfill": "1",
    "refusal": "'no'",
    "range_begin": "statement_timestamp() - interval '2 days'",
    "range_end": "statement_timestamp()",
    "ticks": "array[date_trunc('hour', statement_timestamp() - interval '1 day')]",
    "create_bulk_action.action": "'retry'",
    "filter": "'status:dead'",
    "stacks": "'{stack}'",
    "strategy": "'fixed'",
    "synced_before": "'infinity'",
    "timed_ids": "'{1}'",
    "started_s_ago": "'{2}'",
    "ended_s_ago": "'{1}'",
    "term": "(select term from wakeboard.leadership)",
    "tick_definitions": "array(select id from wakeboard.job_definitions)",
    "tick_times": "array(select next_run_at from wakeboard.job_definitions)",
    "timeout_s": "60",
    "token": "'1'",
    "traceparent": "'00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01'",
    "tracestate": "'vendor=1'",
    "until": "statement_timestamp()",
    "up_to": "array(select next_run_at from wakeboard.job_definitions)",
    "version": "'0.1.0'",
    "weeks_ahead": "1",
    "what": "'payload'",
    "within_s": "60",
    "worker": str(WORKER),
    "worker_id": str(WORKER),
}

# Values in place of those in VALID: a run has a unique window or an idempotency key.
UNIQUE: Final = {
    "idempotency_key": "null",
    "idempotency_keys": "null",
    "if_exists": "'replace'",
    "unique_by": "'{a}'",
    "unique_for": "60",
}

NUMBERS: Final = ("-1", "0")
INVALID: Final[dict[str, tuple[str, ...]]] = {
    "wakeboard.job_limits": (),  # no caller makes one
    "smallint": (*NUMBERS, "-32768", "32767"),
    "integer": (*NUMBERS, "-2147483648", "2147483647"),
    "bigint": (*NUMBERS, "-9223372036854775808", "9223372036854775807"),
    "real": (*NUMBERS, "'NaN'", "'infinity'", "'-infinity'", "3e38", "-3e38"),
    "double precision": (*NUMBERS, "'NaN'", "'infinity'", "'-infinity'", "1e308", "-1e308"),
    "boolean": (),
    "text": (
        "''",
        "repeat('x', 1000000)",
        "e'a\\nb\\x1b[31m'",
        "'schedule:99999999999999999999'",
        "'queue: x'",
        "'%s'",
        "'{}'",
    ),
    "bytea": ("''",),
    "uuid": ("'00000000-0000-0000-0000-000000000000'",),
    "timestamp with time zone": ("'-infinity'", "'infinity'", "'0001-01-01 BC'", "'294276-12-31 23:59:59+00'"),
    "interval": ("'-1 day'", "'0'", "'178000000 years'", "'-178000000 years'", "'-12000 months 360001 days'"),
    "jsonb": (
        "'null'",
        "'1'",
        "'\"x\"'",
        "'[]'",
        "'{}'",
        "'[1]'",
        "'[{}]'",
        "'[null]'",
        "'[[]]'",
        "'{\"1\": 1e400}'",
        "('[' || repeat('[', 1000) || repeat(']', 1000) || ']')::jsonb",
        "to_jsonb(repeat('x', 2000000))",
        """'[{"namespace": null, "name": null}]'""",
        """'[{"namespace": "t", "name": "x", "priority": 99999999, "next_run_at": "soon"}]'""",
        """'[{"namespace": "t", "name": "x", "generation": "many"}]'""",
    ),
    "wakeboard.backoff_strategy": (),
}
# The first two raise the sentence that the caller asks for, the last one while other clients are connected.
RAISING: Final = frozenset({"refuse_argument", "refuse_value", "close_for_move"})
SENTENCE: Final = frozenset({"22023", "WB001", "WB002", "WB003", "WB004"})

REFUSED: Final = (
    *(
        (f"unschedule({name})", "; write the name of one schedule")
        for name in ("''", "'bulk/1*'", "'Bad NAME*'", "'*/*'", "'a/b/c'")
    ),
    ("fail(71, '{1}', '{1}', '{zap}', '{a}', '{b}', '{c}', '{null}')", 'outcomes is "{zap}"; write an array of'),
    ("fail(71, '{1}', '{1}', '{failed}', '{a}', '{b}', '{c}', '{NaN}')", 'delays_s is "{NaN}"; write an array of'),
    (
        "fail(71, '{1}', '{1}', '{failed,failed}', '{a}', '{b}', '{c}', '{null}')",
        "arrays of fail are null or differ in length",
    ),
    ("release(71, '{1}', '{1}', '{NaN}', '{true}')", 'delays_s is "{NaN}"; write an array of'),
    ("release(71, '{1}', '{1}', '{0}', '{null}')", 'counted is "{NULL}"; write an array of'),
    ("release(71, '{1}', '{1}', '{0}', '{true}', '{zap}')", 'reasons is "{zap}"; write an array of'),
    ("renew(71, 60, '{1}', '{1}', '{NaN}', '{null}')", 'ages_s is "{NaN}"; write an array of'),
    ("renew(71, 60, '{1}', '{1}', '{1}', '{NaN}')", 'progresses is "{NaN}"; write an array of'),
    ("renew(71, -1, '{1}', '{1}', '{1}', '{1}')", "lease_s is -1; write a number of seconds from 1 to 3600"),
    ("complete(0, '{3}', '{0}')", "worker is 0; write the id of a worker, a whole number other than 0"),
    ("pause('queue:a b')", 'scope is "queue:a b"; write all, queue:NAME, schedule:ID or backfill:ID'),
    ("pause('schedule:999')", 'scope is "schedule:999"; write the id of a schedule that exists'),
    ("request_removal('file:t', 'abc', -1)", "count is -1; write a whole number from 0 to 1000000"),
    ("acquire_leadership('file:t', repeat('x', 1000000), '0.1.0', 15)", "holder is"),
    ("acquire_leadership('file:t', 'a', '0.1.0', 301)", "write a number of seconds from 1 to 300"),
    ("register_worker(9, 'w', 'p', 'h', '1', '{q}', 1, 2147483647, '{ping}')", "lease_s is"),
    ("register_worker(9, 'w', 'p', 'h', '1', '{q}', -1, 60, '{ping}')", "capacity is"),
    ("register_worker(9, 'w', 'p', 'h', '1', '{q}', 1, 60, array_fill('t'::text, '{1001}'))", "up to 1000 job types"),
    ("register_worker(9, 'w', 'p', 'h', '1', '{q}', 1, 60, '{a b}')", "job_type is"),
    ("""register_worker(9, 'w', 'p', 'h', '1', '{q}', 1, 60, '{a}', offers => '{"http": [1]}')""", "offers is"),
    ("register_worker(9, 'w', 'p', 'h', '1', '{a b}', 1, 60, '{ping}')", "queue is"),
    ("create_partitions(-1)", "weeks_ahead is 0 to 53"),
    ("report_worker_terminated(7, 'a b')", 'cause is "a b"; write a word of 1 to 63 letters, such as OOMKilled'),
    ("report_worker_terminated(7, 'Error', e'a\\nb')", "write up to 1000 characters, no control characters"),
    ("record_alert('dead', now(), null)", "is_firing and receivers must not be null"),
    ("record_alert('dead', now(), true, value => 'NaN')", "value must be a finite number"),
    ("record_alert('dead', now(), true, examples => '{{a},{b}}')", "examples an array of texts without nulls"),
    ("record_alert('dead', now(), true, examples => '{null}')", "examples an array of texts without nulls"),
    ("record_alert('dead', now(), true, examples => '[0:0]={null}')", "examples an array of texts without nulls"),
    ("enqueue_heartbeats('[]', null)", "queue must not be null"),
    (
        """claim_alert_rules('[{"name": "a", "severity": "info", "interval_s": 9, "definition": {"a": [[[1]]]}}]')""",
        "definition (at most four levels)",
    ),
    ("reap(slice => 0)", "slice is 0; write a whole number from 1 to 1000000"),
    ("fetch_runs(71, null, '{default}', '{ping}', 1)", "lease_s is null; write a number of seconds from 1"),
    ("fetch_runs(71, 60, '{default}', '{ping}', 1, within_s => 'infinity')", 'within_s is "Infinity"; write a number'),
    ("enqueue(null)", "job_type is null; write the name of a job type"),
    ("enqueue('ping', limit_key => 'schedule:4')", 'limit_key is "schedule:4"'),
    ("enqueue_many('{ping}', '{\"{}\"}', limit_keys => '{schedule:4}')", 'limit_key is "schedule:4"'),
    ("enqueue_many('{ping,ping}', '{\"{}\"}')", "differ in length"),
    ("enqueue_many('{ping}', '{\"{}\"}', priorities => '{1,2}')", "differ in length"),
    ("enqueue_many('{null}', array['{}']::jsonb[])", "a job type is null; write a job type for each run"),
    (
        "enqueue_many('{ping}', '{\"{}\"}', idempotency_keys => '{a}', unique_for => 9)",
        "a run has unique_for or an idempotency key, not both; leave one of them out",
    ),
    *[
        (
            f"enqueue_many('{{ping}}', '{{\"{{}}\"}}', after => '{after}')",
            "write for each run null or the ids of runs, such as",
        )
        for after in (
            "{}",
            "[1]",
            '[["1"]]',
            "[[-1]]",
            '[[{"id": 1}]]',
            '[[{"uuid": "a"}]]',
            '[[{"id": 1, "uuid": "a"}]]',
        )
    ],
    ("enqueue('ping', after => '{1}', after_uuids => '{}')", "write for each run of after its uuid or null"),
    ("set_limit(null, 1)", "key is null; write the name of a limit key"),
    ("set_retention(null, '7 days')", "history is null; write an interval, such as 30 days"),
    ("set_misfire_grace(null)", "grace is null; write an interval from 1 second to 1 day, such as 5 minutes"),
    *[
        (f"set_misfire_grace('{grace}')", f'grace is "{grace}"; write an interval from 1 second to 1 day')
        for grace in ("00:00:00", "2 days")
    ],
    ("replay(null)", "ids is null; write an array of"),
    ("schedule_many('{}')", "schedules is {}; write an array of objects, one for each schedule"),
    ("sync_definitions('file:t', '{}')", "rows is {}; write an array of objects, one for each schedule"),
    (
        "run_annotation_action(1, 'explode', 'a')",
        'action is "explode"; write run-now, retry-dead, discard-dead or backfill',
    ),
)


class Argument(NamedTuple):
    """An argument of a function. `type`: the built-in type below its domain."""

    function: str
    name: str
    declared: str
    type: str

    @property
    def valid(self) -> str:
        names = (f"{self.function}.{self.name}", f"{self.name} {self.type}", self.name)
        known = [VALID[name] for name in names if name in VALID]
        assert known, f"write a valid value for the argument {self.name} of {self.function} into VALID"
        return known[0]

    @property
    def invalid(self) -> Iterator[str]:
        yield "null"
        if not self.type.endswith("[]"):
            yield from INVALID[self.type]
            return
        kind = self.type.removesuffix("[]")
        yield "'{}'"
        yield "'{null}'"
        yield f"array_fill(null::{kind}, '{{3}}')"
        for value in (*INVALID[kind][:7], *([] if kind == "jsonb" else [self.element])):
            yield f"array[{value}]::{kind}[]"
            yield f"array_fill(({value})::{kind}, '{{2,2}}')"
            yield f"array_fill(({value})::{kind}, '{{2}}', '{{-7}}')"

    @property
    def element(self) -> str:
        return f"(({self.valid})::{self.type})[1]"


_ARGUMENTS: Final = """
select proname, name, format_type(type, null), format_type(kind.base, null)
  from pg_proc, unnest(proargtypes::oid[], proargnames[:pronargs]) as argument (type, name),
       lateral (with recursive below (type) as (
                  select argument.type
                  union all
                  select typbasetype from below join pg_type on oid = below.type where typtype = 'd'
                ) select type as base from below join pg_type on oid = below.type where typtype <> 'd') as kind
 where pronamespace = 'wakeboard'::regnamespace and proname = any (%s)
 order by proname
"""


def arguments(conn: psycopg.Connection[Any]) -> dict[str, list[Argument]]:
    """Of each function that a role may call, those that there are in this database."""
    callable_names = sorted(
        function.name for function in sql_functions() if function.roles and function.name not in RAISING
    )
    found: dict[str, list[Argument]] = {name: [] for name in callable_names}
    for function, name, declared, base in conn.execute(_ARGUMENTS.encode(), [callable_names]):
        of_elements = base.replace("wakeboard.limit_key_name[]", "text[]")
        found[function].append(Argument(function, name, declared, of_elements))
    return found


@pytest.fixture
def conn(database: str) -> Iterator[psycopg.Connection[Any]]:
    """A store with a leader, a schedule that is due, a leased run (id 1) and a finished one."""
    with closing(psycopg.connect(database)) as conn:
        for statement in (
            "select wakeboard.enqueue('ping'), wakeboard.enqueue('ping')",
            f"select wakeboard.register_worker({WORKER}, 'w', 'p', 'h', '1', '{{default}}', 10, 60, '{{ping}}')",
            f"select wakeboard.fetch_runs({WORKER}, 60, '{{default}}', '{{ping}}', 2)",
            f"select wakeboard.complete({WORKER}, '{{2}}', array[lease_epoch]) from wakeboard.job_runs where id = 2",
            "select wakeboard.enqueue('ping', limit_key => 'printer'), wakeboard.enqueue('ping')",
            f"select wakeboard.acquire_leadership('{SOURCE}', 'operator-1', '0.1.0', 300)",
            DUE.format(SOURCE),
        ):
            conn.execute(statement.encode())
        conn.commit()
        yield conn


def problem(conn: psycopg.Connection[Any], call: str) -> str | None:
    """What is wrong with the error of a call; None: it works, or fails with one sentence of ours. Changes nothing."""
    try:
        conn.execute(call.encode()).fetchall()
    except psycopg.Error as error:
        code, message = error.sqlstate, str(error.diag.message_primary)
        if code == "23514" and error.diag.constraint_name:  # its name is the sentence
            return None if re.search("_is_|_are_|_has_|_serves_", error.diag.constraint_name) else f"{code} {message}"
        fits = code in SENTENCE and "\n" not in message and len(message) < 300 and "(null)" not in message
        return None if fits else f"{code} {message[:200]}"
    finally:
        conn.rollback()
    return None


def call_of(function: str, values: list[str], given: list[Argument]) -> str:
    casts = ", ".join(f"({value})::{argument.type}" for value, argument in zip(values, given, strict=True))
    return f"select * from wakeboard.{function}({casts})"


def problems(conn: psycopg.Connection[Any], function: str, given: list[Argument], valid: list[str]) -> list[str]:
    """The calls with these values, and with one invalid value in place of each of them, that end in another way."""
    calls = [valid]
    for at, argument in enumerate(given):
        calls += [[*valid[:at], value, *valid[at + 1 :]] for value in argument.invalid]
    wrong: list[str] = []
    for values in calls:
        call = call_of(function, values, given)
        if (found := problem(conn, call)) is not None:
            wrong.append(f"{call[:300]}\n    {found}")
    return wrong


def test_every_argument_of_every_function_is_bounded(conn: psycopg.Connection[Any]) -> None:
    wrong: list[str] = []
    for function, given in arguments(conn).items():
        wrong += problems(conn, function, given, [argument.valid for argument in given])
    assert not wrong, "\n".join([f"{len(wrong)} calls:", *wrong])


@pytest.mark.parametrize("function", ["enqueue", "enqueue_many"])
def test_every_argument_of_a_unique_enqueue_is_bounded(conn: psycopg.Connection[Any], function: str) -> None:
    given = arguments(conn)[function]
    valid = [UNIQUE.get(argument.name, argument.valid) for argument in given]
    for _ in range(2):  # the second time, the run exists
        conn.execute(call_of(function, valid, given).encode())
        conn.commit()
    wrong = problems(conn, function, given, valid)
    assert not wrong, "\n".join([f"{len(wrong)} calls:", *wrong])


def refusal(conn: psycopg.Connection[Any], call: str) -> str:
    """The sentence with which a call is refused; the database is as before."""
    with pytest.raises(psycopg.Error) as refused:
        conn.execute(call.encode())
    conn.rollback()
    assert refused.value.sqlstate in SENTENCE
    return str(refused.value.diag.message_primary)


def test_a_value_that_means_nothing_is_refused(conn: psycopg.Connection[Any]) -> None:
    for call, sentence in REFUSED:
        assert sentence in refusal(conn, f"select * from wakeboard.{call}"), call


def test_a_null_means_the_default_when_enqueueing(conn: psycopg.Connection[Any]) -> None:
    given = "null, null, null, null, null, null, null, null, null, null, null"
    columns = (
        "payload, queue, priority, run_at - created_at, limit_key, max_attempts, timeout_s, backoff_strategy,"
        " backoff_base_s, backoff_cap_s"
    )
    query = f"select {columns} from wakeboard.job_runs where id = %s"
    rows = [
        conn.execute(query.encode(), [made[0]]).fetchone()
        for call in (f"enqueue('ping', {given})", "enqueue('ping')")
        if (made := conn.execute(f"select id from wakeboard.{call}".encode()).fetchone())
    ]
    assert rows[0] == rows[1]
