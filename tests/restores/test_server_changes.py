"""A database that went back in time says so: after a failover, a crash that lost commits, and a restore from a dump."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

import psycopg
import pytest

from testbed.processes import wait_for
from testbed.standby import UNCONFIRMED, Standby
from wakeboard.cli import main
from wakeboard.engine.maintenance_api import MaintenanceStore
from wakeboard.health.conditions import problems
from wakeboard.health.queries.facts import read_health
from wakeboard.local.postgres import NOT_DURABLE, EmbeddedPostgres, find_binaries
from wakeboard.local.postgres_user import make_private_folder, server_account
from wakeboard.schedules.scheduler import schedule_due_ticks
from wakeboard.store.connection import connect
from wakeboard.store.migrate import migrate

if TYPE_CHECKING:
    from collections.abc import Generator
    from pathlib import Path

    from tests.postgres_servers import PostgresServer

pytestmark = pytest.mark.every_postgres
FETCH: Final = "select id, payload, lease_epoch from wakeboard.fetch_runs(71, 60, '{default}', '{ping}', 10, %s)"
COMMITTED_BEFORE: Final = """
select kept_until between (select created_at from wakeboard.job_runs where id = %s)
                      and (select min(created_at) from wakeboard.job_runs where job_type = 'ping' and id > kept_id)
  from wakeboard.server_changes
"""
LEAD: Final = "select seen_server from wakeboard.acquire_leadership('k8s:shop', 'one', '1', 15, seen => %s)"
REGISTER: Final = "select wakeboard.register_worker(72, 'new', '', 'host', '0.1.0', '{default}', 1, 60, '{pong}')"
SCHEDULE: Final = "select wakeboard.schedule('shop/report', 'ping', cron => '@yearly')"
DUE: Final = """
update wakeboard.job_definitions
   set next_run_at = date_trunc('year', now(), 'UTC'),
       last_tick_at = date_trunc('year', now(), 'UTC') - interval '1 year'
