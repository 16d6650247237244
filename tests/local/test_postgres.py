from __future__ import annotations

import os
import pwd
import select
import signal
import subprocess
import sys
import threading
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

from wakeboard.errors import WakeboardError
from wakeboard.local.postgres import NOT_DURABLE, EmbeddedPostgres
from wakeboard.local.postgres_binaries import find_binaries
from wakeboard.local.postgres_user import account_for_server

if TYPE_CHECKING:
    from collections.abc import Generator

ROOT = Path(__file__).parents[2]

# Another process that starts a server, says which, and waits.
HOLDER = """
import sys
from pathlib import Path
from wakeboard.local.postgres import EmbeddedPostgres
server = EmbeddedPostgres(Path(sys.argv[1]))
server.start()
print(server.pid, flush=True)
sys.stdin.read()
"""

linux_only = pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells a process that its parent ended")


def server_in(folder: Path, **options: object) -> EmbeddedPostgres:
    return EmbeddedPostgres(folder, settings=NOT_DURABLE, **options)  # pyright: ignore[reportArgumentType]


def query(dsn: str, statement: str) -> object:
    with psycopg.connect(dsn, autocommit=True) as connection:
        row = connection.execute(statement.encode()).fetchone()
        return row[0] if row else None


def run(dsn: str, statement: str) -> None:
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(statement.encode())


@contextmanager
def held_by_another_process(folder: Path) -> Generator[tuple[subprocess.Popen[str], int]]:
    """A process that holds a running server in the folder, and the server's pid."""
    command = [sys.executable, "-c", HOLDER, str(folder)]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment) as holder:
        assert holder.stdout is not None
        assert holder.stdin is not None
        yield holder, int(holder.stdout.readline())
        holder.stdin.close()  # it ends now, unless the test has killed it


def wait_for_end(pidfd: int, within_s: float = 20) -> bool:
    return bool(select.select([pidfd], [], [], within_s)[0])


def test_a_started_server_takes_connections_of_its_superuser(postgres_folder: Path) -> None:
    with server_in(postgres_folder) as server:
        assert query(server.dsn, "SELECT rolsuper FROM pg_roles WHERE rolname = current_user") is True
        assert query(server.dsn, "SELECT current_database()") == "wakeboard"


def test_a_stopped_server_is_gone(postgres_folder: Path) -> None:
    with server_in(postgres_folder) as server:
        pid = server.pid
        assert pid is not None
    assert server.pid is None
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_starting_twice_is_the_same_as_starting_once(postgres_folder: Path) -> None:
    with server_in(postgres_folder) as server:
        pid = server.pid
        assert server.start() == server.dsn
        assert server.pid == pid


@pytest.mark.parametrize("tcp", [False, True])
def test_a_restart_keeps_the_data_and_the_address(postgres_folder: Path, tcp: bool) -> None:
    server = server_in(postgres_folder, tcp=tcp)
    dsn = server.start()
    run(dsn, "CREATE TABLE kept AS SELECT 7 AS n")
    server.stop()
    try:
        assert server.start() == dsn
        assert query(dsn, "SELECT n FROM kept") == 7
    finally:
        server.stop()


def test_another_process_finds_the_data_again(postgres_folder: Path) -> None:
    with server_in(postgres_folder) as server:
        run(server.dsn, "CREATE TABLE kept AS SELECT 7 AS n")
    with server_in(postgres_folder) as server:
        assert query(server.dsn, "SELECT n FROM kept") == 7


def test_fresh_removes_the_data_and_nothing_else(postgres_folder: Path) -> None:
    with server_in(postgres_folder) as server:
        run(server.dsn, "CREATE TABLE kept AS SELECT 7 AS n")
    (postgres_folder / "notes.txt").write_text("mine")
    with server_in(postgres_folder, fresh=True) as server:
        assert query(server.dsn, "SELECT to_regclass('kept')") is None
        run(server.dsn, "CREATE TABLE kept AS SELECT 8 AS n")
        server.stop()
        server.start()
        assert query(server.dsn, "SELECT n FROM kept") == 8
    assert (postgres_folder / "notes.txt").read_text() == "mine"


def test_half_made_data_are_not_taken_for_a_database(postgres_folder: Path) -> None:
    (postgres_folder / "data.new").mkdir()
    (postgres_folder / "data.new" / "PG_VERSION").write_text("18\n")
    with server_in(postgres_folder) as server:
        assert query(server.dsn, "SELECT 1") == 1
    assert not (postgres_folder / "data.new").exists()


def test_data_are_durable_unless_a_test_says_otherwise(postgres_folder: Path) -> None:
    with EmbeddedPostgres(postgres_folder) as server:
        settings = (
            "SELECT array_agg(setting ORDER BY name) FROM pg_settings WHERE name IN ('fsync', 'full_page_writes')"
        )
        assert query(server.dsn, settings) == ["on", "on"]
        assert query(server.dsn, "SHOW synchronous_commit") == "on"


