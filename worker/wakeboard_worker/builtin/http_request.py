"""Turns the payload of an `http` run into a request, and a redirect into the next request, or refuses them. No I/O."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, replace
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final, cast

from yarl import URL

from wakeboard.errors import Discard
from wakeboard.schedules.rules.builtin_payloads import payload_problem

if TYPE_CHECKING:
    from collections.abc import Mapping

    from wakeboard.secrets import Secrets

_HEADER_NAME: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,100}")  # a token (RFC 9110, 5.6.2)
_HEADER_CONTROL: Final = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")
_URL_CONTROL: Final = re.compile(r"[\x00-\x20\x7f]")
# `Host` could reach a virtual host that is not allowed. The others control the connection, not the request.
_FORBIDDEN_HEADER: Final = re.compile(
    r"host|connection|content-length|expect|keep-alive|te|trailer|transfer-encoding|upgrade|proxy-.*", re.IGNORECASE
)
# A prefix that contains the whole host: the secret behind it cannot change the host.
_CONTAINS_HOST: Final = re.compile(r"https?://[^/?#\\@]+[/?#]", re.IGNORECASE)
_FOR_ANY_HOST: Final = frozenset({"accept", "content-type", "user-agent", "idempotency-key"})


@dataclass(frozen=True, slots=True)
class Request:
    """One request. `secret_url`: a part of the url is a secret. `secret_host`: the host may be a secret."""

    method: str
    url: URL
    headers: Mapping[str, str]
    body: bytes | None
    secret_url: bool = False
    secret_host: bool = False

    @property
    def host(self) -> str:
        """The host, as it is resolved."""
        return self.url.raw_host or ""

    @property
    def port(self) -> int:
        """The port, explicit or of the scheme."""
        return self.url.port or 0

    @property
    def destination(self) -> str:
        """host:port for error messages, without secrets."""
        return "the host of the url" if self.secret_host else f"{self.host}:{self.port}"


def request_of(payload: Any, idempotency_key: str, secrets: Secrets) -> Request:
    """Return the request of a payload, with its secrets resolved. Raises Discard if the payload is invalid."""
    if problem := payload_problem("http", payload):
        raise Discard(problem)
    fields = cast("dict[str, Any]", payload)
    headers, body = _headers(secrets.resolve(fields.get("headers") or {})), secrets.resolve(fields.get("body"))
    url = _url(secrets.resolve(fields["url"]))
    secret_url = isinstance(fields["url"], dict)
    secret_host = secret_url and not _CONTAINS_HOST.match(fields["url"].get("prefix", ""))
    if secret_url:  # servers repeat the host or the path in error messages
        hosts = {url.raw_host or "", url.host or ""} if secret_host else set[str]()
        for part in {url.raw_path_qs, url.path_qs, *hosts} - {"/", ""}:
            secrets.hide(part, "of the url")
    has_body = "body" in fields
    method = fields.get("method") or ("POST" if has_body else "GET")
    text = isinstance(body, str)
    automatic = {"Idempotency-Key": idempotency_key}
    if has_body:
        automatic["Content-Type"] = "text/plain; charset=utf-8" if text else "application/json"
    explicit = {name.lower() for name in headers}
    headers |= {name: value for name, value in automatic.items() if name.lower() not in explicit}
    data = (body if text else json.dumps(body)).encode() if has_body else None
    return Request(method.upper(), url, headers, data, secret_url, secret_host)


def redirected(request: Request, status: int, location: str, secrets: Secrets) -> Request:
    """Return the request that follows a redirect. Secrets are never sent to another host or without TLS."""
    try:
        url = _url(str(request.url.join(URL(location))))
    except (ValueError, Discard):
        raise Discard("the server redirected to a URL that is not http or https") from None
    if (request.url.scheme, url.scheme) == ("https", "http"):
        raise Discard("the server redirected from https to http")
    if url.origin() == request.url.origin():
        request = replace(request, url=url)
    else:
        request = replace(_for_another_host(request, url, secrets), secret_host=request.secret_url)
    becomes_get = status == HTTPStatus.SEE_OTHER or (
        status in {HTTPStatus.MOVED_PERMANENTLY, HTTPStatus.FOUND} and request.method == "POST"
    )
    if not becomes_get or request.method == "HEAD":
        return request
    headers = {name: value for name, value in request.headers.items() if not name.lower().startswith("content-")}
    return replace(request, method="GET", headers=headers, body=None)


def _for_another_host(request: Request, url: URL, secrets: Secrets) -> Request:
    """Return the request without headers that another host must not see."""
    if request.body and secrets.contains_secret(request.body.decode()):
        raise Discard("the server redirected a body with a secret to another host")
    headers = {
        name: value
        for name, value in request.headers.items()
        if name.lower() in _FOR_ANY_HOST and not secrets.contains_secret(value)
    }
    return replace(request, url=url, headers=headers)


def _url(text: Any) -> URL:
    try:
        url = URL(text) if isinstance(text, str) and not _URL_CONTROL.search(text) else URL()
    except ValueError:
        url = URL()
    if url.scheme not in {"http", "https"} or not url.raw_host or not url.port:
        raise Discard("url must be a text that begins with https:// or http:// and contains a host")
    if url.user is not None or url.password is not None:
        raise Discard("url must not contain a user name or password: send them in a header, as a secret")
    return url


def _headers(declared: Any) -> dict[str, str]:
    if not isinstance(declared, dict):
        raise Discard('headers must be an object such as {"Accept": "application/json"}')
    headers = cast("dict[str, Any]", declared)
    for name, value in headers.items():
        if not _HEADER_NAME.fullmatch(name):
            raise Discard(f"{name[:80]!r} is not a valid header name")
        if _FORBIDDEN_HEADER.fullmatch(name):
            raise Discard(f"a payload must not set the header {name!r}")
        if not isinstance(value, str) or _HEADER_CONTROL.search(value):
            raise Discard(f"the header {name!r} must be one line of text")
    return headers
