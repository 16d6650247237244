"""Under any load of higher priorities, one run in twenty is the oldest due run."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

import psycopg

from wakeboard.ticks.cron_parser import parse_cron

if TYPE_CHECKING:
    from tests.worker.conftest import Store

HANDLERS = "tests.worker.misbehaving_handlers"
LOAD = """
select count(*) from wakeboard.enqueue_many(
  array_fill('naps'::text, array[%(count)s]),
  array_fill(jsonb_build_object('seconds', %(seconds)s::float8), array[%(count)s]),
  queues => array_fill(%(queue)s::text, array[%(count)s]), priorities => array_fill(5, array[%(count)s]),
  limit_keys => array_fill(%(limit_key)s::text, array[%(count)s]))
"""
STARTED_BEFORE = """
select old.place, (select count(*) from wakeboard.all_runs as run
                    where run.priority = 5 and run.started_at <= old.started_at)
  from (select started_at, row_number() over (order by run_at, id) as place
          from wakeboard.job_run_history where priority = 1) as old
 order by old.place
"""


def load(store: Store, count: int, seconds: float, queue: str = "default", limit_key: str | None = None) -> None:
    """Runs of priority 5 that are due now."""
    values = {"count": count, "seconds": seconds, "queue": queue, "limit_key": limit_key}
    with psycopg.connect(store.dsn) as conn:
        conn.execute(LOAD, values)


def old_runs(store: Store, count: int, **columns: object) -> list[int]:
    """Runs of priority 1 that have been due for an hour."""
    runs = store.enqueue("naps", '{"seconds": 0}', count, priority=1, **columns)
    store.watcher.do("update wakeboard.job_runs set run_at = now() - interval '1 h' where id = any (%s)", runs)
    return runs


def wait_for(store: Store, runs: list[int]) -> None:
    done = "select count(*) = %s from wakeboard.job_run_history where id = any (%s) and status = 'succeeded'"
    store.watcher.wait(done, len(runs), runs)


def test_each_of_the_oldest_runs_starts_within_twenty_starts(store: Store) -> None:
    workers, concurrency, seconds = 2, 3, 0.005
    runs = old_runs(store, 20)
    load(store, 20_000, seconds)
    with ExitStack() as all_of_them:
        for _ in range(workers):
            all_of_them.enter_context(store.worker("--forever", handlers=HANDLERS, concurrency=concurrency))
        wait_for(store, runs)
    assert store.watcher.ask("select count(*) > 5000 from wakeboard.job_runs where priority = 5"), "the load ended"
    for place, before in store.watcher.rows(STARTED_BEFORE):
        assert before <= 20 * (place + workers) + 200 * workers * concurrency  # the runs that a worker starts in 200 ms


def test_a_run_starts_before_all_ticks_of_many_schedules_are_enqueued(store: Store) -> None:
    store.watcher.do(
        "insert into wakeboard.job_definitions (source, namespace, name, spec_hash, job_type, schedule, cron_fields,"
        " next_run_at, queue) select 'file:many', 'team', 'n' || n, '', 'nobody-knows', '0 0 1 1 *', %s,"
        " date_trunc('second', now()) - interval '1 minute', 'other' from generate_series(1, 15000) as n",
        parse_cron("0 0 1 1 *", name="").to_text(),
    )
    (urgent,) = store.enqueue("does-nothing", priority=5)
    with store.worker("--forever", handlers=HANDLERS):
        wait_for(store, [urgent])
        store.watcher.wait("select count(*) = 15000 from wakeboard.job_runs")
    started = (
        "select started_at < (select max(created_at) from wakeboard.job_runs) from wakeboard.all_runs where id = %s"
    )
    assert store.watcher.ask(started, urgent)
