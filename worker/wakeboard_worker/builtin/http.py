"""The job type `http`: one request to a host on the allow-list.

    payload: {method: POST, url: https://api.example.com/hooks, headers: {X-Key: {$secret: api-key}}, body: {any: json}}

2xx succeeds. 408, 425, 429 and 5xx are tried again, after Retry-After where the server says so; any other answer is
final: the run is dead. `Idempotency-Key` is the run's uuid, the same in every attempt.
"""

from __future__ import annotations

import json
import re
import socket
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final, cast
from urllib.parse import urljoin, urlsplit

from wakeboard.errors import Discard, RetryAfter
from wakeboard_worker.builtin.allowed_hosts import AllowedHosts
from wakeboard_worker.builtin.secrets import Secrets

if TYPE_CHECKING:
    import aiohttp

    from wakeboard.handlers import Run
    from wakeboard.settings import Settings

METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
FIELDS: Final = frozenset({"method", "url", "headers", "body"})
REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})
MOST_REDIRECTS: Final = 5
TRY_AGAIN: Final = frozenset({408, 425, 429})
LONGEST_RETRY_AFTER_S: Final = 86_400.0
SHOWN_OF_BODY: Final = 1_000  # characters, in errors
FOR_ANY_HOST: Final = frozenset({"accept", "content-type", "user-agent", "idempotency-key"})


class HttpError(Exception):
    """The request failed for now; it is tried again."""


class Http:
    """The handler of `http` under a worker's settings."""

    def __init__(self, settings: Settings) -> None:
        self._allowed = AllowedHosts(settings.http_allowed_hosts, settings.http_allow_private)
        self._most_bytes = settings.http_max_body_bytes
        self._secrets_dir = settings.secrets_dir

    async def __call__(self, run: Run) -> dict[str, Any]:
        """Sends the request; {status, body} of the answer."""
        import aiohttp

        secrets = Secrets(self._secrets_dir)
        refused: list[str] = []
        try:
            request = _request(secrets.resolve(_checked(run.payload)), str(run.uuid))
            connector = aiohttp.TCPConnector(socket_factory=partial(self._socket, refused), limit=1)
            timeout = aiohttp.ClientTimeout(total=None)  # the run's own timeout bounds it
            async with aiohttp.ClientSession(connector=connector, timeout=timeout, trust_env=False) as session:
                answer = await self._exchange(session, request)
                return {**answer, "body": secrets.redact(answer["body"])}
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            if refused:
                raise Discard(refused[0]) from None
            raise HttpError(secrets.redact(f"{type(error).__name__}: {error}")) from None
        except (Discard, RetryAfter, HttpError) as error:
            error.args = tuple(secrets.redact(str(word)) for word in error.args)
            raise

    async def _exchange(self, session: aiohttp.ClientSession, request: dict[str, Any]) -> dict[str, Any]:
        for _ in range(MOST_REDIRECTS + 1):
            self._check_name(request["url"])
            async with session.request(**request, allow_redirects=False) as response:
                location = response.headers.get("Location")
                if response.status in REDIRECTS and location:
                    request = _redirected(request, response.status, location)
                    continue
                raw = await _read(response, self._most_bytes)
                body = raw.decode(response.charset or "utf-8", "replace")
                return _verdict(response.status, response.headers.get("Retry-After"), body)
        raise Discard(f"the server redirected more than {MOST_REDIRECTS} times")

    def _check_name(self, url: str) -> None:
        parts = urlsplit(url)
        port = parts.port or (443 if parts.scheme == "https" else 80)
        if not parts.hostname or not self._allowed.allows_name(parts.hostname, port):
            raise Discard(
                f"host {parts.hostname}:{port} is not on the worker's list: add it to WAKEBOARD_HTTP_ALLOWED_HOSTS"
            )

    def _socket(self, refused: list[str], found: Any) -> socket.socket:
        """The socket for an address that is about to be connected to."""
        family, kind, protocol, _, address = found
        if not self._allowed.allows_address(address[0]):
            refused.append(
                f"{address[0]} is a private address: name its network in WAKEBOARD_HTTP_ALLOW_PRIVATE if it is meant"
            )
            raise PermissionError(refused[0])
        return socket.socket(family, kind, protocol)


