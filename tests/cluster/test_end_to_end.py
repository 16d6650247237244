"""The whole product on a real node, from nothing: images, chart, CronJob, pods, faults, upgrade, removal.

The tests form one sequence: each continues where the one before ended. The first step waits for a real minute of the
CronJob. The others wake workers as `kubectl create job --from=cronjob/…` does.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from testbed.cluster.binaries import find_program
from testbed.cluster.cluster import Refused
from testbed.cluster.operators import wait_for
from testbed.cluster.release import NAME, Release, external_database, load_images, remove_external_database

if TYPE_CHECKING:
    from collections.abc import Iterator

    from testbed.cluster.node import Node

pytestmark = pytest.mark.timeout(400)

HANDLERS = Path(__file__).with_name("end_to_end_handlers.py")
LOCAL = "localhost/"
A_MINUTE_AND_A_POD_S = 100
HANDLERS_VOLUME = {
    "handlers": ["end_to_end_handlers"],
    "extraEnv": [{"name": "PYTHONPATH", "value": "/story"}],
    "volumes": [{"name": "story", "configMap": {"name": "story-handlers"}}],
    "volumeMounts": [{"name": "story", "mountPath": "/story"}],
}
VALUES: dict[str, Any] = {
    "image": {"pullPolicy": "Never"},
    "devDatabase": {
        "enabled": True,
        "image": {"repository": f"{LOCAL}wakeboard-postgres", "tag": "dev"},
        "persistence": {"enabled": True, "size": "1Gi"},
    },
    "operator": {
        "image": {"repository": f"{LOCAL}wakeboard-operator", "tag": "dev"},
        "namespaces": ["shop"],  # another release will look at another one
        "source": "first",
    },
    "worker": {
        "image": {"repository": f"{LOCAL}wakeboard-worker", "tag": "dev"},
        "leaseSeconds": 5,
        "graceSeconds": 2,
        "drainLookaheadSeconds": 3,
    },
    "pools": {
        "default": {},  # woken by its CronJob every minute, as it comes
        "story": {"queues": ["story"], "schedule": "0 0 1 1 *", **HANDLERS_VOLUME},  # woken by the story
        "steady": {"mode": "forever", "queues": ["steady"]},
    },
    "board": {"enabled": True, "replicas": 1, "image": {"repository": f"{LOCAL}wakeboard-board", "tag": "dev"}},
    "networkPolicy": {"enabled": True},
}
WITH_LOGIN = {**VALUES["board"], "login": "kubernetes", "service": {"enabled": True}, "hosts": ["jobs.example.com"]}


@pytest.fixture(scope="module")
def release(real_node: Node) -> Iterator[Release]:
    """The chart, not yet installed; two namespaces at the `restricted` level, and the project's images on the node."""
    load_images(real_node)
    for name in ("wakeboard-system", "shop"):
        real_node.apply(_namespace(name))
    real_node.enforce_network_policies()
    real_node.make_volume("story-data", "1Gi")
    release = Release(real_node, "wakeboard-system", "shop")
    release.node.apply(
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "story-handlers", "namespace": release.namespace},
            "data": {"end_to_end_handlers.py": HANDLERS.read_text()},
        }
    )
    yield release
    release.helm("uninstall", NAME, "--wait", "--ignore-not-found")
    real_node.kubectl("delete", "crd", "jobschedules.wakeboard.dev", "--ignore-not-found")
    real_node.kubectl("delete", "namespace", release.namespace, release.jobs)
    remove_external_database(real_node)


def _namespace(name: str) -> dict[str, Any]:
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}


def succeeded(status: dict[str, Any]) -> bool:
    return status.get("lastRun", {}).get("result") == "succeeded"


def test_helm_installs_it_into_a_restricted_namespace(release: Release) -> None:
    output = release.install(VALUES)
    assert "get jobschedules" in output
    assert release.asked("runs") == []


def test_a_schedule_becomes_a_run_becomes_a_status_within_a_real_minute(release: Release) -> None:
    release.declare("greet", jobType="ping", schedule="* * * * *")
    status = release.comes("greet", succeeded, A_MINUTE_AND_A_POD_S)
    assert status["lastRun"]["scheduledFor"]
    assert shown(release, "greet").keys() >= {"NEXT-RUN", "AGE"}
    assert shown(release, "greet").items() >= {"READY": "True", "RESULT": "succeeded", "DEAD": "0"}.items()
    release.declare("greet", jobType="ping", schedule="* * * * *", suspend=True)


def test_the_board_without_a_login_is_opened_by_port_forward_alone(release: Release) -> None:
    with release.forwarded(f"deployment/{NAME}-board", 8686) as address:
        assert ask(address + "/")[0] == 200
        assert "shop/greet" in ask(address + "/runs")[1]
    with pytest.raises(Refused):
        release.kubectl("get", "service", f"{NAME}-board")


