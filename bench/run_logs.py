"""Measures what the logs of runs cost, and how soon and how fast they are read."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final
from urllib.request import urlopen

import wakeboard
from bench.drains import Case, drain
from bench.logging_handlers import LINES, TICKS_PER_S
from bench.tables import Table, at_least, at_most, spread
from bench.workers import worker_group
from testbed.board_server import serving
from testbed.processes import OUR_PACKAGES, ROOT, inherited_environment
from wakeboard.board import BoardOptions
from wakeboard.logs.queries import store_batches
from wakeboard.logs.rules import Batch, Line, packed
from wakeboard.store.connection import connect_blocking

if TYPE_CHECKING:
    from bench.database import BenchmarkServer, Database
    from bench.plan import Plan

HANDLERS: Final = "bench.logging_handlers"
SECONDS: Final = 10  # of a handler that prints much
IRREGULAR: Final = 40  # lines
LONG: Final = 100_000  # lines of an attempt
BATCH: Final = 1_000
READS: Final = 7
UNSHARED_S: Final = 1.1  # the board shares a read for a second


def measure_run_logs(server: BenchmarkServer, plan: Plan) -> Table:
    """Drains without lines and with one line a run, a handler that prints much, and readers."""
    ratios: dict[str, list[float]] = {"noop": [], "print_a_line": []}
    cpu: dict[str, list[float]] = {"noop": [], "log_to_nothing": [], "print_a_line": []}
    times: dict[str, list[float]] = {"wall": [], "work": [], "memory": []}
    for _ in range(plan.repetitions):
        for job_type, found in ratios.items():
            off, kept = (drain(server, _case(plan, job_type), run_logs=mode) for mode in ("off", "all"))
            found.append(kept.rate / off.rate)
            cpu[job_type].append(kept.worker_cpu_us)
        cpu["log_to_nothing"].append(drain(server, _case(plan, "log_to_nothing"), run_logs="off").worker_cpu_us)
    for _ in range(plan.few_repetitions):
        off, kept = (_print_much(server, mode) for mode in ("off", "all"))
        for name, found in times.items():
            found.append(kept[name] - off[name] if name == "memory" else kept[name] / off[name])
    with server.database(of_a_definition=False) as database:
        latency = _latency(database)
        screen, search = _reads(database)
    per_s = TICKS_PER_S * LINES
    return Table(
        title="Logs of runs",
        note=f"Compared with WAKEBOARD_RUN_LOGS=off, in turn: drains of {plan.handled:,} runs in one process"
        f" ({plan.repetitions} times), and a handler in a thread that works and prints {per_s:,} lines in each of"
        f" {SECONDS} seconds ({plan.few_repetitions} times). The thread that masks and stores"
        " lines needs the same interpreter lock. Latency: from `print` until"
        " `wakeboard logs -f --json` has written the line. The log that is read has"
        f" {LONG:,} lines; the search finds none.",
        head=("figure", "value"),
        rows=[
            ["drain without lines: times as fast", spread(ratios["noop"])],
            ["drain, one line a run: times as fast", spread(ratios["print_a_line"])],
            ["drain without lines: CPU of the worker, µs a run", spread(cpu["noop"])],
            ["drain, one call of `logging` with a `NullHandler`: µs a run", spread(cpu["log_to_nothing"])],
            ["drain, one line a run: µs a run", spread(cpu["print_a_line"])],
            [f"{per_s:,} lines/s: the handler takes, times as long", spread(times["wall"])],
            [f"{per_s:,} lines/s: its thread takes, times as much CPU", spread(times["work"])],
            [f"{per_s:,} lines/s: more memory of the worker, MB", spread(times["memory"])],
            ["from written to visible, s", spread(latency)],
            ["page of the log, ms", spread(screen)],
            ["page of the log, search, ms", spread(search)],
        ],
        thresholds=[
            at_least("logs of runs: drain without lines, times as fast", 0.99, ratios["noop"]),
            at_least(
                "logs of runs: drain with one line a run, times as fast",
                0.85,
                ratios["print_a_line"],
                "a call of `logging` that keeps nothing takes more CPU than that leaves to a run that does nothing",
            ),
            at_most(f"logs of runs: handler that prints {per_s:,} lines/s, times as long", 1.05, times["wall"]),
            at_most(f"logs of runs: {per_s:,} lines/s, more memory, MB", 20, times["memory"]),
            at_most("logs of runs: from written to visible, s", 1, latency),
            at_most(f"logs of runs: page of {LONG:,} lines, ms", 300, screen),
            at_most(f"logs of runs: search in {LONG:,} lines, ms", 1_000, search),
        ],
    )


def _case(plan: Plan, job_type: str) -> Case:
    return Case(plan.handled, 1, job_type=job_type, handlers=f"bench.handlers,{HANDLERS}")


def _print_much(server: BenchmarkServer, mode: str) -> dict[str, float]:
    with server.database(of_a_definition=False) as database, worker_group() as workers:
        run_id = wakeboard.enqueue(database.conn, "print_much", {"seconds": SECONDS}).id
        workers.start(database.dsn, handlers=HANDLERS, run_logs=mode)
        workers.wait_until(lambda: _result(database, run_id))
        (cost,) = workers.stop()
        result = _result(database, run_id)
    return {"wall": result["seconds"], "work": result["worked"], "memory": cost.peak_mb}


def _result(database: Database, run_id: int) -> Any:
    return database.ask("select result from wakeboard.job_run_history where id = %s", run_id)


def _latency(database: Database) -> list[float]:
    """Seconds between a line's time and its arrival from `wakeboard logs -f`."""
    run_id = wakeboard.enqueue(database.conn, "print_at_times", {"lines": IRREGULAR}).id
    with worker_group() as workers:
        workers.start(database.dsn, handlers=HANDLERS)
        program = "import wakeboard.cli; wakeboard.cli.main()"
        command = [sys.executable, "-c", program, "logs", str(run_id), "-f", "--json"]
        environment = {**inherited_environment(), "PYTHONPATH": OUR_PACKAGES, "WAKEBOARD_DSN": database.dsn}
        reader = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE)
        assert reader.stdout is not None
        found = [time.time() - datetime.fromisoformat(json.loads(line)["at"]).timestamp() for line in reader.stdout]
        reader.wait()
        workers.wait_for_exit()
    if len(found) != IRREGULAR:
        raise RuntimeError(f"{len(found)} of {IRREGULAR} lines were read")
    return found


