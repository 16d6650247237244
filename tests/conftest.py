"""Fixtures for all tests: a PostgreSQL server, a database, a folder for a server."""

from __future__ import annotations

import gc
import os
import shutil
import signal
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING
from zlib import crc32

import pytest
from hypothesis import settings

from testbed.owned_folders import owned_folder, remove_abandoned_folders
from tests.postgres_servers import EMBEDDED, PostgresServer, PostgresServers, version_of, versions_for
from wakeboard.process.display_zone import use_zone

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator


pytest_plugins = ["tests.browser", "tests.hung_tests"]

MEMORY = Path("/dev/shm")
MEMORY_NEEDED = 4 << 30  # bytes
LONGEST_ID = 200  # characters of a parameter


def pytest_configure() -> None:
    """Removes the shell's settings, so that they do not change a test, and what killed runs left behind."""
    settings.register_profile("wakeboard", deadline=None)  # an example may take any time
    settings.load_profile("wakeboard")
    for name in [name for name in os.environ if name.startswith(("PG", "WAKEBOARD_"))]:
        if name != "WAKEBOARD_TEST_POSTGRES":
            del os.environ[name]
    if "PYTEST_XDIST_WORKER" not in os.environ:
        for parent in (MEMORY, Path(tempfile.gettempdir())):
            remove_abandoned_folders(parent)
    os.environ.setdefault("GOGC", "400")  # the API server, helm and others take a tenth less CPU, and more memory
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:  # set by nohup or a shell's &; children inherit it
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_finish() -> None:
    """Keeps the garbage collector from visiting all modules and tests again and again."""
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "postgres" in metafunc.fixturenames and (versions := versions_for(metafunc)) != [EMBEDDED]:
        metafunc.parametrize("postgres", versions, indirect=True)


def pytest_make_parametrize_id(val: object) -> str | None:
    """Shortens long values: a test's name is in the environment of its processes, which bounds it (to 128 KiB)."""
    if isinstance(val, str | bytes) and len(val) > LONGEST_ID:
        return f"{val[:LONGEST_ID]!a}, {len(val)} long"
    return None


# These folders come first, in this order: they have fixtures of a module or package, which another order would set up
# again and again. Tests of `cluster` wait much, and the groups that stay in one process, which begin first, compute.
TOGETHER = ("cluster", "chart", "conformance", "board")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Spreads the tests of each file over a parallel run, so that those that wait run beside those that compute."""
    if "PYTEST_XDIST_WORKER" not in os.environ:
        return
    places = {folder: place for place, folder in enumerate(TOGETHER)}

    def position(item: pytest.Item) -> tuple[int, int]:
        place = places.get(Path(item.nodeid).parts[1])
        return (len(TOGETHER), crc32(item.nodeid.encode())) if place is None else (place, 0)

    items.sort(key=position)


@contextmanager
def open_folder() -> Generator[Path]:
    """A folder that all accounts may enter, in memory if possible: a clone is ten times slower on a busy disk."""
    memory = MEMORY.is_dir() and shutil.disk_usage(MEMORY).free > MEMORY_NEEDED
    with owned_folder(MEMORY if memory else Path(tempfile.gettempdir())) as folder:
        yield folder


def folder_of_the_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that all test processes of this run share."""
    folder = tmp_path_factory.getbasetemp()
    return folder.parent if "PYTEST_XDIST_WORKER" in os.environ else folder


@pytest.fixture(autouse=True)
def _times_in_utc() -> Iterator[None]:
    """A command that a test ran in this process may have set another zone for its output."""
    yield
    use_zone("UTC")


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="session")
def _postgres_servers() -> Iterator[PostgresServers]:
    with open_folder() as folder:
        servers = PostgresServers(folder)
        yield servers
        servers.stop()


@pytest.fixture
def postgres(request: pytest.FixtureRequest, _postgres_servers: PostgresServers) -> PostgresServer:
    """A running server, shared with other tests of this process. Do not stop it."""
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
    with open_folder() as folder:
        yield folder
