"""What an operator does with ten thousand JobSchedules on a real API server."""

from __future__ import annotations

import signal
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from bench.machine import cpu_s_of_tree
from bench.tables import Table, at_most, number, percentile
from testbed.cluster.control_plane import ControlPlane
from testbed.cluster.job_schedules import install_crds, job_schedule, path
from testbed.cluster.operators import Environment, Operator
from testbed.processes import wait_for

if TYPE_CHECKING:
    from bench.database import BenchmarkServer
    from bench.plan import Plan

SIDE_BY_SIDE: Final = 16
STILL_S: Final = 60.0
WITHIN_S: Final = 600.0
NAMESPACE: Final = "default"
THRESHOLDS: Final = {
    "cold start to all rows, s": 5.0,
    "cold start to all statuses, s": 60.0,
    "memory (RSS), MB": 230.0,
    "a minute in which nothing ticks: status writes": 0.0,
    "from a transition to its status, p99 s": 5.0,
    "handover after SIGTERM, s": 2.0,
    "handover after SIGKILL, s": 17.0,
}


def measure_operator(server: BenchmarkServer, plan: Plan) -> Table:
    """Once: a start takes a minute, and the next one would find the statuses written."""
    rows: list[tuple[str, str]] = []
    with (
        tempfile.TemporaryDirectory(prefix="wakeboard-bench-") as folder,
        ControlPlane(Path(folder) / "cluster", audit=True) as cluster,
        server.database(of_a_definition=False) as database,
    ):
        install_crds(cluster)
        with ThreadPoolExecutor(SIDE_BY_SIDE) as threads:
            list(threads.map(partial(_create, cluster), range(plan.resources)))
        env = Environment(cluster, NAMESPACE, database.dsn)
        began = time.monotonic()
        with Operator(database.dsn, cluster.admin, Path(folder)) as first:
            _until(lambda: database.ask("select count(*) from wakeboard.job_definitions") == plan.resources)
            rows.append(("cold start to all rows, s", number(time.monotonic() - began)))
            rows.append(("cold start to all statuses, s", number(_all_ready(env, first, plan.resources) - began)))
            rows.append(("cold start: status writes", str(_writes(first))))
            _until(lambda: _events(env) >= plan.resources)
            rows.append(("cold start to all events, s", number(time.monotonic() - began)))
            rows.append(("memory (RSS), MB", number(first.memory_mb())))
            written, used = _writes(first), cpu_s_of_tree(first.pid)
            time.sleep(STILL_S)  # what is measured is a minute of nothing
            rows.append(("a minute in which nothing ticks: status writes", str(_writes(first) - written)))
            rows.append(("the same minute: CPU s", number(cpu_s_of_tree(first.pid) - used)))
            rows += _lags("from an edit to its row", [_edit_lag(env, i) for i in range(plan.lags)])
            rows += _lags("from a transition to its status", [_status_lag(env, i) for i in range(plan.lags)])
            with Operator(database.dsn, cluster.admin, Path(folder)) as second:
                second.wait_until_ready()
                rows.append(("handover after SIGTERM, s", number(_handover_s(first, second, signal.SIGTERM))))
                with Operator(database.dsn, cluster.admin, Path(folder)) as third:
                    third.wait_until_ready()
                    rows.append(("handover after SIGKILL, s", number(_handover_s(second, third, signal.SIGKILL))))
    return Table(
        title="Operator",
        note=f"{plan.resources:,} daily JobSchedules on a kube-apiserver and an etcd on this machine. Lags are those of"
        f" {plan.lags} edits and pauses, one after another. A handover ends when the other one leads.",
        head=("figure", "value"),
        rows=rows,
        thresholds=[
            at_most(f"operator: {figure}", THRESHOLDS[figure], [float(value.replace(",", ""))])
            for figure, value in rows
            if figure in THRESHOLDS
        ],
    )


def _create(cluster: ControlPlane, number: int) -> None:
    cluster.call("POST", path(NAMESPACE), job_schedule(f"s{number}", schedule="0 8 * * *", payload={"number": number}))


def _until(what: Any) -> None:
    wait_for(what, within_s=WITHIN_S)


def _all_ready(env: Environment, operator: Operator, resources: int) -> float:
    """When every resource was seen to be Ready (time.monotonic())."""

    def ready() -> float | None:
        asked = time.monotonic()
        listed = env.cluster.call("GET", path(NAMESPACE))["items"]
        return asked if sum(map(_is_ready, listed)) == resources else None

    _until(lambda: _writes(operator) >= resources)  # a small reply; a list of all resources is expensive
    return wait_for(ready, within_s=WITHIN_S)


def _is_ready(resource: dict[str, Any]) -> bool:
    conditions = resource.get("status", {}).get("conditions", [])
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


def _writes(operator: Operator) -> int:
    for line in operator.ask("/metrics")[1].splitlines():
        if line.startswith("wakeboard_status_writes_total "):
            return int(float(line.split()[1]))
    return 0


def _events(env: Environment) -> int:
    page = env.cluster.call("GET", f"/api/v1/namespaces/{NAMESPACE}/events?limit=1")
    return len(page["items"]) + page["metadata"].get("remainingItemCount", 0)


def _lags(what: str, seconds: list[float]) -> list[tuple[str, str]]:
    ordered = sorted(seconds)
    return [(f"{what}, p50 s", number(percentile(ordered, 0.5))), (f"{what}, p99 s", number(percentile(ordered, 0.99)))]


def _edit_lag(env: Environment, sample: int) -> float:
    began = time.monotonic()
    generation = env.edit(f"s{sample}", priority=4)["metadata"]["generation"]
    _until(lambda: env.row(f"s{sample}", "generation") == (generation,))
    return time.monotonic() - began


def _status_lag(env: Environment, sample: int) -> float:
    (found,) = env.row(f"s{sample}", "id") or (None,)
    began = time.monotonic()
    env.sql("select pause('schedule:' || %s)", found)
    _until(lambda: env.condition(f"s{sample}", "Suspended")[0] == "True")
    return time.monotonic() - began


def _handover_s(leader: Operator, standby: Operator, how: int) -> float:
    began = time.monotonic()
    leader.send(how)
    _until(lambda: '"isLeader": true' in standby.ask("/readyz")[1])
    took = time.monotonic() - began
    standby.wait_until_ready()
    return took
