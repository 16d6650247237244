"""Calls a board as a browser would, without a server: requests over ASGI that keep cookies."""

from __future__ import annotations

import html
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode, urlsplit

from wakeboard.board import BoardOptions, app
from wakeboard.board.access.viewer import Permission

if TYPE_CHECKING:
    from collections.abc import Mapping

    from starlette.requests import HTTPConnection

    from wakeboard.board.access.viewer import KnownNamespaces
    from wakeboard.board.state import Board

ALL = frozenset(Permission)
VIEW = frozenset({Permission.VIEW})


@dataclass(frozen=True)
class GrantedViewer:
    """A viewer with these permissions in each namespace; None: in all of them, and for what belongs to none."""

    name: str = "ada"
    granted: Mapping[str | None, frozenset[Permission]] = field(default_factory=lambda: {None: ALL})

    @property
    def namespaces(self) -> frozenset[str] | None:
        return None if None in self.granted else frozenset(name for name in self.granted if name)

    async def may(self, permission: Permission, namespace: str | None) -> bool:
        return permission in self.granted.get(namespace, self.granted.get(None, frozenset()))


@dataclass(frozen=True)
class AccessOf:
    """A way to log in that lets one viewer in."""

    logged_in: GrantedViewer = field(default_factory=GrantedViewer)
    asks_for_token: bool = True

    async def viewer(self, request: HTTPConnection, known: KnownNamespaces) -> GrantedViewer:  # noqa: ARG002
        return self.logged_in

    async def close(self) -> None:
        pass


@dataclass(frozen=True)
class Answer:
    """The answer to a request."""

    status: int
    headers: list[tuple[str, str]]
    text: str

    def header(self, name: str) -> str:
        return next((value for key, value in self.headers if key == name), "")

    @property
    def words(self) -> str:
        """The text of the page without tags, in one line."""
        return " ".join(html.unescape(re.sub(r"<[^>]*>", " ", self.text)).split())


class Client:
    """A browser without a screen. `headers` are sent with each request."""

    def __init__(self, dsn: str, viewer: GrantedViewer | None = None, **options: Any) -> None:
        given: dict[str, Any] = {"access": AccessOf(viewer or GrantedViewer()), "listen": False, **options}
        self.app = app(BoardOptions(dsn=dsn, **given))
        self.board: Board = self.app.state.board
        self.headers = {"host": "127.0.0.1:8686", "origin": "http://127.0.0.1:8686", "sec-fetch-site": "same-origin"}
        self.cookies: dict[str, str] = {}

    async def get(self, path: str, **query: Any) -> Answer:
        return await self.send("GET", path + (f"?{urlencode(query)}" if query else ""))

    async def post(self, path: str, headers: Mapping[str, str] | None = None, **form: Any) -> Answer:
        body = urlencode(form, doseq=True).encode()
        return await self.send("POST", path, body, headers if headers is not None else self.headers)

    async def follow(self, path: str, **form: Any) -> Answer:
        """Posts a form and goes where the answer redirects."""
        answer = await self.post(path, **form)
        assert answer.status == 303, answer.words
        return await self.get(answer.header("location"))

    async def send(self, method: str, path: str, body: bytes = b"", headers: Mapping[str, str] | None = None) -> Answer:
        url = urlsplit(path)
        sent = {"content-type": "application/x-www-form-urlencoded", **(self.headers if headers is None else headers)}
        if self.cookies:
            sent["cookie"] = "; ".join(f"{name}={value}" for name, value in self.cookies.items())
        scope = {
            "type": "http",
            "method": method,
            "scheme": "http",
            "path": url.path,
            "raw_path": quote(url.path).encode(),
            "query_string": url.query.encode(),
            "root_path": "",
            "headers": [(name.encode(), value.encode()) for name, value in sent.items()],
        }
        sent_body = [{"type": "http.request", "body": body, "more_body": False}]
        messages: list[Any] = []

        async def receive() -> Any:
            return sent_body.pop() if sent_body else {"type": "http.disconnect"}

        async def send(message: Any) -> None:
            messages.append(message)

        await self.app(scope, receive, send)
        got = [(name.decode(), value.decode()) for name, value in messages[0]["headers"]]
        self._keep_cookies(got)
        return Answer(
            messages[0]["status"], got, b"".join(message.get("body", b"") for message in messages[1:]).decode()
        )

    def _keep_cookies(self, headers: list[tuple[str, str]]) -> None:
        for name, value in headers:
            if name == "set-cookie":
                cookie, _, content = value.partition(";")[0].partition("=")
                self.cookies[cookie] = content.strip('"')
                if not self.cookies[cookie]:
                    del self.cookies[cookie]

    async def close(self) -> None:
        await self.board.close()
