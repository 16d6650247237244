"""The job type `http`: one request to a host on the worker's list.

    payload: {method: POST, url: https://api.example.com/hooks, headers: {X-Key: {$secret: api-key}}, body: {any: json}}

2xx succeeds. 408, 425, 429 and 5xx are tried again, after Retry-After where the server says so; any other answer is
final: the run is dead. `Idempotency-Key` is the run's uuid, the same in every attempt.
"""

from __future__ import annotations

import asyncio
import os
import socket
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from wakeboard import __version__
from wakeboard.errors import Discard, RetryAfter
from wakeboard_worker.builtin.allowed_hosts import AllowedHosts
from wakeboard_worker.builtin.http_outcome import HttpError, verdict
from wakeboard_worker.builtin.output_text import LONGEST, readable
from wakeboard_worker.builtin.secrets import Secrets

if TYPE_CHECKING:
    import aiohttp

    from wakeboard.handlers import Run
    from wakeboard.settings import Settings
    from wakeboard_worker.builtin.http_request import Request

REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})
MOST_REDIRECTS: Final = 5
CONNECT_WITHIN_S: Final = 30.0  # the run's own timeout bounds the rest
# Shorter than any server's (the shortest usual one is 5 s): a connection that a server closes while it is used again
# would cost a POST an attempt.
KEEP_ALIVE_S: Final = 4.0


class AddressRefused(PermissionError):
    """Nobody may connect to this address."""


class _Addresses:
    """Where a run tried to connect to: what was refused, and whether anything else was tried.

    `secret`: a part of the url is a secret, so no part of it and nothing derived from it is named.
    """

    def __init__(self, *, secret: bool = False) -> None:
        self.secret = secret
        self.refused = ""
        self.tried = False


_addresses: ContextVar[_Addresses] = ContextVar("_addresses")


class Http:
    """The handler of `http` under a worker's settings. Runs share its connections; `close` ends them."""

    def __init__(self, settings: Settings) -> None:
        self._allowed = AllowedHosts(settings.http_allowed_hosts, settings.http_allowed_private_networks)
        self._most_bytes = settings.http_max_body_bytes
        self._secrets_dir = settings.secrets_dir
        self._session: aiohttp.ClientSession | None = None
        self._loop: asyncio.AbstractEventLoop | None = None  # to which the session belongs

    async def __call__(self, run: Run) -> dict[str, Any]:
        """Sends the request; {status, body} of the answer."""
        from wakeboard_worker.builtin.http_request import request_of

        secrets = Secrets(self._secrets_dir)
        _addresses.set(_Addresses(secret=True))  # until it is known
        try:
            return await self._exchange(request_of(run.payload, str(run.uuid), secrets), secrets)
        except (Discard, RetryAfter, HttpError) as error:
            error.args = tuple(secrets.redact(str(word)) for word in error.args)
            raise
        except Exception as error:  # noqa: BLE001 - aiohttp's, the system's, or a mistake: none may show a secret
            addresses = _addresses.get()
            if addresses.refused and not addresses.tried:
                raise Discard(addresses.refused) from None
            said = _without_places(error) if addresses.secret else str(error) or type(error).__name__
            raise HttpError(secrets.redact(f"no answer: {said}")) from None

    async def close(self) -> None:
        """Ends the connections. To be called in the loop in which the runs were."""
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def _exchange(self, request: Request, secrets: Secrets) -> dict[str, Any]:
        from wakeboard_worker.builtin.http_request import redirected

        for _ in range(MOST_REDIRECTS + 1):
            _addresses.set(_Addresses(secret=request.secret_url))
            self._check_host(request)
            async with self._connections().request(
                request.method, request.url, headers=request.headers, data=request.body, allow_redirects=False
            ) as response:
                location = response.headers.get("Location")
                if response.status in REDIRECTS and location:
                    request = redirected(request, response.status, location, secrets)
                    continue
                body = await self._body(response, secrets)
                return verdict(response.status, response.headers.get("Retry-After"), body, datetime.now(UTC))
        raise Discard(f"the server redirected more than {MOST_REDIRECTS} times")

    def _connections(self) -> aiohttp.ClientSession:
        """The session of this event loop. Imported here: a worker without http runs has no use for aiohttp."""
        import aiohttp

        loop = asyncio.get_running_loop()
        if self._session is None or self._session.closed or self._loop is not loop:
            self._loop = loop
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(socket_factory=self._socket, limit=0, keepalive_timeout=KEEP_ALIVE_S),
                timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_WITHIN_S),
                cookie_jar=aiohttp.DummyCookieJar(),  # runs share connections, and nothing else
                headers={"User-Agent": f"wakeboard/{__version__}", "Accept-Encoding": "identity"},
                auto_decompress=False,  # a small body must not become a large one
                trust_env=False,  # no proxy: it would connect where this list cannot look
            )
        return self._session

    def _check_host(self, request: Request) -> None:
        if not self._allowed.allows_name(request.host, request.port):
            raise Discard(f"{request.place} is not on the worker's list: add it to WAKEBOARD_HTTP_ALLOWED_HOSTS")

    def _socket(self, found: Any) -> socket.socket:
        """The socket for an address that is about to be connected to."""
        family, kind, protocol, _, address = found
        if not self._allowed.allows_address(address[0]):
            place = "the host of the url" if _addresses.get().secret else address[0]
            _addresses.get().refused = (
                f"{place} is not a public address: name its network in WAKEBOARD_HTTP_ALLOWED_PRIVATE_NETWORKS"
                " if it is meant"
            )
            raise AddressRefused(_addresses.get().refused)
        _addresses.get().tried = True
        return socket.socket(family, kind, protocol)

    async def _body(self, response: aiohttp.ClientResponse, secrets: Secrets) -> str:
        """The beginning of the body, as text without secrets."""
        raw = bytearray()
        async for piece in response.content.iter_any():
            raw += piece
            if len(raw) > self._most_bytes:
                break
        text = readable(bytes(raw[: self._most_bytes]), response.charset or "utf-8")
        text = secrets.redact(text, cut="end" if len(raw) > self._most_bytes else None)
        return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"


def _without_places(error: BaseException) -> str:
    """The error without the texts of libraries, because they name hosts, addresses and paths."""
    number = getattr(error, "errno", None)
    why = os.strerror(number) if isinstance(number, int) and number > 0 else ""
    return f"{type(error).__name__} ({why})" if why else type(error).__name__
