"""What the job type `job` makes of Jobs, messages and clocks that others control. No cluster is needed."""

from __future__ import annotations

import asyncio
import gc
import socket
import ssl
import time
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from threading import Event
from typing import TYPE_CHECKING, Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from testbed.cluster.certificates import Authority
from wakeboard.kube.api_server import ApiServer
from wakeboard.kube.client import ApiClient
from wakeboard_worker.builtin.jobs.cluster import CreationRate
from wakeboard_worker.builtin.jobs.observed import ObservedJob, observed_job, observed_pod
from wakeboard_worker.builtin.jobs.outcomes import result_of

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.anyio

TIMEOUT_S = 60
CREATED = "2026-01-05T08:00:00Z"


def job(labels: dict[str, str] | None = None, *, suspend: bool = False, **status: Any) -> ObservedJob:
    """A Job with these labels."""
    about = {"namespace": "shop", "name": "report", "uid": "1", "creationTimestamp": CREATED}
    spec = {"suspend": suspend, "template": {"spec": {"containers": [{"name": "main"}]}}}
    return observed_job({"metadata": about | ({"labels": labels} if labels else {}), "spec": spec, "status": status})


@pytest.mark.parametrize(
    ("labels", "run_id"),
    [
        (None, 0),
        ({"wakeboard.dev/run": "7"}, 7),
        ({"wakeboard.dev/run": "-7"}, 0),
        ({"wakeboard.dev/run": "9" * 63}, 0),
    ],
)
def test_a_foreign_job_names_no_run_or_a_possible_one(labels: dict[str, str] | None, run_id: int) -> None:
    assert job(labels).run_id == run_id


def test_a_suspension_lasts_until_the_controller_starts_the_job_again() -> None:
    def suspended(status: str) -> list[dict[str, str]]:
        return [{"type": "Suspended", "status": status}]

    assert job(suspend=True, startTime=CREATED).suspended
    assert job(suspend=True, conditions=suspended("True")).suspended
    assert job(suspend=False, conditions=suspended("True")).suspended  # its startTime is not known yet
    assert not job(suspend=False, conditions=suspended("False"), startTime=CREATED).suspended


@pytest.mark.parametrize(
    ("message", "result"),
    [
        ("[1]", [1]),
        ("done", {"exit_code": 0, "output": "log"}),
        ("[" * 4096, {"exit_code": 0, "output": "log"}),
        ("{" * 4096, {"exit_code": 0, "output": "log"}),
        ("\N{REPLACEMENT CHARACTER}", {"exit_code": 0, "output": "log"}),
    ],
)
def test_a_termination_message_that_is_not_json_gives_the_log(message: str, result: Any) -> None:
    about = {"namespace": "shop", "name": "report", "uid": "2", "creationTimestamp": CREATED}
    container = {"name": "main", "state": {"terminated": {"exitCode": 0, "message": message}}}
    pod = observed_pod({"metadata": about, "spec": {}, "status": {"containerStatuses": [container]}})
    assert result_of(job(None), pod, "log") == result


async def test_a_caller_that_is_cancelled_takes_no_turn_of_the_creation_rate() -> None:
    rate = CreationRate(2)
    began = time.monotonic()
    callers = [asyncio.create_task(rate.turn()) for _ in range(50)]
    await callers[0]
    for each in callers[1:-1]:
        each.cancel()
    await callers[-1]
    assert 0.5 <= time.monotonic() - began < 20  # the second turn, not the fiftieth


async def test_the_age_of_a_job_is_by_the_api_servers_clock() -> None:
    async def answer(_: web.Request) -> web.Response:
        return web.json_response({}, headers={"Date": format_datetime(datetime.now(UTC) + timedelta(hours=1))})

    app = web.Application()
    app.router.add_get("/", answer)
    async with TestServer(app) as server:
        api = ApiClient(ApiServer(str(server.make_url("")).rstrip("/")), None)
        await api.request("GET", "/")
        ahead = api.now() - datetime.now(UTC)
        await api.close()
    assert timedelta(minutes=50) < ahead < timedelta(minutes=70)


async def test_a_closed_client_has_closed_the_connection_of_a_cancelled_request(tmp_path: Path) -> None:
    authority = Authority.make(tmp_path / "authority")
    pair = authority.issue("server", "server", hosts=["127.0.0.1"])
    encrypted = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    encrypted.load_cert_chain(pair.certificate, pair.key)
    received, over = Event(), Event()

    def receive_and_say_nothing() -> None:
        connection, _ = listener.accept()
        with encrypted.wrap_socket(connection, server_side=True) as encrypted_connection:
            encrypted_connection.recv(1)
            received.set()
            over.wait(TIMEOUT_S)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(TIMEOUT_S)
        server = asyncio.create_task(asyncio.to_thread(receive_and_say_nothing))
        port = listener.getsockname()[1]
        api = ApiClient(ApiServer(f"https://127.0.0.1:{port}", authority.certificate), None)
        request = asyncio.create_task(api.request("GET", "/"))
        assert await asyncio.to_thread(received.wait, TIMEOUT_S)
        request.cancel()
        await asyncio.wait([request])
        await api.close()
        connected = _connected_to(port)
        over.set()
        await server
    assert connected == []


def _connected_to(port: int) -> list[socket.socket]:
    """The sockets of this process that are connected to the port."""
    return [each for each in gc.get_objects() if isinstance(each, socket.socket) and _peer_port(each) == port]


def _peer_port(sock: socket.socket) -> int | None:
    try:
        return sock.getpeername()[1]
    except (OSError, IndexError):  # not connected, or no TCP
        return None
