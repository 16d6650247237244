"""Runs that were running when two workers died, and that mean no harm."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.worker.conftest import Board


def test_after_a_suspect_that_did_well_a_worker_goes_on_with_the_next(board: Board) -> None:
    suspects = board.enqueue("answers", '{"a": 1}', 2, crash_count=2)
    board.wake()
    assert [board.run(run)["status"] for run in suspects] == ["succeeded", "succeeded"]
