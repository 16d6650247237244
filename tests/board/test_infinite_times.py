"""One row with a time that no clock shows breaks no page."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.board.conftest import fetched

if TYPE_CHECKING:
    from tests.board.action_store import Store

pytestmark = pytest.mark.anyio


async def test_runs_with_times_that_no_clock_shows_are_listed(board: str, store: Store):
    """The functions store no such times; an owner of the database could."""
    live, dead = store.run(), store.run("dead")
    store.rows("select wakeboard.discard(%s)", [dead])
    for table in ("job_runs", "job_run_history"):
        store.rows(f"update {table} set scheduled_for = '-infinity', created_at = 'infinity' returning 1")

    for path in ("runs", f"runs/{live}", f"runs/{dead}", ""):
        status, _, page = fetched(f"{board}/{path}")
        assert status == 200, path
        assert path != "runs" or f"runs/{live}".encode() in page
