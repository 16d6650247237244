"""One set of bounds: a value beyond them is refused with the same sentence by every way to write it."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from itertools import product
from typing import Any, Literal, cast

import psycopg
import pytest

import wakeboard
from tests.store.test_arguments import VALID
from wakeboard import Job
from wakeboard.errors import InvalidSchedule, InvalidValue, WakeboardError
from wakeboard.schedules.rules.job_schedule import load_job_schedule
from wakeboard.text.canonical_json import canonical_payload, check_payload

WORDS = "write letters, digits, dots, underscores, slashes and hyphens, beginning with a letter or digit, at most"
KEY = "write 1 to 256 characters, no control characters"
BAD_NAMES = ["", "_x", "a b", "a'; drop table x", "\x1b[31m", "-a", "ü", "a\n", "a:b", "\u202ea", "x" * 129]

NUMBER = "beyond 2^53, where other languages lose digits; write numbers like this as strings, for example"
DEEP = 'is nested deeper than 32 levels; pass ids, for example {"report_id": 42}'
LARGE = "bytes, more than 64 KiB (65536); pass ids, not blobs"


def nested(levels: int) -> Any:
    """A payload of so many levels."""
    payload: Any = {}
    for _ in range(levels - 1):
        payload = {"a": payload}
    return payload


GOOD_PAYLOADS: list[Any] = [
    {},
    [],
    nested(32),
    {"a": [2**53, -(2**53), 0.1, 5e-324]},
    {"a": "x" * 65_526},
    {"a": "é" * 32_763},
    {"a": "9" * 5000},
]
BAD_PAYLOADS: list[tuple[Any, str]] = [
    ({"a": [{"id": 2**53 + 1}]}, NUMBER),
    ([-(2**53) - 1], NUMBER),
    ({"a": 10**5000}, NUMBER),
    ({"a": ["x" * 300, 1e300]}, NUMBER),
    (nested(33), DEEP),
    ([nested(2), nested(40)], DEEP),
    (nested(900), DEEP),
    ({"a": "x" * 65_528}, LARGE),
    ({"a": "é" * 32_764}, LARGE),
    (5, 'payload is 5, neither an object nor a list; write for example {"report_id": 42}'),
]


def text_of(payload: Any) -> str:
    """JSON, whatever the number: Python writes none of more than 4,300 digits."""
    return '{"a": 1' + "0" * 5000 + "}" if payload == {"a": 10**5000} else json.dumps(payload)


def refused(conn: psycopg.Connection[Any], statement: str, *values: Any) -> str:
    with pytest.raises(psycopg.Error) as caught:
        conn.execute(statement.encode(), values)
    assert caught.value.sqlstate == "22023"
    return str(caught.value.diag.message_primary)


def test_a_name_that_no_schedule_may_have_is_refused_from_every_client(conn: psycopg.Connection[Any]) -> None:
    for name, (what, longest) in product(BAD_NAMES, (("job_type", 128), ("queue", 63), ("limit_key", 128))):
        given: dict[str, Any] = {"job_type": "ping", what: name}
        with pytest.raises(WakeboardError) as caught:
            wakeboard.enqueue(conn, **given)
        sentence = str(caught.value)
        assert sentence.startswith(f"{what} is ")
        assert sentence.endswith(f"; {WORDS} {longest}")
        with pytest.raises(WakeboardError) as caught:
            wakeboard.enqueue_many(conn, [Job(**given)])
        assert str(caught.value) == (f"jobs[0]: {sentence}" if what == "job_type" else f"jobs[0] (ping): {sentence}")
        if what != "limit_key":
            columns, values = ", ".join(given), list(given.values())
            positions = ", ".join(["%s"] * len(values))
            insert = f"insert into wakeboard.job_runs ({columns}) values ({positions})"
            assert refused(conn, insert, *values) == sentence
        assert "job_type is" in refused(conn, "select * from wakeboard.enqueue_many(array[%s], '{\"{}\"}')", name)


def test_a_key_that_cannot_be_printed_is_refused(conn: psycopg.Connection[Any]) -> None:
    for key in ("", "a\nb", "\x1b]0;x\a", "\x9b31m", "x" * 257):
        jobs = [Job("ping", idempotency_key="a"), Job("ping", idempotency_key=key)]
        with pytest.raises(WakeboardError, match=rf"^jobs\[1\] \(ping\): idempotency_key is .*; {KEY}$"):
            wakeboard.enqueue_many(conn, jobs)
        with pytest.raises(WakeboardError, match=f"^idempotency_key is .*; {KEY}$"):
            wakeboard.enqueue(conn, "ping", idempotency_key=key)


def test_a_key_may_have_spaces_and_letters_of_any_language(conn: psycopg.Connection[Any]) -> None:
    assert wakeboard.enqueue(conn, "ping", idempotency_key="Rechnung für Ω 42").created


def test_a_payload_within_the_bounds_is_accepted_from_every_client(conn: psycopg.Connection[Any]) -> None:
    insert = "insert into wakeboard.job_runs (job_type, payload) values ('ping', %s::jsonb)"
    for payload in GOOD_PAYLOADS:
        assert wakeboard.enqueue(conn, "ping", payload).created
        assert wakeboard.enqueue_many(conn, [Job("ping", payload)])[0].created
        conn.execute(insert, [text_of(payload)])
        check_payload(payload)
        if isinstance(payload, dict):
            canonical_payload(cast("dict[str, Any]", payload))


@pytest.mark.parametrize(("payload", "sentence"), BAD_PAYLOADS, ids=range(len(BAD_PAYLOADS)))
def test_a_payload_beyond_the_bounds_is_refused_from_every_client(
    conn: psycopg.Connection[Any], payload: Any, sentence: str
) -> None:
    insert = "insert into wakeboard.job_runs (job_type, payload) values ('ping', %s::jsonb)"
    assert sentence in refused(conn, insert, text_of(payload))
    assert sentence in refused(conn, "select wakeboard.enqueue('ping', %s::jsonb)", text_of(payload))
    for refusing in (
        lambda: wakeboard.enqueue(conn, "ping", payload),
        lambda: wakeboard.enqueue_many(conn, [Job("ping", payload)]),
        lambda: check_payload(payload),
    ):
        with pytest.raises(WakeboardError) as caught:
            refusing()
        assert sentence in str(caught.value)
    if isinstance(payload, dict):
        with pytest.raises(InvalidSchedule) as problem:
            load_job_schedule(
                {
                    "apiVersion": "wakeboard.dev/v1alpha1",
                    "kind": "JobSchedule",
                    "metadata": {"name": "a"},
                    "spec": {"jobType": "ping", "payload": cast("Any", payload)},
                },
                "a.yaml",
            )
        assert sentence in str(problem.value)


@pytest.mark.parametrize(
    ("payload", "sentence"),
    [
        ({"a": "\ud800"}, "payload.a holds half of a surrogate pair, which is not text; leave it out"),
        ({"a": ["\0"]}, "payload.a[0] holds a NUL character, which Postgres cannot store; leave it out"),
        ({"a": float("nan")}, 'payload.a is nan, which JSON cannot represent; write it in quotes as "nan"'),
        (
            {"a": datetime(2031, 1, 1)},
            "payload.a is 2031-01-01 00:00:00, which JSON cannot represent; write it in quotes",
        ),
    ],
)
def test_what_json_or_postgres_cannot_hold_is_refused_with_its_place(
    conn: psycopg.Connection[Any], payload: Any, sentence: str
) -> None:
    for refusing, place in (
        (lambda: wakeboard.enqueue(conn, "ping", payload), ""),
        (lambda: wakeboard.enqueue_many(conn, [Job("ping"), Job("ping", payload)]), "jobs[1] (ping): "),
        (lambda: check_payload(payload), ""),
    ):
        with pytest.raises(WakeboardError) as caught:
            refusing()
        assert str(caught.value).startswith(place + sentence)


def test_a_backslash_before_u0000_is_no_nul(conn: psycopg.Connection[Any]) -> None:
    assert wakeboard.enqueue(conn, "ping", {"a": "\\u0000"}).created


@pytest.mark.parametrize("text", ["a\0", "\ud800"])
def test_texts_that_cannot_be_sent_are_refused_before(conn: psycopg.Connection[Any], text: str) -> None:
    refusable: list[dict[str, Any]] = [{"queue": text}, {"idempotency_key": text}, {"limit_key": text}]
    for about in refusable:
        with pytest.raises(WakeboardError, match="leave it out"):
            wakeboard.enqueue(conn, "ping", **about)
        with pytest.raises(WakeboardError, match="leave it out"):
            wakeboard.enqueue_many(conn, [Job("ping", **about)])


def test_a_time_without_a_zone_is_refused(conn: psycopg.Connection[Any]) -> None:
    """It would mean another moment in each session's time zone."""
    naive = datetime(2031, 1, 1, 8)
    with pytest.raises(WakeboardError, match="has no time zone; write for example"):
        wakeboard.enqueue(conn, "ping", run_at=naive)
    with pytest.raises(WakeboardError, match="has no time zone; write for example"):
        wakeboard.enqueue_many(conn, [Job("ping"), Job("ping", run_at=naive)])


