"""The server that dies, restarts, loses its sessions or its room."""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Final

import psycopg

from chaos.faults.fault import Fault, Struck

if TYPE_CHECKING:
    from chaos.environment import Stage
    from chaos.faults.fault import Draw

_SESSIONS: Final = """
select pid, application_name from pg_stat_activity
 where backend_type = 'client backend' and application_name not like 'chaos watcher%%' and datname = 'wakeboard'
 order by application_name, pid
"""
ANSWERS_WITHIN_S: Final = 10.0


class _Restart(Fault):
    """The server ends, stays away for a moment, and is started again."""

    how = "fast"

    def strike(self, stage: Stage, draw: Draw) -> Struck | None:
        """Ends it and starts it again, in the main thread."""
        with stage.server_turn:
            struck = Struck(f"server, {self.how}")
            stage.in_main_thread(lambda: stage.server.end(self.how))
            time.sleep(draw.between(0.0, 1.0) if draw.more < 0.9 else draw.between(1.0, 6.0))
            stage.in_main_thread(stage.server.start)
            return struck


class PostgresKilled(_Restart):
    """SIGKILL of the postmaster, up to six seconds without a server, crash recovery."""

    name = "Postgres killed"
    how = "kill"
    weight = 4


class PostgresRestarted(_Restart):
    """A fast restart of Postgres: every session is told to go."""

    name = "Postgres fast restart"
    how = "fast"
    weight = 4


class PostgresStoppedAtOnce(_Restart):
    """An immediate shutdown of Postgres, and a start with crash recovery."""

    name = "Postgres immediate restart"
    how = "immediate"
    weight = 4


class SessionKilled(Fault):
    """SIGKILL of one server process: Postgres throws everybody out and recovers by itself."""

    name = "one server process killed"
    weight = 3

    def strike(self, stage: Stage, draw: Draw) -> Struck | None:
        """Kills one, and waits until the server takes connections again."""
        with stage.server_turn:
            sessions = stage.ask(_SESSIONS)
            if (session := draw.pick(sessions)) is None:
                return None
            struck = Struck(session[1])
            with suppress(ProcessLookupError):
                os.kill(session[0], signal.SIGKILL)  # a child of the server that we started
            time.sleep(0.05)
            stage.ask("select 1")
            return struck


class SessionTerminated(Fault):
    """pg_terminate_backend of one session: a worker's claims, outcomes or heartbeat, a handler's, an application's."""

    name = "session terminated"
    weight = 14

    def strike(self, stage: Stage, draw: Draw) -> Struck | None:
        """Terminates it."""
        if (session := draw.pick(stage.ask(_SESSIONS))) is None:
            return None
        stage.ask("select pg_terminate_backend(%s)", session[0])
        return Struck(session[1])


class EverySessionTerminated(Fault):
    """pg_terminate_backend of every session at once."""

    name = "every session terminated"
    weight = 3

    def strike(self, stage: Stage, draw: Draw) -> Struck | None:
        """Terminates all."""
        struck = Struck("every session")
        for pid, _ in stage.ask(_SESSIONS):
            stage.ask("select pg_terminate_backend(%s)", pid)
        return struck


class StatementCancelled(Fault):
    """pg_cancel_backend of a few sessions, as statement_timeout does it: a statement fails, the connection lives."""

    name = "statements cancelled"
    weight = 8

    def strike(self, stage: Stage, draw: Draw) -> Struck | None:
        """Cancels what they are doing, for a moment: most of the time they do nothing."""
        struck = Struck("busy sessions")
        end = time.monotonic() + draw.between(0.2, 0.8)
        hit = 0
        query = (
            "select count(*) filter (where pg_cancel_backend(pid)) from pg_stat_activity"
            " where state = 'active' and application_name not like 'chaos watcher%%' and datname = 'wakeboard'"
        )
        while time.monotonic() < end and hit < 3:
            hit += stage.ask(query)[0][0]
        struck.what = f"{hit} statements"
        return struck if hit else None


