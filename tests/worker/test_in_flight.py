"""What a worker claims: no more than it can start soon, the most urgent runs first, and nothing by a late reply."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import pytest

from wakeboard.ticks.cron_parser import parse_cron
from wakeboard_worker.executor_state import ExecutorState

if TYPE_CHECKING:
    from tests.worker.conftest import Store
    from wakeboard.engine.run import ClaimedRow

ASYNC, PLAIN = "tests.worker.misbehaving_handlers", "tests.worker.misbehaving_functions"
MANY = "insert into wakeboard.job_runs (job_type, payload, priority, run_at) select %s, %s, %s, now() - %s::interval"


def _many(store: Store, job_type: str, count: int, payload: str = "{}", priority: int = 3, age: str = "0") -> None:
    store.watcher.do(f"{MANY} from generate_series(1, %s)", job_type, payload, priority, age, count)


@pytest.mark.parametrize(
    ("job_type", "short", "settings"),
    [
        ("naps", "does-nothing", {"handlers": ASYNC, "concurrency": 2}),
        ("sits", "sits", {"handlers": PLAIN, "threads": 2}),
    ],
    ids=["coroutines", "threads"],
)
def test_excess_prefetch_is_released_when_runs_become_long(
    store: Store, job_type: str, short: str, settings: dict[str, object]
) -> None:
    _many(store, short, 5_000, '{"seconds": 0}', age="1 minute")
    _many(store, job_type, 1_000, '{"seconds": 60}')
    with store.worker("--forever", **settings):
        store.watcher.wait(
            "select count(*) filter (where locked_by <> 0) = 2 and max(lease_epoch) > 0"
            " from wakeboard.job_runs having (select count(*) from wakeboard.job_run_history) = 5000"
        )


def test_short_runs_are_prefetched(store: Store) -> None:
    _many(store, "naps", 2_000, '{"seconds": 0.002}')
    with store.worker("--forever", handlers=ASYNC, concurrency=1):
        store.watcher.wait("select count(*) filter (where locked_by <> 0) > 3 from wakeboard.job_runs")


def test_a_plain_handler_starts_while_the_event_loop_has_a_backlog(store: Store) -> None:
    _many(store, "does-nothing", 10_000, age="1 minute")
    (late,) = store.enqueue("sits", '{"seconds": 0}', priority=5)
    with store.worker(handlers=f"{ASYNC},{PLAIN}"):
        store.watcher.wait("select true from wakeboard.job_run_history where id = %s", late)
        assert store.watcher.ask("select count(*) from wakeboard.job_runs where job_type = 'does-nothing'") > 5_000


def test_limited_runs_are_not_prefetched_while_they_occupy_slots(store: Store) -> None:
    store.watcher.do("select wakeboard.set_limit('k', 50)")
    store.enqueue("sits", '{"seconds": 3}', count=20, limit_key="k")
    with store.worker("--forever", handlers=PLAIN, threads=2):
        store.watcher.wait("select true from wakeboard.job_runs where holds_slot")
        most = 0
        while store.watcher.ask("select count(*) from wakeboard.job_run_history") == 0:
            most = max(most, store.watcher.ask("select count(*) from wakeboard.job_runs where holds_slot"))
    assert most <= 4  # two run, and the outcomes of two others may not be reported yet


def test_limited_runs_start_once_a_busy_worker_has_a_free_slot(store: Store) -> None:
    store.watcher.do("select wakeboard.set_limit('k', 50)")
    store.enqueue("naps", '{"seconds": 0.1}', count=30, limit_key="k")
    with store.worker("--forever", handlers=ASYNC, concurrency=2, poll_seconds=60):
        store.watcher.wait("select count(*) = 30 from wakeboard.job_run_history")


def test_an_urgent_run_is_found_behind_foreign_ones(store: Store) -> None:
    _many(store, "of-another-image", 5_000, priority=5, age="1 hour")
    (urgent,) = store.enqueue("does-nothing", priority=5)
    _many(store, "does-nothing", 10_000)
    with store.worker(handlers=ASYNC):
        store.watcher.wait("select true from wakeboard.job_run_history where id = %s", urgent)
        assert store.watcher.ask("select count(*) from wakeboard.job_runs where job_type = 'does-nothing'") > 5_000


def test_ticks_are_enqueued_while_every_slot_is_busy(store: Store) -> None:
    store.enqueue("naps", '{"seconds": 60}')
    with store.worker("--forever", handlers=ASYNC, concurrency=1):
        store.watcher.wait("select true from wakeboard.job_runs where status = 'running'")
        store.watcher.do(
            "insert into wakeboard.job_definitions"
            " (source, namespace, name, spec_hash, job_type, schedule, cron_fields, next_run_at)"
            " values ('file:test', 'default', 'due', '', 'naps', '* * * * *', %s, now())",
            parse_cron("* * * * *", name="default/due").to_text(),
        )
        store.watcher.wait("select true from wakeboard.all_runs where trigger = 'tick'")


def test_a_draining_worker_does_not_exit_before_the_last_limited_run(store: Store) -> None:
    """The slot becomes free shortly after the worker has queried it."""
    store.enqueue("naps", '{"seconds": 0.03}', count=20, limit_key="k")
    store.wake(handlers=ASYNC)
    assert store.watcher.ask("select count(*) from wakeboard.job_run_history") == 20


def test_no_transaction_is_open_while_a_handler_runs(store: Store) -> None:
    """An open transaction of the worker would delay vacuum in the whole database until the handler ends."""
    store.enqueue("naps", '{"seconds": 60}', count=3)
    store.enqueue("naps", '{"seconds": 60}', limit_key="k")
    ours = "select pid from pg_stat_activity where datname = current_database() and application_name ~ '^wakeboard'"
    with store.worker("--forever", handlers=ASYNC, lease_seconds=2):
        store.watcher.wait("select count(*) = 4 from wakeboard.job_runs where status = 'running'")
        renewed = "select min(locked_until) > %s from wakeboard.job_runs"
        for _ in range(3):  # heartbeats
            until = store.watcher.ask("select min(locked_until) from wakeboard.job_runs")
            while not store.watcher.ask(renewed, until):
                assert store.watcher.rows(f"{ours} and state ~ 'idle in transaction'") == []
        assert len(store.watcher.rows(ours)) > 1


def test_an_executor_that_released_more_than_it_started_releases_all_waiting_rows() -> None:
    executor = ExecutorState(2, ("sits",))
    executor.waiting.extend(cast("list[ClaimedRow]", [(number,) for number in range(3)]))
    executor.started = -40  # 40 prefetched attempts were released since the last check
    assert len(executor.pop_excess()) == 3
    assert not executor.waiting


# The first claim of a run takes 0.8 s. A lease of 2 s is valid for 1.5 s, so a claim may take half a second.
SLOW_FIRST_CLAIM = """
create function slowly() returns trigger language plpgsql as $$
begin
  if new.status = 'running' and old.lease_epoch = 0 then
    perform pg_sleep(0.8);
  end if;
  return new;
end $$;
create trigger slowly before update on wakeboard.job_runs for each row execute function slowly()
"""


def test_runs_of_a_late_claim_reply_are_released(store: Store) -> None:
    (run,) = store.enqueue("answers")
    store.watcher.do(SLOW_FIRST_CLAIM)
    worker = store.wake(lease_seconds=2)
    assert "the reply to a claim came too late: 1 lease released" in worker.log
    row = store.run(run)
    assert (row["status"], row["attempts"], row["release_count"]) == ("succeeded", 1, 0)
