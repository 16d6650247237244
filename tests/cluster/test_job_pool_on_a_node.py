"""The chart's pool of the job type `job` on a real node: two pods, and real containers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from testbed.cluster.busybox_images import BUSYBOX
from testbed.cluster.images import find_image
from testbed.cluster.job_pods import cron_job
from testbed.cluster.release import NAME, Release, load_images
from testbed.processes import wait_for

if TYPE_CHECKING:
    from collections.abc import Iterator

    from testbed.cluster.node import Node

pytestmark = pytest.mark.timeout(600)

SHOP = "container-shop"
POOL = "app.kubernetes.io/component=worker"
LOCAL = "localhost/wakeboard-"
BACKOFF_S = 15  # until the next attempt of `fails-once`: time to edit its CronJob


def _image(name: str) -> dict[str, Any]:
    return {"image": {"repository": f"{LOCAL}{name}", "tag": "dev"}}


VALUES: dict[str, Any] = {
    "image": {"pullPolicy": "Never"},
    "devDatabase": {"enabled": True, "persistence": {"enabled": False}, **_image("postgres")},
    "operator": {"replicas": 1, "namespaces": [SHOP], "source": "containers", **_image("operator")},
    "pools": {
        "default": None,
        "boxes": {"queues": ["jobs"], "replicas": 2, "jobs": {"enabled": True, "namespaces": [SHOP]}, **_image("jobs")},
    },
    "networkPolicy": {"enabled": True},
}


class Shop:
    """CronJobs of a namespace, and what became of their schedules."""

    def __init__(self, node: Node, release: Release) -> None:
        self.node, self.release = node, release

    def define(self, name: str, script: str, schedule: str = "0 3 1 1 *", **pod: Any) -> None:
        """Creates or edits a CronJob that runs a script in busybox."""
        main = {"name": "main", "image": BUSYBOX, "imagePullPolicy": "IfNotPresent", "command": ["sh", "-ec", script]}
        document = cron_job(name, SHOP, {"containers": [main], "terminationGracePeriodSeconds": 1, **pod})
        document["spec"] |= {"schedule": schedule, "suspend": False}
        self.node.apply(document)

    def declare(self, name: str, **spec: Any) -> None:
        """Creates a schedule of a CronJob, and starts a run of it."""
        backoff = {"strategy": "Fixed", "baseSeconds": BACKOFF_S, "maxSeconds": BACKOFF_S}
        about = {"jobType": "job", "queue": "jobs", "payload": {"cronJob": name}, "backoff": backoff}
        self.release.declare(name, **about, **spec)
        self.run_now(name)

    def run_now(self, name: str) -> None:
        self.release.wakeboard("run-now", f"{SHOP}/{name}")

    def run(self, name: str, status: str) -> dict[str, Any]:
        """Waits for a status of the schedule's run. Returns the run."""
        self.comes(name, f"status = '{status}'")
        return self.release.run_of(name)

    def comes(self, name: str, what: str) -> None:
        """Waits until this is true of the schedule's run."""
        schedule = f"select id from wakeboard.job_definitions where name = '{name}'"
        query = f"select id from wakeboard.all_runs as run where definition_id = ({schedule}) and {what}"
        self.release.wait_for_row(query, within_s=300)

    def jobs(self, name: str) -> list[dict[str, Any]]:
        """The Jobs that were made from a CronJob."""
        found = self.node.call("GET", f"/apis/batch/v1/namespaces/{SHOP}/jobs")["items"]
        return [job for job in found if job["metadata"]["annotations"]["wakeboard.dev/cron-job"] == name]


@pytest.fixture(scope="module")
def shop(real_node: Node) -> Iterator[Shop]:
    load_images(real_node)
    real_node.load_image(find_image("wakeboard-jobs"))
    real_node.enforce_network_policies()
    for name in ("jobs-system", SHOP):
        real_node.kubectl("create", "namespace", name)
    release = Release(real_node, "jobs-system", SHOP)
    release.install(VALUES)
    yield Shop(real_node, release)
    release.helm("uninstall", NAME, "--ignore-not-found")
    real_node.kubectl("delete", "crd", "jobschedules.wakeboard.dev", "--ignore-not-found")
    real_node.kubectl("delete", "namespace", release.namespace, SHOP, "--wait=false")


def test_runs_survive_the_pools_pod_an_edit_and_the_api_server(shop: Shop, real_node: Node) -> None:
    shop.define("steady", "until [ -e /tmp/end ]; do sleep 1; done; echo done")
    shop.define("fails-once", "echo no disk; exit 1")
    shop.define("too-long", "trap '' TERM; while :; do sleep 1; done")
    shop.declare("steady")
    shop.declare("fails-once", maxAttempts=20)
    shop.declare("too-long", maxAttempts=1, timeoutSeconds=6)

    assert "exit code 1" in shop.run("fails-once", "failed")["error"]
    shop.define("fails-once", "echo edited")
    assert shop.run("too-long", "dead")["error"].startswith("it ran longer than its timeout of 6 s")
    wait_for(lambda: shop.jobs("too-long") == [])
    shop.comes("steady", "exists (select from wakeboard.job_steps where run_id = run.id and name = 'Job 1 started')")
    pods = [pod["metadata"]["name"] for pod in shop.release.pods(POOL)]
    assert len(pods) == 2
    worker = shop.release.run_of("steady")["worker"]
    (holder,) = (pod for pod in pods if pod in worker)
    real_node.kill_container(shop.release.namespace, holder)
    shop.comes("steady", "exists (select from wakeboard.job_attempts where run_id = run.id and cause is not null)")
    # The other pod adopts it, or the new container of this one.
    shop.comes("steady", "status <> 'queued'")
    real_node.restart_api_server()
    (ran,) = shop.run("steady", "running")["kubernetes_jobs"]
    real_node.kubectl("-n", SHOP, "exec", ran["pod"], "--", "touch", "/tmp/end")

    steady = shop.run("steady", "succeeded")
    assert steady["result"] == {"exit_code": 0, "output": "done\n"}
    assert (steady["attempts"], steady["crash_count"], len(shop.jobs("steady"))) == (1, 0, 1)
    ended = [(made["cause"], made["pod"]) for made in steady["attempts_made"] if made["cause"]]
    assert ended == [("Error", holder)]
    (ran,) = steady["kubernetes_jobs"]
    assert (ran["exit_code"], ran["name"]) == (0, shop.jobs("steady")[0]["metadata"]["name"])
    edited = shop.run("fails-once", "succeeded")
    assert edited["result"]["output"] == "edited\n"
    assert edited["attempts"] == len(shop.jobs("fails-once")) > 1