def test_a_run_has_the_backoff_that_was_asked_for(conn: psycopg.Connection[Any]) -> None:
    wakeboard.enqueue(conn, "ping", backoff="fixed", backoff_base_s=7, backoff_cap_s=8)
    row = conn.execute("select backoff_strategy::text, backoff_base_s, backoff_cap_s from wakeboard.job_runs")
    assert row.fetchone() == ("fixed", 7, 8)
    with pytest.raises(WakeboardError, match=r'^backoff is "slow"; write exponential or fixed$'):
        wakeboard.enqueue(conn, "ping", backoff="slow")  # pyright: ignore[reportCallIssue, reportArgumentType]


BELOW = "backoff_cap_s is 3600, below backoff_base_s 7200; write a backoff_cap_s of at least 7200"


@pytest.mark.parametrize("strategy", ["exponential", "fixed"])
def test_the_longest_pause_is_not_below_the_first(
    conn: psycopg.Connection[Any], strategy: Literal["exponential", "fixed"]
) -> None:
    """As for a schedule's backoff.maxSeconds. Else the run is tried again before its first pause has passed."""
    with pytest.raises(InvalidValue, match=f"^{BELOW}$"):
        wakeboard.enqueue(conn, "ping", backoff=strategy, backoff_base_s=7200)
    call = f"select wakeboard.enqueue('ping', backoff => '{strategy}', backoff_base_s => %s, backoff_cap_s => %s)"
    assert refused(conn, call, 7200, 3600) == refused(conn, call, 7200, None) == BELOW
    assert refused(conn, call, None, 9) == BELOW.replace("7200", "10").replace("3600", "9")
    insert = "insert into wakeboard.job_runs (job_type, backoff_strategy, backoff_base_s) select 'ping', %s, n + 3600"
    above = BELOW.replace("7200", "3601")
    assert refused(conn, f"{insert} from generate_series(0, 1) as n", strategy) == above
    schedules = VALID["rows"].replace('"backoff_base_s": 1', '"backoff_base_s": 5')
    assert refused(conn, f"select wakeboard.sync_definitions('file:t', {schedules})").endswith("_cap_s of at least 5")
    conn.execute(call.encode(), [7200, 7200])
    conn.execute(f"{insert} from generate_series(-1, 0) as n".encode(), [strategy])
    assert conn.execute("select count(*) from wakeboard.job_runs").fetchone() == (3,)


