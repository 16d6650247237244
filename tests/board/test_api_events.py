"""The streams of the API: what changes in a run or in a search, as long as the viewer may see it."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

import aiohttp
import pytest

from testbed.board_server import serving
from tests.board.asgi import VIEW, GrantedViewer
from tests.board.past_runs import dead_run, worker_of
from tests.board.test_run_log import log
from wakeboard import run_token
from wakeboard.board import BoardOptions, change_feed
from wakeboard.board.access.run_tokens import RunTokenAccess
from wakeboard.board.api import logs
from wakeboard.board.problem_details import API
from wakeboard.logs.rules import Line

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from uuid import UUID

    from starlette.requests import HTTPConnection

    from tests.store.sql_clients import SqlClient
    from wakeboard.board.access.viewer import KnownNamespaces

pytestmark = pytest.mark.anyio


class RevocableAccess:
    """Lets a viewer in, until she is locked out."""

    asks_for_token = True
    viewer_now: GrantedViewer | None = GrantedViewer("eve", {None: VIEW})

    async def viewer(self, request: HTTPConnection, known: KnownNamespaces) -> GrantedViewer | None:  # noqa: ARG002
        return self.viewer_now

    async def close(self) -> None:
        pass


class Identity(NamedTuple):
    id: int
    uuid: UUID


class Reader:
    """Reads a stream: the data of each event, without heartbeats."""

    def __init__(self, answer: aiohttp.ClientResponse) -> None:
        self.answer = answer
        self.id = ""  # of the last event

    async def next(self) -> tuple[str, Any]:
        async with asyncio.timeout(30):
            kind = ""
            async for line in self.answer.content:
                name, _, value = line.decode().strip().partition(": ")
                if name == "id":
                    self.id = value
                elif name == "event":
                    kind = value
                elif name.startswith("data") and kind != "alive":
                    return kind, json.loads(value) if value else None
        return "", None

    async def after(self, kind: str) -> str:
        """The first event of another kind."""
        while (found := await self.next())[0] == kind:
            pass
        return found[0]


@pytest.fixture
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets streams follow at once, whatever it costs."""
    monkeypatch.setattr(change_feed, "POLL_S", change_feed.DEBOUNCE_S + 0.05)
    monkeypatch.setattr(change_feed, "SHARE", 100.0)


@pytest.fixture
def worker(database: str, often: None) -> Iterator[SqlClient]:
    with worker_of(database) as made:
        yield made


async def test_streams_show_each_change_and_end_with_the_run_or_the_permission(database: str, worker: SqlClient):
    access = RevocableAccess()
    first, other = worker.enqueue(), worker.enqueue("other")
    with serving(BoardOptions(dsn=database, access=access)) as board:
        async with (
            aiohttp.ClientSession(board) as session,
            session.get(f"{API}/runs/{first}/events") as one,
            session.get(f"{API}/runs/events?q=type:ping+-status:succeeded") as found,
            session.get(f"{API}/runs/{other}/events") as never_ends,
        ):
            run, search, unending = Reader(one), Reader(found), Reader(never_ends)
            kind, shown = await run.next()
            listed = (await search.next())[1]
            assert (kind, shown["status"], shown["payload"]) == ("run", "queued", {})
            assert (await unending.next())[0] == "run"
            assert [row["id"] for row in listed["changed"]] == [first]

            lease = worker.claims(first)
            assert (await run.next())[1]["status"] == "running"
            assert (await search.next())[1]["changed"][0]["status"] == "running"

            worker.complete(lease)
            assert (await run.next())[1]["status"] == "succeeded"
            assert await run.next() == ("end", None)
            assert await run.next() == ("", None)
            assert (await search.next())[1] == {"changed": [], "gone": [first]}
            async with session.get(f"{API}/runs/{first}/events", headers={"Last-Event-ID": "end"}) as again:
                assert again.status == 204

            access.viewer_now = None
            assert await unending.next() == ("renew", None)
            assert await unending.next() == ("", None)
            async with session.get(f"{API}/runs/{other}/events") as refused:
                assert refused.status == 401


