"""Workers send metrics of their runs, also workers that live for less than a second."""

from __future__ import annotations

import signal
import threading
import time
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from testbed.processes import OUR_PACKAGES
from wakeboard.process.telemetry import Telemetry

if TYPE_CHECKING:
    from tests.telemetry.collector import Collector
    from tests.telemetry.conftest import System

PASSWORD = "correct-horse"


def test_a_wake_sends_its_metrics_before_it_ends(system: System, collector: Collector) -> None:
    for job_type in ("ping", "ping", "fails-once"):
        system.enqueue(job_type)
    system.wake()
    consumed = "messaging.client.consumed.messages"
    assert collector.total(consumed, **{"wakeboard.job_type": "ping", "wakeboard.outcome": "succeeded"}) == 2
    assert collector.total(consumed, **{"wakeboard.outcome": "failed", "error.type": "ConnectionError"}) == 1
    assert collector.total("messaging.process.duration", **{"messaging.destination.name": "default"}) == 4
    assert collector.total("wakeboard.run.lateness") == 4
    assert {point.metric: point.unit for point in collector.points} == {
        "messaging.client.consumed.messages": "{message}",
        "messaging.process.duration": "s",
        "wakeboard.run.lateness": "s",
        "wakeboard.leases.lost": "{lease}",
        "wakeboard.backlog": "{run}",
    }
    (instance,) = {point.resource["service.instance.id"] for point in collector.points}
    assert instance


def test_the_backlog_is_that_of_the_queues_of_the_worker(system: System, collector: Collector) -> None:
    system.watcher.do("select wakeboard.enqueue('nobody-knows') from generate_series(1, 7)")
    system.wake()
    assert collector.total("wakeboard.backlog", **{"messaging.destination.name": "default"}) == 7


def test_a_silent_collector_delays_no_run(system: System, collector: Collector) -> None:
    run = system.enqueue("ping")
    collector.status = 503  # the exporter would retry for a minute
    with system.worker("--forever") as worker:
        system.watcher.wait("select status = 'succeeded' from wakeboard.all_runs where id = %s", run)
        worker.send(signal.SIGTERM)
        began = time.monotonic()
        assert worker.exit_code() == 0, worker.log
        assert time.monotonic() - began < 25, "the grace period is 25 s and 10 s more"


def test_a_flush_waits_for_spans_and_metrics_together() -> None:
    both = threading.Barrier(2)
    waiting: Any = SimpleNamespace(shutdown=lambda: both.wait(30))
    unused: Any = None
    Telemetry(unused, unused, waiting, waiting).flush(60)
    assert not both.broken


@pytest.mark.parametrize(
    ("variables", "sentence"),
    [
        ({"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, "the protocol 'grpc' is not supported"),
        ({"OTEL_PROPAGATORS": "b3"}, "Propagator b3 not found"),
        (
            {"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": f"sender:{PASSWORD}@127.0.0.1:4318"},
            "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT must begin with http:// or https://",
        ),
        ({"OTEL_TRACES_SAMPLER_ARG": "many", "OTEL_TRACES_SAMPLER": "traceidratio"}, None),
    ],
)
def test_a_wrong_variable_is_logged_and_runs_are_executed(
    system: System, collector: Collector, variables: dict[str, str], sentence: str | None
) -> None:
    run = system.enqueue("ping")
    worker = system.wake(variables={**collector.variables, **variables})
    assert system.watcher.status(run) == "succeeded"
    assert sentence is None or sentence in worker.log
    assert PASSWORD not in worker.log


def test_without_the_packages_the_log_says_what_to_install(system: System, collector: Collector) -> None:
    folder = system.folder / "opentelemetry"
    folder.mkdir()
    (folder / "__init__.py").write_text("raise ImportError('no', name='opentelemetry')")
    run = system.enqueue("ping")
    program = f"import sys; sys.path.insert(0, {str(system.folder)!r})"
    (system.folder / "sitecustomize.py").write_text(program)
    worker = system.wake(variables={**collector.variables, "PYTHONPATH": f"{system.folder}:{OUR_PACKAGES}"})
    assert system.watcher.status(run) == "succeeded"
    assert "pip install 'wakeboard[otel]'" in worker.log


@pytest.mark.parametrize("variables", [{}, {"OTEL_SDK_DISABLED": "true"}])
def test_without_a_destination_nothing_is_imported(system: System, variables: dict[str, str]) -> None:
    """A module that the interpreter loads at its start records at the end what was imported."""
    system.enqueue("ship-plainly")
    report = system.folder / "imported"
    (system.folder / "sitecustomize.py").write_text(
        "import os, sys\n"
        "_exit = os._exit\n"
        "def report(code):\n"
        f"    open({str(report)!r}, 'w').write(' '.join(sys.modules))\n"
        "    _exit(code)\n"
        "os._exit = report\n"
    )
    system.wake(variables={**variables, "PYTHONPATH": f"{system.folder}:{OUR_PACKAGES}"})
    imported = report.read_text().split()
    assert "wakeboard.process.telemetry" in imported
    assert not [name for name in imported if name.startswith("opentelemetry")]
