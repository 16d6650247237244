"""What the test cluster itself promises."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from kubernetes.aio.client import ApiClient, CoreV1Api

from testbed.cluster.cluster import Cluster, Refused

if TYPE_CHECKING:
    from testbed.cluster.control_plane import ControlPlane

pytestmark = pytest.mark.anyio


def test_kubectl_and_the_api_see_the_same(control_plane: Cluster, namespace: str):
    control_plane.kubectl("create", "configmap", "note", "--from-literal=said=hello", "--namespace", namespace)
    note = control_plane.call("GET", f"/api/v1/namespaces/{namespace}/configmaps/note")
    assert note["data"] == {"said": "hello"}


async def test_the_python_client_is_logged_in(api: ApiClient, namespace: str):
    found = await CoreV1Api(api).read_namespace(namespace)
    assert found.metadata is not None
    assert found.metadata.name == namespace


def test_a_stranger_may_do_nothing(control_plane: Cluster):
    stranger = control_plane.kubeconfig_of_user("stranger")
    with pytest.raises(Refused, match='User "stranger" cannot list resource "namespaces"'):
        control_plane.kubectl("get", "namespaces", kubeconfig=stranger)


def test_a_user_may_do_what_a_role_grants_to_the_group(control_plane: Cluster, namespace: str):
    reader = control_plane.kubeconfig_of_user("rita", ["readers"])
    control_plane.kubectl("create", "role", "read", "--verb=list", "--resource=configmaps", "-n", namespace)
    control_plane.kubectl("create", "rolebinding", "read", "--role=read", "--group=readers", "-n", namespace)
    control_plane.kubectl("get", "configmaps", "-n", namespace, kubeconfig=reader)
    with pytest.raises(Refused, match='cannot list resource "secrets"'):
        control_plane.kubectl("get", "secrets", "-n", namespace, kubeconfig=reader)


def test_a_service_account_logs_in_with_its_token(control_plane: Cluster, namespace: str):
    control_plane.kubectl("create", "serviceaccount", "robot", "-n", namespace)
    robot = control_plane.kubeconfig_of_service_account(namespace, "robot")
    name = control_plane.kubectl("auth", "whoami", "-o", "jsonpath={.status.userInfo.username}", kubeconfig=robot)
    assert name == f"system:serviceaccount:{namespace}:robot"


def test_a_killed_api_server_comes_back_with_its_objects(own_control_plane: ControlPlane):
    own_control_plane.kubectl("create", "configmap", "note", "--from-literal=said=hello")
    own_control_plane.restart_api_server()
    assert own_control_plane.kubectl("get", "configmap", "note", "-o", "jsonpath={.data.said}") == "hello"


def test_the_audit_log_knows_who_wrote(own_control_plane: ControlPlane):
    own_control_plane.kubectl("create", "configmap", "note")
    writes = [event for event in own_control_plane.audited() if event["verb"] == "create"]
    assert ("admin", "configmaps") in [(event["user"]["username"], event["objectRef"]["resource"]) for event in writes]
