"""Kubernetes Jobs on a control plane without nodes: a test schedules, starts and ends pods, as a kubelet would."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from testbed.cluster.cluster import Refused

if TYPE_CHECKING:
    from testbed.cluster.cluster import Cluster

RULES: list[dict[str, Any]] = [
    {"apiGroups": ["batch"], "resources": ["cronjobs"], "verbs": ["get", "list"]},
    {"apiGroups": ["batch"], "resources": ["jobs"], "verbs": ["create", "get", "list", "watch", "delete"]},
    {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list", "watch"]},
    {"apiGroups": [""], "resources": ["pods/log"], "verbs": ["get"]},
    {"apiGroups": [""], "resources": ["events"], "verbs": ["list", "watch"]},
]
ACCOUNT = "jobs"


def cron_job(name: str, namespace: str, pod: dict[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    """A suspended CronJob with one container. `pod` and `spec` are more of the pod's and of the Job's spec."""
    containers = [
        {"name": "main", "image": "example.com/report:1", "args": ["--all"], "env": [{"name": "A", "value": "1"}]}
    ]
    template = {"spec": {"restartPolicy": "OnFailure", "containers": containers, **(pod or {})}}
    return {
        "apiVersion": "batch/v1",
        "kind": "CronJob",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"schedule": "0 3 * * *", "suspend": True, "jobTemplate": {"spec": {"template": template, **spec}}},
    }


def make_job_account(cluster: Cluster, namespace: str) -> str:
    """Creates a service account with the rights that the handler needs in a namespace. Returns a token of it."""
    about = {"name": ACCOUNT, "namespace": namespace}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": ACCOUNT}
    subject = {"kind": "ServiceAccount", **about}
    cluster.call("POST", f"/api/v1/namespaces/{namespace}/serviceaccounts", {"metadata": about})
    rbac = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}"
    cluster.call("POST", f"{rbac}/roles", {"metadata": about, "rules": RULES})
    cluster.call("POST", f"{rbac}/rolebindings", {"metadata": about, "roleRef": role, "subjects": [subject]})
    answer = cluster.call("POST", f"/api/v1/namespaces/{namespace}/serviceaccounts/{ACCOUNT}/token", {"spec": {}})
    return answer["status"]["token"]


class JobPods:
    """The Jobs and pods of one namespace. All methods run in a thread, so that an event loop goes on meanwhile."""

    def __init__(self, cluster: Cluster, namespace: str) -> None:
        self.cluster, self.namespace = cluster, namespace

    async def call(self, method: str, path: str, body: Any = None, content: str = "application/json") -> Any:
        """A request of the administrator, below the namespace."""
        api, _, rest = path.partition(" ")
        return await asyncio.to_thread(
            self.cluster.call, method, f"{api}/namespaces/{self.namespace}/{rest}", body, content
        )

    async def apply_cron_job(self, name: str = "report", pod: dict[str, Any] | None = None, **spec: Any) -> None:
        """Creates a CronJob."""
        await self.call("POST", "/apis/batch/v1 cronjobs", cron_job(name, self.namespace, pod, **spec))

    async def jobs(self) -> list[dict[str, Any]]:
        """All Jobs, oldest first."""
        found = (await self.call("GET", "/apis/batch/v1 jobs"))["items"]
        return sorted(found, key=lambda job: (job["metadata"]["creationTimestamp"], job["metadata"]["name"]))

    async def pods(self) -> list[dict[str, Any]]:
        """All pods."""
        return (await self.call("GET", "/api/v1 pods"))["items"]

    async def one_job(self) -> dict[str, Any]:
        """Waits for the first Job."""
        while not (found := await self.jobs()):  # noqa: ASYNC110 - the event is in another process
            await asyncio.sleep(0.05)
        return found[-1]

    async def one_pod(self) -> dict[str, Any]:
        """Waits for a pod that has not been scheduled."""
        while not (found := [pod for pod in await self.pods() if not pod["spec"].get("nodeName")]):  # noqa: ASYNC110
            await asyncio.sleep(0.05)
        return found[0]

    async def schedule(self, node: str = "node-1") -> str:
        """Schedules the next pod. Returns its name."""
        name = (await self.one_pod())["metadata"]["name"]
        target = {"apiVersion": "v1", "kind": "Node", "name": node}
        await self.call("POST", f"/api/v1 pods/{name}/binding", {"metadata": {"name": name}, "target": target})
        return name

    async def start(self, pod: str = "") -> str:
        """Reports that the containers of a pod run. Returns its name."""
        pod = pod or await self.schedule()
        await self.set_status(pod, "Running", {"running": {"startedAt": _now()}})
        return pod

    async def end(self, pod: str, code: int = 0, reason: str = "", message: str = "", **status: Any) -> None:
        """Reports that the containers of a pod have ended."""
        state = {
            "exitCode": code,
            "reason": reason or ("Completed" if code == 0 else "Error"),
            "startedAt": _now(),
            "finishedAt": _now(),
            **({"message": message} if message else {}),
        }
        await self.set_status(pod, "Succeeded" if code == 0 else "Failed", {"terminated": state}, **status)

    async def ended(self) -> None:
        """Waits until the newest Job has ended."""
        while not _has_ended(await self.one_job()):  # noqa: ASYNC110
            await asyncio.sleep(0.05)

    async def set_status(self, pod: str, phase: str, state: dict[str, Any], **status: Any) -> None:
        """Writes the status of a pod with one container."""
        container = {"name": "main", "image": "x", "imageID": "", "ready": False, "restartCount": 0, "state": state}
        body = {"status": {"phase": phase, "containerStatuses": [container], **status}}
        await self.call("PATCH", f"/api/v1 pods/{pod}/status", body, "application/strategic-merge-patch+json")

    async def deleting(self, pod: str) -> None:
        """Waits until a pod has been asked to end."""
        while "deletionTimestamp" not in (await self.call("GET", f"/api/v1 pods/{pod}"))["metadata"]:  # noqa: ASYNC110
            await asyncio.sleep(0.05)

    async def remove(self, pod: str) -> None:
        """Reports that a pod that was asked to end is gone."""
        try:
            await self.call("DELETE", f"/api/v1 pods/{pod}", {"gracePeriodSeconds": 0})
        except Refused as error:
            if error.status != 404:
                raise

    async def deny(self, group: str, resource: str, words: str) -> None:
        """Lets a policy deny the creation of such objects in the namespace, and waits until it does."""
        created = {"apiGroups": [group], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": [resource]}
        validation = {"expression": "false", "message": words}
        rules = {"matchConstraints": {"resourceRules": [created]}, "validations": [validation]}
        here = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": self.namespace}}}
        binding = {"policyName": self.namespace, "validationActions": ["Deny"], "matchResources": here}
        for kind, spec in (("ies", rules), ("ybindings", binding)):
            path = f"/apis/admissionregistration.k8s.io/v1/validatingadmissionpolic{kind}"
            body = {"metadata": {"name": self.namespace}, "spec": spec}
            await asyncio.to_thread(self.cluster.call, "POST", path, body)
        pod = {"restartPolicy": "Never", "containers": [{"name": "main", "image": "x"}]}
        spec = pod if resource == "pods" else {"template": {"spec": pod}}
        path = f"{'/apis/batch/v1' if group else '/api/v1'} {resource}?dryRun=All"
        is_denied = False
        while not is_denied:
            try:
                await self.call("POST", path, {"metadata": {"name": "tried"}, "spec": spec})
            except Refused as error:
                is_denied = words in str(error)


def _has_ended(job: dict[str, Any]) -> bool:
    conditions: list[dict[str, Any]] = job["status"].get("conditions") or []
    return any(each["type"] in ("Complete", "Failed") and each["status"] == "True" for each in conditions)


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
