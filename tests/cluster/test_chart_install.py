"""The chart, installed by Helm into a real API server: install, upgrade, rollback, uninstall and several releases.

There are no nodes, so no pod runs; but the API server, its admission at the `restricted` level and the controllers are
real, and so are operator, worker and smoke test where a test starts them with the release's own rights and settings.
"""

from __future__ import annotations

import base64
import re
import shlex
from collections import Counter
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest

from testbed.cluster.cluster import Refused
from testbed.cluster.control_plane import ControlPlane
from testbed.cluster.job_schedules import install_crds, job_schedule, path
from testbed.cluster.operators import wait_for
from testbed.processes import ROOT
from tests.chart.rendering import environment, named
from tests.cluster.helm_client import CLUSTER_WIDE, KINDS, MORE_KINDS, HelmClient
from wakeboard.board.access import Permission

if TYPE_CHECKING:
    from collections.abc import Iterator

    from testbed.cluster.cluster import Cluster

pytestmark = pytest.mark.xdist_group("chart")

MOVING_GUIDE = (ROOT / "docs" / "moving.md").read_text()
URL = {"url": "postgresql://u:p@nowhere.invalid/db"}
DEFINITION = "jobschedules.wakeboard.dev"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
SCHEDULES = "/apis/wakeboard.dev/v1alpha1 jobschedules"
EVERYTHING: dict[str, Any] = {
    "devDatabase": {"enabled": True},
    "pools": {
        "default": {},
        "mail": {"mode": "forever", "queues": ["mail"], "replicas": 2},
        "reports": {"queues": ["reports"], "secretName": "keys", "lingerSeconds": 55},
    },
    "networkPolicy": {"enabled": True},
    "board": {
        "enabled": True,
        "login": "proxy",
        "proxySecretName": "shared",
        "ingress": {"enabled": True, "host": "jobs.example.com"},
    },
    "rbac": {"aggregateToEdit": True},
    "monitoring": {"dashboard": {"enabled": True}},
    "commonLabels": {"team": "blue"},
    "commonAnnotations": {"example.com/owner": "blue"},
}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """A control plane of this module's own: the definition belongs to the whole cluster."""
    with ControlPlane(tmp_path_factory.mktemp("chart") / "cluster") as own:
        yield own


@pytest.fixture
def user(cluster: ControlPlane) -> Iterator[HelmClient]:
    """A Helm client for the empty namespace `jobs`. Its objects are removed after the test."""
    client = HelmClient(cluster)
    yield client
    client.delete_labelled(CLUSTER_WIDE, "app.kubernetes.io/part-of=wakeboard")
    client.delete_labelled((*MORE_KINDS, *KINDS.values()), "app.kubernetes.io/name=wakeboard")
    client.delete_labelled([KINDS["Secret"]], "owner=helm")
    if _definition_is_there(cluster):  # it takes the API server up to a minute to forget one
        with suppress(Refused):  # it is not served yet
            client.delete_labelled([SCHEDULES], "")
        _give_definition_to(cluster, "wakeboard", "jobs")


def _definition_is_there(cluster: ControlPlane) -> bool:
    return any(each["metadata"]["name"] == DEFINITION for each in cluster.call("GET", DEFINITIONS)["items"])


def _give_definition_to(cluster: Cluster, release: str, namespace: str) -> None:
    owner = {"meta.helm.sh/release-name": release, "meta.helm.sh/release-namespace": namespace}
    edit = {"metadata": {"annotations": {key: value or None for key, value in owner.items()}}}
    cluster.call("PATCH", f"{DEFINITIONS}/{DEFINITION}", edit, "application/merge-patch+json")


def have_schedule(user: HelmClient, name: str = "report") -> None:
    wait_for(lambda: _made(user, name))


def _made(user: HelmClient, name: str) -> bool:
    try:  # a definition is served a moment after it is established
        user.cluster.call("POST", path(user.namespace), job_schedule(name))
    except Refused as refused:
        return refused.status == 409
    return True


def schedules(user: HelmClient) -> list[str]:
    return [each["metadata"]["name"] for each in user.cluster.call("GET", path(user.namespace))["items"]]


def restricted(user: HelmClient) -> None:
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    user.cluster.apply(
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": user.namespace, "labels": labels}}
    )


