"""Who sits at the board."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from tests.store.sql_clients import SqlClient

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@pytest.fixture
def player(database: str) -> Iterator[Callable[[int], SqlClient]]:
    """Another player with this worker_id, on a connection of its own."""
    opened: list[SqlClient] = []

    def open_player(worker_id: int = 0) -> SqlClient:
        opened.append(SqlClient(database, worker_id))
        return opened[-1]

    yield open_player
    for one in opened:
        one.close()


@pytest.fixture
def person(player: Callable[[int], SqlClient]) -> SqlClient:
    """A superuser at psql."""
    return player(0)


@pytest.fixture
def worker(player: Callable[[int], SqlClient]) -> SqlClient:
    return player(71)


@pytest.fixture
def other(player: Callable[[int], SqlClient]) -> SqlClient:
    """Another worker."""
    return player(72)


@pytest.fixture
def meanwhile() -> Iterator[ThreadPoolExecutor]:
    """Does things while the test goes on."""
    with ThreadPoolExecutor(8) as threads:
        yield threads
