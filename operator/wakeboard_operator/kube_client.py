"""The Kubernetes client: all requests of the operator to the API server, over one login.

Errors carry a reason that decides what to do: a failed list removes nothing, a conflict is computed again, and a status
whose resource was deleted is dropped.
"""

from __future__ import annotations

import asyncio
import json
import os
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import aiohttp
from kubernetes.aio import client, config

from wakeboard.errors import WakeboardError
from wakeboard.process.egress_proxy import environment_proxy
from wakeboard.text.redact import redact
from wakeboard.text.sanitize import one_line
from wakeboard_operator.resources import GROUP, KIND, PLURAL, VERSION, Key, Resource, resource
from wakeboard_operator.wake_cleanup import WORKERS

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping, Sequence
    from datetime import datetime

    from wakeboard_operator.wake_cleanup import JobName

_Item = TypeVar("_Item")

FIELD_MANAGER: Final = "wakeboard-operator"
PAGE_SIZE: Final = 500
MAX_CONCURRENT_READS: Final = 10
REQUEST_TIMEOUT_S: Final = 30.0
WATCH_TIMEOUT_S: Final = 300  # the API server ends a watch after that
WATCH_SILENCE_S: Final = 90.0  # without an event; the API server sends a bookmark about each minute
TOKEN: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount/token")
MERGE_PATCH: Final = "application/merge-patch+json"
BUSY: Final = (429, 500, 502, 503, 504)
_LIST_REASONS: Final = {401: "forbidden", 403: "forbidden", 404: "missing", 410: "expired"}


class _Refused(Exception):
    """An error response of the API server: its HTTP status and message."""

    def __init__(self, status: int, body: bytes) -> None:
        self.status = status
        try:
            super().__init__(str(json.loads(body).get("message") or f"status {status}"))
        except (ValueError, AttributeError):
            super().__init__(f"status {status}")


class ListFailed(WakeboardError):
    """There is no complete list. `reason`: forbidden, missing (the CRD is not installed), expired, or unavailable."""

    def __init__(self, reason: str, sentence: str) -> None:
        self.reason = reason
        super().__init__(sentence)


class WriteFailed(WakeboardError):
    """A write failed. `reason`: conflict, not found, forbidden, invalid, or unavailable."""

    def __init__(self, reason: str, sentence: str) -> None:
        self.reason = reason
        super().__init__(sentence)


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


async def _events(response: aiohttp.ClientResponse) -> AsyncGenerator[dict[str, Any]]:
    """Yields the events of a watch. Raises _Refused: the API server refuses it, or ends it with an error."""
    if response.status >= 400:  # noqa: PLR2004 - HTTP errors
        raise _Refused(response.status, await response.read())
    while line := await response.content.readline():
        event: dict[str, Any] = json.loads(line)
        if event["type"] == "ERROR":
            raise _Refused(int(event["object"].get("code") or 0), json.dumps(event["object"]).encode())
        yield event


@asynccontextmanager
async def logged_in(namespaces: Sequence[str] = (), source: str = "") -> AsyncGenerator[Cluster]:
    """Logs in with the service account, or else with the kubeconfig. Raises WakeboardError."""
    async with login() as api:
        yield Cluster(api, namespaces, source)


@asynccontextmanager
async def login() -> AsyncGenerator[client.ApiClient]:
    """Logs in, as `logged_in`, and yields the generic client. Raises WakeboardError."""
    configuration: Any = client.Configuration()
    try:
        if in_cluster():
            config.load_incluster_config(client_configuration=configuration)  # pyright: ignore[reportUnknownMemberType]
        else:
            await config.load_kube_config(client_configuration=configuration)  # pyright: ignore[reportUnknownMemberType]
    except (config.ConfigException, OSError) as error:
        raise WakeboardError(f"cannot log in to a cluster: {error}") from error
    configuration.disable_strict_ssl_verification = True  # see watch.Login
    configuration.proxy = configuration.proxy or environment_proxy(configuration.host)
    configuration.client_session_kwargs = {"trust_env": False}  # else every request reads the environment and ~/.netrc
    async with client.ApiClient(configuration) as api:
        yield api


