"""Expired rows are deleted, other rows stay, and partitions are created and dropped with the weeks."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from tests.schedules.schedules import connected, rows, until
from wakeboard.engine.partitions import create_partitions, drop_partitions, with_partition
from wakeboard.engine.retention import DeletedCounts, Retention, delete_expired
from wakeboard.errors import WakeboardError
from wakeboard.settings import read_settings

if TYPE_CHECKING:
    from wakeboard.engine.maintenance_api import MaintenanceStore

pytestmark = pytest.mark.anyio

KEEP = Retention.from_settings(read_settings())


async def test_the_operator_sets_how_long_audit_rows_are_kept(store: MaintenanceStore):
    await rows(store, "select pause('all')")
    await rows(store, "update audit_log set at = now() - interval '12 days'")
    await delete_expired(store, replace(KEEP, audit=timedelta(days=10)))
    assert [row[0] for row in await rows(store, "select action from audit_log")] == ["pause"]
    await rows(store, "update installation set expired_deleted_at = 'epoch'")
    await delete_expired(store, replace(KEEP, audit=timedelta(days=10)), sets_minimum=True)
    left = await rows(store, "select action, detail from audit_log")
    assert left == [("set_audit_retention", {"before": 400, "after": 10})]


async def partitions(store: MaintenanceStore) -> list[str]:
    found = await rows(
        store,
        "select inhrelid::regclass::text from pg_inherits where inhparent = 'job_run_history'::regclass order by 1",
    )
    return [row[0] for row in found]


async def old_partition(store: MaintenanceStore, weeks: int) -> str:
    """The partition of so many weeks ago, made as it would have been then."""
    ((name, begin),) = await rows(
        store,
        'select to_char(week, \'"job_run_history_"IYYY"w"IW\'), week::text from (select'
        " date_trunc('week', now() at time zone 'UTC') - make_interval(weeks => %s)) as past (week)",
        weeks,
    )
    await rows(
        store,
        f"create table {name} partition of job_run_history"
        f" for values from ('{begin}+00') to (timestamptz '{begin}+00' + interval '7 days')",
    )
    return name


async def attempts(store: MaintenanceStore, count: int, age: str) -> None:
    """Traces of attempts whose runs are neither live nor in history."""
    await rows(
        store,
        "insert into job_attempts (run_id, lease_epoch, attempt, outcome, locked_by, started_at, ended_at)"
        " select -n, 1, 1, 'failed', 1, now(), now() - %s::interval from generate_series(1, %s) as n",
        age,
        count,
    )


async def left(store: MaintenanceStore, table: str) -> int:
    return (await rows(store, f"select count(*) from {table}"))[0][0]


async def test_partitions_for_the_coming_weeks_are_made_cheaply(store: MaintenanceStore):
    made = await partitions(store)
    assert len(made) == 7  # with last week's, which is the tests' own
    await rows(store, f"drop table {made[1]}, {made[-1]}")
    assert await create_partitions(store) == 2
    assert await create_partitions(store) == 0
    assert await partitions(store) == made


async def test_partitions_go_when_every_run_in_them_is_old_enough(store: MaintenanceStore):
    now = set(await partitions(store))
    names = {weeks: await old_partition(store, weeks) for weeks in (3, 4, 6, 9)}
    assert await drop_partitions(store, timedelta(days=30)) == 2
    assert set(await partitions(store)) == now | {names[3], names[4]}


async def test_a_partition_in_use_is_retried(store: MaintenanceStore, database: str):
    await old_partition(store, 9)
    async with connected(database) as reader:
        (pid,) = (await rows(store, "select pg_backend_pid()"))[0]
        async with reader.conn.transaction():
            await rows(reader, "select count(*) from job_run_history")
            dropping = asyncio.create_task(drop_partitions(store, timedelta(days=30)))
            async with connected(database) as watcher:
                await until(watcher, "select 1 from pg_stat_activity where pid = %s and wait_event_type = 'Lock'", pid)
                await until(watcher, "select 1 from pg_stat_activity where pid = %s and state = 'idle'", pid)
        assert await dropping == 1


async def test_what_fails_for_another_reason_than_a_missing_partition_fails(store: MaintenanceStore):
    with pytest.raises(WakeboardError, match="keys are not kept longer than history"):
        await with_partition(store, lambda: store.set_retention(timedelta(days=1), timedelta(days=2), None, None))


async def test_only_traces_of_runs_that_are_gone_go(store: MaintenanceStore):
    await attempts(store, 10, "31 days")
    await rows(store, "select enqueue('ping')")
    await rows(
        store,
        "insert into job_steps (run_id, name, lease_epoch, started_at)"
        " select id, 'live', 1, now() - interval '40 days' from job_runs union all"
        " select -1, 'gone', 1, now() - interval '40 days' union all select -2, 'young', 1, now() - interval '29 days'",
    )
    assert await delete_expired(store, KEEP) == DeletedCounts(rows=11)
    assert await left(store, "job_attempts") == 0
    assert {row[0] for row in await rows(store, "select name from job_steps")} == {"live", "young"}


async def test_once_nothing_is_left_everybody_rests_for_an_hour(store: MaintenanceStore, database: str):
    await old_partition(store, 9)
    assert await delete_expired(store, KEEP) == DeletedCounts(partitions=1)
    await attempts(store, 1, "31 days")
    async with connected(database) as other:
        assert await delete_expired(other, KEEP) == DeletedCounts()
    await rows(store, "update installation set expired_deleted_at = now() - interval '61 minutes'")
    assert await delete_expired(store, KEEP) == DeletedCounts(rows=1)


async def test_changes_that_no_operator_takes_do_not_pile_up(store: MaintenanceStore):
    await rows(
        store,
        "insert into definition_changes select n, now() - interval '61 minutes' from generate_series(1, 150000) as n",
    )
    await rows(store, "insert into definition_changes values (1, now())")
    assert await delete_expired(store, KEEP) == DeletedCounts(rows=150_000)
    assert await left(store, "definition_changes") == 1


async def test_keys_and_dead_runs_stay_for_their_time(store: MaintenanceStore):
    await rows(store, "select enqueue('ping', idempotency_key => 'live'), enqueue('ping', idempotency_key => 'gone')")
    await rows(store, "update job_keys set created_at = now() - interval '8 days'")
    await rows(store, "delete from job_runs where idempotency_key = 'gone'")
    await rows(store, "update job_runs set status = 'dead', dead_at = now() - interval '90 days'")
    assert await delete_expired(store, KEEP) == DeletedCounts(rows=1)
    assert await rows(store, "select key from job_keys") == [("live",)]
    await rows(store, "update installation set expired_deleted_at = 'epoch'")
    assert await delete_expired(store, replace(KEEP, dead=timedelta(days=80))) == DeletedCounts()
    await rows(store, "update installation set expired_deleted_at = 'epoch'")
    assert await delete_expired(store, replace(KEEP, dead=timedelta(days=80)), sets_minimum=True) == DeletedCounts(
        rows=1
    )
    assert await left(store, "job_runs") == 0


async def test_effects_once_for_ever_stay_for_ever_or_for_their_time(store: MaintenanceStore):
    await rows(store, "select enqueue('ping')")
    await rows(
        store,
        "insert into job_forever_effects (key, first_run_uuid, run_id, lease_epoch, started_at, finished_at)"
        " select key, gen_random_uuid(), run_id, 1, now() - age, case when key <> 'in doubt' then now() - age end"
        " from (values ('old', -1, interval '401 days'), ('young', -2, '399 days'), ('in doubt', -3, '401 days'),"
        " ('of a live run', (select id from job_runs), '401 days')) as given (key, run_id, age)",
    )
    assert await delete_expired(store, KEEP, sets_minimum=True) == DeletedCounts()
    await rows(store, "update installation set expired_deleted_at = 'epoch'")
    forgotten = await delete_expired(store, replace(KEEP, effects=timedelta(days=400)), sets_minimum=True)
    assert forgotten == DeletedCounts(rows=1)
    assert await rows(store, "select key from job_forever_effects where key = 'old'") == []
    assert await left(store, "job_forever_effects") == 3