def test_a_pid_file_left_by_a_crash_is_no_obstacle(postgres_folder: Path) -> None:
    server = server_in(postgres_folder)
    server.start()
    assert server.pid is not None
    os.kill(server.pid, signal.SIGKILL)
    server.stop()
    assert (postgres_folder / "data" / "postmaster.pid").exists()
    with server_in(postgres_folder) as server:
        assert query(server.dsn, "SELECT 1") == 1


def test_a_pid_that_now_belongs_to_another_program_is_no_obstacle_and_that_program_lives_on(
    postgres_folder: Path,
) -> None:
    with server_in(postgres_folder):
        pid_file = (postgres_folder / "data" / "postmaster.pid").read_text().splitlines()
    account = account_for_server()
    bystander = subprocess.Popen(["sleep", "600"], user=account.uid if account else None)
    try:
        (postgres_folder / "data" / "postmaster.pid").write_text("\n".join([str(bystander.pid), *pid_file[1:], ""]))
        with server_in(postgres_folder) as server:
            assert query(server.dsn, "SELECT 1") == 1
        assert bystander.poll() is None
    finally:
        bystander.kill()
        bystander.wait()


def test_a_process_that_ends_without_a_stop_leaves_no_server(postgres_folder: Path) -> None:
    with held_by_another_process(postgres_folder) as (_, pid):
        os.kill(pid, 0)
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


@linux_only
def test_a_process_that_is_killed_leaves_no_server(postgres_folder: Path) -> None:
    with held_by_another_process(postgres_folder) as (holder, pid):
        server = os.pidfd_open(pid)
        holder.kill()
        assert wait_for_end(server)
        os.close(server)
    assert "database system is shut down" in (postgres_folder / "postgres.log").read_text()


@linux_only
def test_a_start_right_after_a_kill_waits_for_the_old_server_to_end(postgres_folder: Path) -> None:
    with held_by_another_process(postgres_folder) as (holder, _):
        holder.kill()
        holder.wait()
        with server_in(postgres_folder) as server:
            assert query(server.dsn, "SELECT 1") == 1


def test_a_second_process_is_told_the_pid_of_the_first(postgres_folder: Path) -> None:
    with held_by_another_process(postgres_folder) as (holder, pid):
        with pytest.raises(WakeboardError, match=rf"in use by wakeboard, pid {holder.pid};"):
            server_in(postgres_folder).start()
        os.kill(pid, 0)  # still there


def test_a_second_server_of_this_process_is_refused_too(postgres_folder: Path) -> None:
    with server_in(postgres_folder) as server:
        with pytest.raises(WakeboardError, match=rf"pid {os.getpid()};"):
            server_in(postgres_folder).start()
        assert query(server.dsn, "SELECT 1") == 1


@pytest.mark.parametrize("name", ["with spaces", 'it\'s "quoted"', "a,comma", "é" * 60, "50%"])
def test_the_folder_may_have_any_name(postgres_folder: Path, name: str) -> None:
    with server_in(postgres_folder / name) as server:
        assert query(server.dsn, "SELECT 1") == 1


def test_on_tcp_the_server_listens_on_loopback_alone_and_asks_for_a_password(postgres_folder: Path) -> None:
    with server_in(postgres_folder, tcp=True) as server:
        assert query(server.dsn, "SHOW listen_addresses") == "127.0.0.1"
        parts = conninfo_to_dict(server.dsn)
        with pytest.raises(psycopg.OperationalError, match="password"):
            psycopg.connect(host=str(parts["host"]), port=str(parts["port"]), user="postgres", password="guess")
        assert (postgres_folder / "password").stat().st_mode & 0o077 == 0


def test_ctrl_c_in_the_terminal_does_not_reach_the_server(postgres_folder: Path) -> None:
    with server_in(postgres_folder) as server:
        assert server.pid is not None
        assert os.getpgid(server.pid) != os.getpgid(0)


def test_a_server_that_does_not_start_says_why_and_frees_the_folder(postgres_folder: Path) -> None:
    with pytest.raises(WakeboardError, match=r"did not start: .*shared_buffers"):
        EmbeddedPostgres(postgres_folder, settings={"shared_buffers": "lots"}).start()
    with server_in(postgres_folder) as server:
        assert query(server.dsn, "SELECT 1") == 1


def test_data_of_another_major_version_are_refused(postgres_folder: Path) -> None:
    with server_in(postgres_folder):
        pass
    (postgres_folder / "data" / "PG_VERSION").write_text("12\n")
    with pytest.raises(WakeboardError, match="made by PostgreSQL 12 and this is PostgreSQL 18"):
        server_in(postgres_folder).start()