def _checked(payload: Any) -> dict[str, Any]:
    given = cast("dict[str, Any]", payload) if isinstance(payload, dict) else {}
    if "url" not in given:
        raise Discard('an http payload is an object such as {"method": "POST", "url": "https://…", "body": {…}}')
    unknown = sorted(set(given) - FIELDS)
    if unknown:
        raise Discard(f"an http payload has no field {unknown[0]!r}: write method, url, headers, body")
    return given


def _request(payload: dict[str, Any], idempotency_key: str) -> dict[str, Any]:
    """Arguments of the request, checked."""
    url, method = payload["url"], payload.get("method", "POST" if "body" in payload else "GET")
    if not isinstance(method, str) or method.upper() not in METHODS:
        raise Discard(f"method {method!r} is none of {', '.join(sorted(METHODS))}")
    if not isinstance(url, str) or urlsplit(url).scheme not in {"http", "https"} or not urlsplit(url).hostname:
        raise Discard("url must be a text that begins with https:// or http:// and names a host")
    if urlsplit(url).username or urlsplit(url).password:
        raise Discard("url must not carry a password: put it into a header, as a secret")
    if not isinstance(payload.get("headers") or {}, dict):
        raise Discard("headers must be an object of texts")
    headers: dict[str, Any] = payload.get("headers") or {}
    named: dict[str, str] = {}
    for name, value in headers.items():
        if not isinstance(value, str) or re.search(r"[\r\n\0]", name + value):
            raise Discard(f"header {name!r} must be one line of text")
        named[name] = value
    lower = {name.lower() for name in named}
    if "idempotency-key" not in lower:
        named["Idempotency-Key"] = idempotency_key
    data = None
    if "body" in payload:
        body = payload["body"]
        data = body.encode() if isinstance(body, str) else json.dumps(body).encode()
        if "content-type" not in lower:
            named["Content-Type"] = "text/plain; charset=utf-8" if isinstance(body, str) else "application/json"
    return {"method": method.upper(), "url": url, "headers": named, "data": data}


def _redirected(request: dict[str, Any], status: int, location: str) -> dict[str, Any]:
    """The request that follows a redirect: other hosts get no header that could be a secret."""
    before, after = request["url"], urljoin(request["url"], location)
    if urlsplit(after).scheme not in {"http", "https"}:
        raise Discard("the server redirected to something that is not http")
    headers = dict(request["headers"])
    if urlsplit(before)[:2] != urlsplit(after)[:2]:
        headers = {name: value for name, value in headers.items() if name.lower() in FOR_ANY_HOST}
    changed = {**request, "url": after, "headers": headers}
    if status == HTTPStatus.SEE_OTHER or (status in {301, 302} and request["method"] == "POST"):
        changed |= {"method": "GET", "data": None}
    return changed


async def _read(response: aiohttp.ClientResponse, most_bytes: int) -> bytes:
    found = b""
    async for piece in response.content.iter_chunked(16_384):
        found += piece
        if len(found) >= most_bytes:
            break
    return found[:most_bytes]


def _verdict(status: int, retry_after: str | None, body: str) -> dict[str, Any]:
    if HTTPStatus.OK <= status < HTTPStatus.MULTIPLE_CHOICES:
        return {"status": status, "body": body}
    said = f"the server answered {status}: {body[:SHOWN_OF_BODY].strip()}".rstrip(": ")
    if status in TRY_AGAIN or status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        seconds = _seconds(retry_after)
        if seconds is not None:
            raise RetryAfter(min(seconds, LONGEST_RETRY_AFTER_S), said)
        raise HttpError(said)
    raise Discard(said)


def _seconds(retry_after: str | None) -> float | None:
    """Retry-After as seconds: a number, or an HTTP date (RFC 9110, 10.2.3); None where it says nothing."""
    if not retry_after:
        return None
    if retry_after.strip().isdigit():
        return float(retry_after)
    try:
        moment = parsedate_to_datetime(retry_after)
    except ValueError:
        return None
    return max(0.0, (moment.replace(tzinfo=moment.tzinfo or UTC) - datetime.now(UTC)).total_seconds())
