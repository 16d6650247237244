"""What it costs in a cluster: images, pods, and the time from a minute's boundary to a run."""

from __future__ import annotations

import json
import tempfile
import time
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from bench.tables import Table, spread
from testbed.cluster.images import build_missing, find_image
from testbed.cluster.node import Node
from testbed.cluster.release import IMAGES, OPERATOR, Release, load_images
from testbed.processes import wait_for

if TYPE_CHECKING:
    from bench.database import BenchmarkServer
    from bench.plan import Plan

MB: Final = 1_000_000
MINUTES: Final = 3
A_MINUTE_AND_A_POD_S: Final = 100
VALUES: Final[dict[str, Any]] = {
    "image": {"pullPolicy": "Never"},
    "devDatabase": {
        "enabled": True,
        "image": {"repository": "localhost/wakeboard-postgres", "tag": "dev"},
        "persistence": {"enabled": False},
    },
    "operator": {"image": {"repository": "localhost/wakeboard-operator", "tag": "dev"}},
    "worker": {"image": {"repository": "localhost/wakeboard-worker", "tag": "dev"}},
    "pools": {
        "default": {},
        "hand": {"queues": ["hand"], "schedule": "0 0 1 1 *"},  # woken by hand
        "steady": {"mode": "forever", "queues": ["steady"]},
    },
}


def measure_pods(_: BenchmarkServer, plan: Plan) -> Table:
    """Needs root, as the node does; a new node and a new release, which are gone afterwards."""
    build_missing()
    rows = [(f"image {name}, compressed MB", f"{find_image(name).stat().st_size / MB:.0f}") for name in IMAGES[:2]]
    with tempfile.TemporaryDirectory(prefix="wakeboard-bench-") as folder, Node(Path(folder) / "cluster") as node:
        load_images(node)
        release = Release(node, "wakeboard-system", "default")
        release.node.kubectl("create", "namespace", release.namespace)
        began = time.monotonic()
        release.install(VALUES)
        rows.append(("helm install --wait with the dev database, s", f"{time.monotonic() - began:.1f}"))
        rows.append(_starts(release, plan))
        rows.append(_boundaries(release))
        rows += _memory(release)
    return Table(
        title="In a cluster",
        note="One node (containerd, kubelet) on this machine, images loaded beforehand. A pod's start counts from the"
        " creation of its Job to the start of a run that waits; a boundary from the minute for which a run was"
        " scheduled to its start, in a pod of the CronJob. Memory is the working set that the kubelet reports.",
        head=("figure", "value"),
        rows=rows,
    )


def _starts(release: Release, plan: Plan) -> tuple[str, str]:
    seconds: list[float] = []
    release.declare("on-demand", jobType="ping", queue="hand")
    for number in range(plan.repetitions):
        release.ask_for("on-demand", "run-now", str(number))
        began = time.time()
        pod = release.wake("hand")
        release.ended(pod)
        seconds.append(_moment(release.run_of("on-demand")["started_at"]) - began)
    return "pod's start to its first run, s", spread(seconds)


def _boundaries(release: Release) -> tuple[str, str]:
    release.declare("minutely", jobType="ping", schedule="* * * * *")
    seen: dict[str, float] = {}

    def look() -> bool:
        for run in release.asked("runs", "--schedule", "minutely", "--status", "succeeded"):
            if run["scheduled_for"]:
                seen[run["scheduled_for"]] = _moment(run["started_at"]) - _moment(run["scheduled_for"])
        time.sleep(1)
        return len(seen) >= MINUTES

    wait_for(look, within_s=MINUTES * 60 + A_MINUTE_AND_A_POD_S)
    return "a minute's boundary to the start of its run, s", spread(sorted(seen.values())[:MINUTES])


def _memory(release: Release) -> list[tuple[str, str]]:
    selectors = {"operators": OPERATOR, "a worker that stays": "app.kubernetes.io/component=worker"}
    node = json.loads(release.node.kubectl("get", "nodes", "-o", "json"))["items"][0]["metadata"]["name"]
    stats = release.node.call("GET", f"/api/v1/nodes/{node}/proxy/stats/summary")
    used = {pod["podRef"]["name"]: pod["memory"]["workingSetBytes"] for pod in stats["pods"] if "memory" in pod}
    rows: list[tuple[str, str]] = []
    for who, selector in selectors.items():
        names = [pod["metadata"]["name"] for pod in release.pods(selector) if pod["status"]["phase"] == "Running"]
        rows.append((f"memory of {who}, MB", spread([used[name] / MB for name in names if name in used])))
    return rows


def _moment(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()
