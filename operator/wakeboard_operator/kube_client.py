"""What the operator asks of the API server: JobSchedules, their statuses and events, and the workers' Jobs and pods.

Errors decide what to do: a failed list removes nothing, a conflict is computed again, and a status whose resource was
deleted is dropped.
"""

from __future__ import annotations

import asyncio
import os
import ssl
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC
from typing import TYPE_CHECKING, Any, Final, TypeVar

from wakeboard.errors import WakeboardError
from wakeboard.kube.api_server import SERVICE_ACCOUNT, ApiServer, ssl_context
from wakeboard.kube.client import NOT_FOUND, ApiClient, ApiError, ApiRefused
from wakeboard.kube.watch import Watch
from wakeboard.process.egress_proxy import environment_proxy
from wakeboard.text.redact import redact
from wakeboard.text.sanitize import one_line
from wakeboard_operator.resources import GROUP, KIND, PLURAL, VERSION, Key, Resource, resource
from wakeboard_operator.wake_cleanup import WORKERS

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping, Sequence
    from datetime import datetime
    from pathlib import Path

    from wakeboard.kube.watch import Listener
    from wakeboard_operator.wake_cleanup import JobName

_Item = TypeVar("_Item")

FIELD_MANAGER: Final = "wakeboard-operator"
MAX_CONCURRENT_READS: Final = 10
TOKEN: Final = SERVICE_ACCOUNT / "token"


@dataclass(frozen=True, slots=True)
class Listing:
    """All JobSchedules at one resourceVersion."""

    resources: Sequence[Resource]
    resource_version: str


def in_cluster() -> bool:
    """Whether this process runs in a pod with a service account."""
    return "KUBERNETES_SERVICE_HOST" in os.environ and TOKEN.is_file()


async def _filter(items: Iterable[_Item], predicate: Callable[[_Item], Awaitable[bool]]) -> set[_Item]:
    """Returns the items for which `predicate` is true. Checks a few at a time."""
    slots = asyncio.Semaphore(MAX_CONCURRENT_READS)

    async def one(each: _Item) -> bool:
        async with slots:
            return await predicate(each)

    all_items = list(items)
    answers = await asyncio.gather(*map(one, all_items))
    return {each for each, yes in zip(all_items, answers, strict=True) if yes}


@asynccontextmanager
async def login(kubeconfig: Path | None = None) -> AsyncGenerator[ApiClient]:
    """Logs in with the service account, or else with the kubeconfig. Raises WakeboardError."""
    try:
        api = _of_this_pod() if in_cluster() and kubeconfig is None else await _of_kubeconfig(kubeconfig)
    except OSError as error:
        raise WakeboardError(f"cannot log in to a cluster: {error}") from error
    try:
        yield api
    finally:
        await api.close()


def _of_this_pod() -> ApiClient:
    server = ApiServer.of_this_pod("cannot log in to a cluster: this process is in none")
    return ApiClient(server, TOKEN, agent=FIELD_MANAGER, proxy=environment_proxy(server.url))


async def _of_kubeconfig(kubeconfig: Path | None) -> ApiClient:
    from kubernetes.aio import client, config  # half a second, which a pod can do without

    found: Any = client.Configuration()
    try:
        file = kubeconfig and str(kubeconfig)
        await config.load_kube_config(file, client_configuration=found)  # pyright: ignore[reportUnknownMemberType]
    except config.ConfigException as error:
        raise WakeboardError(f"cannot log in to a cluster: {error}") from error
    context = ssl_context(found.ssl_ca_cert)
    if found.cert_file:
        context.load_cert_chain(found.cert_file, found.key_file)
    if not found.verify_ssl:
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return ApiClient(
        ApiServer(found.host.rstrip("/")),
        agent=FIELD_MANAGER,
        authorization=found.api_key.get("BearerToken", ""),
        context=context,
        proxy=found.proxy or environment_proxy(found.host),
    )


