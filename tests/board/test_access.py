"""Who may see and do what, for each way to log in."""

from __future__ import annotations

import asyncio
import ssl
from typing import TYPE_CHECKING, Any

import pytest
from starlette.requests import Request

from testbed.board_server import serving
from tests.board.asgi import Client
from wakeboard.board import BoardOptions
from wakeboard.board.access import KubernetesAccess, LocalAccess, Permission, ProxyAccess, TokenAccess
from wakeboard.board.access.proxy import AmbiguousHeaders
from wakeboard.board.access.reviews import ReviewFailed, Reviews, attributes
from wakeboard.board.access.tokens import digest_of, new_token
from wakeboard.board.paths import safe_path
from wakeboard.board.settings import read_board_settings
from wakeboard.errors import InvalidSettings
from wakeboard.kube.api_server import ApiServer, ssl_context
from wakeboard.process.system_user import system_user

if TYPE_CHECKING:
    from pathlib import Path

    from playwright.async_api import Page

pytestmark = pytest.mark.anyio

SECRET = "correct horse battery"


async def no_namespaces() -> list[str]:
    return []


def request(*headers: tuple[str, str]) -> Request:
    return Request({"type": "http", "headers": [(name.encode(), value.encode()) for name, value in headers]})


def token_file(folder: Path, *entries: tuple[str, str]) -> tuple[Path, list[str]]:
    """A token file with these names and roles, and the tokens."""
    tokens = [new_token() for _ in entries]
    path = folder / "tokens"
    lines = [f"{name} {role} {digest_of(token)}" for (name, role), token in zip(entries, tokens, strict=True)]
    path.write_text("# people\n" + "\n".join(lines) + "\n")
    return path, tokens


# -- settings ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("bind", ["0.0.0.0", "::", "*", "10.0.0.1", "jobs.example.com"])
def test_a_board_that_others_can_reach_needs_a_login(bind: str):
    with pytest.raises(InvalidSettings, match="needs a login"):
        read_board_settings(board_bind=bind)


@pytest.mark.parametrize("bind", ["127.0.0.1", "127.8.0.1", "::1", "localhost"])
def test_a_board_on_loopback_needs_no_other_login(bind: str):
    assert read_board_settings(board_bind=bind).board_login == "address"


def test_a_login_without_its_file_is_refused():
    with pytest.raises(InvalidSettings, match="needs WAKEBOARD_BOARD_TOKENS_FILE"):
        read_board_settings(board_bind="0.0.0.0", board_login="tokens")


async def test_a_local_board_allows_everything():
    viewer = await LocalAccess().viewer(request(), no_namespaces)

    assert viewer
    assert viewer.namespaces is None
    assert viewer.name == system_user()  # as the command line
    assert all([await viewer.may(permission, None) for permission in Permission])


# -- tokens ------------------------------------------------------------------------------------------------------------


async def test_a_token_gives_the_role_of_its_line(tmp_path: Path):
    path, (anna, display) = token_file(tmp_path, ("anna", "operator"), ("display", "viewer"))
    access = TokenAccess(path)

    operator = await access.viewer(request(("authorization", f"Bearer {anna}")), no_namespaces)
    viewer = await access.viewer(request(("cookie", f"wakeboard-board={display}")), no_namespaces)

    assert operator
    assert viewer
    assert (operator.name, viewer.name) == ("anna", "display")
    assert await operator.may(Permission.RETRY, "shop")
    assert [permission for permission in Permission if await viewer.may(permission, "shop")] == [Permission.VIEW]


@pytest.mark.parametrize("token", ["", "wrong", "anna", "\u00e4"])
async def test_an_unknown_token_must_log_in(tmp_path: Path, token: str):
    path, _ = token_file(tmp_path, ("anna", "operator"))

    assert await TokenAccess(path).viewer(request(("authorization", f"Bearer {token}")), no_namespaces) is None


async def test_a_changed_token_file_is_read_again(tmp_path: Path):
    path, (old,) = token_file(tmp_path, ("anna", "operator"))
    access = TokenAccess(path)

    _, (new,) = token_file(tmp_path, ("bertha", "viewer"))

    assert await access.viewer(request(("authorization", f"Bearer {old}")), no_namespaces) is None
    found = await access.viewer(request(("authorization", f"Bearer {new}")), no_namespaces)
    assert found
    assert found.name == "bertha"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "lists no token"),
        ("# nothing\n\n", "lists no token"),
        ("anna operator secret\n", "line 1"),
        (f"anna owner {'0' * 64}\n", "line 1"),
        (f"# a\nanna viewer {'0' * 64} more\n", "line 2"),
        ("\x00\xff" * 700_000, "larger than 1 MiB"),
    ],
)
def test_an_invalid_token_file_is_refused_with_its_line(tmp_path: Path, text: str, problem: str):
    (tmp_path / "tokens").write_text(text)

    with pytest.raises(InvalidSettings, match=problem):
        TokenAccess(tmp_path / "tokens")


