"""A claim whose reply comes late is not used: its lease could expire before the worker stops the run."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.worker.conftest import Store

# The first claim of a run takes 0.8 s. A lease of 2 s is valid for 1.5 s, so a claim may take half a second.
SLOW_FIRST_CLAIM = """
create function slowly() returns trigger language plpgsql as $$
begin
  if new.status = 'running' and new.lease_epoch = 1 then
    perform pg_sleep(0.8);
  end if;
  return new;
end $$;
create trigger slowly before update on wakeboard.job_runs for each row execute function slowly()
"""


@pytest.mark.parametrize("kind", ["any", "limited", "quarantined"])
def test_runs_of_a_claim_whose_reply_came_late_are_released_before_they_start(store: Store, kind: str) -> None:
    (run,) = store.enqueue("answers")
    if kind == "limited":
        store.watcher.do("update wakeboard.job_runs set limit_key = 'one'")
    if kind == "quarantined":
        store.watcher.do("update wakeboard.job_runs set crash_count = 2")
    store.watcher.do(SLOW_FIRST_CLAIM)
    worker = store.wake(lease_seconds=2)
    assert "the reply to a claim came too late: 1 lease released" in worker.log
    row = store.run(run)
    assert (row["status"], row["lease_epoch"], row["attempts"], row["release_count"]) == ("succeeded", 2, 1, 0)