SECONDS = r"a number of seconds from 1 to 2678400 \(31 days\)"


@pytest.mark.parametrize(
    ("argument", "values", "wanted"),
    [
        ("priority", [2**40, 2**70, True, -1], "a whole number from 1 to 5, of which 5 goes first"),
        ("max_attempts", [2**40, 2**70, True, 0, 1001], "a whole number from 1 to 1000"),
        ("timeout_s", [2**40, 2**70, True, 0, 2_678_401], SECONDS),
        ("backoff_base_s", [2**40, 2**70, True, 0, 2_678_401], SECONDS),
        ("backoff_cap_s", [2**40, 2**70, True, 0, 2_678_401], SECONDS),
        ("unique_for", [2**40, 2**70, True, 0, 2_678_401], SECONDS),
        ("after", [2**63, 10**30, True, 0], r"the ids of runs, such as \[12, 13\]"),
        ("run_at", [datetime(9999, 1, 1, tzinfo=UTC), datetime(1969, 1, 1, tzinfo=UTC)], "a time from 1970 to 2999"),
    ],
)
def test_a_number_or_time_beyond_its_bounds_is_named(
    conn: psycopg.Connection[Any], argument: str, values: list[Any], wanted: str
) -> None:
    for value in values:
        given: dict[str, Any] = {argument: [value] if argument == "after" else value}
        sentence = f"{argument} is {re.escape(str(value))}; write {wanted}$"
        with pytest.raises(InvalidValue, match=f"^{sentence}"):
            wakeboard.enqueue(conn, "ping", **given)
        if argument in {"priority", "run_at", "after"}:
            with pytest.raises(InvalidValue, match=rf"^jobs\[0\] \(ping\): {sentence}"):
                wakeboard.enqueue_many(conn, [Job("ping", **given)])
        elif not argument.startswith("backoff"):
            with pytest.raises(InvalidValue, match=f"^{sentence}"):
                wakeboard.enqueue_many(conn, [Job("ping")], **given)


