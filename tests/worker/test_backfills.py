"""A worker runs a backfill to its end, although its runs are created in batches, and the schedules after it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.worker.conftest import Store

TICKS = 1300


def test_one_wake_runs_a_backfill_and_what_runs_after_it(store: Store) -> None:
    store.watcher.do(
        "insert into wakeboard.job_definitions"
        " (source, namespace, name, spec_hash, job_type, payload, schedule, cron_fields)"
        """ values ('file:x', 'billing', 'close-day', '-', 'answers', '{"answer": 3}', '* * * * *', '-'),"""
        " ('file:x', 'billing', 'report', '-', 'adds', '{}', null, null),"
        " ('file:x', 'billing', 'mail', '-', 'answers', '{}', null, null)"
    )
    after = '[{{"namespace": "billing", "name": "{}", "spec_hash": "-", "after": [{{"schedule": "{}"}}]}}]'
    for child, parent in (("report", "close-day"), ("mail", "report")):
        store.watcher.do(f"select wakeboard.store_dependencies('file:x', '{after.format(child, parent)}')")
    store.watcher.do(
        "select wakeboard.create_backfill(1,"
        " array(select timestamptz '2026-01-01 00:00Z' + minute * interval '1 minute'"
        f"         from generate_series(0, {TICKS - 1}) as minute),"
        " '2026-01-01 00:00Z', '2026-01-03 00:00Z', 100)"
    )
    assert store.watcher.ask("select count(*) from wakeboard.job_runs") == 1000
    store.wake(handlers="tests.worker.reporting_handlers", drain_lookahead_seconds=5)
    assert store.watcher.rows(
        "select schedule, status::text, trigger::text, count(*), count(distinct scheduled_for)"
        "  from wakeboard.job_run_history group by 1, 2, 3 order by 1"
    ) == [
        ("billing/close-day", "succeeded", "backfill", TICKS, TICKS),
        ("billing/mail", "succeeded", "tick", TICKS, TICKS),
        ("billing/report", "succeeded", "tick", TICKS, TICKS),
    ]
    assert store.watcher.ask("select count(*) from wakeboard.job_runs") == 0
    assert (
        store.watcher.ask("select sum(result::integer) from wakeboard.job_run_history where job_type = 'adds'")
        == 3 * TICKS
    )
