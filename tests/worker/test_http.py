"""The built-in `http`, against a real receiver on loopback."""

from __future__ import annotations

import uuid
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from aiohttp import web

from wakeboard.errors import Discard, RetryAfter
from wakeboard.settings import read_settings
from wakeboard_worker.builtin.http import Http, HttpError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

pytestmark = pytest.mark.anyio
RUN = uuid.UUID("00000000-0000-4000-8000-000000000001")


class Receiver:
    """Answers as the path says, and remembers what came."""

    def __init__(self) -> None:
        self.seen: list[web.Request] = []
        self.bodies: list[str] = []
        self.port = 0

    async def answer(self, request: web.Request) -> web.Response:
        self.seen.append(request)
        self.bodies.append(await request.text())
        word = request.match_info["word"]
        if word == "moved":
            return web.Response(status=307, headers={"Location": request.query["to"]})
        if word == "busy":
            return web.Response(status=503, headers={"Retry-After": "7"})
        if word.isdigit():
            return web.Response(status=int(word), text="because " + request.headers.get("X-Key", ""))
        return web.Response(text="x" * 100_000 if word == "long" else "thanks")


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    receiver = Receiver()
    app = web.Application()
    app.router.add_route("*", "/{word}", receiver.answer)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    receiver.port = runner.addresses[0][1]
    yield receiver
    await runner.cleanup()


async def call(payload: Any, **settings: Any) -> dict[str, Any]:
    """One `http` run under these settings."""
    given = {"http_allowed_hosts": "127.0.0.1,localhost", "http_allow_private": "127.0.0.0/8,::1/128"} | settings
    return await Http(read_settings(**given))(SimpleNamespace(payload=payload, uuid=RUN))  # pyright: ignore[reportArgumentType]


async def test_a_success_keeps_the_answer_and_sends_the_runs_uuid(receiver: Receiver) -> None:
    answer = await call({"url": f"http://127.0.0.1:{receiver.port}/hook", "body": {"a": 1}})
    assert answer == {"status": 200, "body": "thanks"}
    assert receiver.seen[0].method == "POST"
    assert receiver.seen[0].headers["Idempotency-Key"] == str(RUN)
    assert receiver.bodies == ['{"a": 1}']


async def test_a_server_in_trouble_is_tried_again_when_it_says(receiver: Receiver) -> None:
    with pytest.raises(RetryAfter) as caught:
        await call({"url": f"http://127.0.0.1:{receiver.port}/busy"})
    assert caught.value.seconds == 7


@pytest.mark.parametrize(("status", "error"), [(500, HttpError), (429, HttpError), (404, Discard), (401, Discard)])
async def test_answers_decide_between_another_try_and_the_end(
    receiver: Receiver, status: int, error: type[Exception]
) -> None:
    with pytest.raises(error, match=f"answered {status}"):
        await call({"url": f"http://127.0.0.1:{receiver.port}/{status}"})


async def test_a_long_answer_is_cut(receiver: Receiver) -> None:
    answer = await call({"url": f"http://127.0.0.1:{receiver.port}/long"}, http_max_body_bytes=1000)
    assert len(answer["body"]) == 1000


@pytest.mark.parametrize(
    ("payload", "said"),
    [
        ({}, "an http payload is an object"),
        ({"url": "https://example.com", "verb": "GET"}, "no field 'verb'"),
        ({"url": "ftp://127.0.0.1/"}, "begins with https://"),
        ({"url": "http://me:pw@127.0.0.1/"}, "must not carry a password"),
        ({"url": "http://example.com/"}, "not on the worker's list"),
        ({"url": "http://127.0.0.1/", "headers": {"A": "b\nc"}}, "one line of text"),
        ({"url": "http://127.0.0.1/", "method": "BREW"}, "is none of"),
        ({"url": {"$secret": "../etc/passwd"}}, "a secret is written"),
        ({"url": {"$secret": "absent"}}, "no secret 'absent'"),
    ],
)
async def test_a_payload_that_cannot_work_is_dead_with_one_sentence(payload: Any, said: str) -> None:
    with pytest.raises(Discard, match=said):
        await call(payload)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
async def test_a_private_address_is_refused_where_it_is_connected_to(receiver: Receiver, host: str) -> None:
    with pytest.raises(Discard, match="is a private address"):
        await call({"url": f"http://{host}:{receiver.port}/hook"}, http_allow_private="10.0.0.0/8")
    assert receiver.seen == []


async def test_redirects_stay_on_the_list(receiver: Receiver) -> None:
    with pytest.raises(Discard, match="not on the worker's list"):
        await call({"url": f"http://127.0.0.1:{receiver.port}/moved?to=http://example.com/"})
    answer = await call({"url": f"http://127.0.0.1:{receiver.port}/moved?to=/hook"})
    assert answer["status"] == 200


async def test_a_redirect_to_another_host_takes_no_secret_along(receiver: Receiver) -> None:
    url = f"http://127.0.0.1:{receiver.port}/moved?to=http://localhost:{receiver.port}/hook"
    await call({"url": url, "headers": {"Authorization": "Bearer x"}})
    assert "Authorization" in receiver.seen[0].headers
    assert "Authorization" not in receiver.seen[1].headers


async def test_a_secret_is_sent_and_never_shown(receiver: Receiver, tmp_path: Path) -> None:
    (tmp_path / "key").write_text("hush-hush\n")
    payload = {"url": f"http://127.0.0.1:{receiver.port}/404", "headers": {"X-Key": {"$secret": "key"}}}
    with pytest.raises(Discard) as caught:
        await call(payload, secrets_dir=str(tmp_path))
    assert receiver.seen[0].headers["X-Key"] == "hush-hush"
    assert "hush-hush" not in str(caught.value)
    assert "[secret key]" in str(caught.value)


async def test_a_success_that_echoes_a_secret_does_not_store_it(receiver: Receiver, tmp_path: Path) -> None:
    (tmp_path / "key").write_text("hush-hush")
    payload = {"url": f"http://127.0.0.1:{receiver.port}/200", "headers": {"X-Key": {"$secret": "key"}}}
    answer = await call(payload, secrets_dir=str(tmp_path))
    assert answer["body"] == "because [secret key]"
