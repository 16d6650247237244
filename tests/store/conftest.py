"""Clients of the SQL API for the store tests: an administrator and two workers."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from tests.store.sql_clients import SqlClient

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@pytest.fixture
def open_client(database: str) -> Iterator[Callable[[int], SqlClient]]:
    """Opens another client with this worker_id, on a connection of its own."""
    opened: list[SqlClient] = []

    def open_one(worker_id: int = 0) -> SqlClient:
        opened.append(SqlClient(database, worker_id))
        return opened[-1]

    yield open_one
    for one in opened:
        one.close()


@pytest.fixture
def conn(database: str) -> Iterator[psycopg.Connection[Any]]:
    """A superuser's connection in autocommit mode."""
    with closing(psycopg.connect(database, autocommit=True)) as conn:
        yield conn


@pytest.fixture
def admin(open_client: Callable[[int], SqlClient]) -> SqlClient:
    """A superuser at psql."""
    return open_client(0)


@pytest.fixture
def worker(open_client: Callable[[int], SqlClient]) -> SqlClient:
    return open_client(71)


@pytest.fixture
def other(open_client: Callable[[int], SqlClient]) -> SqlClient:
    """Another worker."""
    return open_client(72)


@pytest.fixture
def meanwhile() -> Iterator[ThreadPoolExecutor]:
    """A thread pool for statements that must run while the test continues."""
    with ThreadPoolExecutor(8) as threads:
        yield threads


@pytest.fixture
def application(database: str) -> Iterator[psycopg.Connection[Any]]:
    """An application's connection in autocommit mode."""
    with closing(psycopg.connect(database, autocommit=True)) as conn:
        yield conn


@pytest.fixture
def other_application(database: str) -> Iterator[psycopg.Connection[Any]]:
    """A second one, in a transaction of its own from its first statement."""
    with closing(psycopg.connect(database)) as conn:
        yield conn