def _reads(database: Database) -> tuple[list[float], list[float]]:
    """The times of the page with the last lines, and of a search in all lines, in ms."""
    run_id = wakeboard.enqueue(database.conn, "noop").id
    uuid = database.ask("select uuid from wakeboard.job_runs where id = %s", run_id)
    now = time.time()
    lines = [Line(number, now, 20, "shop", f"the order {number} is paid") for number in range(1, LONG + 1)]
    parts = [lines[first : first + BATCH] for first in range(0, LONG, BATCH)]
    batches = [
        (Batch(str(uuid), 1, 1, place, part[0].number, part[-1].number, 20, now, packed(part)), 0, 0)
        for place, part in enumerate(parts, 1)
    ]
    with connect_blocking(database.dsn) as conn:
        store_batches(conn, batches)
    with serving(BoardOptions(dsn=database.dsn)) as board:
        page = f"{board}/runs/{run_id}/log"
        return _times(page), _times(f"{page}?q=needle")


def _times(url: str) -> list[float]:
    """The times of all reads but the first, which compiles the template."""
    taken: list[float] = []
    for _ in range(READS + 1):
        time.sleep(UNSHARED_S)
        began = time.perf_counter()
        with urlopen(url) as answer:  # noqa: S310 - of loopback
            answer.read()
        taken.append((time.perf_counter() - began) * 1000)
    return taken[1:]
