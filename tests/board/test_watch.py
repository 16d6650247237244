"""A run token shows one run to a browser without a login, and nothing else."""

from __future__ import annotations

import json
import logging
import subprocess
from dataclasses import fields
from datetime import UTC, datetime, timedelta
from io import StringIO
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import aiohttp
import pytest

from testbed.board_server import serving
from testbed.clients import go_worker, node, typescript_worker
from tests.board.asgi import Answer, Client
from tests.board.past_runs import retried_run, worker_of
from tests.board.test_api import misfits
from tests.board.test_api_events import Identity, Reader, often
from wakeboard import run_token
from wakeboard.board import BoardOptions, change_feed
from wakeboard.board.access.run_tokens import RunTokenAccess
from wakeboard.board.api import watch
from wakeboard.board.api.openapi import document
from wakeboard.board.api.registry import ENDPOINTS
from wakeboard.board.problem_details import API, MEDIA_TYPE
from wakeboard.errors import InvalidSettings
from wakeboard.process.failure_log import FailureLog
from wakeboard.views.queries.watched_run import MOST_RESULT, WatchedRun

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path

    from starlette.requests import HTTPConnection

    from tests.store.sql_clients import SqlClient
    from wakeboard.board.access.viewer import KnownNamespaces

pytestmark = pytest.mark.anyio
__all__ = ["often"]

SECRET, NEWER = "s" * 32, "t" * 40
APP = "https://app.example.com"
HOST = {"host": "127.0.0.1:8686"}


class RefusingAccess:
    """Refuses every login."""

    asks_for_token = True

    async def viewer(self, request: HTTPConnection, known: KnownNamespaces) -> None:
        pass

    async def close(self) -> None:
        pass


