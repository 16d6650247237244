"""What is taken back, and when. Most of it is the board's own business; here is that the walk is whole."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.duties.stories import claim, history, rows, runs
from wakeboard.duties.reaping import TakenBack, reap

if TYPE_CHECKING:
    from wakeboard.store.board import Board

pytestmark = pytest.mark.anyio


async def enqueue(board: Board, count: int = 1) -> None:
    await rows(board, "select enqueue('ping') from generate_series(1, %s)", count)


async def lapse(board: Board) -> None:
    """Every lease that is held has ended a moment ago."""
    await rows(board, "update job_runs set locked_until = now() - interval '1 ms' where locked_by <> 0")


async def test_a_walk_goes_on_to_its_end(board: Board):
    await enqueue(board, 12_000)  # some slices
    await rows(board, "update job_runs set locked_by = 7, status = 'running' where id % 1000 = 0")
    await lapse(board)
    assert await reap(board, always=True) == TakenBack(crashed=12)
    assert set(await runs(board)) == {"queued"}


async def test_a_live_lease_is_left_alone(board: Board):
    await enqueue(board)
    await claim(board)
    assert await reap(board, always=True) == TakenBack()
    assert await runs(board) == ["running"]


async def seconds_pass(board: Board, seconds: int) -> None:
    """For walks over the leases."""
    passed = f"interval '{seconds} s'"
    await rows(board, f"update installation set walked_at = walked_at - {passed}, reaped_at = reaped_at - {passed}")


async def test_leases_are_looked_at_when_a_worker_has_fallen_silent_and_once_a_minute(board: Board):
    await reap(board, always=True)
    await enqueue(board)
    await claim(board)
    await lapse(board)
    await seconds_pass(board, 5)
    assert await reap(board) == TakenBack()
    await rows(
        board,
        "insert into workers (nonce, name, pool, queues, capacity, lease_s, last_seen)"
        " values (7, 'w', 'default', '{default}', 1, 60, now() - interval '61 s')",
    )
    assert await reap(board) == TakenBack(crashed=1)
    await rows(board, "delete from workers")
    await claim(board)
    await lapse(board)
    assert await reap(board) == TakenBack()
    await seconds_pass(board, 61)
    assert (await reap(board)).crashed == 1


async def test_what_did_not_begin_in_time_is_skipped_and_what_did_is_not(board: Board):
    await enqueue(board, 2500)
    await rows(board, "update job_runs set start_before = now() - interval '1 s'")
    await rows(
        board, "update job_runs set started_at = now() where id = (select min(id) from job_runs)"
    )  # it will be retried
    assert await reap(board) == TakenBack(too_late=2499)
    assert await runs(board) == ["queued"]
    assert set(await history(board, columns="status::text, reason")) == {("skipped", "TooLate")}


async def test_a_missing_partition_does_not_keep_late_runs_alive(board: Board):
    await enqueue(board)
    await rows(board, "update job_runs set start_before = now() - interval '1 s'")
    await rows(
        board,
        "do $$ declare part text; begin for part in select inhrelid::regclass from pg_inherits"
        " where inhparent = 'job_run_history'::regclass loop execute 'drop table ' || part; end loop; end $$",
    )
    assert (await reap(board)).too_late == 1
