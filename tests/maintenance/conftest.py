"""A board for each test."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.maintenance.stories import connected

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from wakeboard.store.maintenance_api import Store


@pytest.fixture
async def store(database: str) -> AsyncIterator[Store]:
    """A board over a connection to a fresh database."""
    async with connected(database) as opened:
        yield opened
