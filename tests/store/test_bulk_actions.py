"""A bulk action changes each of its runs once, also with several processes and crashes, and can be cancelled."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from tests.store.test_admin_actions import dead
from wakeboard.actions.admin_api import AdminStore
from wakeboard.actions.bulk_actions import execute_bulk_action
from wakeboard.actions.queries.run_selection import RunQuery, ids_of_selected
from wakeboard.errors import InvalidValue
from wakeboard.store.connection import connect
from wakeboard.views.queries.audit import AuditFilter, audit_rows, bulk_action, bulk_action_runs, bulk_actions
from wakeboard.views.rules.run_search import parse_run_search

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from concurrent.futures import ThreadPoolExecutor

    from tests.store.sql_clients import SqlClient
    from wakeboard.actions.admin_api import CreatedBulkAction, RunActionName

pytestmark = pytest.mark.anyio

MANY = 12_345
DEAD = RunQuery(search=parse_run_search("status:dead"), takes=["dead"])


@pytest.fixture
async def store(database: str) -> AsyncIterator[AdminStore]:
    async with await connect(database) as conn:
        yield AdminStore(conn, actor="ada", source="board")


@pytest.fixture
def dead_runs(admin: SqlClient) -> Callable[[int], list[int]]:
    """Creates so many dead runs; their ids."""

    def create(count: int) -> list[int]:
        admin.sql("insert into job_runs (job_type) select 'ping' from generate_series(1, %s)", count)
        return admin.column("update job_runs set status = 'dead', dead_at = now(), attempts = 5 returning id")

    return create


async def bulk_action_on(
    store: AdminStore, action: RunActionName, ids: list[int], reason: str = ""
) -> CreatedBulkAction:
    query = "select pg_catalog.unnest(%(ids)s::bigint[])"
    return await store.create_bulk_action(action, query, {"ids": ids}, reason=reason)


def counts(admin: SqlClient) -> dict[str, int]:
    """Runs by status, in the audit log by action, and by answer."""
    return dict(
        admin.sql(
            "select status::text, count(*) from all_runs group by 1 union all"
            " select 'audited ' || action, count(*) from audit_log where run_id is not null group by 1 union all"
            " select 'answered ' || coalesce(answer, 'nothing'), count(*) from bulk_action_runs group by 1"
        )
    )


async def test_two_executors_change_each_run_once(
    store: AdminStore, admin: SqlClient, database: str, dead_runs: Callable[[int], list[int]]
) -> None:
    dead_runs(3000)
    bulk = await store.create_bulk_action("retry", *await ids_of_selected(store.conn, DEAD, MANY))
    async with await connect(database) as conn, asyncio.timeout(60):
        both = await asyncio.gather(
            *(execute_bulk_action(each, bulk.id, batch_size=50) for each in (store, AdminStore(conn)))
        )
    assert [(one.done, one.refused, one.finished) for one in both] == [(3000, 0, True)] * 2
    assert counts(admin) == {"queued": 3000, "audited retry": 3000, "answered queued": 3000}


async def test_an_executor_does_not_wait_for_the_batch_of_another(
    store: AdminStore, database: str, dead_runs: Callable[[int], list[int]]
) -> None:
    bulk = await bulk_action_on(store, "retry", dead_runs(20))
    with psycopg.connect(database) as holder:
        holder.execute("select wakeboard.run_bulk_action_batch(%s, 10)", [bulk.id])
        assert await store.run_bulk_action_batch(bulk.id, 10) == (20, 0, 0, 0, False, False)
    assert (await execute_bulk_action(store, bulk.id)).done == 20


async def test_after_a_crash_between_batches_another_process_continues(
    store: AdminStore, admin: SqlClient, database: str, dead_runs: Callable[[int], list[int]]
) -> None:
    """The first executor's connection is closed by force when it has executed some batches."""
    dead_runs(1000)
    bulk = await store.create_bulk_action("retry", *await ids_of_selected(store.conn, DEAD, MANY))
    some_done = asyncio.Event()
    async with await connect(database, name="to be killed") as conn:
        executing = asyncio.create_task(
            execute_bulk_action(AdminStore(conn), bulk.id, batch_size=10, report=lambda _: some_done.set())
        )
        await some_done.wait()
        admin.sql("select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'to be killed'")
        with suppress(Exception):
            await executing
    (left,) = await bulk_actions(store.conn, 10, unfinished=True)
    assert 0 < left.done < 1000
    assert (await execute_bulk_action(store, left.id)).done == 1000
    assert counts(admin) == {"queued": 1000, "audited retry": 1000, "answered queued": 1000}
    assert await bulk_actions(store.conn, 10, unfinished=True) == []