"""
CLOSE: Final = "select wakeboard.close_for_move()"
SESSIONS: Final = "select count(*) from pg_stat_activity where datname = %s and backend_type = 'client backend'"
AS_CLOSED: Final = "update wakeboard.installation set closed_at = now(), closed_position = pg_current_wal_insert_lsn()"
AS_MOVED: Final = "update wakeboard.installation set server_table = 1"


@pytest.fixture
def version(postgres: PostgresServer) -> str:
    """The version of PostgreSQL: "embedded" or that of Debian."""
    return postgres.version


class Process:
    """A worker process that keeps what the database says to it, over its connections to several servers."""

    def __init__(self) -> None:
        self.state: str | None = None
        self.warnings: list[str] = []
        self.epochs: dict[int, int] = {}

    def fetch(self, dsn: str) -> list[int]:
        """Claims what is due, and returns its ids."""
        with connected(dsn) as conn:
            conn.add_notice_handler(lambda notice: self.warnings.append(notice.sqlstate or ""))
            *runs, (_, last, _) = conn.execute(FETCH, [self.state]).fetchall()
        self.state = last["state"]
        self.epochs |= {run: epoch for run, _, epoch in runs}
        return [run for run, _, _ in runs]

    def maintenance_due(self, dsn: str) -> list[str]:
        """What the database says to it while it has nothing to claim."""
        with connected(dsn) as conn:
            return [name for (name,) in conn.execute("select unnest(wakeboard.maintenance_due())").fetchall()]

    def complete(self, dsn: str, run: int) -> bool:
        """Whether the database accepts that the run has succeeded."""
        with connected(dsn) as conn:
            refused = conn.execute("select wakeboard.complete(71, %s, %s)", [[run], [self.epochs[run]]]).fetchall()
        return not refused

    def claim_another(self, dsn: str) -> int:
        """Claims a run that is enqueued for it, and returns its id."""
        with connected(dsn) as conn:
            conn.execute("select wakeboard.enqueue('ping')")
        (run,) = self.fetch(dsn)
        return run


@contextmanager
def connected(dsn: str) -> Generator[psycopg.Connection[Any]]:
    with psycopg.connect(dsn, autocommit=True) as conn:
        yield conn


def changes(dsn: str) -> list[tuple[Any, ...]]:
    with connected(dsn) as conn:
        return conn.execute(
            "select kind, at_risk, lost, seen_by, acknowledged_at is not null from wakeboard.server_changes order by id"
        ).fetchall()


def problem_texts(dsn: str) -> list[str]:
    async def read() -> list[str]:
        async with await connect(dsn) as conn:
            return [each.text for each in problems(await read_health(conn)) if each.check == "restores"]

    return asyncio.run(read())


def report(dsn: str, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    """What `wakeboard check --after-restore` says, which is left to acknowledge."""
    capsys.readouterr()
    assert main(["--dsn", dsn, "check", "--after-restore", "--json"]) == 1
    return json.loads(capsys.readouterr().out)["restore"]


def enqueue_first(dsn: str) -> int:
    """An application and a worker that starts are the first to use a server. Returns the lowest id that it gives."""
    with connected(dsn) as conn:
        (first, *_) = [conn.execute("select (wakeboard.enqueue('ping')).id").fetchone() for _ in range(3)]
        conn.execute(REGISTER)
        assert first
        return first[0]


def enqueue_ticks(dsn: str) -> int:
    async def enqueue() -> int:
        async with await connect(dsn) as conn:
            made = await schedule_due_ticks(MaintenanceStore(conn), misfire_grace=timedelta(days=366))
            return made.runs

    return asyncio.run(enqueue())


@contextmanager
def primary_of(folder: Path, version: str, **settings: str) -> Generator[EmbeddedPostgres]:
    """A migrated primary, on which neither maintenance nor a worker has run."""
    kept = {**NOT_DURABLE, "full_page_writes": "on", "synchronous_commit": "on", **settings}
    with EmbeddedPostgres(folder, settings=kept, trusting=True, binaries=find_binaries(version)) as primary:
        asyncio.run(migrate(primary.dsn))
        yield primary


def kill(server: EmbeddedPostgres) -> None:
    assert server.pid
    os.kill(server.pid, signal.SIGKILL)


def test_lost_commits_are_recorded_reported_and_acknowledged(
    version: str, postgres_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    witness, absent = Process(), Process()
    with primary_of(postgres_folder / "primary", version) as primary:
        standby = Standby(primary, postgres_folder / "standby", version)
        with standby.streaming():
            with connected(primary.dsn) as conn:
                conn.execute(SCHEDULE)
                assert enqueue_ticks(primary.dsn) == 0  # computes the first one
                conn.execute(DUE)
            kept = absent.claim_another(primary.dsn)
            standby.fall_behind()
            lost = [witness.claim_another(primary.dsn) for _ in range(40)]  # a server gives 32 ids from memory
            assert enqueue_ticks(primary.dsn) == 1
            kill(primary)
            standby.promote()
            assert "is unknown" in problem_texts(standby.dsn)[0]  # nothing has recorded it yet
            assert not absent.complete(standby.dsn, kept)  # what it committed since may be lost
            absent.fetch(standby.dsn)
            assert (changes(standby.dsn), absent.warnings) == ([("promoted", True, False, "worker 71", False)], [])
            witness.fetch(standby.dsn)
            assert witness.warnings == ["WB005"]
            assert [row[:3] for row in changes(standby.dsn)] == [("promoted", True, True)]
            assert (enqueue_ticks(standby.dsn), enqueue_ticks(standby.dsn)) == (1, 0)
            (text,) = problem_texts(standby.dsn)
            assert f"run ids can come twice: {lost[31] + 1} to {lost[-1]}." in text

            arguments = ["--dsn", standby.dsn, "check", "--after-restore"]
            assert [run["had_started"] for run in report(standby.dsn, capsys)["runs"]] == [
                True,
                False,
            ]  # a claimed one, and the tick
            assert main([*arguments, "--yes", "--reason", "the orders were entered again"]) == 0
            assert "2 runs may run twice, of which 1 " in capsys.readouterr().out
            assert (problem_texts(standby.dsn), changes(standby.dsn)[0][-1]) == ([], True)
            witness.fetch(standby.dsn)
            assert main(arguments) == 0
            with connected(standby.dsn) as conn:
                audit = "select reason, detail -> 'count' from wakeboard.audit_log"
                assert conn.execute(audit).fetchall() == [("the orders were entered again", 1)]


def test_a_failover_before_the_first_maintenance_is_recorded(version: str, postgres_folder: Path) -> None:
    with primary_of(postgres_folder / "primary", version) as primary:
        standby = Standby(primary, postgres_folder / "standby", version)
        with standby.streaming():
            standby.fall_behind()
            kill(primary)
            standby.promote()
            Process().fetch(standby.dsn)
            assert [row[:3] for row in changes(standby.dsn)] == [("promoted", True, False)]
            assert len(problem_texts(standby.dsn)) == 1


def test_a_leader_says_that_the_commits_which_it_saw_are_lost(version: str, postgres_folder: Path) -> None:
    warnings, seen = list[str | None](), None
    with primary_of(postgres_folder / "primary", version) as primary:
        standby = Standby(primary, postgres_folder / "standby", version)
        with standby.streaming():
            standby.fall_behind()
            for _ in range(2):
                with connected(primary.dsn) as conn:
                    (seen,) = conn.execute(LEAD, [seen]).fetchone() or (None,)
            kill(primary)
            standby.promote()
            with connected(standby.dsn) as conn:
                conn.add_notice_handler(lambda notice: warnings.append(notice.sqlstate))
                conn.execute(LEAD, [seen])
            assert changes(standby.dsn) == [("promoted", True, True, "operator one", False)]
            assert warnings == ["WB005"]


def test_a_failover_to_a_synchronous_standby_raises_no_alarm(version: str, postgres_folder: Path) -> None:
    witness, seen = Process(), None
    with primary_of(postgres_folder / "primary", version) as primary:
        with connected(primary.dsn) as conn:
            conn.execute("select wakeboard.reap()")
        assert "reaper" not in witness.maintenance_due(primary.dsn)
        standby = Standby(primary, postgres_folder / "standby", version)
        with standby.confirming():
            with connected(primary.dsn) as conn:
                assert "reaper" in witness.maintenance_due(primary.dsn)  # of an idle worker: commits wait from now on
                kept = witness.claim_another(primary.dsn)
                assert "reaper" not in witness.maintenance_due(primary.dsn)
                (seen,) = conn.execute(LEAD, [seen]).fetchone() or (None,)
            kill(primary)
            standby.promote()
            witness.fetch(standby.dsn)
            assert witness.complete(standby.dsn, kept)
            with connected(standby.dsn) as conn:
                conn.execute(LEAD, [seen])
            assert [row[:3] for row in changes(standby.dsn)] == [("promoted", False, False)]
            assert (witness.warnings, problem_texts(standby.dsn)) == ([], [])


def test_sessions_that_commit_differently_agree_whether_commits_wait(version: str, postgres_folder: Path) -> None:
    lazy, waits = Process(), "select commits_wait from wakeboard.installation"
    with primary_of(postgres_folder / "primary", version) as primary:
        own = primary.dsn + UNCONFIRMED
        standby = Standby(primary, postgres_folder / "standby", version)
        with standby.confirming(), connected(primary.dsn) as conn:
            conn.execute("select wakeboard.reap()")
            assert "reaper" not in lazy.maintenance_due(own)
            lazy.claim_another(own)
            assert conn.execute(waits).fetchone() == (True,)
            conn.execute("create role lazy; alter role lazy set synchronous_commit = local")
            assert "reaper" in Process().maintenance_due(primary.dsn)
            conn.execute("select wakeboard.reap()")
            assert conn.execute(waits).fetchone() == (False,)
            assert "reaper" not in lazy.maintenance_due(own)
            conn.execute("drop role lazy")


@pytest.mark.parametrize("is_restarted", [False, True])
def test_a_demoted_primary_that_is_promoted_again_raises_no_alarm(
    version: str, postgres_folder: Path, is_restarted: bool
) -> None:
    """As by Patroni when etcd was away for longer than its lease. If it is restarted then, it may be a copy as well."""
    witness = Process()
    with primary_of(postgres_folder / "primary", version) as primary:
        standby = Standby(primary, postgres_folder / "standby", version)
        with standby.confirming():
            kept = witness.claim_another(primary.dsn)
            primary.stop()
            (primary.folder / "data" / "standby.signal").touch()
            primary.start()
            with connected(primary.dsn) as conn:
                conn.execute("select pg_promote()")
            if is_restarted:
                primary.stop()
                primary.start()
            again = primary.dsn + UNCONFIRMED  # the standby is on its way
            witness.fetch(again)
            assert witness.complete(again, kept) is not is_restarted
            assert [row[:3] for row in changes(again)] == [("promoted", is_restarted, False)]
            assert bool(problem_texts(again)) == is_restarted
            assert witness.warnings == []


def test_a_crash_that_lost_commits_differs_from_one_that_lost_none(version: str, postgres_folder: Path) -> None:
    witness = Process()
    lazy = {"synchronous_commit": "off", "wal_writer_delay": "10s"}
    with primary_of(postgres_folder / "primary", version, **lazy) as primary:
        for loses in (False, True):
            witness.claim_another(primary.dsn)
            if not loses:
                with connected(primary.dsn) as conn:
                    conn.execute("checkpoint")
            kill(primary)
            primary.stop()
            primary.start()
            witness.fetch(primary.dsn)
            assert [row[:3] for row in changes(primary.dsn)][-1] == ("restarted", False, loses)
            assert [bool(witness.warnings), bool(problem_texts(primary.dsn))] == [loses, loses]


def test_a_restore_from_a_dump_is_recorded_and_repeats_lost_ticks(
    database: str, version: str, postgres_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    witness = Process()
    with connected(database) as conn:
        conn.execute("select wakeboard.reap()")
        conn.execute(SCHEDULE)
        enqueue_ticks(database)
        conn.execute(DUE)
    kept = witness.claim_another(database)
    with primary_of(postgres_folder / "other", version) as other:
        with connected(other.dsn) as conn:
            conn.execute("drop schema wakeboard cascade")
        dump = subprocess.run(
            [find_binaries(version) / "pg_dump", "--no-owner", "-d", database], check=True, capture_output=True
        ).stdout
        lost = [witness.claim_another(database) for _ in range(2)]  # the dump lacks them, and the tick
        assert enqueue_ticks(database) == 1
        restore = [find_binaries(version) / "psql", "-v", "ON_ERROR_STOP=1", "-qd", other.dsn]
        subprocess.run(restore, input=dump, check=True, capture_output=True)
        assert enqueue_first(other.dsn) == kept + 1
        witness.fetch(other.dsn)
        assert changes(other.dsn) == [("moved", True, False, "worker 71", False)]
        (text,) = problem_texts(other.dsn)
        assert "restored from a dump" in text
        assert "had still answered worker 71" in text
        assert f"can come twice: {kept + 1} to {lost[-1]}." in text
        assert (enqueue_ticks(other.dsn), enqueue_ticks(other.dsn)) == (1, 0)
        with connected(other.dsn) as conn:
            conn.execute("select wakeboard.reap(always => true)")  # takes the lease from before the dump back
            assert conn.execute(COMMITTED_BEFORE, [kept]).fetchone() == (True,)
        runs = [(run["id"], run["had_started"]) for run in report(other.dsn, capsys)["runs"]]
        assert runs == [(kept, True), (kept + 4, False)]  # the claimed one, and the tick
        assert main(["check", "--after-restore", "--yes", "--reason", "moved", "--dsn", other.dsn]) == 0
        assert problem_texts(other.dsn) == []


def test_an_installation_is_closed_only_when_no_client_is_left(database: str, postgres: PostgresServer) -> None:
    name = database.rpartition("/")[2].partition("?")[0]
    with connected(database) as last, connected(postgres.dsn) as superuser:

        def refusal() -> str:
            with pytest.raises(psycopg.errors.ObjectNotInPrerequisiteState) as refused:
                last.execute(CLOSE)
            return str(refused.value.diag.message_primary).partition(": ")[2]

        assert refusal() == "not everything is paused"
        last.execute("select wakeboard.enqueue('ping')")
        with connected(database) as other:
            Process().fetch(database)
            last.execute("select wakeboard.pause('all')")
            assert refusal() == "a run is executing"
            last.execute("select wakeboard.revoke(array_agg(id)) from wakeboard.job_runs")
            assert refusal() == "the database accepts connections"
            superuser.execute(f"alter database {name} allow_connections false".encode())
            assert refusal() == "another client is connected"
            other.execute("select 1")
        wait_for(lambda: superuser.execute(SESSIONS, [name]).fetchone() == (1,))
        last.execute(CLOSE)
        superuser.execute(f"alter database {name} allow_connections true".encode())


def test_a_move_of_a_closed_installation_raises_no_alarm(database: str) -> None:
    with connected(database) as conn:
        conn.execute("select wakeboard.pause('all')")
        conn.execute(AS_CLOSED)
        conn.execute(AS_MOVED)

        def is_at_risk(*before: str) -> bool:
            with conn.transaction(force_rollback=True):
                for statement in before:
                    conn.execute(statement.encode())
                row = conn.execute("select at_risk from wakeboard.server_change()").fetchone()
                assert row
                return row[0]

        assert not is_at_risk()
        assert is_at_risk("select wakeboard.resume('all')")
        assert is_at_risk("select wakeboard.resume('all')", "select wakeboard.pause('all')")
        assert is_at_risk("update wakeboard.installation set reap_started_at = now()")
        assert problem_texts(database) == []
        conn.execute("select wakeboard.acknowledge_server_changes(0)")
        assert changes(database) == [("moved", False, False, None, False)]
        conn.execute(AS_MOVED)  # once more: it was closed before the first time
        assert is_at_risk()


@pytest.mark.parametrize("later", [False, True])
def test_a_witness_shows_whether_an_installation_was_used_after_it_was_closed(database: str, *, later: bool) -> None:
    witness = Process()
    with connected(database) as conn:
        if later:
            conn.execute(AS_CLOSED)
        witness.claim_another(database)
        if not later:
            conn.execute(AS_CLOSED)
        conn.execute("select wakeboard.pause('all')")
        conn.execute("update wakeboard.pauses set paused_at = (select closed_at from wakeboard.installation)")
        conn.execute(AS_MOVED)
        row = conn.execute("select 'wakeboard.installation'::regclass::oid").fetchone()
    assert row
    assert witness.state
    witness.state = witness.state.replace(f",{row[0]},", ",1,")  # what the former server said
    witness.fetch(database)
    assert changes(database) == [("moved", False, later, "worker 71", False)]
    assert bool(problem_texts(database)) == later


def test_a_restore_in_time_is_recorded_and_repeats_lost_ticks(
    version: str, postgres_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    witness, archive = Process(), postgres_folder / "archive"
    make_private_folder(archive, server_account())
    archived = {"archive_mode": "on", "archive_command": f"cp %p {archive}/%f"}
    with primary_of(postgres_folder / "primary", version, **archived) as primary:
        backup = Standby(primary, postgres_folder / "backup", version).folder
        with connected(primary.dsn) as conn:
            conn.execute(SCHEDULE)
            enqueue_ticks(primary.dsn)
            conn.execute(DUE)
            kept = witness.claim_another(primary.dsn)
            conn.execute("select pg_create_restore_point('monday')")
            assert witness.claim_another(primary.dsn) > kept
            assert enqueue_ticks(primary.dsn) == 1
            (last,) = conn.execute("select pg_walfile_name(pg_switch_wal())").fetchone() or ("",)
            wait_for((archive / last).exists)
    (backup / "data" / "standby.signal").rename(backup / "data" / "recovery.signal")
    target = {"recovery_target_name": "monday", "recovery_target_action": "promote"}
    restored_from = {**NOT_DURABLE, **target, "restore_command": f"cp {archive}/%f %p"}
    with (
        EmbeddedPostgres(backup, settings=restored_from, trusting=True, binaries=find_binaries(version)) as restored,
        connected(restored.dsn) as conn,
    ):
        wait_for(lambda: conn.execute("select pg_is_in_recovery()").fetchone() == (False,))
        first = enqueue_first(restored.dsn)
        witness.fetch(restored.dsn)
        assert (witness.warnings, [row[1:3] for row in changes(restored.dsn)]) == (["WB005"], [(True, True)])
        assert len(problem_texts(restored.dsn)) == 1
        assert (enqueue_ticks(restored.dsn), enqueue_ticks(restored.dsn)) == (1, 0)
        assert conn.execute(COMMITTED_BEFORE, [kept]).fetchone() == (True,)
        said = report(restored.dsn, capsys)
        assert said["changes"][0]["kept_id"] == first - 1
        assert [(run["id"], run["had_started"]) for run in said["runs"]] == [(kept, True), (first + 3, False)]
        assert main(["check", "--after-restore", "--yes", "--reason", "monday again", "--dsn", restored.dsn]) == 0
        assert "may run twice" in capsys.readouterr().out
        assert problem_texts(restored.dsn) == []
