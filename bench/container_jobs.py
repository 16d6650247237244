"""One worker with a thousand Kubernetes Jobs, on a real API server. This program acts as scheduler and kubelet.

Times are those of the API server's audit log and of the database, both on this machine's clock.
"""

from __future__ import annotations

import os
import signal
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from bench.machine import peak_mb
from bench.tables import Table, at_most, number, percentile
from bench.workers import worker_group
from testbed.cluster.control_plane import ControlPlane
from testbed.cluster.job_pods import cron_job, make_job_account
from testbed.cluster.job_schedules import install_crds
from testbed.cluster.operators import Operator
from testbed.processes import wait_for

if TYPE_CHECKING:
    from bench.database import BenchmarkServer, Database
    from bench.plan import Plan
    from bench.processes import MeasuredProcess

NAMESPACE: Final = "shop"
STILL_S: Final = 30.0
WITHIN_S: Final = 300.0
USER_AGENT: Final = "wakeboard-jobs/"
WORKER_LABELS: Final = {"app.kubernetes.io/component": "worker", "app.kubernetes.io/part-of": "wakeboard"}
ENQUEUE: Final = """
select min((made).id)
  from (select wakeboard.enqueue('job', '{"cronJob": "report"}', timeout_s => 3600) as made
          from generate_series(1, %s)) as run
"""
THRESHOLDS: Final = {
    "due at once to all Jobs created, s": 60.0,
    "memory (RSS) of the worker, MB": 150.0,
    "requests/s while nothing changes": 2.0,
    "worker's death to all its runs claimable, s": 2.0,
}


class Kubelet:
    """Reports that the containers of the namespace's pods have started, and that they have succeeded."""

    def __init__(self, cluster: ControlPlane) -> None:
        self._cluster = cluster
        self.started: set[str] = set()

    def start(self) -> int:
        """Starts the containers of all pods that wait. Returns how many have started until now."""
        for pod in self._cluster.call("GET", f"/api/v1/namespaces/{NAMESPACE}/pods?limit=5000")["items"]:
            name = pod["metadata"]["name"]
            if name not in self.started and "wakeboard.dev/run" in pod["metadata"]["labels"]:
                self._report(name, "Running", {"running": {"startedAt": _now()}})
                self.started.add(name)
        return len(self.started)

    def end(self, pod: str) -> None:
        """Ends the container of a pod."""
        state = {"exitCode": 0, "reason": "Completed", "startedAt": _now(), "finishedAt": _now(), "message": "1"}
        self._report(pod, "Succeeded", {"terminated": state})

    def _report(self, pod: str, phase: str, state: dict[str, Any]) -> None:
        container = {"name": "main", "image": "x", "imageID": "", "ready": False, "restartCount": 0, "state": state}
        scheduled = {"type": "PodScheduled", "status": "True", "lastTransitionTime": _now()}
        body = {"status": {"phase": phase, "conditions": [scheduled], "containerStatuses": [container]}}
        path = f"/api/v1/namespaces/{NAMESPACE}/pods/{pod}/status"
        self._cluster.call("PATCH", path, body, "application/strategic-merge-patch+json")


class Audit:
    """The requests of the audit log until now."""

    def __init__(self, cluster: ControlPlane) -> None:
        self._requests = [each for each in cluster.audited() if each["stage"] == "ResponseComplete"]

    def of_the_worker(self) -> int:
        """How many requests the worker has sent, without the watches that have not ended."""
        return sum(each.get("userAgent", "").startswith(USER_AGENT) for each in self._requests)

    def created(self) -> dict[str, float]:
        """When each Job was created, by its name. Unix time."""
        return {name: at for name, verb, part, at in self._changes() if verb == "create" and not part}

    def finished(self) -> dict[str, float]:
        """When the status of each Job was last written, by its name: when it has ended, the time of its end."""
        return {name: at for name, _, part, at in self._changes() if part == "status"}

    def _changes(self) -> list[tuple[str, str, str, float]]:
        return [
            (each["objectRef"]["name"], each["verb"], each["objectRef"].get("subresource", ""), _moment(each))
            for each in self._requests
            if each.get("objectRef", {}).get("resource") == "jobs" and "name" in each["objectRef"]
        ]


