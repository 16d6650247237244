"""A board for each test."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.duties.stories import connected

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from wakeboard.store.board import Board


@pytest.fixture
async def board(database: str) -> AsyncIterator[Board]:
    """A board over a connection to a fresh database."""
    async with connected(database) as opened:
        yield opened
