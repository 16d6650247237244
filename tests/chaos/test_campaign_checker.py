"""The checker of campaigns finds whatever is lost or doubled by direct changes of the tables."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

import psycopg
import pytest

from chaos.applications import ClientRecord
from chaos.checker import check
from chaos.environment import AUDIT
from chaos.postgres_server import ROLES
from wakeboard.ticks.cron_parser import parse_cron

if TYPE_CHECKING:
    from collections.abc import Iterator

OVERBOOK = """
insert into chaos.transitions (run_id, what, holder, epoch, status, run_at, limit_key)
select n, 'claimed', 7, 1, 'running', now(), 'printer' from generate_series(101, 103) as n
"""
RUSH = """
insert into chaos.transitions (run_id, what, holder, epoch, status, run_at, limit_key, started_at)
select n, 'claimed', 7, 1, 'running', now(), 'metered', now() from generate_series(101, 106) as n
"""
DEPENDS = "insert into wakeboard.schedule_dependencies values (%s, 1, 'one', 1, 'Succeeded', 'Same');"
BACKFILL = """
insert into wakeboard.backfills (definition_id, schedule, range_begin, range_end, again, at_once, total, actor, source)
values (1, 'chaos/one', now() - interval '1 h', now(), false, 1, 1, 'me', 'sql')
"""
OPEN_CIRCUIT = """
set local search_path = pg_catalog, wakeboard, pg_temp;
insert into chaos.circuits values (1, now() - interval '1 h', true);
insert into wakeboard.job_runs (job_type, definition_id, trigger, scheduled_for)
select 'ticks', 1, 'tick', now() + n * interval '1 min' from generate_series(1, 2) as n
"""
CLAIM = "select id from wakeboard.claim(%s, 60, '{default}', '{3}', '{-infinity}', '{0}', array[%s], 10)"


@pytest.fixture
def conn(database: str) -> Iterator[psycopg.Connection]:
    """A database in which a run with an effect has succeeded, one failed, and a schedule has made ten ticks."""
    with psycopg.connect(database, autocommit=True) as conn:
        for role in ROLES.named().values():
            with suppress(psycopg.errors.DuplicateObject):
                conn.execute(f"create role {role}".encode())
        conn.execute(AUDIT.read_bytes())
        _fill(conn)
        yield conn


def _fill(conn: psycopg.Connection) -> None:
    conn.execute("select wakeboard.enqueue('charges', '{\"tag\": \"a\"}', idempotency_key => 'a')")
    conn.execute(CLAIM, (7, "charges"))
    with conn.transaction():
        conn.execute("select wakeboard.once(7, 1, uuid, lease_epoch, 'charge') from wakeboard.job_runs")
        conn.execute(
            "insert into chaos.effects (run_id, run_uuid, key, worker_clock) select 1, uuid, 'charge', now()"
            " from wakeboard.job_runs"
        )
    conn.execute("select wakeboard.complete(7, '{1}', lease_epoch) from wakeboard.job_runs where id = 1")
    conn.execute("select wakeboard.enqueue('flaky', '{\"tag\": \"b\"}', max_attempts => 1)")
    conn.execute(CLAIM, (7, "flaky"))
    conn.execute(
        "select wakeboard.fail(7, '{2}', array[lease_epoch], '{failed}', '{E}', '{no}', '{\"\"}', '{null}')"
        " from wakeboard.job_runs where id = 2"
    )
    conn.execute(
        "insert into wakeboard.job_definitions (source, namespace, name, spec_hash, job_type, schedule, cron_fields,"
        " next_run_at) values ('file:chaos', 'chaos', 'one', '', 'ticks', '* * * * *', %s,"
        " date_trunc('minute', now()) - interval '9 minutes')",
        (parse_cron("* * * * *", name="one").to_text(),),
    )
    conn.execute(
        "select wakeboard.enqueue_due_ticks(array[def.id], array[def.generation], array[def.next_run_at],"
        "   array[date_trunc('minute', now()) + interval '1 minute'], array[date_trunc('minute', now())],"
        "   array[null], array_agg(def.id), array_agg(tick), '{}', '{}', '{}', '{}', '{}')"
        "  from wakeboard.job_definitions as def, generate_series(def.next_run_at, now(), '1 minute') as tick"
        " group by def.id"
    )
    conn.execute("select wakeboard.cancel(array_agg(id)) from wakeboard.job_runs where trigger = 'tick'")


RECORD = ClientRecord(acknowledged={"a": 1, "b": 2})


def test_no_violation_is_found_without_faults(conn: psycopg.Connection) -> None:
    assert check(conn, RECORD) == []


@pytest.mark.parametrize(
    ("change", "invariant"),
    [
        ("delete from wakeboard.job_run_history where id = 1", "an acknowledged enqueue is never lost"),
        ("delete from wakeboard.job_run_history where id = 1", "every run is in exactly one table (in none)"),
        ("insert into wakeboard.job_run_history select * from wakeboard.job_run_history where id = 1", "at most one"),
        ("insert into chaos.effects select * from chaos.effects", "no effect twice"),
        ("delete from chaos.effects", "effects of succeeded runs happened exactly once"),
        ("delete from wakeboard.job_effects", "every effect is in job_effects"),
        ("update wakeboard.job_run_history set locked_by = 8 where id = 1", "the accepted completion came from"),
        ("update wakeboard.job_run_history set attempts = 2 where id = 1", "attempts are counted right"),
        ("update wakeboard.job_run_history set crash_count = 1 where id = 1", "crashes are counted right"),
        ("delete from wakeboard.job_attempts", "attempts are counted right"),
        ("update wakeboard.job_runs set lease_epoch = 5", "the lease epoch is that of the last claim or reap"),
        ("delete from wakeboard.job_run_history where id = 5", "no tick is lost"),
        ("insert into wakeboard.job_run_history select * from wakeboard.job_run_history where id = 5", "no tick twice"),
        (
            "update wakeboard.job_definitions set next_run_at = next_run_at + interval '1 s'",
            "the cursor is at the next tick",
        ),
        (
            "insert into wakeboard.job_runs (id, job_type, payload) overriding system value values (99, 'quick', '{\"tag\": \"a\"}')",  # noqa: E501
            "an enqueue happens at most once",
        ),
        (
            "insert into wakeboard.job_runs (job_type, run_at) values ('quick', now() - interval '1 minute')",
            "no run is stuck",
        ),
        ("insert into chaos.orders values ('order-1', 77)", "an application's row and its run commit together"),
        (OVERBOOK, "limits are never exceeded"),
        (RUSH, "rates are never exceeded"),
        (DEPENDS % 1, "a schedule runs for no tick before those that it runs after"),
        (
            DEPENDS % 99
            + "update wakeboard.job_run_history set status = 'succeeded', finished_at = now() - interval '1 h'",
            "a schedule runs for each tick for which all",
        ),
        (BACKFILL, "each tick of a backfill becomes a run, and leaves the backfill only when that is cancelled"),
        (OPEN_CIRCUIT, "an open circuit lets one run"),
        (
            "insert into wakeboard.job_runs (job_type, run_at) values ('quick', '2999-12-31 00:00+00')",
            "a run that waits is started when",
        ),
    ],
)
def test_whatever_is_lost_or_doubled_is_found(change: str, invariant: str, conn: psycopg.Connection) -> None:
    conn.execute(change.encode())
    assert any(found.invariant.startswith(invariant) for found in check(conn, RECORD))