def measure_container_jobs(server: BenchmarkServer, plan: Plan) -> Table:
    """Once: with its control plane it takes some minutes."""
    rows: list[tuple[str, str]] = []
    with (
        tempfile.TemporaryDirectory(prefix="wakeboard-bench-") as name,
        ControlPlane(Path(name) / "cluster", audit=True) as cluster,
        server.database(of_a_definition=False) as database,
        worker_group() as workers,
    ):
        folder = Path(name)
        database.do(f"alter table wakeboard.job_runs alter schedule set default '{NAMESPACE}/nightly'")
        settings = _prepare(cluster, folder)
        worker = workers.start(database.dsn, "--forever", **settings)
        kubelet = Kubelet(cluster)
        rows.append(("due at once to all Jobs created, s", number(_burst_s(cluster, database, worker, plan))))
        wait_for(lambda: kubelet.start() >= plan.jobs, within_s=WITHIN_S, why=worker.output)
        wait_for(lambda: _started(database) >= plan.jobs, within_s=WITHIN_S, why=worker.output)
        before, cpu_s = Audit(cluster).of_the_worker(), worker.cpu_s()
        time.sleep(STILL_S)  # what is measured is half a minute of nothing
        asked = Audit(cluster).of_the_worker() - before
        rows.append(("requests/s while nothing changes", number(asked / STILL_S)))
        rows.append(("CPU of the worker meanwhile, %", number((worker.cpu_s() - cpu_s) / STILL_S * 100)))
        rows += _lags(cluster, database, kubelet, plan)
        rows.append(("memory (RSS) of the worker, MB", number(peak_mb(worker.pid))))
        rows += _death(cluster, database, worker.pid, folder)
        adopter = workers.start(database.dsn, "--forever", **settings)
        began = time.monotonic()
        adopted = "select count(*) from wakeboard.job_runs where status = 'running' and started_epoch = lease_epoch"
        wait_for(lambda: database.ask(adopted) >= plan.jobs, within_s=WITHIN_S, why=adopter.output)
        rows.append(("the next worker's start to all runs adopted, s", number(time.monotonic() - began)))
        rows.append(("Jobs created more than once", str(_jobs(cluster) - plan.jobs - plan.lags)))
    return Table(
        title="Containers",
        note=f"One worker of the job type `job`, {plan.jobs:,} runs at once, a kube-apiserver with an etcd and its"
        f" controllers on this machine, `jobs.perSecond` 30. All Jobs run while the later figures are measured."
        f" Lags are those of {plan.lags} more runs, one after another. Memory is the most until then.",
        head=("figure", "value"),
        rows=rows,
        thresholds=[
            at_most(f"containers: {figure}", THRESHOLDS[figure], [float(value.replace(",", ""))])
            for figure, value in rows
            if figure in THRESHOLDS
        ],
    )