async def test_runs_that_have_changed_since_are_refused_and_counted(
    store: AdminStore, admin: SqlClient, dead_runs: Callable[[int], list[int]]
) -> None:
    runs = dead_runs(30)
    bulk = await bulk_action_on(store, "retry", runs)
    admin.discard(*runs[:4])
    admin.retry(*runs[4:10])
    last = await execute_bulk_action(store, bulk.id, batch_size=7)
    assert (last.total, last.done, last.refused) == (30, 30, 10)
    refused = await bulk_action_runs(store.conn, bulk.id, 100, refused=True)
    assert [run.run_id for run in refused] == sorted(runs[:10])
    assert {run.answer for run in refused} == {
        "refused: the run is finished (dead); replay makes a new run from it",
        "refused: the run is queued",
    }
    assert len(await audit_rows(store.conn, AuditFilter(bulk_action_id=bulk.id, action="retry"), 100)) == 20


@pytest.mark.parametrize(
    ("action", "before", "answer"),
    [("cancel", "queued", "cancelled"), ("discard", "dead", "discarded"), ("replay", "succeeded", "queued")],
)
async def test_each_action_can_be_a_bulk_action(
    store: AdminStore, admin: SqlClient, worker: SqlClient, action: Any, before: str, answer: str
) -> None:
    if before == "dead":
        run = dead(admin, worker)
    else:
        run = admin.enqueue()
        if before == "succeeded":
            worker.complete(worker.claims(run))
    bulk = await bulk_action_on(store, action, [run, run], reason="why")
    assert (await execute_bulk_action(store, bulk.id)).done == 1
    assert [one.answer for one in await bulk_action_runs(store.conn, bulk.id, 9)] == [answer]
    (row,) = await audit_rows(store.conn, AuditFilter(run_id=run), 9)
    assert (row.action, row.reason, row.bulk_action_id) == (action, "why", bulk.id)
    if action != "replay":
        assert admin.past(run).reason == "why"


async def test_what_no_bulk_action_can_be_is_refused_in_one_sentence(store: AdminStore, admin: SqlClient) -> None:
    with pytest.raises(InvalidValue, match="there is no bulk action 7"):
        await store.run_bulk_action_batch(7)
    with pytest.raises(InvalidValue, match="count is 0; write a whole number from 1 to 10000"):
        await store.run_bulk_action_batch(7, 0)
    with pytest.raises(InvalidValue, match=r'^action is "pause"; write cancel, retry, discard or replay$'):
        await bulk_action_on(store, "pause", [1])  # pyright: ignore[reportArgumentType]
    with pytest.raises(InvalidValue, match="at most 1,000,000 runs and these are 1,000,001; narrow the filter"):
        await store.create_bulk_action("retry", "select pg_catalog.generate_series(1, 1000001)::bigint", {})
    assert admin.value("select count(*) from bulk_actions") == 0
    assert admin.value("select count(*) from audit_log") == 0


# -- retention ---------------------------------------------------------------------------------------------------------


async def test_old_bulk_actions_end_and_are_deleted_after_their_runs(
    store: AdminStore, admin: SqlClient, dead_runs: Callable[[int], list[int]]
) -> None:
    bulk = await bulk_action_on(store, "retry", dead_runs(3))
    admin.sql("update bulk_actions set created_at = now() - interval '31 days'")
    admin.sql("select delete_expired(always => true)")
    left = await bulk_action(store.conn, bulk.id)
    assert left is not None
    assert left.cancelled_at
    assert await bulk_action_runs(store.conn, bulk.id, 9) == []
    admin.sql("update bulk_actions set created_at = now() - interval '401 days'")
    admin.sql("select delete_expired(always => true)")
    assert await bulk_action(store.conn, bulk.id) is None


async def test_a_cancel_waits_for_the_batch_that_is_being_executed(
    store: AdminStore,
    admin: SqlClient,
    database: str,
    meanwhile: ThreadPoolExecutor,
    dead_runs: Callable[[int], list[int]],
) -> None:
    bulk = await bulk_action_on(store, "retry", dead_runs(20))
    with psycopg.connect(database) as executing:
        executing.execute("select wakeboard.run_bulk_action_batch(%s, 10)", [bulk.id])
        cancelling = meanwhile.submit(lambda: admin.value("select cancel_bulk_action(%s)", bulk.id))
        waits = "select count(*) from pg_stat_activity where pid = %s and wait_event_type = 'Lock'"
        while executing.execute(waits, [admin.pid]).fetchone() != (1,):
            assert not cancelling.done()
    assert cancelling.result()
    assert counts(admin) == {
        "queued": 10,
        "dead": 10,
        "audited retry": 10,
        "answered queued": 10,
        "answered nothing": 10,
    }
