"""A web server on loopback that answers as the path says, and remembers what came."""

# ruff: noqa: ARG002 - aiohttp gives each answer the request

from __future__ import annotations

import gzip
from asyncio import Event
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from aiohttp import web

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable


class Receiver:
    """`/404` answers 404, `/moved/307?to=URL` redirects, any other path is thanked, and so on."""

    def __init__(self) -> None:
        self.seen: list[web.Request] = []
        self.bodies: list[str] = []
        self.connections: list[Any] = []  # where each request came from
        self.asked = Event()
        self.port = 0

    def url(self, path: str, host: str = "127.0.0.1") -> str:
        return f"http://{host}:{self.port}{path}"

    def app(self) -> web.Application:
        @web.middleware
        async def remember(
            request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
        ) -> web.StreamResponse:
            await self._remember(request)
            return await handler(request)

        app = web.Application(middlewares=[remember])
        for path, answer in {
            r"/{status:\d+}": self._status,
            "/moved/{status}": self._moved,
            "/round": self._round,
            "/busy": self._busy,
            "/cookie": self._cookie,
            "/echo": self._echo,
            "/hostile": self._hostile,
            "/path/{any:.*}": self._path,
            "/bomb": self._bomb,
            "/charset/{charset}": self._charset,
            "/endless": self._endless,
            "/silent": self._silent,
            "/broken": self._broken,
            "/{any:.*}": self._thanks,
        }.items():
            app.router.add_route("*", path, answer)
        return app

    async def _remember(self, request: web.Request) -> None:
        self.seen.append(request)
        self.bodies.append(await request.text())
        self.connections.append(request.transport and request.transport.get_extra_info("peername"))
        self.asked.set()

    async def _thanks(self, request: web.Request) -> web.Response:
        return web.Response(text="thanks")

    async def _status(self, request: web.Request) -> web.Response:
        return web.Response(status=int(request.match_info["status"]), text="because")

    async def _moved(self, request: web.Request) -> web.Response:
        return web.Response(status=int(request.match_info["status"]), headers={"Location": request.query["to"]})

    async def _round(self, request: web.Request) -> web.Response:
        return web.Response(status=302, headers={"Location": "/round"})

    async def _busy(self, request: web.Request) -> web.Response:
        return web.Response(status=503, headers={"Retry-After": request.query["for"]})

    async def _cookie(self, request: web.Request) -> web.Response:
        return web.Response(headers={"Set-Cookie": "who=me"})

    async def _echo(self, request: web.Request) -> web.Response:
        return web.Response(text=self.bodies[-1] + request.headers.get("X-Key", ""))

    async def _hostile(self, request: web.Request) -> web.Response:
        return web.Response(text='"\\\n\0\x1b[31m' * 5_000)

    async def _path(self, request: web.Request) -> web.Response:
        return web.Response(status=404, text=f"there is no {request.raw_path}")

    async def _bomb(self, request: web.Request) -> web.Response:
        return web.Response(body=gzip.compress(bytes(50_000_000)), headers={"Content-Encoding": "gzip"})

    async def _charset(self, request: web.Request) -> web.Response:
        kind = f"text/plain; charset={request.match_info['charset']}"
        return web.Response(body=b"caf\xe9", headers={"Content-Type": kind})

    async def _endless(self, request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        while True:
            await response.write(b"and so on, ")

    async def _silent(self, request: web.Request) -> web.Response:
        await Event().wait()
        raise AssertionError

    async def _broken(self, request: web.Request) -> web.Response:
        assert request.transport
        request.transport.close()
        return web.Response()


@asynccontextmanager
async def receiving() -> AsyncGenerator[Receiver]:
    """A receiver that runs in this event loop."""
    receiver = Receiver()
    runner = web.AppRunner(receiver.app(), shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    receiver.port = runner.addresses[0][1]
    yield receiver
    await runner.cleanup()
