"""The watch of the workers' pods: it continues after each way in which a watch ends, and forgets no event.

The API server is a small one of the test, which answers in the order that the test gives.
"""

from __future__ import annotations

import asyncio
import json
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any

import pytest
from aiohttp import web

from tests.schedules.schedules import connected, rows
from wakeboard.kube import api_server, client, watch
from wakeboard.schedules.leader_api import OperatorStore, TerminatedRuns
from wakeboard_operator import worker_pods
from wakeboard_operator.kube_client import Cluster
from wakeboard_operator.worker_pods import EndedWorkers

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Sequence

pytestmark = pytest.mark.anyio

GONE = {"kind": "Status", "code": 410, "message": "too old resource version: 5 (9)"}


def pod(worker: int, version: str) -> dict[str, Any]:
    """A pod whose worker was OOM-killed."""
    ended = {"exitCode": 137, "reason": "OOMKilled", "message": f"wakeboard worker {worker}\n"}
    status = {"containerStatuses": [{"name": "worker", "state": {"terminated": ended}}]}
    metadata = {"name": f"pod-{worker}", "uid": f"uid-{worker}", "resourceVersion": version}
    return {"metadata": metadata, "status": status}


def event(kind: str, found: dict[str, Any]) -> str:
    return json.dumps({"type": kind, "object": found}) + "\n"


def listing(version: str, *pods: dict[str, Any]) -> dict[str, Any]:
    return {"items": list(pods), "metadata": {"resourceVersion": version}}


class ApiServer:
    """Answers requests for pods with these lists and these lines of watches, then leaves the last watch open."""

    def __init__(self, lists: Sequence[dict[str, Any]], watches: Sequence[list[str] | int]) -> None:
        self._lists, self._watches = iter(lists), iter(watches)
        self.asked: list[str] = []  # `list`, or the version of a watch
        self._changed = asyncio.Event()

    def _ask(self, what: str) -> None:
        self.asked.append(what)
        self._changed.set()

    async def wait(self, requests: int) -> None:
        while len(self.asked) < requests:
            self._changed.clear()
            await self._changed.wait()

    async def pods(self, request: web.Request) -> web.StreamResponse:
        assert (
            request.query["labelSelector"] == "app.kubernetes.io/component=worker,app.kubernetes.io/part-of=wakeboard"
        )
        if "watch" not in request.query:
            self._ask("list")
            return web.json_response(next(self._lists))
        assert request.query["allowWatchBookmarks"] == "true"
        self._ask(request.query["resourceVersion"])
        lines = next(self._watches, None)
        if isinstance(lines, int):
            return web.json_response(GONE | {"code": lines}, status=lines)
        answer = web.StreamResponse()
        await answer.prepare(request)
        if lines is None:
            await asyncio.sleep(60)
        await answer.write("".join(lines or ()).encode())
        return answer


class Store:
    """Remembers what is reported."""

    def __init__(self, skipped: Sequence[int] = ()) -> None:
        self.reported: list[int] = []
        self._skipped = iter(skipped)
        self.changed = asyncio.Event()

    async def workers_of_pod(self, uid: str, named: int | None = None) -> list[int]:
        of_pod = [int(uid.removeprefix("uid-")) + offset for offset in (0, 1000)]
        return [worker for worker in of_pod if named in {worker, None}]

    async def report_worker_terminated(self, worker: int, *_: str) -> TerminatedRuns:
        self.reported.append(worker)
        self.changed.set()
        return TerminatedRuns(0, 1, 0, 0, next(self._skipped, 0))

    async def wait(self, count: int) -> None:
        while len(self.reported) < count:
            self.changed.clear()
            await self.changed.wait()


def count(cause: str, attempts: int) -> None:
    assert (cause, attempts) in {("OOMKilled", 1), ("Evicted", 1)}


@asynccontextmanager
async def watching(server: ApiServer, store: Store) -> AsyncGenerator[None]:
    app = web.Application()
    app.router.add_get("/api/v1/namespaces/jobs/pods", server.pods)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    api = client.ApiClient(api_server.ApiServer(f"http://127.0.0.1:{runner.addresses[0][1]}"))
    ended = EndedWorkers()
    works = (
        Cluster(api).watch_worker_pods("jobs", ended).run(),
        ended.report(store, count),  # pyright: ignore[reportArgumentType]
    )
    tasks = [asyncio.create_task(work) for work in works]
    try:
        async with asyncio.timeout(30):
            yield
    finally:
        for task in tasks:
            task.cancel()
        with suppress(asyncio.CancelledError):
            await asyncio.gather(*tasks)
        await api.close()
        await runner.cleanup()


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch, "SHORTEST_WATCH_S", 0.01)
    monkeypatch.setattr(worker_pods, "RETRY_LOCKED_S", 0.01)


