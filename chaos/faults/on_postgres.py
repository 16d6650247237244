"""Postgres crashes, restarts, ends sessions or statements, holds locks, or has no disk space."""

from __future__ import annotations

import os
import signal
import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Final

import psycopg

from chaos.faults.fault import Fault

if TYPE_CHECKING:
    from collections.abc import Generator

    from chaos.environment import Environment
    from chaos.faults.fault import Draw

_SESSIONS: Final = """
select pid, application_name from pg_stat_activity
 where backend_type = 'client backend' and application_name not like 'chaos observer%%' and datname = 'wakeboard'
 order by application_name, pid
"""
REPLY_TIMEOUT_S: Final = 10.0
LONG_HOLDS_FROM: Final = 0.85  # of Draw.more


class _Restart(Fault):
    """The server ends, is away for a moment, and is started again."""

    how = "fast"
    weight = 4
    needs = "alone"

    def inject(self, environment: Environment, draw: Draw) -> str | None:
        with environment.server_lock:
            environment.own(lambda: environment.server.end(self.how))
            time.sleep(draw.between(0.0, 1.0) if draw.more < 0.9 else draw.between(1.0, 6.0))
            environment.own(environment.server.start)
        return f"server, {self.how}"


class PostgresKilled(_Restart):
    """SIGKILL of the postmaster, up to six seconds without a server, crash recovery."""

    name = "Postgres killed"
    how = "kill"


class PostgresRestarted(_Restart):
    """A fast restart of Postgres, which ends every session."""

    name = "Postgres fast restart"
    how = "fast"


class PostgresStoppedImmediately(_Restart):
    """An immediate shutdown of Postgres, and a start with crash recovery."""

    name = "Postgres immediate restart"
    how = "immediate"


class SessionKilled(Fault):
    """SIGKILL of one server process. Postgres ends every session and recovers by itself."""

    name = "one server process killed"
    weight = 3

    def inject(self, environment: Environment, draw: Draw) -> str | None:
        with environment.server_lock:
            if (session := draw.pick(environment.query(_SESSIONS))) is None:
                return None
            with suppress(ProcessLookupError):
                os.kill(session[0], signal.SIGKILL)  # a child of the server that we started
            time.sleep(0.05)
            environment.query("select 1")  # returns when the server accepts connections again
            return session[1]


class SessionTerminated(Fault):
    """pg_terminate_backend of one session: a worker's claims, outcomes or heartbeat, a handler's, an application's."""

    name = "session terminated"
    weight = 14

    def inject(self, environment: Environment, draw: Draw) -> str | None:
        if (session := draw.pick(environment.query(_SESSIONS))) is None:
            return None
        environment.query("select pg_terminate_backend(%s)", session[0])
        return session[1]


class EverySessionTerminated(Fault):
    """pg_terminate_backend of every session at once."""

    name = "every session terminated"
    weight = 3

    def inject(self, environment: Environment, draw: Draw) -> str | None:
        for pid, _ in environment.query(_SESSIONS):
            environment.query("select pg_terminate_backend(%s)", pid)
        return "every session"


class StatementCancelled(Fault):
    """pg_cancel_backend of a few sessions, as statement_timeout does it. The connections stay open."""

    name = "statements cancelled"
    weight = 8

    def inject(self, environment: Environment, draw: Draw) -> str | None:
        end = time.monotonic() + draw.between(0.2, 0.8)
        cancelled = 0
        query = (
            "select count(*) filter (where pg_cancel_backend(pid)) from pg_stat_activity"
            " where state = 'active' and application_name not like 'chaos observer%%' and datname = 'wakeboard'"
        )
        while time.monotonic() < end and cancelled < 3:  # sessions are idle most of the time
            cancelled += environment.query(query)[0][0]
        return f"{cancelled} statements" if cancelled else None