def test_a_server_is_not_tied_to_a_thread_that_may_end(postgres_folder: Path) -> None:
    refusals: list[BaseException] = []

    def start() -> None:
        try:
            server_in(postgres_folder).start()
        except RuntimeError as refusal:
            refusals.append(refusal)

    thread = threading.Thread(target=start)
    thread.start()
    thread.join()
    assert "main thread" in str(refusals[0])


def test_without_the_extra_one_sentence_says_what_to_install() -> None:
    code = "from wakeboard.local.postgres_binaries import find_binaries; find_binaries()"
    without_packages = [sys.executable, "-S", "-c", code]
    answer = subprocess.run(
        without_packages, env={"PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=False
    )
    assert answer.stderr.splitlines()[-1].endswith("type: pip install 'wakeboard[local]'")


def test_a_missing_debian_package_is_named() -> None:
    with pytest.raises(WakeboardError, match="apt-get install postgresql-9"):
        find_binaries("9")


@pytest.mark.every_postgres
def test_the_tests_have_a_migrated_database_of_their_own_on_every_version(empty_database: str) -> None:
    run(empty_database, "CREATE TABLE mine ()")
    assert query(empty_database, "SELECT count(*) FROM pg_stat_user_tables") == 1


@pytest.mark.skipif(os.geteuid() != 0, reason="only root cannot run PostgreSQL itself")
def test_root_runs_the_server_as_nobody(postgres_folder: Path) -> None:
    with server_in(postgres_folder) as server:
        assert server.pid is not None
        assert Path(f"/proc/{server.pid}").stat().st_uid == pwd.getpwnam("nobody").pw_uid


def address_without_password(dsn: str) -> dict[str, str]:
    return {name: str(value) for name, value in conninfo_to_dict(dsn).items() if name != "password"}


def test_no_connection_is_made_without_the_password_that_only_its_owner_can_read(postgres_folder: Path) -> None:
    with server_in(postgres_folder) as server:
        with pytest.raises(psycopg.OperationalError, match="password"):
            psycopg.connect(**address_without_password(server.dsn))  # pyright: ignore[reportArgumentType]
        status = (postgres_folder / "password").stat()
        assert (status.st_uid, status.st_mode & 0o777) == (os.geteuid(), 0o600)
        assert (postgres_folder / "pg_hba.conf").stat().st_uid == os.geteuid()


@pytest.mark.skipif(os.geteuid() != 0, reason="the server is another user's for root only")
def test_other_processes_of_the_servers_user_have_neither_password_nor_our_environment(
    postgres_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECRET_OF_ROOT", "hush-hush")
    with server_in(postgres_folder) as server:
        uid = pwd.getpwnam("nobody").pw_uid
        answer = subprocess.run(
            ["cat", postgres_folder / "password"],
            user=uid,
            group=uid,
            extra_groups=[],
            capture_output=True,
            check=False,
        )
        assert b"Permission denied" in answer.stderr
        assert b"hush-hush" not in Path(f"/proc/{server.pid}/environ").read_bytes()
        environment = {
            line.split(b"=")[0] for line in Path(f"/proc/{server.pid}/environ").read_bytes().split(b"\0") if line
        }
        assert environment <= {b"PATH", b"TMPDIR", b"LD_LIBRARY_PATH", b"LC_ALL", b"PGDATA"}


def test_data_of_an_earlier_release_get_a_password_and_keep_what_is_in_them(postgres_folder: Path) -> None:
    with server_in(postgres_folder) as server:
        run(server.dsn, "CREATE TABLE kept ()")
    old = postgres_folder / "password"
    former = old.read_text()
    old.chmod(0o644)  # as if others could have read it
    (postgres_folder / "data" / "pg_hba.conf").write_text("local all all trust\n")
    with server_in(postgres_folder) as server:
        assert query(server.dsn, "SELECT count(*) FROM pg_stat_user_tables") == 1
        with pytest.raises(psycopg.OperationalError, match="password"):
            psycopg.connect(**address_without_password(server.dsn))  # pyright: ignore[reportArgumentType]
    assert old.read_text() != former
    old.unlink()  # as if it had been stopped half way
    with server_in(postgres_folder) as server:
        assert query(server.dsn, "SELECT count(*) FROM pg_stat_user_tables") == 1


@pytest.mark.skipif(os.geteuid() != 0, reason="becomes another user")
def test_a_user_without_a_name_gets_a_message_with_what_postgres_needs(tmp_path: Path) -> None:
    code = "from wakeboard.local.postgres_user import account_for_server; account_for_server()"
    answer = subprocess.run(
        [sys.executable, "-c", "import os; from wakeboard.local import postgres_user; os.setuid(54321); " + code],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
    )
    assert "the user 54321 has none on this machine: add a line for it to /etc/passwd" in answer.stderr
