"""A trace is one tree, from the web request to the last effect, whatever happens to the workers."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

import pytest

from tests.worker.http_receiver import receiving
from wakeboard.ticks.cron_parser import parse_cron

if TYPE_CHECKING:
    from tests.telemetry.collector import Collector
    from tests.telemetry.conftest import System

REQUEST = "0af7651916cd43dd8448eb211c80319c"
TRACEPARENT = f"00-{REQUEST}-b7ad6b7169203331-01"
SHIPPED = ["step Pack", "effect", "effect"]


def indented(names: list[str], level: int) -> list[str]:
    return ["  " * level + name for name in names]


@pytest.mark.parametrize("job_type", ["ship", "ship-plainly"])
def test_a_trace_reaches_from_the_request_to_the_effects(system: System, collector: Collector, job_type: str) -> None:
    with system.shop() as shop:
        run = system.order(shop, job_type)
        system.wake()
        request = collector.wait_for_span(f"POST /{job_type}")
    expected = [f"POST /{job_type}", f"  enqueue {job_type}", f"    process {job_type}", *indented(SHIPPED, 3)]
    assert collector.tree(request.trace) == expected
    (attempt,) = collector.named(f"process {job_type}")
    assert attempt.attributes["messaging.message.id"] == str(run)
    assert attempt.attributes["wakeboard.outcome"] == "succeeded"
    assert attempt.links == [attempt.parent], "the enqueue is its parent and a link"
    assert (attempt.service, request.service) == ("wakeboard-worker", "shop")
    assert [span.attributes["wakeboard.effect.key"] for span in collector.named("effect")] == ["label", "book"]
    assert [span.attributes["wakeboard.effect.state"] for span in collector.named("effect")] == ["new", "new"]


def test_a_trace_stays_one_tree_across_a_kill_and_a_takeover(system: System, collector: Collector) -> None:
    gate = system.folder / "gate"
    with system.shop() as shop:
        system.order(shop, "ship", {"gate": str(gate)})
        with system.worker("--forever") as killed:
            first_step = collector.wait_for_span("step Pack")
            killed.send(signal.SIGKILL)
            killed.exit_code()
        gate.touch()
        with system.worker("--forever") as second:
            collector.wait_for_span("process ship", **{"wakeboard.outcome": "succeeded"})
            second.send(signal.SIGTERM)
            assert second.exit_code() == 0, second.log
    assert collector.tree(first_step.trace) == [
        *("POST /ship", "  enqueue ship"),
        *("    process ship", "      step Pack"),
        *("    process ship", *indented(SHIPPED, 3)),
    ]
    crashed, succeeded = sorted(collector.named("process ship"), key=lambda span: span.began)
    assert first_step.parent == crashed.id, "the killed worker sent the step, and the next one its parent"
    assert (crashed.failed, crashed.attributes["wakeboard.outcome"]) == (True, "crashed")
    assert crashed.began <= first_step.began <= first_step.ended <= crashed.ended <= succeeded.began
    assert succeeded.links == [succeeded.parent, crashed.id]
    stored = [span.attributes["wakeboard.step.stored"] for span in collector.named("step Pack")]
    assert sorted(stored) == [False, True]


def test_the_context_of_the_sql_function_is_continued(system: System, collector: Collector) -> None:
    system.enqueue("ping", f", traceparent => '{TRACEPARENT}', tracestate => 'vendor=7'")
    system.wake()
    span = collector.wait_for_span("process ping")
    assert (span.trace, span.parent, span.links) == (REQUEST, TRACEPARENT[36:52], [TRACEPARENT[36:52]])


def test_a_run_without_a_context_begins_a_trace_that_its_attempts_share(system: System, collector: Collector) -> None:
    system.enqueue("fails-once")
    system.wake()
    second = collector.wait_for_span("process fails-once", **{"wakeboard.outcome": "succeeded"})
    assert collector.tree(second.trace) == ["enqueue fails-once", "  process fails-once", "  process fails-once"]
    first = next(span for span in collector.named("process fails-once") if span.failed)
    assert second.links == [second.parent, first.id]
    assert len(collector.named("enqueue fails-once")) == 1
    (event,) = first.events
    assert event["exception.type"] == "ConnectionError"
    assert "hunter2" not in str(first)


def test_a_sampled_out_trace_stays_sampled_out_in_every_attempt(system: System, collector: Collector) -> None:
    system.enqueue("fails-once")
    never = {"OTEL_TRACES_SAMPLER": "parentbased_traceidratio", "OTEL_TRACES_SAMPLER_ARG": "0"}
    system.wake(variables={**collector.variables, **never})
    assert collector.spans == []
    assert collector.total("messaging.client.consumed.messages") == 2


def test_a_tick_starts_a_trace_of_its_own(system: System, collector: Collector) -> None:
    system.watcher.do(
        "insert into wakeboard.job_definitions"
        " (source, namespace, name, spec_hash, job_type, schedule, cron_fields, next_run_at)"
        " values ('file:t', 'shop', 'due', 'x', 'ping', '* * * * *', %s, date_trunc('minute', now()))",
        parse_cron("* * * * *", name="shop/due").to_text(),
    )
    system.wake()
    span = collector.wait_for_span("process ping")
    assert collector.tree(span.trace) == ["enqueue ping", "  process ping"]
    assert span.attributes["wakeboard.schedule"] == "shop/due"


@pytest.mark.anyio
async def test_http_sends_the_trace_on(system: System, collector: Collector) -> None:
    async with receiving() as receiver:
        payload = f'{{"url": "{receiver.url("/hooks?key=secret")}", "body": {{}}}}'
        system.watcher.do("select wakeboard.enqueue('http', %s)", payload)
        with system.worker(
            "--forever", http_allowed_hosts="127.0.0.1", http_allowed_private_networks="127.0.0.0/8"
        ) as worker:
            await receiver.asked.wait()
            worker.send(signal.SIGTERM)
            assert worker.exit_code() == 0, worker.log
        span = collector.wait_for_span("POST")
        assert receiver.seen[0].headers["traceparent"] == f"00-{span.trace}-{span.id}-03"
    assert collector.tree(span.trace) == ["enqueue http", "  process http", "    POST"]
    assert span.attributes["http.response.status_code"] == 200
    assert span.attributes["url.full"] == receiver.url("/hooks")
    assert "secret" not in str(collector.spans)


def test_log_records_carry_the_ids_of_the_span(system: System, collector: Collector) -> None:
    system.enqueue("ship")
    system.enqueue("fails-once")
    worker = system.wake()
    attempt, step = collector.wait_for_span("process ship"), collector.wait_for_span("step Pack")
    records = {record["message"]: record for record in system.records(worker)}
    assert (records["packing"]["trace_id"], records["packing"]["span_id"]) == (step.trace, step.id)
    failed = next(span for span in collector.named("process fails-once") if span.failed)
    (line,) = [record for record in records.values() if record.get("outcome") == "failed"]
    assert (line["trace_id"], line["span_id"]) == (failed.trace, failed.id), "also when the handler has ended"
    assert attempt.trace != failed.trace
