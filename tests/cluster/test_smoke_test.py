"""What `helm test` runs: with a real operator and a real worker, and without them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from testbed.cluster.job_schedules import path
from testbed.cluster.operators import Environment, Operator, wait_for
from tests.chaos.processes import Worker
from wakeboard_operator.resources import Resource
from wakeboard_operator.smoke_test import SmokeTestFailed, has_succeeded, is_synced

if TYPE_CHECKING:
    from collections.abc import Iterator

    from testbed.cluster.cluster import Cluster

ROOT = Path(__file__).resolve().parents[2]
MAY = [{"apiGroups": ["wakeboard.dev"], "resources": ["jobschedules"], "verbs": ["create", "get", "patch", "delete"]}]


@pytest.fixture
def env(control_plane: Cluster, crds: None, namespace: str, database: str) -> Environment:
    """A namespace in which the service account `smoke-test` may do what the chart's Role says."""
    control_plane.call("POST", f"/api/v1/namespaces/{namespace}/serviceaccounts", {"metadata": {"name": "smoke-test"}})
    rights = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}"
    control_plane.call("POST", f"{rights}/roles", {"metadata": {"name": "smoke-test"}, "rules": MAY})
    subject = {"kind": "ServiceAccount", "name": "smoke-test", "namespace": namespace}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "smoke-test"}
    binding = {"metadata": {"name": "smoke-test"}, "roleRef": role, "subjects": [subject]}
    control_plane.call("POST", f"{rights}/rolebindings", binding)
    return Environment(control_plane, namespace, database)


@pytest.fixture
def operator(env: Environment, tmp_path: Path) -> Iterator[Operator]:
    settings = {"namespaces": env.namespace, "source": f"k8s:{env.namespace}", "status_min_interval_seconds": 1}
    with Operator(env.dsn, env.cluster.admin, tmp_path, **settings) as running:
        running.wait_until_leading()
        yield running


def smoke_test(env: Environment, within_s: float, queue: str = "default") -> subprocess.Popen[str]:
    login = env.cluster.kubeconfig_of_service_account(env.namespace, "smoke-test")
    words = [f"--namespace={env.namespace}", f"--queue={queue}", f"--within={within_s}"]
    command = [sys.executable, "-m", "wakeboard_operator.smoke_test", *words]
    environment = {
        **os.environ,
        "KUBECONFIG": str(login),
        "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "operator")]),
    }
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def schedules(env: Environment) -> list[Any]:
    return env.cluster.call("GET", path(env.namespace))["items"]


def test_a_smoke_test_sees_its_run_succeed_and_leaves_nothing(
    env: Environment, operator: Operator, tmp_path: Path
) -> None:
    with smoke_test(env, within_s=60) as process:
        wait_for(lambda: env.sql("select id from job_runs where status = 'queued'"), why=lambda: operator.log)
        with Worker(env.dsn, tmp_path, drain_lookahead_seconds=0) as worker:
            assert worker.exit_code() == 0, worker.log
        output, errors = process.communicate(timeout=60)
    assert (process.returncode, errors) == (0, "")
    assert "the run succeeded" in output
    assert schedules(env) == []


def test_without_an_operator_a_smoke_test_says_so(env: Environment) -> None:
    with smoke_test(env, within_s=2) as process:
        _, errors = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "no operator has observed the schedule" in errors
    assert schedules(env) == []


def test_a_smoke_test_that_is_asked_to_stop_removes_its_schedule(env: Environment) -> None:
    with smoke_test(env, within_s=60) as process:
        wait_for(lambda: schedules(env))
        process.terminate()
        _, errors = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "stopped" in errors
    assert schedules(env) == []


def seen(**status: Any) -> Resource:
    return Resource("jobs", "smoke-test", "uid", 1, "7", {}, {}, {"observedGeneration": 1, **status})


def test_a_stalled_schedule_ends_the_smoke_test_at_once() -> None:
    stalled = {"type": "Stalled", "status": "True", "reason": "NotAllowed", "message": "queue x is not yours."}
    with pytest.raises(SmokeTestFailed, match=r"NotAllowed.*queue x is not yours"):
        is_synced(seen(conditions=[stalled]))


def test_a_run_that_failed_ends_a_smoke_test_with_its_message() -> None:
    with pytest.raises(SmokeTestFailed, match=r"dead.*out of paper"):
        has_succeeded(seen(lastRun={"result": "dead"}, lastFailure={"message": "out of paper"}))
    assert not has_succeeded(seen())
    assert has_succeeded(seen(lastRun={"result": "succeeded"}))
