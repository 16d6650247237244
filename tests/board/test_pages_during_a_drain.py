"""Pages read few rows while workers finish many runs, although the planner's statistics are out of date then."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from psycopg.rows import scalar_row

from wakeboard.board.pages.schedule import read_schedule
from wakeboard.store.connection import connect
from wakeboard.store.statements import read
from wakeboard.views.queries.run_list import read_run_page
from wakeboard.views.queries.run_page import read_run_history
from wakeboard.views.rules.run_search import parse_run_search

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from wakeboard.store.connection import AsyncConnection

pytestmark = pytest.mark.anyio

# 50,000 of 60,000 runs of one schedule are finished. The tables were analysed before, when they were empty.
DRAIN = """
alter table wakeboard.job_runs set (autovacuum_enabled = off);
insert into wakeboard.job_definitions (source, namespace, name, spec_hash, job_type)
values ('file:test', 'billing', 'report', '', 'send_mail');
analyze wakeboard.job_runs; analyze wakeboard.job_run_history;
alter table wakeboard.job_runs
  alter definition_id set default 1, alter definition_generation set default 1,
  alter schedule set default 'billing/report';
select count(*) from wakeboard.enqueue_many(array_fill('send_mail'::text, '{60000}'), null);
"""
FINISH = """
with taken as (
  select array_agg(id order by id) as ids from (select id from wakeboard.job_runs order by id limit 1000) as run)
select wakeboard.complete(7, ids, array_fill(1, array[1000])::bigint[], '{}') from taken
"""
LEASE = """
update wakeboard.job_runs set status = 'running', locked_by = 7, lease_epoch = 1, attempts = 1, started_at = now(),
       locked_until = now() + interval '1 hour'
 where id <= (select id from wakeboard.job_runs order by id offset 49999 limit 1)
"""
ROWS_READ = """
select sum(coalesce(seq_tup_read, 0) + coalesce(idx_tup_fetch, 0))::bigint
  from pg_stat_xact_all_tables where schemaname = 'wakeboard' and relname like 'job_run%'
"""


async def test_pages_read_few_rows(database: str):
    with psycopg.connect(database, autocommit=True) as writer:
        for statements in (DRAIN, LEASE, *[FINISH] * 50):
            writer.execute(statements.encode())
        assert writer.execute("select count(*) from wakeboard.job_run_history").fetchone() == (50_000,)
    async with await connect(database) as conn:
        assert await rows_read(conn, lambda: read_schedule(conn, 1, None)) < 25_000
        assert await rows_read(conn, lambda: read_run_history(conn, 1, namespaces=None)) < 2_500  # its neighbours
        search = parse_run_search("type:none -id:5")
        assert (
            await rows_read(conn, lambda: read_run_page(conn, search, namespaces=None, count=50, searched=500)) < 5_000
        )


async def rows_read(conn: AsyncConnection, page: Callable[[], Awaitable[Any]]) -> int:
    """How many rows of the tables of runs a page reads, in a transaction of its own."""
    async with conn.transaction():
        (before,) = await read(conn, scalar_row, ROWS_READ)
        await page()
        (after,) = await read(conn, scalar_row, ROWS_READ)
        return after - before
