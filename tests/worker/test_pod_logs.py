"""The logs of the containers of a Job, from an API server that breaks streams off."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import parse_qs, urlsplit

import pytest

from wakeboard.kube.api_server import ApiServer
from wakeboard.kube.client import ApiClient
from wakeboard_worker.builtin.jobs import pod_logs
from wakeboard_worker.builtin.jobs.observed import observed_pod

if TYPE_CHECKING:
    from asyncio import StreamReader, StreamWriter

pytestmark = pytest.mark.anyio

GONE = '{"reason": "NotFound", "message": "pods \\"report\\" not found"}'


class BreakingServer:
    """Breaks the first stream of `main` off, has all of `prepare`, and does not know `gone`."""

    def __init__(self) -> None:
        self.asked: list[dict[str, list[str]]] = []

    async def answer(self, reader: StreamReader, writer: StreamWriter) -> None:
        asked = parse_qs(urlsplit((await reader.readuntil(b"\r\n\r\n")).decode().split()[1]).query)
        container = asked["container"][0]
        breaks = container == "main" and not any(each["container"] == ["main"] for each in self.asked)
        self.asked.append(asked)
        body = {"prepare": "caf\xe9 \x1b[31m\0\n", "gone": GONE}.get(container, "one\n" if breaks else "two\n").encode()
        status = "404 Not Found" if container == "gone" else "200 OK"
        length = len(body) + breaks
        writer.write(f"HTTP/1.1 {status}\r\nContent-Length: {length}\r\n\r\n".encode() + body)
        await writer.drain()
        writer.close()


def pod(*containers: str) -> Any:
    states = [{"name": name, "state": {"terminated": {"exitCode": 0}}} for name in containers]
    about = {"namespace": "jobs", "name": "report", "uid": "1", "creationTimestamp": "2026-01-05T08:00:00Z"}
    return observed_pod({"metadata": about, "spec": {}, "status": {"containerStatuses": states}})


async def test_each_container_is_read_to_its_end_or_says_why_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pod_logs, "SHORTEST_PAUSE_S", 0.01)
    kept: defaultdict[str, str] = defaultdict(str)

    def log_output(text: str, source: str) -> None:
        kept[source] += text

    server = BreakingServer()
    listening = await asyncio.start_server(server.answer, "127.0.0.1", 0)
    api = ApiClient(ApiServer(f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}"))
    run = SimpleNamespace(log_output=log_output, lost=False)
    ended = SimpleNamespace(ended="Complete")
    job = SimpleNamespace(event=asyncio.Event(), job=ended, gone=False, pods={"1": pod("prepare", "main", "gone")})
    cluster = SimpleNamespace(api=api, log_streams=pod_logs.MAX_STREAMS)  # so that all wait for the end of the Job
    try:
        await pod_logs.PodLogs(*cast("Any", (run, cluster, job))).close()
    finally:
        await api.close()
        listening.close()
    assert kept["prepare"] == "caf\xe9 \x1b[31m\0\n"
    assert kept["main"] == "one\ntwo\n"
    assert kept["gone"] == '\nThe rest of the log of gone could not be read: pods "report" not found\n'
    assert [asked.get("sinceSeconds") for asked in server.asked if asked["container"] == ["main"]] == [None, ["2"]]
    assert cluster.log_streams == pod_logs.MAX_STREAMS
