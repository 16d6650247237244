"""A worker that cannot start reports the reason in one sentence and exits with code 1."""

from __future__ import annotations

import signal
import socket
from typing import TYPE_CHECKING

import pytest

from tests.chaos.processes import Watcher, Worker

if TYPE_CHECKING:
    from pathlib import Path

    from tests.worker.conftest import Store


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"handlers": "no.such.module"}, "no.such.module"),
        ({"lease_seconds": "soon"}, "WAKEBOARD_LEASE_SECONDS='soon'"),
    ],
)
def test_an_invalid_setting_is_reported_in_one_sentence(store: Store, settings: dict[str, str], sentence: str) -> None:
    with store.worker(**settings) as worker:
        assert worker.exit_code() == 1
    assert sentence in worker.log
    assert "Traceback" not in worker.log


def test_a_database_without_the_schema_is_reported_in_one_sentence(empty_database: str, tmp_path: Path) -> None:
    with Worker(empty_database, tmp_path) as worker:
        assert worker.exit_code() == 1
    assert "run `wakeboard migrate`" in worker.log
    assert "Traceback" not in worker.log


def test_a_draining_worker_tries_for_ten_seconds_without_the_password(tmp_path: Path) -> None:
    with Worker("postgresql://me:hush@127.0.0.1:9/none", tmp_path) as worker:
        assert worker.exit_code() == 1
    assert "cannot connect to database none on 127.0.0.1:9 as me" in worker.log
    assert "hush" not in worker.log


@pytest.mark.parametrize("mode", ["--drain", "--forever"])
def test_a_silent_database_does_not_delay_sigterm(tmp_path: Path, mode: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as database:
        dsn = f"postgresql://me@127.0.0.1:{database.getsockname()[1]}/none"
        with Worker(dsn, tmp_path, mode) as worker, database.accept()[0]:
            worker.send(signal.SIGTERM)
            assert worker.exit_code() == 0
    assert "cannot connect" not in worker.log  # the connection has not failed yet


def test_a_new_worker_exits_when_its_pool_is_full(store: Store) -> None:
    with store.worker("--forever"):
        store.watcher.wait("select true from wakeboard.workers")
        assert "has 1 worker already" in store.wake(max_workers=1).log


def test_an_invalid_option_is_a_usage_error(database: str, tmp_path: Path) -> None:
    with Worker(database, tmp_path, "--for-ever") as worker, Watcher(database) as watcher:
        assert worker.exit_code() == 2
        assert watcher.ask("select count(*) from wakeboard.workers") == 0


def test_a_worker_whose_login_is_refused_ends_at_once_with_the_reason(database: str, tmp_path: Path) -> None:
    """Also one that stays, because the next worker process reads the new password."""
    with Worker(f"{database}&user=nobody_made_it", tmp_path, "--forever") as worker:
        assert worker.exit_code() == 1
        assert "as nobody_made_it: role does not exist." in worker.log
