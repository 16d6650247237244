"""Who sits at the board."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from tests.store.players import Player

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@pytest.fixture
def player(database: str) -> Iterator[Callable[[int], Player]]:
    """Another player with this nonce, on a connection of its own."""
    opened: list[Player] = []

    def open_player(nonce: int = 0) -> Player:
        opened.append(Player(database, nonce))
        return opened[-1]

    yield open_player
    for one in opened:
        one.close()


@pytest.fixture
def person(player: Callable[[int], Player]) -> Player:
    """Somebody at psql, who sees everything."""
    return player(0)


@pytest.fixture
def worker(player: Callable[[int], Player]) -> Player:
    return player(71)


@pytest.fixture
def other(player: Callable[[int], Player]) -> Player:
    """Another worker."""
    return player(72)


@pytest.fixture
def meanwhile() -> Iterator[ThreadPoolExecutor]:
    """Does things while the test goes on."""
    with ThreadPoolExecutor(8) as threads:
        yield threads