async def test_the_stream_of_a_log_sends_each_line_once_and_ends(
    database: str, worker: SqlClient, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(logs, "SETTLED", timedelta())
    run_id = worker.enqueue()
    lease = worker.claims(run_id)
    lines = [Line(number, 1.8e9, 20, "shop", f"item {number}") for number in range(1, 2_502)]
    log(worker, run_id, lines[:2_500], lease.epoch)
    path = f"{API}/runs/{run_id}/log/events"
    with serving(BoardOptions(dsn=database)) as board:
        async with aiohttp.ClientSession(board) as session:
            async with session.get(path) as stream:
                reader = Reader(stream)
                sent = [row["number"] for _ in range(2) for row in (await reader.next())[1]]
                log(worker, run_id, lines[2_500:], lease.epoch)
                ((kind, (row,)), _) = (await reader.next(), worker.complete(lease))
                assert sent == list(range(1, 2_501))
                assert (kind, row["attempt"], row["text"]) == ("lines", 1, "item 2501")
                assert await reader.next() == ("end", None)
            async with session.get(path, headers={"Last-Event-ID": f"{lease.epoch}.2500"}) as again:
                assert [row["number"] for row in (await Reader(again).next())[1]] == [2_501]
            async with session.get(path, headers={"Last-Event-ID": "the last"}) as wrong:
                assert wrong.status == 400


@pytest.mark.parametrize("ending", ["succeeded", "dead", "cancelled", "discarded"])
async def test_each_stream_of_a_run_that_has_ended_ends_for_good(
    database: str, worker: SqlClient, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, ending: str
):
    monkeypatch.setattr(logs, "SETTLED", timedelta())
    run_id = dead_run(worker) if ending in {"dead", "discarded"} else worker.enqueue()
    log(worker, run_id, [Line(1, 1.8e9, 20, "shop", "an item")])
    match ending:
        case "succeeded":
            worker.complete(worker.claims(run_id))
        case "dead":
            pass
        case "cancelled":
            worker.cancel(run_id)
        case _:
            worker.discard(run_id)
    (tmp_path / "secrets").write_text(secret := "s" * 32)
    run = Identity(run_id, worker.value("select uuid from all_runs where id = %s", run_id))
    token = run_token(run, secret, expires=datetime.now(UTC) + timedelta(hours=1))
    options = BoardOptions(dsn=database, run_tokens=RunTokenAccess(tmp_path / "secrets"))
    headers = {"Accept": "text/event-stream"}
    with serving(options) as board:
        async with aiohttp.ClientSession(board, headers=headers) as session:
            for path, event in (
                (f"/runs/{run_id}/events", "run"),
                (f"/runs/{run_id}/log/events", "lines"),
                (f"/watch/{token}", "run"),
            ):
                async with session.get(API + path) as stream:
                    reader = Reader(stream)
                    assert (await reader.next())[0] == event
                    assert [await reader.next(), await reader.next()] == [("end", None), ("", None)]
                async with session.get(API + path, headers={"Last-Event-ID": reader.id}) as again:
                    assert again.status == 204


async def test_a_long_log_comes_in_bounded_events_without_a_change(
    database: str, worker: SqlClient, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(change_feed, "POLL_S", 600.0)
    run_id = worker.enqueue()
    lines = [Line(number, 1.8e9, 20, "shop", "\u00e9" * 4_000 * (number > 4_000)) for number in range(1, 4_171)]
    log(worker, run_id, lines)
    with serving(BoardOptions(dsn=database)) as board:
        async with (
            aiohttp.ClientSession(board, read_bufsize=16 << 20) as session,
            session.get(f"{API}/runs/{run_id}/log/events") as stream,
        ):
            reader, numbers = Reader(stream), list[int]()
            while len(numbers) < len(lines):
                _, rows = await reader.next()
                assert len(json.dumps(rows, ensure_ascii=False).encode()) <= 1 << 20
                numbers += [row["number"] for row in rows]
            assert numbers == list(range(1, 4_171))


async def test_a_log_stream_opened_again_sends_late_lines_of_each_attempt(
    database: str, worker: SqlClient, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(logs, "MOST_PLACES", 3)
    run_id = worker.enqueue()
    for epoch in (4, 5, 6, 7):
        log(worker, run_id, [Line(1, 1.8e9, 20, "shop", "first")], epoch)
    path = f"{API}/runs/{run_id}/log/events"
    with serving(BoardOptions(dsn=database)) as board:
        async with aiohttp.ClientSession(board) as session:
            async with session.get(path) as stream:
                reader = Reader(stream)
                assert len((await reader.next())[1]) == 4
            for epoch in (4, 5, 7):
                log(worker, run_id, [Line(2, 1.8e9, 20, "shop", "late")], epoch)
            async with session.get(path, headers={"Last-Event-ID": reader.id}) as again:
                rows = (await Reader(again).next())[1]
                assert [(row["lease_epoch"], row["text"]) for row in rows] == [(5, "late"), (7, "late")]


async def test_one_viewer_holds_a_bounded_number_of_streams(
    database: str, worker: SqlClient, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(change_feed, "MAX_STREAMS_OF_ONE", 1)
    path = f"{API}/runs/{worker.enqueue()}/events"
    with serving(BoardOptions(dsn=database)) as board:
        async with aiohttp.ClientSession(board) as session, session.get(path) as stream:
            await Reader(stream).next()
            async with session.get(path) as refused:
                assert (refused.status, refused.headers["retry-after"]) == (503, "10")
