"""Due runs are executed although idle connections are closed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wakeboard.rules.cron_parser import parse_cron

if TYPE_CHECKING:
    from tests.worker.conftest import Store


def test_ticks_are_enqueued_and_leases_reaped_although_idle_connections_are_closed(store: Store) -> None:
    name = store.watcher.ask("select current_database()")
    store.watcher.do(f"alter database {name} set idle_session_timeout = '400ms'")
    with store.worker("--forever", poll_seconds=1, listen="false") as worker:
        store.watcher.wait("select true from wakeboard.workers")
        store.enqueue("answers")
        store.watcher.wait("select true from wakeboard.job_run_history")
        store.watcher.do(
            "insert into wakeboard.job_definitions"
            " (source, namespace, name, spec_hash, job_type, schedule, cron_fields, next_run_at)"
            " values ('file:test', 'default', 'due', '', 'answers', '* * * * *', %s, now())",
            parse_cron("* * * * *", name="default/due").to_text(),
        )
        (run,) = store.enqueue("unknown")
        store.watcher.do(
            "update wakeboard.job_runs set status = 'running', locked_by = 7, locked_until = now() where id = %s", run
        )
        store.watcher.do("update wakeboard.installation set reap_started_at = 'epoch', reap_completed_at = 'epoch'")
        store.watcher.wait("select true from wakeboard.all_runs where trigger = 'tick'")
        store.watcher.wait("select crash_count = 1 from wakeboard.job_runs where id = %s", run)
    assert "a heartbeat failed" not in worker.log
