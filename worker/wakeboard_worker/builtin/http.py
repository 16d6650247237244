"""The job type `http`: sends one request to an allowed host.

    payload: {method: POST, url: https://api.example.com/hooks, headers: {X-Key: {$secret: api-key}}, body: {any: json}}

A response with status 2xx is success. 408, 425, 429 and 5xx fail the attempt, and the run is retried, after Retry-After
if the server sends it. Any other status makes the run dead. The header `Idempotency-Key` is the run's uuid, the same in
every attempt.
"""

from __future__ import annotations

import asyncio
import os
import socket
from contextlib import asynccontextmanager
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, Protocol, Self

from wakeboard import __version__
from wakeboard.errors import Discard, RetryAfter
from wakeboard.process.unreachable_host import unreachable_host
from wakeboard.secrets import Secrets
from wakeboard.text.output_text import decode_output
from wakeboard_worker.builtin.allowed_hosts import AllowedHosts
from wakeboard_worker.builtin.http_outcome import HttpError, outcome_of

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Mapping
    from types import TracebackType

    import aiohttp

    from wakeboard.engine.run import Run
    from wakeboard.settings import Settings
    from wakeboard_worker.builtin.http_request import Request

    class RequestSpan(Protocol):
        """The span of one request. `headers` carry its trace context to the server."""

        headers: dict[str, str]

        def __enter__(self) -> Self: ...

        def __exit__(
            self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
        ) -> None: ...

        def answered(self, status: int) -> None:
            """Record the status of the response."""


REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})
MAX_REDIRECTS: Final = 5
CONNECT_WITHIN_S: Final = 30.0  # after that the run's timeout applies
# Shorter than the usual timeouts of servers (5 s and more). If the server closes a connection while it is being reused,
# a POST fails and costs an attempt.
KEEP_ALIVE_S: Final = 4.0


class AddressRefused(PermissionError):
    """The worker may not connect to this address."""


class _AddressCheck:
    """What the address check of one request found: the message for a refused address, and whether one was allowed.

    `secret`: a part of the url is a secret, so errors contain no part of the url and nothing derived from it.
    """

    def __init__(self, *, secret: bool = False) -> None:
        self.secret = secret
        self.refused = ""
        self.allowed = False


_address_check: ContextVar[_AddressCheck] = ContextVar("_address_check")


