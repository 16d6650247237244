"""Handlers take units of a rate limit and pause a limit key, and workers wait for the next unit without a busy loop."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from wakeboard.testing import FakeRun, run_handler

if TYPE_CHECKING:
    import wakeboard
    from tests.worker.conftest import Store

HANDLERS = "tests.worker.reporting_handlers"


def test_a_worker_starts_the_runs_of_a_limited_key_at_its_rate(store: Store) -> None:
    store.watcher.do("select wakeboard.set_rate_limit('api', 10, 1, 2)")
    store.enqueue("answers", "{}", count=8, limit_key="api")
    with store.worker("--forever", handlers=HANDLERS):
        store.watcher.wait("select true from wakeboard.job_run_history having count(*) = 8")
    of_units = "extract(epoch from min(next_unit_at) - min(past.created_at))"
    of_the_last = "extract(epoch from max(finished_at) - min(next_unit_at))"
    ((units_s, last_s),) = store.watcher.rows(
        f"select {of_units}, {of_the_last} from wakeboard.job_run_history as past"
        " cross join wakeboard.job_limits where key = 'api'"
    )
    assert units_s >= 0.8, "eight units take a tenth of a second each"
    assert last_s >= -0.2, "two start at once"


@pytest.mark.parametrize("job_type", ["consumes", "consumes-plainly"])
def test_a_handler_takes_further_units(store: Store, job_type: str) -> None:
    store.watcher.do("select wakeboard.set_rate_limit('api', 60, 60, 5)")
    store.enqueue(job_type, '{"units": 3}', limit_key="api")
    with store.worker(handlers=HANDLERS):
        store.watcher.wait("select true from wakeboard.job_run_history where status = 'succeeded'")
    used_s = store.watcher.ask(
        "select extract(epoch from next_unit_at - statement_timestamp()) from wakeboard.job_limits"
    )
    assert 2 < used_s <= 4


def test_retry_after_pauses_the_limit_key_for_all_runs(store: Store) -> None:
    store.enqueue("raises", '{"what": "limited"}', limit_key="api")
    with store.worker("--forever", handlers=HANDLERS):
        store.watcher.wait("select true from wakeboard.job_limits where paused_until > now() + interval '3500 s'")
        store.watcher.wait("select true from wakeboard.job_runs where status = 'failed'")
        store.enqueue("answers", "{}", limit_key="api")
        (other,) = store.enqueue("answers", "{}", limit_key="another")
        store.watcher.wait("select true from wakeboard.job_run_history where id = %s", other)
    assert store.watcher.ask("select count(*) from wakeboard.job_runs where limit_key = 'api'") == 2


@pytest.mark.anyio
async def test_a_test_sees_the_units_that_a_handler_consumed() -> None:
    async def consumes(run: wakeboard.Run) -> None:
        await run.consume(3)
        await run.consume(1)

    assert (await run_handler(consumes)).consumed == 4
    assert (await run_handler(lambda run: run.consume(2), FakeRun())).consumed == 2
