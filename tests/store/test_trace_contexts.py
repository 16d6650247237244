"""The trace context of an enqueue is stored with its run, and a malformed one is dropped."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from opentelemetry import trace
from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags, TraceState

import wakeboard
from wakeboard import Job

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.store.sql_clients import SqlClient

TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
TRACEPARENT = f"00-{TRACE}-{SPAN}-01"
CONTEXTS = "select run_id, traceparent, tracestate from job_trace_contexts order by run_id"


@pytest.fixture
def application(database: str) -> Iterator[psycopg.Connection[Any]]:
    with closing(psycopg.connect(database, autocommit=True)) as conn:
        yield conn


@pytest.fixture
def in_a_span() -> Iterator[None]:
    """The caller is in a span of another service."""
    context = SpanContext(int(TRACE, 16), int(SPAN, 16), True, TraceFlags(1), TraceState([("vendor", "7")]))
    with trace.use_span(NonRecordingSpan(context)):
        yield


def contexts(admin: SqlClient) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in admin.sql(CONTEXTS)]


def test_an_enqueue_in_a_span_stores_its_trace_context(
    application: psycopg.Connection[Any], admin: SqlClient, in_a_span: None
) -> None:
    run = wakeboard.enqueue(application, "ping")
    unique = wakeboard.enqueue(application, "ping", {"a": 1}, unique_for=60)
    assert contexts(admin) == [(run.id, TRACEPARENT, "vendor=7"), (unique.id, TRACEPARENT, "vendor=7")]


def test_a_run_that_waits_for_others_stores_it_too(
    application: psycopg.Connection[Any], admin: SqlClient, in_a_span: None
) -> None:
    first = wakeboard.enqueue(application, "ping")
    second = wakeboard.enqueue(application, "ping", after=[first])
    assert contexts(admin) == [(run.id, TRACEPARENT, "vendor=7") for run in (first, second)]


def test_each_run_of_many_gets_the_trace_context(
    application: psycopg.Connection[Any], admin: SqlClient, in_a_span: None
) -> None:
    runs = wakeboard.enqueue_many(application, [Job("ping", {"n": n}) for n in range(3)])
    assert [run.id for run in runs] == sorted(run.id for run in runs), "in the order of the jobs"
    keyed = wakeboard.enqueue_many(application, [Job("ping", idempotency_key=key) for key in ("a", "b", "a")])
    assert [run.created for run in keyed] == [True, True, False]
    assert {run_id for run_id, *_ in contexts(admin)} == {run.id for run in (*runs, *keyed)}
    assert wakeboard.enqueue_many(application, []) == []


def test_an_enqueue_outside_of_a_span_stores_none(application: psycopg.Connection[Any], admin: SqlClient) -> None:
    wakeboard.enqueue(application, "ping")
    wakeboard.enqueue_many(application, [Job("ping")])
    assert contexts(admin) == []


def test_a_repeated_enqueue_keeps_the_first_context(application: psycopg.Connection[Any], admin: SqlClient) -> None:
    call = "select id, created from wakeboard.enqueue('ping', idempotency_key => 'a', traceparent => %s)"
    first = application.execute(call, [TRACEPARENT]).fetchone()
    again = application.execute(call, [TRACEPARENT.replace("b7", "c7")]).fetchone()
    assert first
    assert again == (first[0], False)
    assert contexts(admin) == [(first[0], TRACEPARENT, None)]


TRACEPARENTS: list[tuple[str, str | None]] = [
    (TRACEPARENT, TRACEPARENT),
    (f"01-{TRACE}-{SPAN}-00-more", f"00-{TRACE}-{SPAN}-00"),
    *((text, None) for text in ("", "00", f"ff-{TRACE}-{SPAN}-01", f"00-{'0' * 32}-{SPAN}-01")),
    *((text, None) for text in (f"00-{TRACE}-{'0' * 16}-01", f"00-{TRACE.upper()}-{SPAN}-01", f"{TRACEPARENT}-x")),
    *((text, None) for text in (f" {TRACEPARENT}", f"{TRACEPARENT}\n", f"01-{TRACE}-{SPAN}-00-{'x' * 600}")),
]
STORED = ("a=1", "tenant@vendor=x:y, b=2", ",".join(f"k{n}=1" for n in range(32)), "a=" + "x" * 510)
DROPPED = (
    *(",".join(f"k{n}=1" for n in range(33)), "a=" + "x" * 511, "a=" + "x" * 1_000_000),
    *("", "no value", "A=1", "a=\N{SNOWMAN}", "a=1\n"),
)


def test_a_malformed_traceparent_is_dropped(application: psycopg.Connection[Any], admin: SqlClient) -> None:
    call = "select id from wakeboard.enqueue('ping', traceparent => %s, tracestate => 'a=1')"
    expected: list[tuple[Any, ...]] = []
    for traceparent, stored in TRACEPARENTS:
        run = application.execute(call, [traceparent]).fetchone()
        assert run, "the run exists in any case"
        expected += [(run[0], stored, "a=1")] if stored else []
    assert contexts(admin) == expected


def test_a_malformed_or_long_tracestate_is_dropped_alone(
    application: psycopg.Connection[Any], admin: SqlClient
) -> None:
    call = "select * from wakeboard.enqueue_many('{ping}', array['{}'::jsonb], traceparent => %s, tracestate => %s)"
    for tracestate in (*STORED, *DROPPED):
        application.execute(call, [TRACEPARENT, tracestate])
    states = [*STORED, *(None for _ in DROPPED)]
    assert [row[1:] for row in contexts(admin)] == [(TRACEPARENT, state) for state in states]


def test_a_context_is_deleted_with_the_history_of_its_run(
    application: psycopg.Connection[Any], admin: SqlClient
) -> None:
    for _ in range(2):
        application.execute("select wakeboard.enqueue('ping', traceparent => %s)", [TRACEPARENT])
    admin.sql("update job_trace_contexts set created_at = now() - interval '31 days'")
    admin.sql("select wakeboard.delete_expired(always => true)")
    assert len(contexts(admin)) == 2, "both runs live"
    admin.sql("delete from job_runs where id = (select min(id) from job_runs)")
    admin.sql("select wakeboard.delete_expired(always => true)")
    assert [run_id for run_id, *_ in contexts(admin)] == admin.column("select id from job_runs")


def test_a_run_now_by_annotation_continues_the_trace_of_the_annotation(admin: SqlClient) -> None:
    admin.sql(
        "insert into job_definitions (source, namespace, name, spec_hash, job_type)"
        " values ('k8s:a', 'shop', 'report', 'x', 'ping')"
    )
    schedule = admin.value("select id from job_definitions")
    call = "select result from run_annotation_action(%s, 'run-now', %s, traceparent => %s)"
    assert admin.value(call, schedule, "monday", TRACEPARENT).startswith("queued run")
    assert admin.value(call, schedule, "tuesday", "not a trace").startswith("queued run")
    assert [row[1:] for row in contexts(admin)] == [(TRACEPARENT, None)]
