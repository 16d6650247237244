"""Requests to an API server, for workers, operators and boards, with aiohttp, which all of them have anyway.

The official client would add 21 MB and half a second to each process of a pool, for models that are not used here
(docs/decisions/0025-jobs-are-followed-over-one-watch.md).
"""

from __future__ import annotations

import asyncio
import json
import socket
import time
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from io import BytesIO
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakSet

import aiohttp

from wakeboard import __version__
from wakeboard.errors import WakeboardError
from wakeboard.kube.api_server import ssl_context

if TYPE_CHECKING:
    import ssl
    from collections.abc import AsyncGenerator, AsyncIterator, Mapping
    from pathlib import Path

    from wakeboard.kube.api_server import ApiServer

REQUEST_TIMEOUT_S: Final = 30.0
CONNECT_TIMEOUT_S: Final = 10.0
SILENT_STREAM_S: Final = 150.0  # a watch gets a bookmark each minute; after this time its connection is dead
TOKEN_AGE_S: Final = 60.0
MAX_CONNECTIONS: Final = 30  # for requests, as many as a board sends at once; watches have connections of their own
PAGE_SIZE: Final = 500
CLOSE_TIMEOUT_S: Final = 1.0
UNAVAILABLE: Final = frozenset({408, 429, 500, 502, 503, 504})
UNAUTHORIZED, FORBIDDEN, NOT_FOUND, CONFLICT, SERVER_ERROR = 401, 403, 404, 409, 500
UNSURE: Final = frozenset({UNAUTHORIZED, FORBIDDEN, SERVER_ERROR})  # also what a server answers that is about to refuse
READY: Final = 200
METADATA_LIST: Final = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"  # without specs and statuses
CLOCKS_AGREE_S: Final = 5.0  # answers are dated in whole seconds, and take time
GONE: Final = 410
ERROR: Final = 400
LONGEST_MESSAGE: Final = 1_000  # characters


class ApiError(WakeboardError):
    """A request failed. `status`: of HTTP, or 0 without an answer."""

    def __init__(self, message: str, status: int = 0) -> None:
        self.status = status
        super().__init__(message)


class ApiUnavailable(ApiError):
    """The API server gave no answer, or one that asks to try again."""


class ApiRefused(ApiError):
    """The API server refused the request. `reason`: its machine-readable reason."""

    def __init__(self, status: int, reason: str, message: str) -> None:
        self.reason = reason
        super().__init__(message, status)