# -- one release -------------------------------------------------------------------------------------------------------


def test_a_release_is_upgraded_rolled_back_and_uninstalled_and_schedules_stay(user: HelmClient) -> None:
    output = user.install("wakeboard", database=URL)
    assert "kubectl -n jobs get jobschedules" in output
    have_schedule(user)
    account = user.get("ServiceAccount", "wakeboard-operator")["metadata"]["uid"]
    user.upgrade("wakeboard", database=URL, pools={"default": {"concurrency": 7}, "mail": {"mode": "forever"}})
    job = user.get("CronJob", "wakeboard-wake-default")["spec"]["jobTemplate"]["spec"]["template"]["spec"]
    assert environment(job["containers"][0])["WAKEBOARD_CONCURRENCY"] == "7"
    assert "Deployment/wakeboard-worker-mail" in user.names("wakeboard")
    user.helm("rollback", "wakeboard", "1")
    assert "Deployment/wakeboard-worker-mail" not in user.names("wakeboard")
    assert user.get("ServiceAccount", "wakeboard-operator")["metadata"]["uid"] == account
    user.uninstall("wakeboard")
    assert user.names("wakeboard") == set()
    assert schedules(user) == ["report"]
    user.install("wakeboard", database=URL)
    assert schedules(user) == ["report"]


def test_the_guide_of_a_move_stops_what_stays_and_starts_it_again(user: HelmClient) -> None:
    stop, start = re.findall(r"^(?:kubectl|helm) (.*)--namespace wakeboard (.*)$", MOVING_GUIDE, re.MULTILINE)
    user.install("wakeboard", database=URL, pools={"mail": {"mode": "forever", "replicas": 3}})
    names = ("wakeboard-operator", "wakeboard-worker-mail")
    user.kubectl(*shlex.split(" ".join(stop)))
    assert [user.get("Deployment", name)["spec"]["replicas"] for name in names] == [0, 0]
    user.helm(*shlex.split(" ".join(start)))
    assert [user.get("Deployment", name)["spec"]["replicas"] for name in names] == [2, 3]


def test_every_pod_passes_the_restricted_level(user: HelmClient) -> None:
    restricted(user)
    user.install("wakeboard", **EVERYTHING)
    user.kubectl("create", "job", "wake", "--from=cronjob/wakeboard-wake-reports")
    hook = user.template("wakeboard", "--show-only", "templates/database/migrate.yaml", **_hooked())
    test = user.template("wakeboard", "--show-only", "templates/smoke-test.yaml", **_hooked())
    user.kubectl("apply", "-f", "-", stdin=hook)
    user.kubectl("apply", "-f", "-", stdin=test)
    wanted = Counter({"operator": 2, "worker": 3, "board": 2, "dev-database": 1, "migrate": 1, "smoke-test": 1})

    def counted() -> Counter[str]:
        found = user.cluster.call("GET", f"/api/v1/namespaces/{user.namespace}/pods")["items"]
        return Counter(each["metadata"]["labels"]["app.kubernetes.io/component"] for each in found)

    # A minute that begins meanwhile adds pods of workers.
    wait_for(lambda: counted() >= wanted, why=lambda: (counted(), user.kubectl("get", "events")))
    assert "violates PodSecurity" not in user.kubectl("get", "events")


def _hooked() -> dict[str, Any]:
    return {"database": URL, "migrations": {"mode": "hook"}}


def test_the_password_of_the_dev_database_is_generated_once_and_kept(user: HelmClient) -> None:
    def password() -> str:
        data = user.get("Secret", "wakeboard-dev-database")["data"]
        found = base64.b64decode(data["password"]).decode()
        assert f":{found}@wakeboard-dev-database:5432/" in base64.b64decode(data["owner-dsn"]).decode()
        return found

    user.install("wakeboard", devDatabase={"enabled": True})
    first = password()
    assert len(first) == 32
    user.upgrade("wakeboard", devDatabase={"enabled": True}, log={"level": "debug"})
    assert password() == first
    user.uninstall("wakeboard")
    user.install("wakeboard", devDatabase={"enabled": True})
    assert password() == first


