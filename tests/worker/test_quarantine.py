"""Quarantined runs (running when two workers died) that succeed."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.worker.conftest import Store


def test_after_a_quarantined_run_succeeded_the_worker_claims_the_next_one(store: Store) -> None:
    suspects = store.enqueue("answers", '{"a": 1}', 2, crash_count=2)
    store.wake()
    assert [store.run(run)["status"] for run in suspects] == ["succeeded", "succeeded"]
