"""From the payload of an `http` run to the request that is sent, and from a redirect to the next one. No I/O."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, replace
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final, cast

from yarl import URL

from wakeboard.errors import Discard

if TYPE_CHECKING:
    from collections.abc import Mapping

    from wakeboard_worker.builtin.secrets import Secrets

METHODS: Final = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
FIELDS: Final = ("method", "url", "headers", "body")

_HEADER_NAME: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,100}")  # a token (RFC 9110, 5.6.2)
_NOT_IN_A_HEADER: Final = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")
_NOT_IN_A_URL: Final = re.compile(r"[\x00-\x20\x7f]")
# Host would reach what the list does not name; the others belong to the connection, not to the request.
_NOT_YOURS: Final = re.compile(
    r"host|connection|content-length|expect|keep-alive|te|trailer|transfer-encoding|upgrade|proxy-.*", re.IGNORECASE
)
_NAMES_HOST: Final = re.compile(
    r"https?://[^/?#\\@]+[/?#]", re.IGNORECASE
)  # before a secret: it cannot change the host
_FOR_ANY_HOST: Final = frozenset({"accept", "content-type", "user-agent", "idempotency-key"})


@dataclass(frozen=True, slots=True)
class Request:
    """What is sent. `secret_url`: a part of the url is a secret. `secret_host`: its host is, or may be, too."""

    method: str
    url: URL
    headers: Mapping[str, str]
    body: bytes | None
    secret_url: bool = False
    secret_host: bool = False

    @property
    def host(self) -> str:
        """The host that is connected to, as names are resolved."""
        return self.url.raw_host or ""

    @property
    def port(self) -> int:
        """The port that is connected to."""
        return self.url.port or 0

    @property
    def place(self) -> str:
        """Where it goes, as errors may name it."""
        return "the host of the url" if self.secret_host else f"{self.host}:{self.port}"


def request_of(payload: Any, idempotency_key: str, secrets: Secrets) -> Request:
    """The request that a payload asks for, its secrets resolved. Raises Discard with one sentence."""
    given = _fields_of(payload)
    headers, body = _headers(secrets.resolve(given.get("headers") or {})), secrets.resolve(given.get("body"))
    url = _url(secrets.resolve(given["url"]))
    secret_url = isinstance(given["url"], dict)
    secret_host = secret_url and not _NAMES_HOST.match(given["url"].get("prefix", ""))
    if secret_url:  # servers repeat the host or path in error messages
        hosts = {url.raw_host or "", url.host or ""} if secret_host else set[str]()
        for part in {url.raw_path_qs, url.path_qs, *hosts} - {"/", ""}:
            secrets.hide(part, "of the url")
    has_body = "body" in given
    method = given.get("method", "POST" if has_body else "GET")
    if not isinstance(method, str) or method.upper() not in METHODS:
        raise Discard(f"method {method!r} is none of {', '.join(METHODS)}")
    text = isinstance(body, str)
    automatic = {"Idempotency-Key": idempotency_key}
    if has_body:
        automatic["Content-Type"] = "text/plain; charset=utf-8" if text else "application/json"
    named = {name.lower() for name in headers}
    headers |= {name: value for name, value in automatic.items() if name.lower() not in named}
    sent = (body if text else json.dumps(body)).encode() if has_body else None
    return Request(method.upper(), url, headers, sent, secret_url, secret_host)


def redirected(request: Request, status: int, location: str, secrets: Secrets) -> Request:
    """The request that follows a redirect. What may be a secret never goes to another host, or out of TLS."""
    try:
        url = _url(str(request.url.join(URL(location))))
    except (ValueError, Discard):
        raise Discard("the server redirected to something that is no http or https address") from None
    if (request.url.scheme, url.scheme) == ("https", "http"):
        raise Discard("the server redirected from https to http")
    if url.origin() == request.url.origin():
        request = replace(request, url=url)
    else:
        request = replace(_stripped(request, url, secrets), secret_host=request.secret_url)
    becomes_get = status == HTTPStatus.SEE_OTHER or (
        status in {HTTPStatus.MOVED_PERMANENTLY, HTTPStatus.FOUND} and request.method == "POST"
    )
    if not becomes_get or request.method == "HEAD":
        return request
    headers = {name: value for name, value in request.headers.items() if not name.lower().startswith("content-")}
    return replace(request, method="GET", headers=headers, body=None)


def _stripped(request: Request, url: URL, secrets: Secrets) -> Request:
    """The request as another host may see it."""
    if request.body and secrets.gives_away(request.body.decode()):
        raise Discard("the server redirected a body with a secret to another host")
    headers = {
        name: value
        for name, value in request.headers.items()
        if name.lower() in _FOR_ANY_HOST and not secrets.gives_away(value)
    }
    return replace(request, url=url, headers=headers)


def _fields_of(payload: Any) -> dict[str, Any]:
    given = cast("dict[str, Any]", payload) if isinstance(payload, dict) else {}
    if "url" not in given:
        raise Discard('an http payload is an object such as {"method": "POST", "url": "https://…", "body": {…}}')
    for name in sorted(given.keys() - set(FIELDS)):
        raise Discard(f"an http payload has no field {name!r}: write {', '.join(FIELDS)}")
    return given


def _url(text: Any) -> URL:
    try:
        url = URL(text) if isinstance(text, str) and not _NOT_IN_A_URL.search(text) else URL()
    except ValueError:
        url = URL()
    if url.scheme not in {"http", "https"} or not url.raw_host or not url.port:
        raise Discard("url must be a text that begins with https:// or http:// and names a host")
    if url.user is not None or url.password is not None:
        raise Discard("url must not carry a name or password: put them into a header, as a secret")
    return url


def _headers(given: Any) -> dict[str, str]:
    if not isinstance(given, dict):
        raise Discard('headers must be an object such as {"Accept": "application/json"}')
    headers = cast("dict[str, Any]", given)
    for name, value in headers.items():
        if not _HEADER_NAME.fullmatch(name):
            raise Discard(f"{name[:80]!r} cannot be the name of a header")
        if _NOT_YOURS.fullmatch(name):
            raise Discard(f"the header {name!r} is not a payload's to set")
        if not isinstance(value, str) or _NOT_IN_A_HEADER.search(value):
            raise Discard(f"the header {name!r} must be one line of text")
    return headers