class RowsLocked(Fault):
    """A stranger's transaction holds locks on running and waiting runs for longer than a lease, then goes."""

    name = "rows locked by a stranger"
    weight = 5

    def strike(self, stage: Stage, draw: Draw) -> Struck | None:
        """Locks some, waits, rolls back."""
        struck = Struck("up to 20 runs")
        mode = draw.choose(["for update", "for share", "for no key update"])
        query = f"select id from wakeboard.job_runs where random() < 0.3 limit 20 {mode} skip locked"
        with suppress(psycopg.Error), stage.watch() as conn, conn.transaction(force_rollback=True):
            conn.execute(query.encode())
            time.sleep(draw.between(0.3, 3.5))
        return struck


class DecisionsLeftOpen(Fault):
    """A stranger's transaction walks over the leases, cancels, or holds schedules or workers, and stays open."""

    name = "a decision left open"
    weight = 4

    def strike(self, stage: Stage, draw: Draw) -> Struck | None:
        """Makes it, waits for longer than a lease, rolls back."""
        query = draw.choose(
            [
                "select wakeboard.reap(0, 5000, true)",
                "select wakeboard.cancel(array(select id from wakeboard.job_runs order by random() limit 20))",
                "select from wakeboard.installation for update",
                "select from wakeboard.job_definitions where random() < 0.3 for update skip locked",
                "select from wakeboard.workers for update skip locked",
            ]
        )
        struck = Struck(query.split("wakeboard.")[1].split("(")[0].split()[0])
        with suppress(psycopg.Error), stage.watch() as conn, conn.transaction(force_rollback=True):
            conn.execute("set local lock_timeout = '1s'")
            conn.execute(query.encode())
            time.sleep(draw.between(0.3, 5.0))
        return struck


class DiskFull(Fault):
    """The server's disk is full for a while: tables and indexes cannot grow."""

    name = "disk full"
    weight = 5
    needs = "disk"

    def strike(self, stage: Stage, draw: Draw) -> Struck | None:
        """Fills it, and frees it. A server that gave up is started again."""
        assert stage.disk is not None
        with stage.server_turn:
            struck = Struck("tables")
            stage.disk.fill()
            time.sleep(draw.between(0.3, 2.5))
            stage.disk.free()
            _wait_until_it_answers(stage)
            return struck


class LogDiskFull(Fault):
    """The disk is full and Postgres needs its next WAL segment: it panics, and recovers when there is room."""

    name = "disk full under the WAL"
    weight = 2
    needs = "disk"

    def strike(self, stage: Stage, draw: Draw) -> Struck | None:
        """Fills it, and makes the server go from one segment to the next until it cannot."""
        assert stage.disk is not None
        with stage.server_turn:
            struck = Struck("WAL")
            stage.disk.fill()
            with suppress(psycopg.Error), stage.watch() as conn:
                for _ in range(8):
                    conn.execute("select pg_logical_emit_message(false, 'chaos', 'x'), pg_switch_wal()")
            time.sleep(draw.between(0.2, 1.5))
            stage.disk.free()
            _wait_until_it_answers(stage)
            return struck


def _wait_until_it_answers(stage: Stage) -> None:
    """Starts it again if it has ended, or has not answered for ten seconds: as whatever looks after a server would."""
    ill_at = time.monotonic() + ANSWERS_WITHIN_S
    give_up_at = time.monotonic() + 2 * ANSWERS_WITHIN_S
    while time.monotonic() < give_up_at:
        if stage.server.pid is None or time.monotonic() > ill_at:
            stage.in_main_thread(lambda: (stage.server.end("kill"), stage.server.start()))
            ill_at = time.monotonic() + ANSWERS_WITHIN_S
        try:
            stage.ask("select 1", patience_s=0.5)
        except psycopg.OperationalError:
            continue
        return
