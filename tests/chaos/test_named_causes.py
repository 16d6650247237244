"""What keeps a server from working: check and the board name it, each process logs it once, and work goes on."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import sys
import time
from contextlib import contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple, Self
from urllib.error import HTTPError
from urllib.request import urlopen

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from chaos.disk import SmallDisk, can_mount, own_mounts
from testbed.board_server import serving
from testbed.processes import ModuleProcess, as_variables, wait_for
from testbed.standby import UNCONFIRMED, Standby
from tests.chaos.processes import Watcher, Worker
from tests.conftest import open_folder
from wakeboard.board import BoardOptions
from wakeboard.local.postgres import EmbeddedPostgres
from wakeboard.local.postgres_user import make_private_folder, server_account
from wakeboard.store.migrate import Roles, migrate

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator
    from contextlib import AbstractContextManager
    from pathlib import Path

pytestmark = [pytest.mark.timeout(200), pytest.mark.xdist_group("named causes")]
NAMED_WITHIN_S: Final = 30.0
LASTS_S: Final = 5.0  # an outage, longer than a lease
SETTINGS: Final = {"max_connections": "40", "superuser_reserved_connections": "0", "fsync": "off"}
SMALL_WAL: Final = {"max_wal_size": "64MB", "min_wal_size": "32MB"}
DISK_MB: Final = 240
SESSIONS: Final = 2  # of a connection: the present one, and the former one, while it ends
OURS: Final = "select pg_terminate_backend(pid) from pg_stat_activity where starts_with(application_name, 'wakeboard')"
MOST_SESSIONS: Final = """
select 1 + coalesce(max(sessions), 0)
  from (select count(*) as sessions from pg_stat_activity where starts_with(application_name, 'wakeboard ')
         group by application_name) as each
