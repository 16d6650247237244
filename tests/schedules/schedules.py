"""Schedules for tests of maintenance: builds, syncs and reads them, and makes them due.

Tests cannot set the database's clock, so they set cursors into the past. The cron expressions have no tick in the
minutes in which a test runs.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from wakeboard.engine.maintenance_api import MaintenanceStore
from wakeboard.schedules.desired_schedule import DesiredSchedule
from wakeboard.schedules.rules.job_schedule import load_job_schedule
from wakeboard.schedules.sync import SyncReport, sync
from wakeboard.store.connection import connect

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Mapping

SOURCE = "file:test"
DAY = timedelta(days=1)
HOUR = timedelta(hours=1)
MINUTE = timedelta(minutes=1)
MISFIRE_GRACE = timedelta(minutes=5)


@asynccontextmanager
async def connected(dsn: str) -> AsyncGenerator[MaintenanceStore]:
    """A store over a new connection."""
    async with await connect(dsn) as conn:
        yield MaintenanceStore(conn)


async def rows(store: MaintenanceStore, query: str, *values: Any) -> list[tuple[Any, ...]]:
    """Returns the rows of a query in the schema wakeboard, or none for a statement without rows."""
    await store.conn.execute("set search_path = wakeboard")
    cursor = await store.conn.execute(query.encode(), values or None)
    return await cursor.fetchall() if cursor.description is not None else []


async def until(store: MaintenanceStore, query: str, *values: Any) -> None:
    """Waits until a query returns a row."""
    while not await rows(store, query, *values):  # noqa: ASYNC110 - another session's state has no event
        await asyncio.sleep(0.005)


def yearly() -> str:
    """A cron expression whose next tick is half a year from now."""
    return f"0 0 1 {(datetime.now(UTC).month + 5) % 12 + 1} *"


def hourly() -> str:
    """An hourly cron expression whose ticks are half an hour from now."""
    return f"{(datetime.now(UTC).minute + 30) % 60} * * * *"


def declared(
    name: str,
    /,
    *,
    uid: str = "",
    generation: int | None = None,
    origin: str = "",
    labels: Mapping[str, str] | None = None,
    **spec: Any,
) -> DesiredSchedule:
    """A schedule `team/<name>`, of the job type `ping` and yearly unless `spec` says otherwise."""
    manifest = {
        "apiVersion": "wakeboard.dev/v1alpha1",
        "kind": "JobSchedule",
        "metadata": {"name": name, "namespace": "team"},
        "spec": {"jobType": "ping", "schedule": yearly(), **spec},
    }
    return DesiredSchedule("team", name, load_job_schedule(manifest, name).spec, uid, generation, origin, labels or {})


async def put(
    store: MaintenanceStore, *schedules: DesiredSchedule, prune: bool = False, source: str = SOURCE
) -> SyncReport:
    """Syncs these schedules."""
    return await sync(store, source, schedules, prune=prune, misfire_grace=MISFIRE_GRACE)


async def make_due(store: MaintenanceStore, name: str = "%", *, ago: timedelta = timedelta(seconds=1)) -> datetime:
    """Sets the cursor of these schedules to a whole second `ago` in the past, and returns it.

    For an hourly schedule it is the tick nearest to that, so that with `ago` of n hours n or n + 1 ticks are due.
    """
    (cursor,) = (
        await rows(
            store,
            "update job_definitions set last_tick_at = 'epoch', next_run_at = case"
            " when schedule ~ '^[0-9]+( [*]){4}$' then date_trunc('hour', now() - %s, 'UTC')"
            "      + make_interval(mins => split_part(schedule, ' ', 1)::int)"
            " else date_trunc('second', now() - %s) end"
            " where name like %s returning next_run_at",
            ago,
            ago,
            name,
        )
    )[0]
    return cursor


async def runs(store: MaintenanceStore, *, columns: str = "status") -> list[Any]:
    """Returns one column of all live runs, or several as tuples, in order of their ticks."""
    found = await rows(store, f"select {columns} from job_runs order by definition_id, scheduled_for, id")
    return [row[0] if len(row) == 1 else row for row in found]


async def history(
    store: MaintenanceStore, *, columns: str = "status::text, reason, skipped_count"
) -> list[tuple[Any, ...]]:
    """Returns columns of the history, oldest tick first."""
    return await rows(store, f"select {columns} from job_run_history order by definition_id, scheduled_for, id")


async def definition(store: MaintenanceStore, name: str, columns: str = "next_run_at") -> Any:
    """Returns one column of a schedule, or several as a tuple."""
    found = (await rows(store, f"select {columns} from job_definitions where name = %s", name))[0]
    return found[0] if len(found) == 1 else found


async def claim(store: MaintenanceStore, *, worker: int = 7, limited: bool = False) -> list[tuple[int, int]]:
    """Claims every due run of the queue `default` for a minute. Returns (id, epoch) of each."""
    if limited:
        return [
            (run, epoch)
            for run, epoch in await rows(
                store,
                "select id, lease_epoch from claim_limited(%s, 60, '{default}', '{ping}',"
                " array(select distinct limit_key::text from job_runs where limit_key is not null), 100)",
                worker,
            )
        ]
    return [
        (run, epoch)
        for run, epoch in await rows(
            store,
            "select id, lease_epoch from fetch_runs(%s, 60, '{default}', '{ping}', 100, limited_count => 0)"
            " where id is not null",
            worker,
        )
    ]


@pytest.fixture
async def store(database: str) -> AsyncIterator[MaintenanceStore]:
    """A store over a connection to a new database."""
    async with connected(database) as opened:
        yield opened
