"""A database with witnesses in it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.chaos.processes import WITNESS, Watcher, started

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(autouse=True)
def _no_workers_of_other_tests() -> None:
    started.clear()


@pytest.fixture
def watcher(database: str) -> Iterator[Watcher]:
    with Watcher(database) as watcher:
        watcher.do(WITNESS)
        yield watcher