class Http:
    """The handler of the job type `http`. Runs share its connections; `close` closes them."""

    def __init__(self, settings: Settings) -> None:
        self._allowed = AllowedHosts(settings.http_allowed_hosts, settings.http_allowed_private_networks)
        self._max_bytes = settings.http_max_body_bytes
        self._secrets_dir = settings.secrets_dir
        self._session: aiohttp.ClientSession | None = None
        self._loop: asyncio.AbstractEventLoop | None = None  # the event loop of the session
        self.start_span: Callable[[str, Mapping[str, Any]], RequestSpan] | None = (
            None  # set if OpenTelemetry is configured
        )

    async def __call__(self, run: Run) -> dict[str, Any]:
        """Send the request and return {status, body} of the response. Raises Discard, RetryAfter and HttpError."""
        from wakeboard_worker.builtin.http_request import request_of

        secrets = Secrets(self._secrets_dir)
        _address_check.set(_AddressCheck(secret=True))  # until the payload is read
        try:
            return await self._exchange(request_of(run.payload, str(run.uuid), secrets), secrets)
        except (Discard, RetryAfter, HttpError) as error:
            error.args = tuple(secrets.redact(str(arg)) for arg in error.args)
            raise
        except Exception as error:  # noqa: BLE001 - any error may contain a secret, and is rewritten
            check = _address_check.get()
            if check.refused and not check.allowed:
                raise Discard(check.refused) from None
            words = unreachable_host(error) or str(error) or type(error).__name__
            message = _error_without_hosts(error) if check.secret else words
            raise HttpError(secrets.redact(f"no answer: {message}")) from None

    async def close(self) -> None:
        """Close the connections. Call it in the event loop of the runs."""
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def _exchange(self, request: Request, secrets: Secrets) -> dict[str, Any]:
        from wakeboard_worker.builtin.http_request import redirected

        for _ in range(MAX_REDIRECTS + 1):
            _address_check.set(_AddressCheck(secret=request.secret_url))
            self._check_host(request)
            async with self._response(request) as response:
                location = response.headers.get("Location")
                if response.status in REDIRECTS and location:
                    request = redirected(request, response.status, location, secrets)
                    continue
                body = await self._body(response, secrets)
                return outcome_of(response.status, response.headers.get("Retry-After"), body, datetime.now(UTC))
        raise Discard(f"the server redirected more than {MAX_REDIRECTS} times")

    @asynccontextmanager
    async def _response(self, request: Request) -> AsyncGenerator[aiohttp.ClientResponse]:
        """Send the request, in a span if OpenTelemetry is configured."""
        if self.start_span is None:
            async with self._send(request, request.headers) as response:
                yield response
            return
        with self.start_span(request.method, _span_attributes(request)) as span:
            explicit = {name.lower() for name in request.headers}
            headers = {name: value for name, value in span.headers.items() if name.lower() not in explicit}
            async with self._send(request, {**request.headers, **headers}) as response:
                span.answered(response.status)
                yield response

    def _send(self, request: Request, headers: Mapping[str, str]) -> Any:
        return self._connections().request(
            request.method, request.url, headers=headers, data=request.body, allow_redirects=False
        )

    def _connections(self) -> aiohttp.ClientSession:
        """Return the session of this event loop. Imports aiohttp here: workers without http runs start faster."""
        import aiohttp

        loop = asyncio.get_running_loop()
        if self._session is None or self._session.closed or self._loop is not loop:
            self._loop = loop
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(socket_factory=self._socket, limit=0, keepalive_timeout=KEEP_ALIVE_S),
                timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_WITHIN_S),
                cookie_jar=aiohttp.DummyCookieJar(),  # runs must not share cookies
                headers={"User-Agent": f"wakeboard/{__version__}", "Accept-Encoding": "identity"},
                auto_decompress=False,  # a small body could decompress to a large one
                trust_env=False,  # a proxy would bypass the address check
            )
        return self._session

    def _check_host(self, request: Request) -> None:
        if not self._allowed.allows_name(request.host, request.port):
            raise Discard(
                f"{request.destination} is not allowed on this worker: add it to WAKEBOARD_HTTP_ALLOWED_HOSTS"
            )

    def _socket(self, address_info: Any) -> socket.socket:
        """Create the socket for an address. Raises AddressRefused for an address that is not allowed."""
        family, kind, protocol, _, address = address_info
        if not self._allowed.allows_address(address[0]):
            destination = "the host of the url" if _address_check.get().secret else address[0]
            _address_check.get().refused = (
                f"{destination} is not a public address: if it is intended, add its network to"
                " WAKEBOARD_HTTP_ALLOWED_PRIVATE_NETWORKS"
            )
            raise AddressRefused(_address_check.get().refused)
        _address_check.get().allowed = True
        return socket.socket(family, kind, protocol)

    async def _body(self, response: aiohttp.ClientResponse, secrets: Secrets) -> str:
        """Return the beginning of the body as text, with secrets masked."""
        raw = bytearray()
        async for chunk in response.content.iter_any():
            raw += chunk
            if len(raw) > self._max_bytes:
                break
        text = decode_output(bytes(raw[: self._max_bytes]), response.charset or "utf-8")
        return secrets.redact(text, was_cut=len(raw) > self._max_bytes)


def _span_attributes(request: Request) -> dict[str, Any]:
    """The attributes of a request's span. The query is left out: it may contain a credential."""
    if request.secret_host:
        return {}
    url = request.url
    attributes: dict[str, Any] = {"server.address": request.host, "server.port": request.port}
    return (
        attributes if request.secret_url else attributes | {"url.full": str(url.with_query(None).with_fragment(None))}
    )


def _error_without_hosts(error: BaseException) -> str:
    """Return the error without the messages of libraries, which contain hosts, addresses and paths."""
    number = getattr(error, "errno", None)
    reason = os.strerror(number) if isinstance(number, int) and number > 0 else ""
    return f"{type(error).__name__} ({reason})" if reason else type(error).__name__
