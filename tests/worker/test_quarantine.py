"""Runs that were running when two workers died, and that mean no harm."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.worker.conftest import Store


def test_after_a_suspect_that_did_well_a_worker_goes_on_with_the_next(store: Store) -> None:
    suspects = store.enqueue("answers", '{"a": 1}', 2, crash_count=2)
    store.wake()
    assert [store.run(run)["status"] for run in suspects] == ["succeeded", "succeeded"]