MAY_INSERT = {"job_type", "payload", "queue", "priority", "run_at", "max_attempts"}  # a client, too
OWNER_MAY_INSERT = {
    "uuid",
    "timeout_s",
    "backoff_strategy",
    "backoff_base_s",
    "backoff_cap_s",
}  # bounded by their types
CONSTRAINED = {
    "locked_by": "only_a_running_run_has_a_lease",
    "holds_slot": "only_a_limited_run_with_a_lease_holds_a_slot",
}
VALUES = {  # other than the defaults
    "bigint": "9223372036854775807",
    "integer": "2147483647",
    "boolean": "true",
    "real": "0.5",
    "text": "'schedule:4'",
    "wakeboard.limit_key_name": "'k'",
    "timestamp with time zone": "'infinity'",
    "wakeboard.run_status": "'dead'",
    "wakeboard.run_trigger": "'tick'",
}


def test_a_plain_insert_cannot_set_what_only_a_function_may(conn: psycopg.Connection[Any]) -> None:
    """Not even the owner, who may insert all columns: one such row stops workers, or breaks the lists of runs."""
    columns = conn.execute(
        "select attname, format_type(atttypid, null) from pg_attribute"
        " where attrelid = 'wakeboard.job_runs'::regclass and attnum > 0 and not attisdropped"
    ).fetchall()
    internal = {str(name): str(type_) for name, type_ in columns if name not in MAY_INSERT | OWNER_MAY_INSERT}
    assert len(internal) == len(columns) - len(MAY_INSERT | OWNER_MAY_INSERT)
    others = {
        *{("limit_key", "'schedule:4'"), ("created_at", "'2031-01-01'"), ("attempts", "-1"), ("lease_epoch", "1")},
        ("locked_until", "'1969-12-31 00:00+00'"),  # once let a row pass
    }
    for column, value in [*((name, VALUES[type_]) for name, type_ in internal.items()), *sorted(others)]:
        insert = f"insert into wakeboard.job_runs (job_type, {column}) values ('ping', {value})"
        if column == "id":
            with pytest.raises(
                psycopg.errors.GeneratedAlways, match='cannot insert a non-DEFAULT value into column "id"'
            ):
                conn.execute(insert.encode())
        elif column in CONSTRAINED:  # Postgres checks them first
            with pytest.raises(psycopg.errors.CheckViolation, match=CONSTRAINED[column]):
                conn.execute(insert.encode())
        else:
            has_function = column in {"idempotency_key", "limit_key"}
            assert ("call wakeboard.enqueue" if has_function else "leave the other columns out") in refused(
                conn, insert
            )
    assert conn.execute("select count(*) from wakeboard.job_runs").fetchone() == (0,)