def _prepare(cluster: ControlPlane, folder: Path) -> dict[str, object]:
    """Creates what the worker needs in the cluster. Returns its settings."""
    install_crds(cluster)  # for the operator
    cluster.call("POST", "/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
    cluster.call("POST", f"/apis/batch/v1/namespaces/{NAMESPACE}/cronjobs", cron_job("report", NAMESPACE))
    token = folder / "token"
    token.write_text(make_job_account(cluster, NAMESPACE))
    return {
        "handlers": "",
        "concurrency": 2_000,
        "jobs_namespaces": NAMESPACE,
        "jobs_api_server": cluster.url,
        "jobs_ca_file": cluster.folder / "pki" / "ca.crt",
        "jobs_token_file": token,
    }


def _burst_s(cluster: ControlPlane, database: Database, worker: MeasuredProcess, plan: Plan) -> float:
    began = time.time()
    database.ask(ENQUEUE, plan.jobs)
    wait_for(lambda: _jobs(cluster) >= plan.jobs or time.sleep(1), within_s=WITHIN_S, why=worker.output)
    return max(Audit(cluster).created().values()) - began


def _lags(cluster: ControlPlane, database: Database, kubelet: Kubelet, plan: Plan) -> list[tuple[str, str]]:
    """From the due time of a run to its Job, and from the end of its Job to the run's."""
    due: dict[str, float] = {}
    ended: dict[str, float] = {}
    for _ in range(plan.lags):
        known = set(kubelet.started)
        run = database.ask(ENQUEUE, 1)
        (pod,) = wait_for(lambda: kubelet.start() and kubelet.started - known)  # noqa: B023
        query = "select result->>'job' from wakeboard.job_steps where run_id = %s and name = 'Job 1'"
        job = wait_for(lambda: database.ask(query, run))  # noqa: B023
        kubelet.end(pod)
        query = "select date_part('epoch', finished_at) from wakeboard.job_run_history where id = %s"
        ended[job] = float(wait_for(lambda: database.ask(query, run)))  # noqa: B023
        query = "select date_part('epoch', run_at) from wakeboard.job_run_history where id = %s"
        due[job] = float(database.ask(query, run))
    audit = Audit(cluster)
    created, finished = audit.created(), audit.finished()
    return [
        *_quantiles("due to Job created", [created[job] - at for job, at in due.items()]),
        *_quantiles("Job finished to run succeeded", [at - finished[job] for job, at in ended.items()]),
    ]


def _quantiles(what: str, seconds: list[float]) -> list[tuple[str, str]]:
    ordered = sorted(seconds)
    return [(f"{what}, p50 s", number(percentile(ordered, 0.5))), (f"{what}, p99 s", number(percentile(ordered, 0.99)))]


def _death(cluster: ControlPlane, database: Database, pid: int, folder: Path) -> list[tuple[str, str]]:
    """Kills the worker, and writes of its pod what a kubelet writes of one that was OOM-killed."""
    number_of_worker = database.ask("select max(locked_by) from wakeboard.job_runs")
    path = f"/api/v1/namespaces/{NAMESPACE}/pods"
    container = {"name": "worker", "image": "x"}
    pod = {
        "metadata": {"name": "worker", "labels": WORKER_LABELS},
        "spec": {"containers": [container], "nodeName": "x"},
    }
    cluster.call("POST", path, pod)
    message = f"wakeboard worker {number_of_worker}\n"
    state = {"terminated": {"exitCode": 137, "reason": "OOMKilled", "message": message}}
    status = {"name": "worker", "image": "x", "imageID": "", "ready": False, "restartCount": 0, "state": state}
    body = {"status": {"phase": "Failed", "containerStatuses": [status]}}
    where = {"namespaces": NAMESPACE, "source": f"k8s:{NAMESPACE}", "pod_namespace": NAMESPACE}
    with Operator(database.dsn, cluster.admin, folder, **where) as operator:
        operator.wait_until_leading()
        os.kill(pid, signal.SIGKILL)
        cluster.call("PATCH", f"{path}/worker/status", body, "application/merge-patch+json")
        began = time.monotonic()
        held = "select count(*) from wakeboard.job_runs where locked_by <> 0"
        wait_for(lambda: not database.ask(held), why=lambda: operator.log)
        return [("worker's death to all its runs claimable, s", number(time.monotonic() - began))]


def _started(database: Database) -> int:
    return database.ask("select count(*) from wakeboard.job_steps where name = 'Job 1 started' and result is not null")


def _jobs(cluster: ControlPlane) -> int:
    return len(cluster.call("GET", f"/apis/batch/v1/namespaces/{NAMESPACE}/jobs?limit=5000")["items"])


def _moment(request: dict[str, Any]) -> float:
    return datetime.fromisoformat(request["stageTimestamp"]).timestamp()


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