class ApiClient:
    """Requests to one API server, in one event loop.

    The token of a service account is read from `token_file` again once a minute. None: `authorization` is the header,
    or each request brings a token. `context`: otherwise the server is trusted by its own authority.
    """

    def __init__(
        self,
        server: ApiServer,
        token_file: Path | None = None,
        *,
        agent: str = "wakeboard",
        authorization: str = "",
        context: ssl.SSLContext | None = None,
        proxy: str | None = None,
    ) -> None:
        self._server, self._token_file, self._authorization = server, token_file, authorization
        self._token_read_at = float("-inf")
        self._ahead_s = 0.0
        self._sockets: WeakSet[socket.socket] = WeakSet()
        timeout = aiohttp.ClientTimeout(total=REQUEST_TIMEOUT_S, sock_connect=CONNECT_TIMEOUT_S)
        if context is None and server.url.startswith("https:"):
            context = ssl_context(server.ca_file)
        self._sessions = [
            aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(ssl=context or False, limit=limit, socket_factory=self._new_socket),
                timeout=timeout,
                cookie_jar=aiohttp.DummyCookieJar(),
                headers={"User-Agent": f"{agent}/{__version__}", "Accept": "application/json"},
                trust_env=False,
                proxy=proxy,
            )
            for limit in (MAX_CONNECTIONS, 0)
        ]

    async def request(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None = None,
        body: Any = None,
        token: str | None = None,
        accept: str | None = None,
    ) -> dict[str, Any]:
        """The JSON answer, in the form `accept` if that is named. Raises ApiUnavailable and ApiRefused.

        An API server that starts refuses everything, because it has not read the roles yet. Such a refusal counts only
        if the server says that it is ready, and refuses the request once more; else it is ApiUnavailable. The refusal
        of a `token` of another client counts at once.
        """
        try:
            return await self._request(method, path, query, body, token, accept)
        except ApiRefused as error:
            if error.status not in (UNAUTHORIZED, FORBIDDEN) or token is not None:
                raise
            self._token_read_at = float("-inf")  # it may have been replaced
            if await self.readiness() != READY:
                raise ApiUnavailable(str(error), error.status) from None
        return await self._request(method, path, query, body, accept=accept)

    async def pages(self, path: str, query: Mapping[str, str] | None = None) -> AsyncGenerator[dict[str, Any]]:
        """The pages of a list, all of one resourceVersion. Raises as `request`."""
        place: str | None = ""
        while place is not None:
            where = {"limit": str(PAGE_SIZE)} | ({"continue": place} if place else {})
            page = await self.request("GET", path, {**(query or {}), **where})
            yield page
            place = page["metadata"].get("continue") or None

    def now(self) -> datetime:
        """The time of the API server, by which it dates what it creates. The clock of this machine may differ."""
        return datetime.now(UTC) + timedelta(seconds=self._ahead_s)

    def _compare_clocks(self, date: str) -> None:
        with suppress(ValueError):
            ahead_s = parsedate_to_datetime(date).timestamp() - time.time()
            self._ahead_s = ahead_s if abs(ahead_s) > CLOCKS_AGREE_S else 0.0

    async def readiness(self) -> int:
        """The status of /readyz: 200 if the server is ready, 403 if it does not say; 0 without an answer."""
        try:
            with _translating():
                async with self._sessions[0].get(self._server.url + "/readyz", headers=self._headers()) as answer:
                    return answer.status
        except ApiUnavailable:
            return 0

    async def _request(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None,
        body: Any,
        token: str | None = None,
        accept: str | None = None,
    ) -> dict[str, Any]:
        data = None if body is None else BytesIO(json.dumps(body).encode())  # aiohttp sends large bytes in one piece
        headers = self._headers() if token is None else {"Authorization": f"Bearer {token}"}
        if accept:
            headers["Accept"] = accept
        if data:
            headers["Content-Type"] = "application/merge-patch+json" if method == "PATCH" else "application/json"
        with _translating():
            async with self._sessions[0].request(
                method, self._server.url + path, params=query, data=data, headers=headers
            ) as answer:
                text = await answer.read()
                self._compare_clocks(answer.headers.get("Date", ""))
        _check(answer.status, text)
        return json.loads(text)

    async def text_tail(self, path: str, query: Mapping[str, str], longest: int, most_read: int) -> bytes:
        """The last `longest` bytes of a text, of which at most `most_read` are read. Raises as `request`."""
        with _translating():
            async with self._sessions[0].get(
                self._server.url + path, params=query, headers=self._headers() | {"Accept": "*/*"}
            ) as answer:
                if answer.status >= ERROR:
                    _check(answer.status, await answer.read())
                kept, read = bytearray(), 0
                async for chunk in answer.content.iter_any():
                    kept += chunk
                    read += len(chunk)
                    if len(kept) > 2 * longest:
                        del kept[:-longest]
                    if read > most_read:
                        break
        return bytes(kept[-longest:])

    @asynccontextmanager
    async def watch(self, path: str, query: Mapping[str, str]) -> AsyncGenerator[AsyncIterator[dict[str, Any]]]:
        """The events of a watch. Raises as `request`, also during the iteration."""
        async with self.follow(path, query, SILENT_STREAM_S) as content:
            yield _documents(content)

    @asynccontextmanager
    async def follow(
        self, path: str, query: Mapping[str, str], silent_s: float | None = None
    ) -> AsyncGenerator[aiohttp.StreamReader]:
        """A body that comes bit by bit. `silent_s`: after which a connection is dead; None: any time.

        Raises as `request`, also while the body is read.
        """
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_TIMEOUT_S, sock_read=silent_s)
        headers = self._headers() | {"Accept": "application/json, */*"}
        with _translating():
            async with self._sessions[1].get(
                self._server.url + path, params=query, headers=headers, timeout=timeout
            ) as answer:
                if answer.status >= ERROR:
                    _check(answer.status, await answer.read())
                try:
                    yield answer.content
                finally:
                    if answer.connection is not None and answer.connection.transport is not None:
                        answer.connection.transport.abort()  # a close would wait for the server

    async def close(self) -> None:
        """Closes the connections, also those of cancelled requests, which still wait for the server to close them."""
        for session in self._sessions:
            await session.close()
        for sock in self._sockets:
            with suppress(OSError):  # it is closed
                sock.shutdown(socket.SHUT_RDWR)
        with suppress(TimeoutError):
            async with asyncio.timeout(CLOSE_TIMEOUT_S):
                while any(sock.fileno() >= 0 for sock in self._sockets):  # noqa: ASYNC110 - nothing tells it
                    await asyncio.sleep(0.01)

    def _new_socket(self, address: tuple[Any, ...]) -> socket.socket:
        opened = socket.socket(*address[:3])  # family, type and protocol
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)  # a silent stream whose server is gone breaks
        self._sockets.add(opened)
        return opened

    def _headers(self) -> dict[str, str]:
        now = time.monotonic()
        if self._token_file is not None and now - self._token_read_at > TOKEN_AGE_S:
            try:
                self._authorization = f"Bearer {self._token_file.read_text('utf-8').strip()}"
            except OSError as error:
                raise ApiUnavailable(f"the token {self._token_file} cannot be read: {error.strerror}") from None
            self._token_read_at = now
        return {"Authorization": self._authorization} if self._authorization else {}


async def _documents(content: aiohttp.StreamReader) -> AsyncIterator[dict[str, Any]]:
    """The JSON documents of a stream, one on each line. A line may be longer than the reader's buffer."""
    begun = bytearray()
    async for chunk in content.iter_any():
        begun += chunk
        if b"\n" not in chunk:
            continue
        *lines, rest = begun.split(b"\n")
        begun = rest
        for line in lines:
            if line.strip():
                yield json.loads(line)


def _check(status: int, text: bytes) -> None:
    if status < ERROR:
        return
    reason, message = "", f"status {status}"
    try:
        found = json.loads(text)
        reason, message = str(found.get("reason") or ""), str(found.get("message") or message)
    except (ValueError, AttributeError):
        pass
    message = message[:LONGEST_MESSAGE]
    if status in UNAVAILABLE:
        raise ApiUnavailable(message, status)
    raise ApiRefused(status, reason, message)


class _translating:  # noqa: N801 - used as a context manager
    """Turns the errors of the connection into ApiUnavailable."""

    def __enter__(self) -> None:
        return

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, (aiohttp.ClientError, TimeoutError, asyncio.IncompleteReadError, OSError)):
            words = str(error) or type(error).__name__
            raise ApiUnavailable(f"the API server cannot be reached: {words}") from error
