"""What the operator reads and writes, call by call, and how it classifies errors."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from testbed.cluster.job_schedules import job_schedule, path
from wakeboard.kube import client
from wakeboard.kube.client import CONFLICT, FORBIDDEN, ApiRefused
from wakeboard_operator.kube_client import Cluster, login
from wakeboard_operator.resources import Resource
from wakeboard_operator.wake_cleanup import START_DEADLINE, not_started_in_time

if TYPE_CHECKING:
    from testbed.cluster.cluster import Cluster as TestCluster
    from wakeboard.kube.client import ApiClient

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("crds")]


@pytest.fixture
def cluster(api: ApiClient, namespace: str) -> Cluster:
    return Cluster(api, [namespace], "k8s:test")


async def created(control_plane: TestCluster, cluster: Cluster, namespace: str, name: str = "report") -> Resource:
    control_plane.call("POST", path(namespace), job_schedule(name))
    found = await cluster.read((namespace, name))
    assert found is not None
    return found


async def test_a_list_is_complete_whatever_the_size_of_a_page(
    control_plane: TestCluster, cluster: Cluster, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(7):
        control_plane.call("POST", path(namespace), job_schedule(f"s{number}"))
    monkeypatch.setattr(client, "PAGE_SIZE", 3)
    listing = await cluster.listed()
    assert [each.name for each in listing.resources] == [f"s{number}" for number in range(7)]
    assert listing.resource_version.isdecimal()


async def test_a_status_is_written_for_the_version_that_it_was_computed_for(
    control_plane: TestCluster, cluster: Cluster, namespace: str
) -> None:
    found = await created(control_plane, cluster, namespace)
    written = await cluster.patch_status(found, {"observedGeneration": 1, "dead": 2})
    assert written.status["dead"] == 2
    assert written.generation == found.generation
    with pytest.raises(ApiRefused) as stale:
        await cluster.patch_status(found, {"dead": 3})
    assert stale.value.status == CONFLICT
    again = await cluster.patch_status(written, {"dead": None})
    assert "dead" not in again.status


async def test_an_invalid_status_is_refused_with_the_reason(
    control_plane: TestCluster, cluster: Cluster, namespace: str
) -> None:
    found = await created(control_plane, cluster, namespace)
    with pytest.raises(ApiRefused, match="dead") as refused:
        await cluster.patch_status(found, {"dead": -1})
    assert refused.value.reason == "Invalid"


async def test_a_list_without_the_right_is_refused_with_the_reason(control_plane: TestCluster, namespace: str) -> None:
    async with login(control_plane.kubeconfig_of_user("stranger")) as api:
        with pytest.raises(ApiRefused, match="forbidden") as refused:
            await Cluster(api, [namespace], "k8s:test").listed()
        assert refused.value.status == FORBIDDEN
        found = Resource(namespace, "report", "u", 1, "1", {}, {}, {})
        with pytest.raises(ApiRefused) as unwritten:
            await Cluster(api, [namespace], "k8s:test").patch_status(found, {})
        assert unwritten.value.status == FORBIDDEN


async def test_the_source_of_a_whole_cluster_is_its_uid(control_plane: TestCluster, api: ApiClient) -> None:
    uid = control_plane.call("GET", "/api/v1/namespaces/kube-system")["metadata"]["uid"]
    assert await Cluster(api).source() == f"k8s:{uid}"


async def test_a_wake_whose_pod_cannot_start_is_deleted(
    control_plane: TestCluster, cluster: Cluster, namespace: str
) -> None:
    jobs = f"/apis/batch/v1/namespaces/{namespace}/jobs"
    labels = {"app.kubernetes.io/component": "worker", "app.kubernetes.io/part-of": "wakeboard"}
    pod = {"containers": [{"name": "worker", "image": "none"}], "restartPolicy": "Never"}
    for name, deadline in (("late", "1"), ("patient", "3600"), ("other", "")):
        about = {"name": name, "labels": labels, "annotations": {START_DEADLINE: deadline} if deadline else {}}
        control_plane.call("POST", jobs, {"metadata": about, "spec": {"template": {"spec": pod}}})
    foreign = {"name": "foreign", "annotations": {START_DEADLINE: "1"}}
    control_plane.call("POST", jobs, {"metadata": foreign, "spec": {"template": {"spec": pod}}})

    in_a_minute = datetime.now(UTC) + timedelta(minutes=1)
    (late,) = not_started_in_time(await cluster.worker_jobs(namespace), in_a_minute)
    assert late.name == "late"
    with pytest.raises(ApiRefused):
        await cluster.delete_job(namespace, late._replace(uid="another"))
    await cluster.delete_job(namespace, late)
    assert {job["metadata"]["name"] for job in await cluster.worker_jobs(namespace)} == {"patient", "other"}
