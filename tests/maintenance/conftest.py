"""A store for each test."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.maintenance.schedules import connected

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from wakeboard.engine.maintenance_api import MaintenanceStore


@pytest.fixture
async def store(database: str) -> AsyncIterator[MaintenanceStore]:
    """A store over a connection to a new database."""
    async with connected(database) as opened:
        yield opened
