"""A database with the table in which handlers have their effects."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.chaos.processes import EFFECTS, Watcher

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def watcher(database: str) -> Iterator[Watcher]:
    with Watcher(database) as watcher:
        watcher.do(EFFECTS)
        yield watcher
