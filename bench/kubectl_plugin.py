"""Measures `kubectl wakeboard`: through a real API server, to a board whose database has many runs."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

from bench.processes import MeasuredProcess
from bench.tables import Table, at_most, spread
from testbed.cluster.binaries import find_program
from testbed.cluster.board import board_of, kubeconfig_of_user
from testbed.cluster.control_plane import ControlPlane
from testbed.cluster.job_schedules import install_crds
from testbed.processes import ROOT

if TYPE_CHECKING:
    from bench.database import BenchmarkServer
    from bench.plan import Plan
    from bench.processes import Cost

NAMESPACE: Final = "default"
COMMANDS: Final = (("runs", "-A"), ("schedules", "-A"))
WITHIN_S: Final = 60.0
MOST_S: Final = 1.0


def measure_kubectl_plugin(server: BenchmarkServer, plan: Plan) -> Table:
    """Each command in turn, from `kubectl` to its end. The first round does not count: kubectl fills its caches."""
    costs: dict[tuple[str, ...], list[Cost]] = {words: [] for words in COMMANDS}
    with (
        tempfile.TemporaryDirectory(prefix="wakeboard-bench-") as name,
        ControlPlane(Path(name) / "cluster") as cluster,
        server.database() as database,
    ):
        install_crds(cluster)
        database.enqueue(plan.planned)
        database.vacuum()
        folder = Path(name)
        cluster.kubectl("create", "serviceaccount", "anna", "--namespace", NAMESPACE)
        cluster.kubectl(
            "create", "clusterrolebinding", "anna", "--clusterrole=cluster-admin", f"--serviceaccount={NAMESPACE}:anna"
        )
        token = cluster.kubectl("create", "token", "anna", "--namespace", NAMESPACE).strip()
        (folder / "kubeconfig").write_text(json.dumps(kubeconfig_of_user(cluster, NAMESPACE, {"token": token})))
        with board_of(cluster, NAMESPACE, database.dsn):
            for _ in range(1 + plan.repetitions):
                for words, found in costs.items():
                    found.append(_cost(folder, words))
    return Table(
        title="kubectl wakeboard",
        note=f"{plan.repetitions} times each, in turn, in seconds: from the start of kubectl to its end."
        f" {plan.planned:,} runs in the database; a kube-apiserver and a board on this machine.",
        head=("command", "CPU s", "wall s"),
        rows=[
            (
                f"kubectl wakeboard {' '.join(words)}",
                spread([each.cpu_s for each in found[1:]]),
                spread([each.wall_s for each in found[1:]]),
            )
            for words, found in costs.items()
        ],
        thresholds=[
            at_most(f"kubectl wakeboard {words[0]}: wall s", MOST_S, [each.wall_s for each in found[1:]])
            for words, found in costs.items()
        ],
    )


def _cost(folder: Path, words: tuple[str, ...]) -> Cost:
    kubectl = find_program("kubectl")
    environment = {
        "PATH": f"{ROOT / '.venv' / 'bin'}:{kubectl.parent}:{os.environ['PATH']}",
        "KUBECONFIG": str(folder / "kubeconfig"),
        "WAKEBOARD_BOARD_NAMESPACE": NAMESPACE,
    }
    process = MeasuredProcess([str(kubectl), "wakeboard", *words], environment, folder)
    cost = process.ended(WITHIN_S)
    if cost.exit_code:
        raise RuntimeError(f"kubectl wakeboard {' '.join(words)} ended with {cost.exit_code}: {process.output()}")
    return cost