class Secrets:
    """The file of secrets."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.are(SECRET)

    def are(self, *secrets: str) -> None:
        self.path.write_text("\n".join(secrets))


@pytest.fixture
def secrets(tmp_path: Path) -> Secrets:
    return Secrets(tmp_path / "secrets")


@pytest.fixture
def worker(database: str) -> Iterator[SqlClient]:
    with worker_of(database) as made:
        yield made


@pytest.fixture
async def client(database: str, secrets: Secrets) -> AsyncIterator[Client]:
    """A browser without a login."""
    made = Client(database, access=RefusingAccess(), run_tokens=RunTokenAccess(secrets.path, [APP]))
    yield made
    await made.close()


def identity(worker: SqlClient, run_id: int) -> Identity:
    return Identity(run_id, worker.value("select uuid from all_runs where id = %s", run_id))


def path_to(run: Identity, secret: str = SECRET, *, lasts: timedelta = timedelta(hours=1)) -> str:
    return f"{API}/watch/{run_token(run, secret, expires=datetime.now(UTC) + lasts)}"


async def get(client: Client, path: str, **headers: str) -> Answer:
    return await client.send("GET", path, headers={**HOST, **headers})


async def test_a_token_shows_its_run_and_nothing_else(client: Client, worker: SqlClient):
    run = identity(worker, retried_run(worker))
    waiting = identity(worker, worker.enqueue(payload={"card": "4711 hidden"}))

    answer = await get(client, path_to(run))
    shown: dict[str, Any] = json.loads(answer.text)
    described = document(ENDPOINTS, "")
    schema = described["paths"]["/watch/{token}"]["get"]["responses"]["200"]["content"]["application/json"]["schema"]
    assert answer.status == 200
    assert not list(misfits(shown, schema, described["components"]["schemas"]))
    assert set(shown) == {field.name for field in fields(WatchedRun)}
    assert shown["status"] == "succeeded"
    assert [step["state"] for step in shown["steps"]] == ["done", "done"]
    assert shown["result"]["api_key"] == "***"
    for hidden in ("hunter2", "segments", "still starting", "close-month", "mail:42", "worker-a", "found", "s3cr3t"):
        assert hidden not in answer.text
    assert "4711" not in (await get(client, path_to(waiting))).text

    for other in (Identity(waiting.id, run.uuid), Identity(run.id, waiting.uuid), Identity(4711, uuid4())):
        assert (await get(client, path_to(other))).status == 404
    token = path_to(run).rpartition("/")[2]
    for path in (f"{API}/runs/{run.id}", f"{API}/runs", f"/runs/{run.id}", f"{API}/watch", f"{API}/watch/"):
        assert (await get(client, path, authorization=f"Bearer {token}")).status in {303, 307, 401, 404}
        assert (await get(client, path, cookie=f"wakeboard-board-8686={token}")).status in {303, 307, 401, 404}
    assert (await client.send("POST", path_to(run), b"{}", {**HOST, "authorization": "Bearer x"})).status == 405


# Arguments: the compiled client, and those of the Go program, ID, UUID, SECRET and EXPIRES.
PROGRAM = """
const [path, id, uuid, secret, expires] = process.argv.slice(1);
const { runToken } = await import(path);
console.log(runToken({ id, uuid }, secret, { expires: new Date(1000 * expires) }));
"""


def client_command(language: str) -> list[str]:
    if language == "Go":
        return [str(go_worker("transactions"))]
    return [str(node()), "--input-type=module", "-e", PROGRAM, str(typescript_worker() / "dist" / "src" / "index.js")]


@pytest.mark.parametrize("language", ["Go", "TypeScript"])
async def test_the_board_accepts_the_tokens_of_each_client(language: str, client: Client, worker: SqlClient):
    command = client_command(language)
    run, expires = identity(worker, worker.enqueue()), datetime.now(UTC).replace(microsecond=0) + timedelta(hours=1)

    def token(run: Identity, secret: str) -> str:
        words = [str(run.id), str(run.uuid), secret, str(int(expires.timestamp()))]
        return subprocess.check_output(command + words, text=True, timeout=60, stderr=subprocess.STDOUT).strip()

    huge = Identity((1 << 63) - 1, uuid4())
    assert [token(each, SECRET) for each in (run, huge)] == [
        run_token(each, SECRET, expires=expires) for each in (run, huge)
    ]
    assert (await get(client, f"{API}/watch/{token(run, SECRET)}")).status == 200
    assert (await get(client, f"{API}/watch/{token(run, NEWER)}")).status == 403
    with pytest.raises(subprocess.CalledProcessError) as refused:
        token(run, "short")
    assert "the secret has 5 characters: write 32 or more" in refused.value.output


async def test_a_long_result_is_left_out(client: Client, worker: SqlClient):
    lease = worker.claims(worker.enqueue())
    worker.complete(lease, results={str(lease.id): "x" * MOST_RESULT})

    shown = json.loads((await get(client, path_to(identity(worker, lease.id)))).text)

    assert (shown["result"], shown["result_length"]) == (None, MOST_RESULT + 2)


async def test_wrong_and_expired_tokens_are_refused_and_secrets_can_be_changed(
    client: Client, worker: SqlClient, secrets: Secrets, database: str
):
    run = identity(worker, worker.enqueue())
    for path in (path_to(run, NEWER), path_to(run, lasts=timedelta(seconds=-1)), f"{API}/watch/x", path_to(run) + "x"):
        refused = await get(client, path, accept="text/event-stream")
        assert (refused.status, refused.header("content-type")) == (403, MEDIA_TYPE)
    secrets.are(NEWER, SECRET)
    assert [(await get(client, path_to(run, each))).status for each in (SECRET, NEWER)] == [200, 200]
    secrets.are(NEWER)
    assert [(await get(client, path_to(run, each))).status for each in (SECRET, NEWER)] == [403, 200]
    secrets.are("short")
    assert (await get(client, path_to(run, NEWER))).status == 503
    with pytest.raises(InvalidSettings, match="32 or more"):
        RunTokenAccess(secrets.path)
    without = Client(database)
    assert (await get(without, path_to(run))).status == 404
    await without.close()


async def test_only_pages_of_the_allowed_origins_can_read_it_and_nothing_else(client: Client, worker: SqlClient):
    path = path_to(identity(worker, worker.enqueue()))
    for wanted, origin, allowed in (
        (path, APP, APP),
        (f"{API}/watch/wrong", APP, APP),
        (path, "https://app.example.com.evil.example", ""),
        (path, "http://app.example.com", ""),
        (path, "null", ""),
        (f"{API}/runs", APP, ""),
        (f"{API}/openapi.json", APP, ""),
        ("/", APP, ""),
    ):
        answer = await get(client, wanted, origin=origin)
        assert answer.header("access-control-allow-origin") == allowed, (wanted, origin)
        assert not answer.header("access-control-allow-credentials")
        assert answer.header("referrer-policy") == "no-referrer"
        assert answer.header("cache-control") == "no-store"
    preflight = {**HOST, "origin": APP, "access-control-request-method": "GET"}
    assert (await client.send("OPTIONS", path, headers=preflight)).status == 403


async def test_a_stranger_learns_nothing_about_the_database_and_logs_hold_no_token(
    secrets: Secrets, monkeypatch: pytest.MonkeyPatch
):
    logged = StringIO()
    log = logging.getLogger("a board of this test")
    log.addHandler(logging.StreamHandler(logged))
    monkeypatch.setattr(watch, "_failures", FailureLog(log))
    client = Client(
        "postgresql://secret-host.invalid:1/shop", access=RefusingAccess(), run_tokens=RunTokenAccess(secrets.path)
    )
    path = path_to(Identity(1, uuid4()))

    answer = await get(client, path)
    await client.close()

    assert (answer.status, answer.header("retry-after")) == (503, "10")
    assert "secret-host" not in answer.text
    assert "reading for run tokens fails" in logged.getvalue()
    assert path.rpartition("/")[2] not in logged.getvalue()


async def test_a_stream_ends_with_the_run_and_with_the_token(
    database: str, worker: SqlClient, secrets: Secrets, often: None, monkeypatch: pytest.MonkeyPatch
):
    ends, other = (identity(worker, worker.enqueue()) for _ in range(2))
    headers = {"Accept": "text/event-stream"}
    options = BoardOptions(dsn=database, access=RefusingAccess(), run_tokens=RunTokenAccess(secrets.path))
    with serving(options) as board:
        async with (
            aiohttp.ClientSession(board, headers=headers) as session,
            session.get(path_to(ends)) as one,
            session.get(path_to(other, lasts=timedelta(seconds=2))) as expiring,
            session.get(path_to(other)) as revoked,
        ):
            run, until_expiry, until_revoked = Reader(one), Reader(expiring), Reader(revoked)
            for each in (run, until_expiry, until_revoked):
                assert (await each.next())[1]["status"] == "queued"
            worker.complete(worker.claims(ends.id))
            assert await run.after("run") == "end"
            assert await until_expiry.after("run") == "renew"
            assert await until_expiry.next() == ("", None)
            secrets.are(NEWER)
            assert await until_revoked.after("run") == "renew"

        monkeypatch.setattr(change_feed, "MAX_WATCHERS", 0)
        secrets.are(SECRET)
        async with aiohttp.ClientSession(board, headers=headers) as session, session.get(path_to(other)) as full:
            assert full.status == 503