class RowsLocked(Fault):
    """Another session's transaction locks running and queued runs for longer than a lease, then rolls back."""

    name = "rows locked by another session"
    weight = 5

    def inject(self, environment: Environment, draw: Draw) -> str | None:
        mode = draw.choose(["for update", "for share", "for no key update"])
        query = f"select id from wakeboard.job_runs where random() < 0.3 limit 20 {mode} skip locked"
        return f"up to 20 runs, {mode}" if _hold_open(environment, query, draw.between(0.3, 3.5)) else None


class TransactionLeftOpen(Fault):
    """Another session reaps, cancels, or locks schedules, workers, limits or backfills; its transaction stays open."""

    name = "transaction left open"
    weight = 4

    def inject(self, environment: Environment, draw: Draw) -> str | None:
        target, query = draw.choose(
            [
                ("reap", "select wakeboard.reap(0, 5000, true)"),
                (
                    "cancel",
                    "select wakeboard.cancel(array(select id from wakeboard.job_runs order by random() limit 20))",
                ),
                ("installation", "select from wakeboard.installation for update"),
                (
                    "job_definitions",
                    "select from wakeboard.job_definitions where random() < 0.3 for update skip locked",
                ),
                ("workers", "select from wakeboard.workers for update skip locked"),
                ("job_limits", "select from wakeboard.job_limits for update skip locked"),
                ("backfills", "select from wakeboard.backfills where finished_at is null for update skip locked"),
                ("backfill_ticks", "select from wakeboard.backfill_ticks where random() < 0.3 for update skip locked"),
            ]
        )
        longest_s = 5.0 if draw.more < LONG_HOLDS_FROM else 12.0  # longer than every timeout of the product
        return target if _hold_open(environment, query, draw.between(0.3, longest_s)) else None


class DiskFull(Fault):
    """The server's disk is full for a while. Tables and indexes cannot grow."""

    name = "disk full"
    weight = 5
    needs = "disk"

    def inject(self, environment: Environment, draw: Draw) -> str | None:
        with _full_disk(environment):
            time.sleep(draw.between(0.3, 2.5))
        return "tables"


class WalDiskFull(Fault):
    """The disk is full and Postgres needs its next WAL segment. It panics, and recovers when there is space."""

    name = "disk full under the WAL"
    weight = 2
    needs = "disk"

    def inject(self, environment: Environment, draw: Draw) -> str | None:
        with _full_disk(environment):
            with suppress(psycopg.Error), environment.connect() as conn:
                for _ in range(8):
                    conn.execute("select pg_logical_emit_message(false, 'chaos', 'x'), pg_switch_wal()")
            time.sleep(draw.between(0.2, 1.5))
        return "WAL"


def _hold_open(environment: Environment, query: str, seconds: float) -> bool:
    """Runs the query, keeps its transaction open, rolls back. False: it got no lock in time, or the server was away."""
    held = False
    with suppress(psycopg.OperationalError), environment.connect() as conn, conn.transaction(force_rollback=True):
        conn.execute("set local lock_timeout = '1s'")
        conn.execute(query.encode())
        held = True
        time.sleep(seconds)
    return held


@contextmanager
def _full_disk(environment: Environment) -> Generator[None]:
    assert environment.disk is not None
    with environment.server_lock:
        environment.disk.fill()
        yield
        environment.disk.free()
        _restart_until_it_replies(environment)


def _restart_until_it_replies(environment: Environment) -> None:
    """Restarts the server if it has ended or has not replied for ten seconds, as a supervisor of a server would."""
    restart_at = time.monotonic() + REPLY_TIMEOUT_S
    give_up_at = time.monotonic() + 2 * REPLY_TIMEOUT_S
    while time.monotonic() < give_up_at:
        if environment.server.pid is None or time.monotonic() > restart_at:
            environment.own(lambda: (environment.server.end("kill"), environment.server.start()))
            restart_at = time.monotonic() + REPLY_TIMEOUT_S
        try:
            environment.query("select 1", timeout_s=0.5)
        except psycopg.OperationalError:
            continue
        return
