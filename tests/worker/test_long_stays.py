"""Workers that stay longer than job types are remembered."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.worker.conftest import Store


def test_a_worker_that_stays_remains_registered_with_its_job_types(store: Store) -> None:
    """Otherwise `wakeboard check` would report after ten minutes that no worker serves the queue."""
    with store.worker("--forever", poll_seconds=1, lease_seconds=5):
        store.watcher.wait("select true from wakeboard.worker_types where job_type = 'ping'")
        store.watcher.do("update wakeboard.worker_types set last_known_at = now() - interval '11 minutes'")
        store.watcher.wait(
            "select true from wakeboard.worker_types"
            " where job_type = 'ping' and last_known_at > now() - interval '1 minute'"
        )
