"""What clients send takes a bounded amount of memory, with and without a login."""

from __future__ import annotations

import asyncio
import gc
import secrets
import tracemalloc
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any, cast

import pytest

from tests.board.asgi import Client
from wakeboard.board.access import KubernetesAccess, Permission
from wakeboard.board.access import reviews as access_reviews
from wakeboard.board.access.reviews import MAX_UNKNOWN, MAX_UNKNOWN_WAITING, ReviewFailed, Reviews
from wakeboard.board.access.viewer import MAX_TOKEN
from wakeboard.board.expiring_cache import ExpiringCache
from wakeboard.kube.api_server import ApiServer
from wakeboard.views.shared_reads import MAX_KEPT, SharedReads

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from wakeboard.views.connection_pool import ConnectionPool

pytestmark = pytest.mark.anyio


class Answering:
    """An API server that gives each token the same answer. Counts the questions."""

    def __init__(self, status: bytes, body: bytes) -> None:
        self.status, self.body, self.asked = status, body, 0
        self.questions: asyncio.Queue[int] = asyncio.Queue()
        self.goes_on = asyncio.Event()
        self.goes_on.set()

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(asyncio.IncompleteReadError):
            while head := await reader.readuntil(b"\r\n\r\n"):
                await reader.readexactly(int(head.lower().partition(b"content-length:")[2].split()[0]))
                self.asked += 1
                self.questions.put_nowait(self.asked)
                await self.goes_on.wait()
                writer.write(b"HTTP/1.1 %s\r\ncontent-length: %d\r\n\r\n%s" % (self.status, len(self.body), self.body))
        writer.close()


@asynccontextmanager
async def reviews(answering: Answering) -> AsyncGenerator[Reviews]:
    """Reviews by this API server."""
    async with await asyncio.start_server(answering.answer, "127.0.0.1", 0) as server:
        asking = Reviews(ApiServer(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"))
        yield asking
        await asking.close()


def used_bytes() -> int:
    gc.collect()
    return tracemalloc.get_traced_memory()[0]


@pytest.mark.parametrize("length", [MAX_TOKEN, 60_000])
async def test_tokens_that_are_refused_take_no_memory(database: str, length: int):
    refusing = Answering(b"401 Unauthorized", b"{}")
    async with reviews(refusing) as asking:
        client = Client(database, access=KubernetesAccess(asking))

        async def come(times: int) -> None:
            for _ in range(times):
                token = secrets.token_hex(length // 2)
                headers = {"host": "localhost", "authorization": f"Bearer {token}"}
                assert (await client.send("GET", "/", headers=headers)).status == 401

        await come(20)
        tracemalloc.start()
        before = used_bytes()
        await come(200)
        grown = used_bytes() - before
        tracemalloc.stop()
        await client.close()

    assert grown < 100_000
    assert refusing.asked == (220 if length <= MAX_TOKEN else 0)


async def test_a_user_who_has_logged_in_is_asked_about_once():
    answering = Answering(b"201 Created", b'{"status": {"userInfo": {"username": "anna"}, "allowed": true}}')
    async with reviews(answering) as asking:
        for _ in range(3):
            assert await asking.user_of("token") == "anna"
            assert await asking.self_may("token", Permission.VIEW, "shop")
        assert answering.asked == 2
        assert await asking.self_may("another", Permission.VIEW, "shop")
        assert answering.asked == 3


async def test_many_unknown_tokens_do_not_hold_up_users_who_have_logged_in(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(access_reviews, "KEEP_S", 0.0)  # so that each request asks
    answering = Answering(b"201 Created", b'{"status": {"userInfo": {"username": "anna"}}}')
    async with reviews(answering) as asking:
        assert await asking.user_of("token") == "anna"
        answering.goes_on.clear()
        others = [asyncio.create_task(asking.user_of(f"unknown {number}")) for number in range(MAX_UNKNOWN_WAITING)]
        await asyncio.sleep(0)
        with pytest.raises(ReviewFailed, match="too many others"):
            await asking.user_of("one more")
        user = asyncio.create_task(asking.user_of("token"))
        for _ in range(1 + MAX_UNKNOWN + 1):  # those of the others that are asked about at once, and the user
            await answering.questions.get()
        answering.goes_on.set()
        assert await user == "anna"
        await asyncio.gather(*others)


def test_a_cache_is_bounded_by_time_and_number():
    cache: ExpiringCache[int] = ExpiringCache(keep_s=30, most=3)
    for number in range(5):
        cache.keep(["user", str(number)], number, now=100 + number)

    assert [cache.get(["user", str(number)], now=110) for number in range(5)] == [None, None, 2, 3, 4]
    assert cache.get(["user", "3"], now=133) is None
    assert cache.get(["user", "4"], now=133) == 4
    cache.keep(["user", "5"], 5, now=140)
    assert len(cache) == 1  # what has expired is gone


async def test_shared_reads_are_bounded_by_number():
    class Pool:
        async def run(self, query: Any) -> Any:
            return await query(None)

    async def read(_: object) -> object:
        return object()

    reads = SharedReads(cast("ConnectionPool", Pool()), keep_s=60)
    results = [await reads.get(number, read) for number in range(MAX_KEPT + 5)]

    assert await reads.get(MAX_KEPT + 4, read) is results[-1]
    assert await reads.get(5, read) is results[5]
    assert await reads.get(4, read) is not results[4]