"""
# Sessions of the test itself, which no cause stops.
OF_THE_TEST: Final = (
    "-c synchronous_commit=off -c default_transaction_read_only=off -c statement_timeout=0 -c idle_session_timeout=0"
)
SENTENCE: Final = re.compile(r'(?:class="summary-sentence">|<div class="card">\s*<p>)(.*?)</p>', re.DOTALL)
RUNNING: Final = (
    "select count(*) = 5 from wakeboard.job_runs where locked_until > now() and started_epoch = lease_epoch"
)
ONE_TABLE: Final = """
create role wb_owner login; create role wb_viewer login; grant create on database wakeboard to wb_owner;
create tablespace small location '{disk}/tables'; grant create on tablespace small to wb_owner"""
BEGINS: Final = re.compile(r"waiting for the database|waiting for \d|task \S+ fails:")
ENDS: Final = re.compile(r"the database answers again|succeeds again")


ROLES: Final = Roles(operator="wb_operator", worker="wb_worker", viewer="wb_viewer")


class Servers:
    """A primary on a small disk, and its standby."""

    def __init__(self, folder: Path, disk: SmallDisk) -> None:
        self._folder, self._disk, self._link = folder, disk, folder / "to"
        self._primary = EmbeddedPostgres(disk.folder / "primary", settings=SETTINGS | SMALL_WAL, trusting=True)

    @contextmanager
    def running(self) -> Generator[Self]:
        with self._primary:
            with psycopg.connect(self._primary.dsn, autocommit=True) as conn:
                for name in ROLES.named().values():  # they see no sessions but their own
                    conn.execute(f"create role {name} login".encode())
            asyncio.run(migrate(self._primary.dsn, roles=ROLES))
            self._standby = Standby(self._primary, self._folder / "standby")
            self.lead_to(self._primary.dsn)
            with self._standby.streaming():
                yield self

    def dsn(self, part: str, *, both: bool = False) -> str:
        """A DSN with the role of this part. `both`: it names both servers; otherwise it leads to either."""
        hosts = ",".join(str(conninfo_to_dict(each)["host"]) for each in (self._primary.dsn, self._standby.dsn))
        where = {"host": hosts, "target_session_attrs": "read-write"} if both else {"host": str(self._link)}
        return make_conninfo(self._primary.dsn, user=ROLES.named().get(part, "postgres"), **where)

    def lead_to(self, dsn: str) -> None:
        self._link.unlink(missing_ok=True)
        self._link.symlink_to(str(conninfo_to_dict(dsn)["host"]))

    def do(self, *statements: str) -> None:
        with psycopg.connect(
            self._primary.dsn + UNCONFIRMED + "%20-c%20statement_timeout%3D0", autocommit=True
        ) as conn:
            for each in statements:
                conn.execute(each.encode())

    @contextmanager
    def hanging_commits(self) -> Generator[None]:
        self.do("alter system set synchronous_standby_names = '*'", "select pg_reload_conf()")
        waits = "select 1 / count(*) from pg_stat_replication where sync_state = 'sync'"
        wait_for(lambda: _succeeds(lambda: self.do(waits)))
        self._standby.freeze()
        try:
            yield
        finally:
            self._standby.thaw()
            self.do("alter system reset synchronous_standby_names", "select pg_reload_conf()")

    @contextmanager
    def setting(self, name: str, value: str) -> Generator[None]:
        self.do(f"alter system set {name} = '{value}'", "select pg_reload_conf()")
        try:
            yield
        finally:
            self.do(f"alter system reset {name}", "select pg_reload_conf()")

    def read_only(self) -> AbstractContextManager[None]:
        return self.setting("default_transaction_read_only", "on")

    @contextmanager
    def no_writable_server(self) -> Generator[None]:
        """The primary is read-only, and the standby is a standby."""
        with self.read_only():
            self.do(OURS)
            yield

    @contextmanager
    def short_timeouts(self) -> Generator[None]:
        with self.setting("statement_timeout", "5ms"), self.setting("idle_session_timeout", "1s"):
            yield

    @contextmanager
    def hot_standby(self) -> Generator[None]:
        self.lead_to(self._standby.dsn)
        self.do(OURS)
        try:
            yield
        finally:
            self.lead_to(self._primary.dsn)
            with psycopg.connect(self._standby.dsn, autocommit=True) as conn:
                conn.execute(OURS.encode())

    @contextmanager
    def full_disk(self) -> Generator[None]:
        self._disk.fill()
        try:
            yield
        finally:
            self._disk.free()

    @contextmanager
    def used_up_connections(self) -> Generator[None]:
        held: list[psycopg.Connection] = []

        def hold() -> None:
            with suppress(psycopg.OperationalError):
                while True:
                    held.append(psycopg.connect(self._primary.dsn, autocommit=True))

        hold()
        while held[0].execute(OURS.encode()).fetchall():
            hold()
        try:
            yield
        finally:
            for conn in held:
                conn.close()


class Cause(NamedTuple):
    """`says`: in `check` and the board's first sentence. `both`: all processes name both servers.

    `outages`: how many the worker logs at least.
    """

    produce: Callable[[Servers], AbstractContextManager[None]]
    says: str
    outages: int = 1
    both: bool = False


CAUSES: Final[dict[str, Cause]] = {
    "commits that hang": Cause(Servers.hanging_commits, "Commits hang", both=True),
    "a read-only server": Cause(Servers.read_only, "wakeboard cannot write"),
    "read-only servers": Cause(Servers.no_writable_server, "is read-only or a standby: promote", both=True),
    "a hot standby": Cause(Servers.hot_standby, "is a read-only replica"),
    "max_connections": Cause(Servers.used_up_connections, "raise max_connections"),
    "a full disk": Cause(Servers.full_disk, "The disk of the server is full", 0),
    "timeouts": Cause(Servers.short_timeouts, "has set idle_session_timeout = 1000ms, statement_timeout = 5ms", 0),
}


def _succeeds(do: Callable[[], object]) -> bool:
    with suppress(psycopg.Error):
        do()
        return True
    return False


def said_by_check(dsn: str) -> list[dict[str, str]]:
    """What is not right, with what to do."""
    command = [sys.executable, "-c", "from wakeboard.cli import main; main()", "check", "--json", "--dsn", dsn]
    found = json.loads(subprocess.run(command, capture_output=True, text=True, check=False).stdout)
    return [each for each in found if each["level"] != "ok"]


def first_sentence(address: str) -> str:
    """What the board's overview, or the page of its error, says first."""
    try:
        with urlopen(address, timeout=30) as answer:
            page = answer.read().decode()
    except HTTPError as error:
        page = error.read().decode()
    found = SENTENCE.search(page)
    return re.sub(r"<[^>]*>", "", found[1]) if found else page