def test_kubectl_wakeboard_board_forwards_the_board_until_it_is_interrupted(release: Release) -> None:
    plugin = [sys.executable, "-c", "import sys; from wakeboard.cli.kubectl import main; sys.exit(main())"]
    words = ["board", "--no-open", "--kubeconfig", str(release.node.admin), "--board-namespace", release.namespace]
    path = f"{find_program('kubectl').parent}:{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "PYTHONUNBUFFERED": "1"}
    with subprocess.Popen([*plugin, *words], env=environment, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        line = process.stdout.readline()
        found = re.fullmatch(r"the board is at http://wakeboard\.localhost:(\d+)/ until Ctrl-C\.\n", line)
        try:
            assert found, line
            here = f"http://127.0.0.1:{found[1]}"  # not each system resolves names below localhost
            assert "shop/greet" in ask(here + "/runs", {"Host": f"wakeboard.localhost:{found[1]}"})[1]
        finally:
            process.send_signal(signal.SIGINT)
        process.wait(30)
    with pytest.raises(urllib.error.URLError):  # nothing forwards any more
        ask(here + "/")


def test_a_drained_node_loses_no_run_and_gives_attempts_back(release: Release) -> None:
    run, _ = hanging(release, "drained")
    words = ["--pod-selector=app.kubernetes.io/component=worker", "--force", "--delete-emptydir-data", "--timeout=60s"]
    node = json.loads(release.node.kubectl("get", "nodes", "-o", "json"))["items"][0]["metadata"]["name"]
    release.node.kubectl("drain", node, *words)
    release.node.kubectl("uncordon", node)
    release.wait_for_row(f"select id from wakeboard.job_runs where id = {run} and status = 'queued'")
    returned = release.asked("run", str(run))
    assert (returned["attempts"], returned["release_count"], returned["crash_count"]) == (0, 1, 0)
    release.wake("story")
    release.comes("drained", succeeded)


def test_an_upgrade_changes_the_pods_and_loses_nothing(release: Release) -> None:
    before = {row["id"]: row["status"] for row in release.asked("runs", "-n", "1000")}
    changed = {**VALUES, "worker": {**VALUES["worker"], "concurrency": 7}, "board": WITH_LOGIN}
    release.upgrade(changed)
    release.declare("after-upgrade", jobType="ping", queue="steady")
    release.ask_for("after-upgrade", "run-now", "1")
    release.comes("after-upgrade", succeeded)
    after = {row["id"]: row["status"] for row in release.asked("runs", "-n", "1000")}
    assert after.items() >= before.items()


def test_rbac_decides_what_a_user_sees_and_does_on_the_board(release: Release) -> None:
    """The upgrade has given the board a login: the kubelet and the API server reach it and are reached."""
    run = release.run_of("after-upgrade")["id"]
    in_shop = ["--namespace", release.jobs]
    release.node.kubectl(*in_shop, "create", "serviceaccount", "anna")
    login, stranger = (
        {"Authorization": "Bearer " + release.node.kubectl(*in_shop, "create", "token", name).strip()}
        for name in ("anna", "default")
    )
    roles = [f"--clusterrole={NAME}-board-view:{release.namespace}", f"--serviceaccount={release.jobs}:anna"]
    with release.forwarded(f"service/{NAME}-board", 80) as address:
        assert ask(address + "/runs")[0] == 401
        assert ask(address + "/runs", stranger)[0] == 403
        release.node.kubectl(*in_shop, "create", "rolebinding", "anna", *roles)
        wait_for(lambda: "shop/after-upgrade" in ask(address + "/runs", login)[1], within_s=60)
        assert ask(f"{address}/runs/{run}/replay", login, b"reason=again")[0] == 403
    assert release.run_of("after-upgrade")["id"] == run


def test_a_second_release_migrates_by_a_hook_and_keeps_to_its_namespaces(release: Release) -> None:
    node = release.node
    for name in ("second-system", "warehouse"):
        node.apply(_namespace(name))
    second = Release(node, "second-system", "warehouse", "second")
    url = external_database(node)
    second.install(
        {
            **{key: VALUES[key] for key in ("image", "worker")},
            "operator": {**VALUES["operator"], "replicas": 1, "namespaces": ["warehouse"], "source": "second"},
            "database": {"url": url},
            "migrations": {"mode": "hook"},
            "crds": {"enabled": False},
            "networkPolicy": {"enabled": True},
        }
    )
    second.declare("count", jobType="ping")
    second.ask_for("count", "run-now", "1")
    second.wake()
    second.comes("count", succeeded)
    assert [each["schedule"] for each in second.asked("runs")] == ["warehouse/count"]
    second.helm("uninstall", "second", "--wait", "--timeout=120s")


# -- words of the story


def ask(url: str, headers: dict[str, str] | None = None, form: bytes | None = None) -> tuple[int, str]:
    """The board's answer: status and page."""
    try:
        with urllib.request.urlopen(urllib.request.Request(url, form, headers or {}), timeout=30) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as refused:
        return refused.code, refused.read().decode()


def shown(release: Release, name: str) -> dict[str, str]:
    """The row of `kubectl get jobschedules --output=wide`, by column."""
    lines = release.node.kubectl("--namespace", release.jobs, "get", "jobschedules", "--output=wide").splitlines()
    head, *rows = [re.split(r" {2,}", line.strip()) for line in lines]
    return next(dict(zip(head, row, strict=True)) for row in rows if row[0] == name)


def hanging(release: Release, name: str) -> tuple[int, str]:
    """A run that hangs in a worker: its number, and the pod."""
    release.declare(name, jobType="hangs_once", queue="story")
    release.ask_for(name, "run-now", "1")
    pod = release.wake("story")
    started = (
        "select id from wakeboard.job_runs where definition_id = (select id from wakeboard.job_definitions"
        f" where name = '{name}') and id in (select run_id from wakeboard.job_effects)"
    )
    return release.wait_for_row(started)[0], pod
