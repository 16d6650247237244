"""What every test may ask for: a PostgreSQL server, a database of its own, a folder that a server may use."""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.postgres_servers import EMBEDDED, PostgresServer, PostgresServers, version_of, versions_for

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator


def pytest_configure() -> None:
    """What this shell is set up for must not decide what a test sees."""
    for name in [name for name in os.environ if name.startswith(("PG", "WAKEBOARD_"))]:
        if name != "WAKEBOARD_TEST_POSTGRES":
            del os.environ[name]
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:  # by nohup, or a shell's &: what tests start would inherit it
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "postgres" in metafunc.fixturenames and (versions := versions_for(metafunc)) != [EMBEDDED]:
        metafunc.parametrize("postgres", versions, indirect=True)


MEMORY = Path("/dev/shm")
MEMORY_NEEDED = 4 << 30  # bytes


@contextmanager
def _open_folder() -> Generator[Path]:
    """A folder that anyone may enter, in memory if there is plenty: a busy disk makes a clone ten times slower."""
    memory = MEMORY.is_dir() and shutil.disk_usage(MEMORY).free > MEMORY_NEEDED
    with tempfile.TemporaryDirectory(prefix="wakeboard-", dir=MEMORY if memory else None) as name:
        Path(name).chmod(0o755)
        yield Path(name)


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="session")
def _postgres_servers() -> Iterator[PostgresServers]:
    with _open_folder() as folder:
        servers = PostgresServers(folder)
        yield servers
        servers.stop()


@pytest.fixture
def postgres(request: pytest.FixtureRequest, _postgres_servers: PostgresServers) -> PostgresServer:
    """A running server, shared with other tests of this process: do not stop it."""
    return _postgres_servers.get(version_of(request))


@pytest.fixture
def database(postgres: PostgresServer) -> Iterator[str]:
    """The superuser's DSN of a migrated database of the test's own."""
    with postgres.migrated_database() as dsn:
        yield dsn


@pytest.fixture
def empty_database(postgres: PostgresServer) -> Iterator[str]:
    """The superuser's DSN of an empty database of the test's own."""
    with postgres.empty_database() as dsn:
        yield dsn


@pytest.fixture
def postgres_folder() -> Iterator[Path]:
    """A folder for a server of the test's own; unlike tmp_path, the user that runs it for root may enter it."""
    with _open_folder() as folder:
        yield folder
