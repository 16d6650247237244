"""What handlers cost: coroutines, plain functions in threads, handlers that wait, and HTTP requests."""

from __future__ import annotations

import asyncio
import socket
import statistics
import sys
import tempfile
import time
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

import wakeboard
from bench.drains import Case, QueueQueries, drain, drain_copy
from bench.handlers import WAITS_S
from bench.processes import MeasuredProcess
from bench.tables import Table, at_least, spread
from testbed.processes import OUR_PACKAGES, wait_for

if TYPE_CHECKING:
    from collections.abc import Generator

    from bench.database import BenchmarkServer
    from bench.drains import Drain
    from bench.plan import Plan

AT_ONCE: Final = 1000  # handlers that wait
FIRST_STARTED: Final = "select extract(epoch from min(started_at))::float8 from wakeboard.job_run_history"
LISTENS_WITHIN_S: Final = 20.0


def measure_handling(server: BenchmarkServer, plan: Plan) -> Table:
    """The kinds of handlers interleaved."""
    coroutines: list[Drain] = []
    threads: list[Drain] = []
    waiting: list[Drain] = []
    shared: list[Drain] = []
    requests: list[Drain] = []
    bare: list[float] = []
    case = Case(plan.handled, 1)
    for _ in range(plan.few_repetitions):
        coroutines.append(drain(server, case))
        threads.append(drain(server, replace(case, job_type="noop_in_a_thread", handlers="bench.thread_handlers")))
        waits = replace(case, job_type="wait")
        waiting.append(drain(server, waits, concurrency=AT_ONCE))
        shared.append(drain(server, replace(waits, processes=2), concurrency=AT_ONCE // 2))
        bare.append(_bare_rate(plan.handled))
        requests.append(_drain_requests(server, plan.requests))
    limit = AT_ONCE / WAITS_S
    ratios = [plain.rate / coroutine.rate for plain, coroutine in zip(threads, coroutines, strict=True)]
    return Table(
        title="Handlers",
        note=f"One draining process where not two are named; {plan.few_repetitions} times each. Handlers that wait"
        f" do so for {WAITS_S * 1000:.0f} ms, {AT_ONCE:,} at once: more than {limit:,.0f} runs/s is impossible. `http`"
        " posts a small JSON body to a receiver on this machine and keeps its answer, 100 at once.",
        head=("handler", "runs", "runs/s", "worker CPU µs/run", "compared"),
        rows=[
            _row("coroutine that does nothing", coroutines, ""),
            _row("plain function that does nothing, 8 threads", threads, f"{spread(ratios)} times as fast"),
            _row("coroutine that waits", waiting, _part(_rates(waiting), limit)),
            _row("the same in two processes, each half at once", shared, _part(_rates(shared), limit)),
            [
                "the same waits in asyncio alone, without wakeboard",
                f"{plan.handled:,}",
                spread(bare),
                "",
                _part(bare, limit),
            ],
            _row("`http`", requests, ""),
        ],
        thresholds=[
            at_least("plain handlers in threads: times as fast as coroutines", 0.7, ratios),
            at_least(
                "handlers that wait: part of what is possible",
                0.9,
                [each.rate / limit for each in waiting],
                f"one core is busy then; two processes reach {statistics.median(_rates(shared)) / limit:.0%},"
                f" asyncio alone {statistics.median(bare) / limit:.0%}; what was tried: decision 16",
            ),
        ],
    )


def _row(name: str, drains: list[Drain], compared: str) -> list[str]:
    return [
        name,
        f"{drains[0].runs:,}",
        spread([each.rate for each in drains]),
        spread([each.worker_cpu_us for each in drains]),
        compared,
    ]


def _rates(drains: list[Drain]) -> list[float]:
    return [each.rate for each in drains]


def _part(rates: list[float], limit: float) -> str:
    return f"{statistics.median(rates) / limit:.0%} of what is possible"


def _bare_rate(waits: int) -> float:
    """What Python's event loop can do: so many waits, as many at once as handlers, and nothing else."""

    async def wait() -> None:
        for _ in range(waits // AT_ONCE):
            await asyncio.sleep(WAITS_S)

    async def side_by_side() -> None:
        await asyncio.gather(*(wait() for _ in range(AT_ONCE)))

    began = time.perf_counter()
    asyncio.run(side_by_side())
    return waits / (time.perf_counter() - began)


def _drain_requests(server: BenchmarkServer, runs: int) -> Drain:
    with _receiver() as port:
        address = f"127.0.0.1:{port}"
        payload = {"method": "POST", "url": f"http://{address}/hooks", "body": {"customer": 4711}}
        with server.database(of_a_definition=False) as database:
            database.enqueue(runs, wakeboard.Job("http", payload))
            database.vacuum()
            return drain_copy(
                server,
                database,
                Case(runs, 1),
                queries=QueueQueries(first=FIRST_STARTED),
                http_allowed_hosts=address,
                http_allowed_private_networks="127.0.0.0/8",
            )


@contextmanager
def _receiver() -> Generator[int]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = int(probe.getsockname()[1])
    with tempfile.TemporaryDirectory(prefix="wakeboard-bench-") as folder:
        process = MeasuredProcess(
            [sys.executable, "-m", "bench.receiver", str(port)], {"PYTHONPATH": OUR_PACKAGES}, Path(folder)
        )
        try:
            wait_for(lambda: _listens(port) or process.dead(), within_s=LISTENS_WITHIN_S, why=process.output)
            yield port
        finally:
            process.stop()
            process.ended()


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
