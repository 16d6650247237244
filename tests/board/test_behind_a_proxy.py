"""Headers of clients name no user: without the login proxy, and behind a proxy that passes them on."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import aiohttp
import pytest

from testbed.board_server import serving, serving_application
from tests.board.test_access import SECRET, AnsweringReviews
from wakeboard.board import BoardOptions
from wakeboard.board.access import Permission, ProxyAccess
from wakeboard.board.access.proxy import SECRET_HEADER

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping
    from pathlib import Path

    from starlette.types import Receive, Scope, Send

    from tests.board.action_store import Store

pytestmark = pytest.mark.anyio

USER, GROUPS = "x-forwarded-user", "x-forwarded-groups"
ANNA = "anna@example.com"


@dataclass
class LoginProxy:
    """Passes requests on as ANNA's, and leaves what clients claim in the same headers, which a proxy must remove."""

    upstream: str

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        own = {USER: ANNA, GROUPS: "staff,on-call", SECRET_HEADER: SECRET}
        headers = [(name.decode(), value.decode("utf-8")) for name, value in scope["headers"]]
        body = (await receive()).get("body", b"")
        url = self.upstream + scope["path"]
        async with (
            aiohttp.ClientSession(auto_decompress=False) as session,
            session.request(
                scope["method"], url, headers=[*headers, *own.items()], data=body or None, allow_redirects=False
            ) as answer,
        ):
            await send({"type": "http.response.start", "status": answer.status, "headers": list(answer.raw_headers)})
            async for chunk in answer.content.iter_any():
                await send({"type": "http.response.body", "body": chunk, "more_body": True})
            await send({"type": "http.response.body", "body": b""})


@contextmanager
def behind_a_proxy(dsn: str, folder: Path) -> Generator[tuple[str, str]]:
    """The address of a proxy, and that of the board behind it. ANNA may view everything."""
    (folder / "token").write_text("own")
    access = ProxyAccess(AnsweringReviews((ANNA, Permission.VIEW, None)), secret=SECRET, token_file=folder / "token")
    with serving(BoardOptions(dsn=dsn, access=access)) as board, serving_application(LoginProxy(board)) as proxy:
        yield proxy, board


async def asked(method: str, url: str, headers: Mapping[str, str]) -> tuple[int, str]:
    """The status and the text of an answer."""
    async with (
        aiohttp.ClientSession() as session,
        session.request(method, url, headers=headers, allow_redirects=False) as answer,
    ):
        return answer.status, await answer.text()


async def test_without_the_proxy_a_client_has_no_name(database: str, store: Store, tmp_path: Path):
    run = store.run("dead")
    claims = [
        {},
        {USER: ANNA},
        {USER: ANNA, SECRET_HEADER: SECRET + "x"},
        {USER: ANNA, SECRET_HEADER: ""},
        {USER: ANNA, "authorization": f"Bearer {SECRET}"},
        {USER: ANNA, "cookie": f"{SECRET_HEADER}={SECRET}"},
        {USER: ANNA, "hx-request": "true", "hx-boosted": "true"},
    ]
    with behind_a_proxy(database, tmp_path) as (_, board):
        for headers in claims:
            assert (await asked("GET", f"{board}/", headers))[0] == 401, headers
            assert (await asked("GET", f"{board}/events", headers))[0] == 401, headers
            assert (await asked("POST", f"{board}/runs/{run}/retry", {"origin": board, **headers}))[0] == 401, headers

    assert store.status(run) == "dead"


async def test_no_client_spoofs_the_headers_of_a_proxy(database: str, tmp_path: Path):
    claims = [{USER: "root"}, {GROUPS: "system:masters"}, {SECRET_HEADER: "guess"}, {"X_Forwarded.User": "root"}]
    with behind_a_proxy(database, tmp_path) as (proxy, _):
        assert (await asked("GET", f"{proxy}/", {}))[0] == 200
        for headers in claims:
            status, text = await asked("GET", f"{proxy}/", headers)
            assert (status, "looks like it" in text) == (400, True), headers
        status, text = await asked("GET", f"{proxy}/runs", {"X-Forwarded-Email": "root"})
        assert status == 200