def test_a_missing_token_file_is_refused(tmp_path: Path):
    with pytest.raises(InvalidSettings, match="No such file"):
        TokenAccess(tmp_path / "tokens")


async def test_a_browser_logs_in_with_a_token_and_returns_to_its_page(database: str, tmp_path: Path, page: Page):
    path, (token,) = token_file(tmp_path, ("display", "viewer"))
    with serving(BoardOptions(dsn=database, access=TokenAccess(path))) as board:
        await page.goto(board + "/runs?q=status:dead")
        assert "/login" in page.url
        await page.get_by_role("link", name="wakeboard.localhost").click()
        await page.get_by_label("Token").fill("wrong")
        await page.get_by_role("button", name="Log in").click()
        await page.get_by_text("This token is not valid.").wait_for()
        await page.get_by_label("Token").fill(token)
        await page.get_by_role("button", name="Log in").click()
        await page.wait_for_url("**/runs?q=status:dead")

        cookie = (await page.context.cookies())[0]
        elsewhere = await page.context.cookies([board, "http://localhost:9999"])  # other programs of this machine

    assert (cookie.get("domain"), elsewhere) == ("wakeboard.localhost", [])
    assert (cookie.get("httpOnly"), cookie.get("sameSite")) == (True, "Strict")


@pytest.mark.parametrize(
    "wanted",
    ["https://example.com/", "//example.com", "/\\example.com", "javascript:alert(1)", "", "/a\nb", "/" + "é" * 501],
)
def test_a_login_leads_to_no_other_origin(wanted: str):
    assert safe_path(wanted) == "/"


# -- proxy -------------------------------------------------------------------------------------------------------------


class AnsweringReviews(Reviews):
    """Reviews that allow what the test names, without an API server."""

    def __init__(self, *allowed: tuple[str, Permission, str | None]) -> None:
        super().__init__(ApiServer("https://127.0.0.1:1"))
        self.allowed = allowed

    async def user_may(
        self,
        token: str,  # noqa: ARG002
        user: str,
        groups: Any,  # noqa: ARG002
        permission: Permission,
        namespace: str | None,
    ) -> bool:
        return (user, permission, namespace) in self.allowed


def proxy_access(folder: Path, *allowed: tuple[str, Permission, str | None]) -> ProxyAccess:
    (folder / "token").write_text("own")
    return ProxyAccess(AnsweringReviews(*allowed), secret=SECRET, token_file=folder / "token")


async def test_a_proxy_names_the_user_and_rbac_decides(tmp_path: Path):
    access = proxy_access(
        tmp_path, ("anna", Permission.VIEW, "shop"), ("anna", Permission.RETRY, "shop"), ("bob", Permission.VIEW, "ops")
    )

    async def known() -> list[str]:
        return ["ops", "shop"]

    headers = [("x-wakeboard-proxy-secret", SECRET), ("x-forwarded-user", "anna")]
    viewer = await access.viewer(request(*headers), known)

    assert viewer
    assert (viewer.name, viewer.namespaces) == ("anna", {"shop"})
    assert await viewer.may(Permission.RETRY, "shop")
    assert not await viewer.may(Permission.RETRY, "ops")
    assert not await viewer.may(Permission.CANCEL, "shop")
    assert not await viewer.may(Permission.RETRY, None)


@pytest.mark.parametrize(
    "headers",
    [
        [("x-forwarded-user", "anna")],
        [("x-forwarded-user", "anna"), ("x-wakeboard-proxy-secret", "wrong")],
        [("x-wakeboard-proxy-secret", SECRET)],
        [("x-wakeboard-proxy-secret", SECRET), ("x-forwarded-user", " ")],
    ],
)
async def test_headers_without_the_secret_of_the_proxy_must_log_in(tmp_path: Path, headers: list[tuple[str, str]]):
    assert await proxy_access(tmp_path).viewer(request(*headers), no_namespaces) is None