class Cluster:
    """One API server. `namespaces`: those that the operator watches. Empty: all."""

    def __init__(self, api: ApiClient, namespaces: Sequence[str] = (), source: str = "") -> None:
        self._api = api
        self._namespaces = namespaces
        self._source = source

    async def source(self) -> str:
        """Returns the name of this cluster in the database: the setting, or the uid of the namespace kube-system."""
        if not self._source:
            found = await self._api.request("GET", "/api/v1/namespaces/kube-system")
            self._source = f"k8s:{found['metadata']['uid']}"
        return self._source

    async def listed(self) -> Listing:
        """Lists all JobSchedules in pages, each watched namespace at one resourceVersion. Raises ApiError."""
        found: list[Resource] = []
        version = ""
        for path in self._paths():
            async for page in self._api.pages(path):
                found += [resource(item) for item in page["items"]]
                version = page["metadata"]["resourceVersion"]
        return Listing(found, version)

    async def read(self, key: Key) -> Resource | None:
        """Reads one JobSchedule. Returns None if it does not exist. Raises ApiError."""
        path = f"/apis/{GROUP}/{VERSION}/namespaces/{key[0]}/{PLURAL}/{key[1]}"
        try:
            return resource(await self._api.request("GET", path))
        except ApiRefused as error:
            if error.status == NOT_FOUND:
                return None
            raise

    async def namespaces_gone(self, names: Iterable[str]) -> set[str]:
        """Returns the namespaces that are deleted or terminating. One that cannot be read counts as existing."""

        async def gone(name: str) -> bool:
            try:
                found = await self._api.request("GET", f"/api/v1/namespaces/{name}")
            except ApiError as error:
                return error.status == NOT_FOUND
            return "deletionTimestamp" in found["metadata"]

        return await _filter(names, gone)

    async def objects_gone(self, objects: Mapping[Key, str]) -> set[Key]:
        """Returns the schedules that no longer exist with these uids. One that cannot be read counts as existing."""

        async def gone(key: Key) -> bool:
            try:
                found = await self.read(key)
            except ApiError:
                return False
            return found is None or found.uid != objects[key]

        return await _filter(objects, gone)

    async def patch_status(self, of: Resource, status: Mapping[str, Any]) -> Resource:
        """Merges `status` into the status of `of`, if its resourceVersion is unchanged. Raises ApiError."""
        path = f"/apis/{GROUP}/{VERSION}/namespaces/{of.namespace}/{PLURAL}/{of.name}/status"
        body = {"metadata": {"resourceVersion": of.resource_version, "uid": of.uid}, "status": status}
        return resource(await self._api.request("PATCH", path, {"fieldManager": FIELD_MANAGER}, body))

    async def post_event(self, about: Resource, reason: str, message: str, at: datetime, *, warning: bool) -> None:
        """Posts an event about a JobSchedule, which `kubectl describe` shows. Raises ApiError."""
        involved = {
            "apiVersion": f"{GROUP}/{VERSION}",
            "kind": KIND,
            "namespace": about.namespace,
            "name": about.name,
            "uid": about.uid,
            "resourceVersion": about.resource_version,
        }
        await self._post_event(involved, reason, message, at, warning=warning)

    async def post_pod_event(self, namespace: str, pod: str, reason: str, message: str, at: datetime) -> None:
        """Posts a warning about the operator's own pod. Raises ApiError."""
        involved = {"apiVersion": "v1", "kind": "Pod", "namespace": namespace, "name": pod}
        await self._post_event(involved, reason, message, at, warning=True)

    async def worker_jobs(self, namespace: str) -> list[dict[str, Any]]:
        """Lists the Jobs of wakeboard's workers in a namespace, as JSON objects. Raises ApiError."""
        pages = self._api.pages(f"/apis/batch/v1/namespaces/{namespace}/jobs", {"labelSelector": WORKERS})
        return [job async for page in pages for job in page["items"]]

    def watch_worker_pods(self, namespace: str, listener: Listener) -> Watch:
        """A watch of the pods of wakeboard's workers in a namespace."""
        path, query = f"/api/v1/namespaces/{namespace}/pods", {"labelSelector": WORKERS}
        without = "ended workers are not noticed before their leases expire: "
        return Watch(self._api, path, query, listener, without)

    async def delete_job(self, namespace: str, job: JobName) -> None:
        """Deletes a Job and its pods. Raises ApiError."""
        body = {"propagationPolicy": "Background", "preconditions": {"uid": job.uid}}
        path = f"/apis/batch/v1/namespaces/{namespace}/jobs/{job.name}"
        await self._api.request("DELETE", path, body=body)

    async def _post_event(
        self, involved: Mapping[str, str], reason: str, message: str, moment: datetime, *, warning: bool
    ) -> None:
        at = moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        body = {
            "metadata": {"generateName": f"{involved['name'][:50]}-", "namespace": involved["namespace"]},
            "involvedObject": involved,
            "reason": reason,
            "message": one_line(redact(message, 1024, "start"))[:1024],
            "type": "Warning" if warning else "Normal",
            "source": {"component": FIELD_MANAGER},
            "reportingComponent": FIELD_MANAGER,
            "firstTimestamp": at,
            "lastTimestamp": at,
            "count": 1,
        }
        await self._api.request("POST", f"/api/v1/namespaces/{involved['namespace']}/events", body=body)

    def _paths(self) -> list[str]:
        if not self._namespaces:
            return [f"/apis/{GROUP}/{VERSION}/{PLURAL}"]
        return [f"/apis/{GROUP}/{VERSION}/namespaces/{namespace}/{PLURAL}" for namespace in self._namespaces]