@pytest.mark.parametrize(
    "statement",
    [
        "insert into wakeboard.job_runs (job_type, attempts) {}",
        "insert into wakeboard.job_runs (job_type, attempts) {} on conflict do nothing",
        "with made as (insert into wakeboard.job_runs (job_type, attempts) {}) select 1",
        (
            "merge into wakeboard.job_runs using ({}) as source on false"
            " when not matched then insert (job_type, attempts) values (job_type, attempts)"
        ),
    ],
)
def test_one_wrong_row_of_many_is_refused(conn: psycopg.Connection[Any], statement: str) -> None:
    rows = "select 'ping' as job_type, n / 900 as attempts from generate_series(1, {}) as n"
    assert "leave the other columns out" in refused(conn, statement.format(rows.format(900)))
    conn.execute(statement.format(rows.format(899)).encode())
    assert conn.execute("select count(*) from wakeboard.job_runs").fetchone() == (899,)


def test_a_copy_cannot_set_what_only_a_function_may(conn: psycopg.Connection[Any]) -> None:
    copied = "copy wakeboard.job_runs (job_type, attempts) from stdin"
    with conn.cursor() as cursor:
        with (
            pytest.raises(psycopg.errors.InvalidParameterValue, match="leave the other columns out"),
            cursor.copy(copied) as copy,
        ):
            copy.write("ping\t0\nping\t1\n")
        with cursor.copy(copied) as copy:
            copy.write("ping\t0\nping\t0\n")
    assert conn.execute("select count(*) from wakeboard.job_runs").fetchone() == (2,)


def test_a_plain_insert_may_set_what_describes_the_run(conn: psycopg.Connection[Any]) -> None:
    columns = sorted(MAY_INSERT | OWNER_MAY_INSERT)
    texts = {"job_type": "ping", "payload": "[]", "queue": "mail", "run_at": "2031-01-01Z", "backoff_strategy": "fixed"}
    given = {**texts, "uuid": "51076088-0000-4000-8000-000000000000"}
    insert = f"insert into wakeboard.job_runs ({', '.join(columns)}) values ({', '.join(['%s'] * len(columns))})"
    conn.execute(insert.encode(), [given.get(column, 4) for column in columns])
    conn.execute("insert into wakeboard.job_runs (job_type) select 'ping' from generate_series(1, 3)")
    assert conn.execute("select count(*) from wakeboard.job_runs").fetchone() == (4,)


def test_many_runs_of_one_type_have_a_uuid_each(conn: psycopg.Connection[Any]) -> None:
    for keys in ("null", "array['a', 'b', 'c']"):
        call = (
            "select wakeboard.enqueue_many('{select, select, select}', array['{}', '[]', '{}']::jsonb[],"
            f" idempotency_keys => {keys})"
        )
        conn.execute(call.encode())
    row = conn.execute("select count(distinct uuid) from wakeboard.job_runs where job_type = 'select'").fetchone()
    assert row == (6,)


@pytest.mark.parametrize("next_run_at", ["-infinity", "infinity", "1969-12-31", "20000-01-01"])
def test_a_next_tick_that_no_client_can_read_is_refused(conn: psycopg.Connection[Any], next_run_at: str) -> None:
    rows = f'[{{"namespace": "a", "name": "b", "next_run_at": "{next_run_at}"}}]'
    sentence = refused(conn, "select * from wakeboard.sync_definitions('evil', %s)", rows)
    assert "write a time from 1970 to 100 years from now" in sentence