def _has_logged_the_end(process: ModuleProcess) -> bool:
    return len(ENDS.findall(process.log)) >= len(BEGINS.findall(process.log))


@pytest.fixture(scope="module")
def servers() -> Iterator[Servers]:
    if not can_mount():
        pytest.skip("a small disk needs root and mount namespaces")
    with (
        open_folder() as folder,
        own_mounts(),
        SmallDisk(folder / "disk", DISK_MB) as disk,
        Servers(folder, disk).running() as servers,
    ):
        yield servers


@pytest.mark.skipif(not can_mount(), reason="a small disk needs root and mount namespaces")
def test_a_full_disk_of_one_table_is_named(postgres_folder: Path) -> None:
    with (
        own_mounts(),
        SmallDisk(postgres_folder / "disk", 8) as disk,
        EmbeddedPostgres(postgres_folder / "server", settings=SETTINGS, trusting=True) as server,
    ):
        make_private_folder(disk.folder / "tables", server_account())
        with psycopg.connect(server.dsn, autocommit=True) as conn:
            for statement in ONE_TABLE.format(disk=disk.folder).split(";"):
                conn.execute(statement.encode())
        asyncio.run(migrate(server.dsn + "&user=wb_owner", roles=Roles(viewer="wb_viewer")))
        with psycopg.connect(server.dsn + "&user=wb_owner", autocommit=True) as conn:
            conn.execute("alter table wakeboard.job_runs set tablespace small")
        viewer = server.dsn + "&user=wb_viewer"
        with serving(BoardOptions(dsn=viewer)) as address:
            assert "disk" not in first_sentence(address)
            disk.fill()
            named = "The disk of the server is full, for the tablespace small: could not write to file"
            wait_for(lambda: named in first_sentence(address), within_s=NAMED_WITHIN_S)
            assert any(named in each["message"] for each in said_by_check(viewer))


@pytest.mark.parametrize("cause", CAUSES)
def test_a_server_that_cannot_work_is_named_and_charges_no_attempt(
    cause: str, servers: Servers, tmp_path: Path
) -> None:
    produce, named, outages, both = CAUSES[cause]
    viewer = servers.dsn("viewer", both=both)
    variables = as_variables({"dsn": servers.dsn("operator", both=both)})
    with (
        Watcher(f"{servers.dsn('owner')} options='{OF_THE_TEST}'") as watcher,
        Worker(servers.dsn("worker", both=both), tmp_path, "--forever", lease_seconds=3) as worker,
        ModuleProcess(["chaos.maintenance_process"], tmp_path, variables) as operator,
        serving(BoardOptions(dsn=viewer)) as address,
    ):
        watcher.do("truncate wakeboard.job_runs, wakeboard.job_run_history")
        watcher.enqueue("sleeps", 5)
        watcher.wait(RUNNING)
        wait_for(lambda: named not in first_sentence(address))
        with produce(servers):
            began = time.monotonic()
            said = wait_for(lambda: ["{message} {hint}".format_map(each) for each in said_by_check(viewer)])
            wait_for(lambda: named in first_sentence(address), within_s=NAMED_WITHIN_S)
            assert time.monotonic() - began < NAMED_WITHIN_S
            assert any(named in each for each in said), said
            time.sleep(max(0.0, LASTS_S - (time.monotonic() - began)))
            assert watcher.wait(MOST_SESSIONS) <= 1 + SESSIONS
        watcher.enqueue("quick")
        watcher.wait("select true from wakeboard.job_run_history where status = 'succeeded'")
        watcher.wait(RUNNING)
        watcher.wait("select (sum(crash_count), sum(attempts)) = (0, 5) from wakeboard.job_runs")
        for process in (worker, operator):
            wait_for(partial(_has_logged_the_end, process), why=lambda: worker.log + operator.log)
            begun, ended = BEGINS.findall(process.log), ENDS.findall(process.log)
            assert len(set(begun)) == len(begun) == len(ended), process.log  # each trouble begins and ends once
        assert len(BEGINS.findall(worker.log)) >= outages, worker.log