@pytest.mark.parametrize(("mode", "more"), [("initContainer", EVERYTHING), ("hook", {})], ids=["initContainer", "hook"])
def test_what_helm_renders_can_be_applied_twice_and_after_a_change(
    user: HelmClient, mode: str, more: dict[str, Any]
) -> None:
    values: dict[str, Any] = {**more, "migrations": {"mode": mode}, "devDatabase": {}, "database": URL}
    there = HelmClient(user.cluster, f"rendered-{mode.lower()}")
    user.cluster.kubectl("create", "namespace", there.namespace)
    there.kubectl("apply", "-f", "-", stdin=there.template("wakeboard", **values))
    again = there.template("wakeboard", **values)
    assert there.kubectl("diff", "-f", "-", stdin=again) == ""
    there.kubectl("apply", "-f", "-", stdin=again)
    changed: dict[str, Any] = {**values, "log": {"level": "debug"}, "worker": {"image": {"tag": "2"}}}
    later = there.kubectl("apply", "-f", "-", stdin=there.template("wakeboard", "--skip-tests", **changed))
    assert "deployment.apps/wakeboard-operator configured" in later


def test_the_longest_names_are_cut_and_stay_apart(user: HelmClient) -> None:
    pools = {f"{'p' * 39}{last}": {"mode": mode} for last in "ab" for mode in ["cronjob" if last == "a" else "forever"]}
    pools |= {f"{'q' * 39}{last}": {"mode": "cronjob"} for last in "ab"}
    for last in "xy":
        release = "a-release-with-a-name-as-long-as-helm-allows-it-to-b" + last
        values: dict[str, Any] = {**EVERYTHING, "crds": {"enabled": False}, "pools": pools}
        user.install(release, **values)
        crons = [name for name in user.names(release) if name.startswith("CronJob/")]
        assert len(crons) == 4
        assert all(len(name.partition("/")[2]) <= 52 for name in crons)
    pods = f"/api/v1/namespaces/{user.namespace}/pods?labelSelector=wakeboard.dev/pool"
    wait_for(lambda: user.cluster.call("GET", pods)["items"])


# -- several releases --------------------------------------------------------------------------------------------------


def test_a_second_release_is_refused_until_it_has_its_own_names(user: HelmClient) -> None:
    user.install("wakeboard", database=URL)
    second = HelmClient(user.cluster, "team-b")
    with pytest.raises(Refused) as refused:
        second.install("wakeboard", database=URL)
    assert "belongs to the release wakeboard in the namespace jobs" in str(refused.value)
    assert "--set crds.enabled=false" in str(refused.value)
    own: dict[str, Any] = {"operator": {"source": "k8s:team-b", "namespaces": ["team-b"]}, "crds": {"enabled": False}}
    second.install("wakeboard", database=URL, **own)
    assert user.names("wakeboard") & second.names("wakeboard") >= {"Deployment/wakeboard-operator"}
    second.upgrade("wakeboard", database=URL, crds={"enabled": False})  # now it has cluster roles of its own
    second.uninstall("wakeboard")
    assert user.cluster.call("GET", path("jobs"))["items"] == []
    assert user.may("wakeboard-operator", "list", "jobschedules.wakeboard.dev", "team-b")
    assert not second.may("wakeboard-operator", "list", "jobschedules.wakeboard.dev", "team-b")


def test_a_definition_that_was_applied_by_hand_is_adopted_the_same_way(user: HelmClient) -> None:
    install_crds(user.cluster)
    _give_definition_to(user.cluster, "", "")
    with pytest.raises(Refused, match="belongs to no release of Helm") as refused:
        user.install("wakeboard", database=URL)
    for line in re.findall(r"^\s*kubectl (.+)$", str(refused.value), re.MULTILINE):
        user.cluster.kubectl(*shlex.split(line))
    user.install("wakeboard", database=URL)


# -- rights ------------------------------------------------------------------------------------------------------------

OPERATOR_MAY = [
    ("get", "jobschedules.wakeboard.dev"),
    ("list", "jobschedules.wakeboard.dev"),
    ("watch", "jobschedules.wakeboard.dev"),
    ("patch", "jobschedules.wakeboard.dev/status"),
    ("create", "events"),
]
OPERATOR_MAY_NOT = [
    ("create", "jobschedules.wakeboard.dev"),
    ("patch", "jobschedules.wakeboard.dev"),
    ("delete", "jobschedules.wakeboard.dev"),
    ("get", "secrets"),
    ("delete", "pods"),
    ("patch", "pods/status"),
    ("list", "namespaces"),
    ("create", "jobs.batch"),
]


