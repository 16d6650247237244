"""A worker runs a backfill to its end, although its runs are created in batches."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.worker.conftest import Store

TICKS = 2300


def test_one_wake_runs_a_backfill_of_several_batches(store: Store) -> None:
    store.watcher.do(
        "insert into wakeboard.job_definitions (source, namespace, name, spec_hash, job_type, schedule, cron_fields)"
        " values ('file:x', 'billing', 'report', '-', 'answers', '* * * * *', '-')"
    )
    store.watcher.do(
        "select wakeboard.create_backfill(1,"
        " array(select timestamptz '2026-01-01 00:00Z' + minute * interval '1 minute'"
        f"         from generate_series(0, {TICKS - 1}) as minute),"
        " '2026-01-01 00:00Z', '2026-01-03 00:00Z', 100)"
    )
    assert store.watcher.ask("select count(*) from wakeboard.job_runs") == 1000
    store.wake(drain_lookahead_seconds=5)
    assert store.watcher.rows(
        "select status::text, count(*), count(distinct scheduled_for) from wakeboard.job_run_history group by 1"
    ) == [("succeeded", TICKS, TICKS)]
    assert store.watcher.ask("select count(*) from wakeboard.job_runs") == 0
