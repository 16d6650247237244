"""A conformance suite on the server of the tests. Its databases have a prefix of this process."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from tests.postgres_servers import EMBEDDED
from wakeboard.conformance.suite import Suite

if TYPE_CHECKING:
    from tests.postgres_servers import PostgresServers


@pytest.fixture(scope="session")
def server_dsn(_postgres_servers: PostgresServers) -> str:
    return _postgres_servers.get(EMBEDDED).dsn


@pytest.fixture(scope="session")
def suite(server_dsn: str) -> Suite:
    return Suite(server_dsn, f"conformance_{os.getpid()}")