@pytest.mark.parametrize(
    "other",
    [
        ("x-forwarded-user", "root"),
        ("x_forwarded_user", "root"),
        ("x.forwarded.user", "root"),
        ("X-Forwarded_User", "root"),
        ("x_forwarded_groups", "system:masters"),
        ("x_wakeboard_proxy_secret", SECRET),
    ],
)
async def test_a_repeated_or_similar_header_is_refused(tmp_path: Path, other: tuple[str, str]):
    headers = [("x-wakeboard-proxy-secret", SECRET), ("x-forwarded-user", "anna"), other]

    with pytest.raises(AmbiguousHeaders):
        await proxy_access(tmp_path).viewer(request(*headers), no_namespaces)


async def test_a_name_that_is_not_utf_8_is_refused(tmp_path: Path):
    asked = request(("x-wakeboard-proxy-secret", SECRET))
    asked.scope["headers"].append((b"x-forwarded-user", "Zoë".encode("latin-1")))

    with pytest.raises(AmbiguousHeaders, match="not UTF-8"):
        await proxy_access(tmp_path).viewer(asked, no_namespaces)


def test_a_short_secret_is_refused(tmp_path: Path):
    with pytest.raises(InvalidSettings, match="at least 16 characters"):
        ProxyAccess(AnsweringReviews(), secret="short", token_file=tmp_path)


class KnownToken(AnsweringReviews):
    """Reviews of an API server that knows one token."""

    async def user_of(self, token: str) -> str | None:
        return "anna" if token == SECRET else None

    async def self_may(self, token: str, permission: Permission, namespace: str | None) -> bool:  # noqa: ARG002
        return True


async def test_a_passed_token_counts_for_the_api_and_never_from_a_browser(database: str, tmp_path: Path):
    path, _ = token_file(tmp_path, ("anna", "viewer"))
    kubernetes = Client(database, access=KubernetesAccess(KnownToken()))
    others = [Client(database, access=access) for access in (TokenAccess(path), LocalAccess())]
    plugin = {"host": "10.0.0.1:6443", "x-wakeboard-authorization": f"Bearer {SECRET}"}

    async def status(client: Client, method: str, path: str, **more: str) -> int:
        sent = {**plugin, **{name.replace("_", "-"): value for name, value in more.items()}}
        return (await client.send(method, path, headers=sent)).status

    assert await status(kubernetes, "GET", "/api/v1/runs") == 200
    assert await status(kubernetes, "POST", "/api/v1/runs/1/retry") == 404  # there is no such run
    assert await status(kubernetes, "GET", "/api/v1/runs", x_wakeboard_authorization="Bearer wrong") == 401
    assert await status(kubernetes, "GET", "/runs") == 421
    for of_browsers in ({"origin": "http://10.0.0.1:6443"}, {"sec_fetch_site": "same-origin"}, {"cookie": "a=b"}):
        assert await status(kubernetes, "GET", "/api/v1/runs", **of_browsers) == 421
        assert await status(kubernetes, "POST", "/api/v1/runs/1/retry", **of_browsers) == 421
    for client in others:
        assert await status(client, "GET", "/api/v1/runs") == 421
        assert await status(client, "POST", "/api/v1/runs/1/retry", host="127.0.0.1") == 403
    for client in (kubernetes, *others):
        await client.close()


def test_permissions_are_virtual_subresources_of_jobschedules():
    assert attributes(Permission.VIEW, "shop") == {
        "group": "wakeboard.dev",
        "resource": "jobschedules",
        "subresource": "runs",
        "verb": "get",
        "namespace": "shop",
    }
    assert attributes(Permission.RETRY, None)["verb"] == "create"


def test_certificates_of_clusters_without_key_identifiers_are_trusted():
    context = ssl_context(None)

    assert not context.verify_flags & ssl.VERIFY_X509_STRICT
    assert (context.verify_mode, context.check_hostname) == (ssl.CERT_REQUIRED, True)


async def test_a_board_that_stops_closes_its_connections_to_the_api_server(database: str):
    closed = asyncio.Event()

    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 401 Unauthorized\r\ncontent-length: 2\r\n\r\n{}")
        while await reader.read(1000):
            pass
        closed.set()
        writer.close()

    async with await asyncio.start_server(refuse, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        client = Client(database, access=KubernetesAccess(Reviews(ApiServer(f"http://127.0.0.1:{port}"))))
        answer = await client.send("GET", "/", headers={**client.headers, "authorization": "Bearer stale"})
        await client.close()

        async with asyncio.timeout(5):
            await closed.wait()

    assert answer.status == 401


async def test_without_the_authority_of_the_api_server_nothing_is_allowed(tmp_path: Path):
    reviews = Reviews(ApiServer("https://127.0.0.1:9", tmp_path / "missing"))

    with pytest.raises(ReviewFailed):
        await reviews.self_may("token", Permission.VIEW, None)
