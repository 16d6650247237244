"""Connections that are closed while idle: due runs are executed all the same."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wakeboard.cronline import parse_cron

if TYPE_CHECKING:
    from tests.worker.conftest import Board


def test_ticks_are_made_and_leases_taken_back_although_idle_connections_are_cut(board: Board) -> None:
    name = board.watcher.ask("select current_database()")
    board.watcher.do(f"alter database {name} set idle_session_timeout = '400ms'")
    with board.worker("--forever", poll_seconds=1, listen="false") as worker:
        board.watcher.wait("select true from wakeboard.workers")
        board.enqueue("answers")
        board.watcher.wait("select true from wakeboard.job_run_history")
        board.watcher.do(
            "insert into wakeboard.job_definitions"
            " (source, namespace, name, spec_hash, job_type, schedule, cron_fields, next_run_at)"
            " values ('file:test', 'default', 'due', '', 'answers', '* * * * *', %s, now())",
            parse_cron("* * * * *", name="default/due").to_text(),
        )
        (run,) = board.enqueue("unknown")
        board.watcher.do(
            "update wakeboard.job_runs set status = 'running', locked_by = 7, locked_until = now() where id = %s", run
        )
        board.watcher.do("update wakeboard.installation set walked_at = 'epoch', reaped_at = 'epoch'")
        board.watcher.wait("select true from wakeboard.all_runs where trigger = 'tick'")
        board.watcher.wait("select crash_count = 1 from wakeboard.job_runs where id = %s", run)
    assert "a heartbeat failed" not in worker.log
