"""Requests that no page of the board sends are refused with a sentence, never with an internal error."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from wakeboard.board import BoardOptions, change_feed
from wakeboard.board.security import Security

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send

    from tests.board.action_store import Store
    from tests.board.asgi import Client

pytestmark = pytest.mark.anyio

HOST = ("host", "127.0.0.1:8686")
OWN, OTHER = "http://127.0.0.1:8686", "http://evil.example"


@pytest.mark.parametrize("path", ["/runs/", "/schedules/", "/bulk/"])
async def test_a_number_that_cannot_be_read_is_refused(client: Client, path: str):
    assert (await client.get(path + "9" * 5000)).status == 414
    assert (await client.get(path + "9" * 1900)).status == 404


@pytest.mark.parametrize(
    ("path", "leads_to"),
    [
        ("/runs/?q=a%20b", "/runs?q=a%20b"),
        ("/schedules/shop/nightly/", "/schedules/shop/nightly"),
        ("/\\evil.example/", "/%5Cevil.example"),
        ("/x//evil.example/", ""),
    ],
)
async def test_a_slash_at_the_end_leads_to_the_page_itself(client: Client, path: str, leads_to: str):
    answer = await client.send("GET", path)

    assert (answer.status, answer.header("location")) == (307 if leads_to else 404, leads_to)


async def test_a_form_with_too_many_fields_is_refused(client: Client, store: Store):
    run = store.run("dead")

    answer = await client.send("POST", f"/runs/{run}/retry", b"&".join([b"a=1"] * 20_001))

    assert answer.status == 413
    assert store.status(run) == "dead"


@pytest.mark.parametrize("sort", ["next", "last"])
async def test_a_place_with_a_date_beyond_postgres_is_refused(client: Client, sort: str):
    answer = await client.get("/schedules", sort=sort, after='["2026-W01-1T00:00+00:00",1]')

    assert answer.status == 400


async def test_a_form_whose_sender_goes_away_does_nothing(client: Client, store: Store):
    run = store.run("dead")
    sent: list[Any] = [{"type": "http.request", "body": b"reason=x", "more_body": True}, {"type": "http.disconnect"}]
    answered: list[Any] = []

    async def receive() -> Any:
        return sent.pop(0)

    async def send(message: Any) -> None:
        answered.append(message)

    await client.app(scope_of("POST", f"/runs/{run}/retry", HOST, ("origin", OWN)), receive, send)

    assert answered[0]["status"] == 400
    assert store.status(run) == "dead"


async def test_more_open_pages_than_a_board_serves_are_asked_to_come_later(
    client: Client, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(change_feed, "MAX_STREAMS", 0)

    answer = await client.get("/events")

    assert answer.status == 503
    assert answer.header("retry-after") == "10"


async def test_asking_for_the_head_of_the_stream_opens_none(client: Client):
    async with asyncio.timeout(10):
        answer = await client.send("HEAD", "/events")

    assert answer.status == 200
    assert answer.header("content-type").startswith("text/event-stream")


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ([("origin", OWN)], 200),
        ([("origin", OWN), ("origin", OTHER)], 403),
        ([("origin", OTHER), ("origin", OWN)], 403),
        ([("sec-fetch-site", "same-origin"), ("sec-fetch-site", "cross-site")], 403),
        ([("origin", OWN), ("origin", OTHER), ("sec-fetch-site", "same-origin")], 403),
        ([("host", "evil.example"), ("origin", OWN)], 421),
    ],
)
async def test_a_repeated_header_makes_no_action_one_of_the_boards_own(headers: list[tuple[str, str]], status: int):
    assert await status_of(scope_of("POST", "/runs/1/retry", HOST, *headers)) == status


def scope_of(method: str, path: str, *headers: tuple[str, str]) -> dict[str, Any]:
    return {
        "type": "http",
        "method": method,
        "scheme": "http",
        "path": path,
        "root_path": "",
        "query_string": b"",
        "headers": [(name.encode(), value.encode()) for name, value in headers],
    }


async def status_of(scope: Scope) -> int:
    """The status with which Security answers, 200 if it passes the request on."""
    answered: list[Any] = []

    async def accept(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})

    async def receive() -> Any:
        return {"type": "http.request"}

    async def send(message: Any) -> None:
        answered.append(message)

    await Security(accept, BoardOptions(dsn=""))(scope, receive, send)
    return answered[0]["status"]