def test_an_operator_has_the_rights_that_it_needs_and_no_others(user: HelmClient) -> None:
    user.install("wakeboard", database=URL)
    for verb, resource in OPERATOR_MAY:
        assert user.may("wakeboard-operator", verb, resource, "default"), (verb, resource)
    for verb, resource in OPERATOR_MAY_NOT:
        assert not user.may("wakeboard-operator", verb, resource, "jobs"), (verb, resource)
    assert user.may("wakeboard-operator", "get", "namespaces/kube-system", "kube-system")
    assert user.may("wakeboard-operator", "watch", "pods", "jobs"), "it sees how the pods of workers end"
    assert not user.may("wakeboard-operator", "watch", "pods", "default")
    for verb in ("create", "get", "patch", "delete"):
        assert user.may("wakeboard-smoke-test", verb, "jobschedules.wakeboard.dev", "jobs")
    assert not user.may("wakeboard-smoke-test", "list", "jobschedules.wakeboard.dev", "jobs")
    assert not user.may("wakeboard-smoke-test", "get", "secrets", "jobs")
    role = named([user.get("Role", "wakeboard-smoke-test-of-jobs")], "Role", "wakeboard-smoke-test-of-jobs")
    assert len(role["rules"]) == 1


def test_with_a_list_of_namespaces_an_operator_may_do_it_there_alone(user: HelmClient) -> None:
    user.cluster.kubectl("create", "namespace", "shop")
    user.install("wakeboard", database=URL, operator={"source": "k8s:shop", "namespaces": ["shop"]})
    for verb, resource in OPERATOR_MAY:
        assert user.may("wakeboard-operator", verb, resource, "shop"), (verb, resource)
    for verb, resource in OPERATOR_MAY[:-1]:
        assert not user.may("wakeboard-operator", verb, resource, "jobs"), (verb, resource)
    assert not user.may("wakeboard-operator", "get", "namespaces/kube-system", "kube-system")
    assert not any(user.labelled(collection, "app.kubernetes.io/component=operator") for collection in CLUSTER_WIDE)
    user.cluster.kubectl("delete", "namespace", "shop", "--wait=false")


def test_viewers_and_editors_get_rights_only_if_a_value_allows_it(user: HelmClient) -> None:
    board = {"enabled": True, "login": "kubernetes"}
    user.install("wakeboard", database=URL, board=board)
    for name in ("view", "edit"):
        user.kubectl("create", "serviceaccount", name)
        user.kubectl("create", "rolebinding", name, f"--clusterrole={name}", f"--serviceaccount=jobs:{name}")
    changes = [DEFINITION, f"{DEFINITION}/{Permission.RETRY}"]

    def may(account: str, verb: str, resource: str) -> bool:
        return user.may(account, verb, resource, "jobs")

    wait_for(lambda: may("view", "get", f"{DEFINITION}/runs") and may("edit", "list", DEFINITION))
    assert not any(may(account, "create", resource) for account in ("view", "edit") for resource in changes)
    user.upgrade("wakeboard", database=URL, board={**board, "aggregateToEdit": True}, rbac={"aggregateToEdit": True})
    wait_for(lambda: all(may("edit", "create", resource) for resource in changes))
    assert not any(may("view", "create", resource) for resource in changes)
    user.kubectl("delete", "serviceaccount/view", "serviceaccount/edit", "rolebinding/view", "rolebinding/edit")


def test_a_board_may_only_review_the_rights_of_a_proxys_users(user: HelmClient) -> None:
    asks = "subjectaccessreviews.authorization.k8s.io"
    user.install("wakeboard", database=URL, board={"enabled": True, "login": "kubernetes"})
    assert not user.may("wakeboard-board", "create", asks, "jobs")
    user.upgrade("wakeboard", database=URL, board={"enabled": True, "login": "proxy", "proxySecretName": "shared"})
    wait_for(lambda: user.may("wakeboard-board", "create", asks, "jobs"))
    for verb, resource in (("get", f"{DEFINITION}/runs"), ("list", DEFINITION), ("get", "secrets")):
        assert not user.may("wakeboard-board", verb, resource, "jobs"), (verb, resource)
