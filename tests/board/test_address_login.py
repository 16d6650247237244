"""A board on loopback is for browsers that opened the address that it printed, and for no other user of the machine."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from starlette.requests import Request

from testbed.board_server import serving_board
from tests.board.asgi import Client
from wakeboard.board import BoardOptions
from wakeboard.board.access import AddressAccess
from wakeboard.board.access.address import kept_token
from wakeboard.board.access.viewer import cookie_name

if TYPE_CHECKING:
    from pathlib import Path

    from playwright.async_api import Page

pytestmark = pytest.mark.anyio

TOKEN = "a-token-of-43-characters-------------------"
BROWSER = {"host": "127.0.0.1:8686", "accept": "text/html"}


def client_of(database: str) -> Client:
    return Client(database, access=AddressAccess(TOKEN, "It is in the file board-token."))


async def test_the_printed_address_logs_a_browser_in_and_leaves_no_token(database: str):
    client = client_of(database)
    opened = await client.send("GET", f"/runs?search=dead&token={TOKEN}", headers=BROWSER)
    page = await client.send("GET", opened.header("location"), headers=BROWSER)
    await client.close()

    assert (opened.status, opened.header("location")) == (303, "/runs?search=dead")
    assert page.status == 200
    assert TOKEN not in str(client.cookies)
    assert "httponly; " in opened.header("set-cookie").lower()
    assert "samesite=strict" in opened.header("set-cookie").lower()


@pytest.mark.parametrize("path", ["/", "/?token=wrong", "/runs/1", "/events"])
async def test_another_user_of_the_machine_sees_the_login_page_only(database: str, path: str):
    client = client_of(database)
    answer = await client.send("GET", path, headers=BROWSER)
    while answer.status == 303:
        assert not client.cookies
        answer = await client.send("GET", answer.header("location"), headers=BROWSER)
    refused = await client.send("POST", "/runs/1/retry", headers={**client.headers})
    await client.close()

    assert "It is in the file board-token." in answer.words
    assert refused.status == 401


async def test_the_cookie_s_content_is_accepted_as_a_cookie_only(database: str):
    """Programs at other ports of the machine receive the cookie."""
    client = client_of(database)
    cookie = AddressAccess(TOKEN, "").cookie
    opened = await client.send("GET", f"/?token={cookie}", headers=BROWSER)
    typed = await client.post("/login", token=cookie, next="/")
    sent = await client.send("GET", "/", headers={**BROWSER, "authorization": f"Bearer {cookie}"})
    assert not client.cookies
    await client.send("GET", f"/?token={TOKEN}", headers=BROWSER)
    page = await client.send("GET", "/", headers=BROWSER)
    await client.close()

    assert (opened.status, opened.header("set-cookie")) == (303, "")
    assert (typed.status, sent.status, page.status) == (401, 303, 200)


async def test_the_token_can_be_typed(database: str):
    client = client_of(database)
    answer = await client.post("/login", token=TOKEN, next="/runs")
    page = await client.send("GET", "/runs", headers=BROWSER)
    await client.close()

    assert (answer.status, page.status) == (303, 200)


async def test_a_browser_opens_the_address_and_is_live(database: str, page: Page):
    with serving_board(BoardOptions(dsn=database, access=AddressAccess(TOKEN, ""))) as server:
        await page.goto(server.login_address)
        await page.locator("#live-state[data-kind=on]").wait_for()
        assert page.url == server.address
        await page.goto(server.address + "schedules")
        await page.locator("h1", has_text="Schedules").wait_for()


def test_a_kept_token_stays_and_is_for_its_owner_only(tmp_path: Path):
    file = tmp_path / "board-token"
    token = kept_token(file)

    assert kept_token(file) == token
    assert file.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("kind", ["readable by others", "a link", "empty"])
def test_a_token_that_others_may_know_is_replaced(tmp_path: Path, kind: str):
    file = tmp_path / "board-token"
    other = tmp_path / "other"
    other.write_text(TOKEN)
    other.chmod(0o600)
    if kind == "a link":
        file.symlink_to(other)
    else:
        file.write_text(TOKEN if kind != "empty" else "")
        file.chmod(0o644 if kind != "empty" else 0o600)

    assert kept_token(file) not in {TOKEN, ""}
    assert file.stat().st_mode & 0o777 == 0o600
    assert other.read_text() == TOKEN


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to give a file to another user")
def test_a_token_of_another_user_is_replaced(tmp_path: Path):
    file = tmp_path / "board-token"
    file.write_text(TOKEN)
    file.chmod(0o600)
    os.chown(file, 12345, 12345)

    assert kept_token(file) != TOKEN


@pytest.mark.parametrize(
    ("host", "root", "secure", "name"),
    [
        ("127.0.0.1:8686", "", False, "wakeboard-board-8686"),
        ("jobs.example.com", "", True, "__Host-wakeboard-board"),
        ("example.com:8443", "/tools/jobs", True, "wakeboard-board-8443-tools-jobs"),
    ],
)
def test_each_board_has_a_cookie_of_its_own(host: str, root: str, secure: bool, name: str):
    request = Request({"type": "http", "headers": [(b"host", host.encode())], "root_path": root})

    assert cookie_name(request, secure=secure) == name