async def test_a_watch_continues_from_its_last_event_or_bookmark() -> None:
    bookmark = event("BOOKMARK", {"metadata": {"resourceVersion": "8"}})
    server = ApiServer(
        [listing("5", pod(1, "3"))], [[event("MODIFIED", pod(2, "7")), bookmark], [event("DELETED", pod(3, "9"))]]
    )
    store = Store()
    async with watching(server, store):
        await store.wait(3)
        await server.wait(4)
    assert store.reported == [1, 2, 3]
    assert server.asked == ["list", "5", "8", "9"]


@pytest.mark.parametrize("answer", [410, [event("ERROR", GONE)]], ids=["refused", "in the stream"])
async def test_after_410_the_pods_are_listed_again(answer: list[str] | int) -> None:
    store = Store()
    server = ApiServer([listing("5"), listing("9", pod(4, "8"))], [answer])
    async with watching(server, store):
        await store.wait(1)
        await server.wait(4)
    assert server.asked == ["list", "5", "list", "9"]


async def test_a_lost_connection_continues_the_watch_without_a_list() -> None:
    store = Store()
    server = ApiServer([listing("5")], [500, [event("MODIFIED", pod(2, "7"))]])
    async with watching(server, store):
        await store.wait(1)
    assert server.asked[:3] == ["list", "5", "5"]


async def test_each_process_is_reported_once_however_often_its_pod_changes() -> None:
    again = [event("MODIFIED", pod(2, str(version))) for version in range(6, 20)]
    store = Store()
    server = ApiServer([listing("5", pod(2, "3"))], [[*again, event("MODIFIED", pod(3, "21"))]])
    async with watching(server, store):
        await store.wait(2)
    assert store.reported == [2, 3]


async def test_a_pod_that_names_a_foreign_worker_does_not_end_it() -> None:
    stranger = pod(7, "3")
    stranger["metadata"]["uid"] = "uid-8"
    store = Store()
    async with watching(ApiServer([listing("5", stranger)], [[event("MODIFIED", pod(9, "6"))]]), store):
        await store.wait(1)
    assert store.reported == [9]
    store = Store()
    async with watching(ApiServer([listing("5", stranger)], [[event("MODIFIED", pod(7, "6"))]]), store):
        await store.wait(1)
    assert store.reported == [7]


async def test_a_worker_belongs_to_the_pod_that_it_registered_with(database: str) -> None:
    register = "select register_worker(%s, 'w', 'p', 'h', '1', '{default}', 1, 60, '{x}', pod_uid => %s)"
    async with connected(database) as plain:
        for worker, uid in ((1, "uid-1"), (2, "uid-2"), (3, "")):
            await rows(plain, register, worker, uid)
        store = OperatorStore(plain.conn)
        assert await store.workers_of_pod("uid-1") == [1]
        named = [await store.workers_of_pod("uid-1", worker) for worker in (1, 2, 3, 4)]
    assert named == [[1], [], [3], []], "of worker 3 no pod is known"


async def test_a_report_that_met_locked_runs_is_repeated_until_it_met_none() -> None:
    store = Store(skipped=[2, 1, 0])
    async with watching(ApiServer([listing("5", pod(2, "3"))], []), store):
        await store.wait(3)
    assert store.reported == [2, 2, 2]


async def test_every_process_of_an_evicted_pod_is_reported() -> None:
    evicted = pod(5, "3")
    evicted["status"] = {"phase": "Failed", "reason": "Evicted", "containerStatuses": []}
    store = Store()
    async with watching(ApiServer([listing("5", evicted)], []), store):
        await store.wait(2)
    assert store.reported == [5, 1005]


async def test_a_silent_watch_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "SILENT_STREAM_S", 0.2)
    server = ApiServer([listing("5")], [])
    async with watching(server, Store()):
        await server.wait(3)
    assert server.asked[:3] == ["list", "5", "5"]