class Cluster:
    """One API server. `namespaces`: those that the operator watches. Empty: all."""

    def __init__(self, api: client.ApiClient, namespaces: Sequence[str] = (), source: str = "") -> None:
        self._api = api
        self._namespaces = namespaces
        self._source = source

    async def source(self) -> str:
        """Returns the name of this cluster in the database: the setting, or the uid of the namespace kube-system."""
        if not self._source:
            found = await self._page("/api/v1/namespaces/kube-system", "")
            self._source = f"k8s:{found['metadata']['uid']}"
        return self._source

    async def listed(self) -> Listing:
        """Lists all JobSchedules in pages, each watched namespace at one resourceVersion. Raises ListFailed."""
        found: list[Resource] = []
        version = ""
        for path in self._paths():
            continue_token: str | None = ""
            while continue_token is not None:
                page = await self._page(path, continue_token)
                found += [resource(item) for item in page["items"]]
                version = page["metadata"]["resourceVersion"]
                continue_token = page["metadata"].get("continue") or None
        return Listing(found, version)

    async def read(self, key: Key) -> Resource | None:
        """Reads one JobSchedule. Returns None if it does not exist. Raises ListFailed."""
        path = f"/apis/{GROUP}/{VERSION}/namespaces/{key[0]}/{PLURAL}/{key[1]}"
        try:
            return resource(await self._page(path, ""))
        except ListFailed as error:
            if error.reason == "missing":
                return None
            raise

    async def namespaces_gone(self, names: Iterable[str]) -> set[str]:
        """Returns the namespaces that are deleted or terminating. One that cannot be read counts as existing."""

        async def gone(name: str) -> bool:
            try:
                found = await self._page(f"/api/v1/namespaces/{name}", "")
            except ListFailed as error:
                return error.reason == "missing"
            return "deletionTimestamp" in found["metadata"]

        return await _filter(names, gone)

    async def objects_gone(self, objects: Mapping[Key, str]) -> set[Key]:
        """Returns the schedules that no longer exist with these uids. One that cannot be read counts as existing."""

        async def gone(key: Key) -> bool:
            try:
                found = await self.read(key)
            except ListFailed:
                return False
            return found is None or found.uid != objects[key]

        return await _filter(objects, gone)

    async def patch_status(self, of: Resource, status: Mapping[str, Any]) -> Resource:
        """Merges `status` into the status of `of`, if its resourceVersion is unchanged. Raises WriteFailed."""
        path = f"/apis/{GROUP}/{VERSION}/namespaces/{of.namespace}/{PLURAL}/{of.name}/status"
        body = {"metadata": {"resourceVersion": of.resource_version, "uid": of.uid}, "status": status}
        return resource(await self._write("PATCH", path, {"fieldManager": FIELD_MANAGER}, body, MERGE_PATCH))

    async def post_event(self, about: Resource, reason: str, message: str, at: datetime, *, warning: bool) -> None:
        """Posts an event about a JobSchedule, which `kubectl describe` shows. Raises WriteFailed."""
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
        """Posts a warning about the operator's own pod. Raises WriteFailed."""
        involved = {"apiVersion": "v1", "kind": "Pod", "namespace": namespace, "name": pod}
        await self._post_event(involved, reason, message, at, warning=True)

    async def worker_jobs(self, namespace: str) -> list[dict[str, Any]]:
        """Lists the Jobs of wakeboard's workers in a namespace, as JSON objects. Raises ListFailed."""
        query = {"labelSelector": WORKERS, "limit": str(PAGE_SIZE)}
        return (await self._page(f"/apis/batch/v1/namespaces/{namespace}/jobs", "", query))["items"]

    async def worker_pods(self, namespace: str) -> tuple[list[dict[str, Any]], str]:
        """Lists the pods of wakeboard's workers in a namespace; with the list's resourceVersion. Raises ListFailed."""
        found: list[dict[str, Any]] = []
        continue_token: str | None = ""
        version = ""
        while continue_token is not None:
            page = await self._page(f"/api/v1/namespaces/{namespace}/pods", continue_token, {"labelSelector": WORKERS})
            found += page["items"]
            version = page["metadata"]["resourceVersion"]
            continue_token = page["metadata"].get("continue") or None
        return found, version

    async def watch_worker_pods(self, namespace: str, version: str) -> AsyncGenerator[dict[str, Any]]:
        """Yields the events of these pods after `version`, bookmarks too, until the API server ends the watch.

        Raises ListFailed: `expired` if the version is too old, or the connection is lost or silent for too long.
        """
        query = {"labelSelector": WORKERS, "watch": "true", "allowWatchBookmarks": "true"}
        query |= {"resourceVersion": version, "timeoutSeconds": str(WATCH_TIMEOUT_S)}
        timeouts = aiohttp.ClientTimeout(connect=REQUEST_TIMEOUT_S, sock_read=WATCH_SILENCE_S)
        try:
            answer = await self._send("GET", f"/api/v1/namespaces/{namespace}/pods", query, timeouts=timeouts)
            async with answer.response as response:
                async for event in _events(response):
                    yield event
        except _Refused as error:
            reason = _LIST_REASONS.get(error.status, "unavailable")
            raise ListFailed(reason, f"the API server does not watch pods: {error}") from error
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as error:
            raise ListFailed("unavailable", f"the watch of pods was lost: {error or type(error).__name__}") from error

    async def delete_job(self, namespace: str, job: JobName) -> None:
        """Deletes a Job and its pods. Raises WriteFailed."""
        body = {"propagationPolicy": "Background", "preconditions": {"uid": job.uid}}
        path = f"/apis/batch/v1/namespaces/{namespace}/jobs/{job.name}"
        await self._write("DELETE", path, {}, body, "application/json")

    # -- requests ------------------------------------------------------------------------------------------------------

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
        path = f"/api/v1/namespaces/{involved['namespace']}/events"
        await self._write("POST", path, {}, body, "application/json")

    def _paths(self) -> list[str]:
        if not self._namespaces:
            return [f"/apis/{GROUP}/{VERSION}/{PLURAL}"]
        return [f"/apis/{GROUP}/{VERSION}/namespaces/{namespace}/{PLURAL}" for namespace in self._namespaces]

    async def _page(self, path: str, continue_token: str, query: Mapping[str, str] | None = None) -> dict[str, Any]:
        query = {"limit": str(PAGE_SIZE)} | dict(query or {}) | ({"continue": continue_token} if continue_token else {})
        try:
            return await self._get(path, query)
        except _Refused as error:
            reason = _LIST_REASONS.get(error.status, "unavailable")
            raise ListFailed(reason, f"the API server does not list {path.rpartition('/')[2]}: {error}") from error
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise ListFailed(
                "unavailable", f"the API server cannot be reached: {error or type(error).__name__}"
            ) from error

    async def _get(self, path: str, query: Mapping[str, str]) -> dict[str, Any]:
        return json.loads(await self._request("GET", path, query))

    async def _write(
        self, method: str, path: str, query: Mapping[str, str], body: Mapping[str, Any], content: str
    ) -> dict[str, Any]:
        try:
            return json.loads(await self._request(method, path, query, body, content))
        except _Refused as error:
            known = {401: "forbidden", 403: "forbidden", 404: "not found", 409: "conflict"}
            reason = "unavailable" if error.status in BUSY else known.get(error.status, "invalid")
            raise WriteFailed(reason, f"the API server refused the write: {error}") from error
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise WriteFailed(
                "unavailable", f"the API server cannot be reached: {error or type(error).__name__}"
            ) from error

    async def _request(
        self,
        method: str,
        path: str,
        query: Mapping[str, str],
        body: Mapping[str, Any] | None = None,
        content: str = "application/json",
    ) -> bytes:
        """Returns the body unparsed, because the client's models take ten times as long for 10,000 resources."""
        async with asyncio.timeout(REQUEST_TIMEOUT_S):
            answer = await self._send(method, path, query, body, content)
            data: bytes = await answer.read()
        if answer.status >= 400:  # noqa: PLR2004 - HTTP errors
            raise _Refused(answer.status, data)
        return data

    async def _send(
        self,
        method: str,
        path: str,
        query: Mapping[str, str],
        body: Mapping[str, Any] | None = None,
        content: str = "application/json",
        timeouts: aiohttp.ClientTimeout | None = None,
    ) -> Any:
        """Returns the response before its body has come."""
        serialized: Any = await self._api.param_serialize(  # pyright: ignore[reportUnknownMemberType]
            method,
            path,
            query_params=list(query.items()),
            header_params={"Accept": "application/json", "Content-Type": content},
            body=body,
            auth_settings=["BearerToken"],
        )
        return await self._api.call_api(*serialized, _request_timeout=timeouts)  # pyright: ignore[reportUnknownMemberType]
