"""A database with the tables in which handlers record events."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.chaos.processes import EVENT_TABLES, Watcher

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def watcher(database: str) -> Iterator[Watcher]:
    with Watcher(database) as watcher:
        watcher.do(EVENT_TABLES)
        yield watcher
