"""Rows that another transaction has locked: every function waits for a bounded time and handles the other rows."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg
import pytest
from psycopg.rows import scalar_row

from wakeboard.alerts import calls as alert_calls
from wakeboard.alerts.queries import deliveries as alert_deliveries
from wakeboard.dependencies import calls as dependency_calls
from wakeboard.engine import maintenance_api, worker_api
from wakeboard.errors import Locked
from wakeboard.limits import calls as limit_calls
from wakeboard.schedules import calls as schedule_calls
from wakeboard.schedules import leader_api
from wakeboard.store import connection, statements
from wakeboard.store.connection import connect
from wakeboard.store.schema_files import sql_functions
from wakeboard.store.statements import read

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import ModuleType

    from tests.store.sql_clients import SqlClient

NOBODY_WAITS = "set statement_timeout = '9s'"


@pytest.fixture
def holder(
    open_client: Callable[[int], SqlClient], admin: SqlClient, worker: SqlClient, other: SqlClient
) -> Iterator[SqlClient]:
    """A client with an open transaction. All other clients have a statement timeout and must get their answers."""
    one = open_client(0)
    one.sql("begin")
    for each in (admin, worker, other):
        each.sql(NOBODY_WAITS)
    yield one
    one.sql("rollback")


def definition(admin: SqlClient, name: str, policy: str = "Replace") -> int:
    """A schedule whose next tick was due a second ago."""
    due = {"schedule": "* * * * *", "cron_fields": "{}", "next_run_at": datetime.now(UTC) - timedelta(seconds=1)}
    return admin.define(name, policy, source="file:t", **due)


def enqueue_due_ticks(client: SqlClient, *definitions: int) -> list[int]:
    """Makes the due tick of each; the definitions that got a run."""
    before = client.column("select id from job_runs")
    client.sql(
        "select enqueue_due_ticks(array_agg(id order by id), array_agg(generation order by id),"
        " array_agg(next_run_at order by id), array_agg(null::timestamptz), array_agg(next_run_at order by id),"
        " array_agg(null::text), array_agg(id order by id), array_agg(next_run_at order by id),"
        " '{}', '{}', '{}', '{}', '{}') from job_definitions where id = any (%s)",
        list(definitions),
    )
    return client.column("select definition_id from job_runs where id <> all (%s) order by 1", before)


# -- what administrators ask for ---------------------------------------------------------------------------------------


def test_a_run_inside_once_is_cancelled_and_replaced_at_once(
    admin: SqlClient, worker: SqlClient, other: SqlClient, open_client: Callable[[int], SqlClient]
) -> None:
    schedule = definition(admin, "s")
    handler = open_client(worker.worker_id)
    (run,) = admin.column("select id from run_now(%s)", schedule)
    (lease,) = worker.claim_limited()
    other.sql(NOBODY_WAITS)
    with handler.conn.transaction():
        assert handler.once(lease, "charge")
        assert other.cancel(run) == {run: "requested"}
        assert other.sql("select answer from run_now(%s)", schedule)[0].answer == "queued"
        assert enqueue_due_ticks(other, schedule) == [schedule]
    assert worker.renew(lease) == {run: "cancel"}


@pytest.mark.parametrize(("action", "word"), [("retry-dead", "queued"), ("discard-dead", "discarded")])
def test_an_action_that_meets_a_locked_dead_run_keeps_its_token(
    admin: SqlClient, holder: SqlClient, action: str, word: str
) -> None:
    schedule = definition(admin, "s", "Allow")
    runs = [admin.value("select id from run_now(%s)", schedule) for _ in range(3)]
    admin.sql("update job_runs set status = 'dead', dead_at = now()")
    holder.sql("select from job_runs where id = %s for update", runs[1])
    call = "select result from run_annotation_action(%s, %s, 'once')"
    with pytest.raises(psycopg.errors.LockNotAvailable, match="a dead run; try again"):
        admin.sql(call, schedule, action)
    assert admin.column("select status from job_runs") == ["dead"] * 3
    holder.sql("commit")
    assert admin.value(call, schedule, action).startswith(f"{word} 3 dead runs")


@pytest.mark.parametrize(
    ("held", "asked"),
    [
        ("select pause('all')", "select pause('all')"),
        ("select set_limit('k', 1)", "select set_limit('k', 2)"),
        ("select from job_definitions for update", "select run_now(1)"),
    ],
)
def test_an_action_waits_for_another_one_with_a_bound(
    admin: SqlClient, holder: SqlClient, held: str, asked: str
) -> None:
    definition(admin, "s")
    holder.sql(held)
    with pytest.raises(psycopg.errors.LockNotAvailable):
        admin.sql(asked)


# -- maintenance -------------------------------------------------------------------------------------------------------


def test_many_uncommitted_limits_delay_a_claim_by_a_bounded_time(
    admin: SqlClient, worker: SqlClient, holder: SqlClient
) -> None:
    keys = [f"held-{number}" for number in range(100)]
    for key in keys:
        admin.enqueue(limit_key=key)
        holder.sql("select set_limit(%s, 5)", key)
    worker.sql("set statement_timeout = '4s'")  # it waits for 0.2 s; for each key once, it would be 5 s
    assert worker.claim_limited(*keys) == []


@pytest.mark.parametrize(
    "caller",
    [
        *(alert_calls, alert_deliveries, connection, dependency_calls, leader_api),
        *(limit_calls, maintenance_api, schedule_calls, worker_api),
    ],
)
def test_every_function_of_a_process_waits_for_a_lock_with_a_bound(caller: ModuleType) -> None:
    """So a transaction left open stops one task, and neither the process nor its maintenance. A read waits, too."""
    texts = {one.name: one.text for one in sql_functions()}
    names = set(re.findall(r"wakeboard\.(\w+)\b", Path(caller.__file__ or "").read_text())) & texts.keys()
    assert names
    assert [name for name in sorted(names) if "set lock_timeout = '" not in texts[name]] == []


# -- a partition that another transaction drops ------------------------------------------------------------------------


def test_an_uncommitted_partition_drop_delays_a_read_by_two_seconds(
    admin: SqlClient, other: SqlClient, holder: SqlClient
) -> None:
    run = admin.enqueue()
    uuid = admin.value("select uuid from job_runs where id = %s", run)
    part = admin.value("select max(relname) from pg_class where relname ~ '^job_run_history_[0-9]{4}w[0-9]{2}$'")
    holder.sql(f"alter table job_run_history detach partition {part}")
    for call in (
        f"get_run({run}, '{uuid}')",
        f"cancel_run({run}, '{uuid}')",
        f"cancel('{{{run}}}')",
        f"retry('{{{run}}}')",
        f"replay('{{{run}}}')",
        "create_partitions(9)",
        "drop_partitions()",
    ):
        with pytest.raises(psycopg.errors.LockNotAvailable) as refused:
            other.sql(f"select * from {call}")
        assert refused.value.diag.message_primary == "another transaction keeps a lock that this needs; try again", call


# -- a table that another transaction alters ---------------------------------------------------------------------------


@pytest.mark.anyio
async def test_a_read_of_an_altered_table_ends_with_a_sentence(
    database: str, holder: SqlClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(statements, "_BOUND_LOCK_WAITS", b"set local lock_timeout = '50ms'")
    holder.sql("lock table job_runs")
    async with await connect(database) as conn:
        with pytest.raises(Locked, match="another transaction keeps a lock"):
            await read(conn, scalar_row, "select count(*) from wakeboard.job_runs")
        holder.sql("rollback")
        assert await read(conn, scalar_row, "select count(*) from wakeboard.job_runs") == [0]
