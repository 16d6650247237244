"""Fixtures for tests of the board: a board that serves a database of the test's own, and clients of it."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

from testbed.board_server import serving
from tests.board.action_store import Store
from tests.board.asgi import Client
from wakeboard.board import BoardOptions

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from email.message import Message


@pytest.fixture
def board(database: str) -> Iterator[str]:
    """The address of a board for the database of the test."""
    with serving(BoardOptions(dsn=database)) as address:
        yield address


def fetched(url: str) -> tuple[int, Message, bytes]:
    """The status, headers and body that a GET from a page of the board answers, whatever the status is."""
    try:
        with urlopen(Request(url, headers={"Sec-Fetch-Site": "same-origin"})) as answer:
            return answer.status, answer.headers, answer.read()
    except HTTPError as error:
        with error:
            return error.code, error.headers, error.read()


@pytest.fixture
async def store(database: str) -> AsyncIterator[Store]:
    """What a test of actions prepares and checks in the database."""
    made = Store(database)
    yield made
    made.conn.close()


@pytest.fixture
async def client(database: str) -> AsyncIterator[Client]:
    """A browser without a screen, of a viewer who may do everything."""
    made = Client(database)
    yield made
    await made.close()
