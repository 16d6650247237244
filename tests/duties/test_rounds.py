"""Which duty is due when, and that none waits for another that fails."""

from __future__ import annotations

import subprocess
import sys
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from tests.duties.stories import connected, declared, make_due, put, rows, runs
from wakeboard.duties.rounds import PARTITIONS_EVERY, REAP_EVERY, Rounds
from wakeboard.duties.tidying import BATCHES_AT_ONCE, Retention

if TYPE_CHECKING:
    from wakeboard.store.board import Board

pytestmark = pytest.mark.anyio

EVERYTHING = ["ticks", "reaping", "partitions", "tidying"]


def rounds() -> Rounds:
    return Rounds(missed_after=timedelta(minutes=5), retention=Retention())


async def test_the_first_round_does_everything_and_the_next_one_only_ticks(board: Board):
    ours = rounds()
    assert ours.due(1000.0) == EVERYTHING
    assert not (await ours.make(board, 1000.0)).failures
    assert ours.due(1000.0) == ["ticks"]
    assert ours.due(1000.0 + REAP_EVERY - 0.001) == ["ticks"]
    assert ours.due(1000.0 + REAP_EVERY) == ["ticks", "reaping"]
    assert ours.due(1000.0 + PARTITIONS_EVERY) == EVERYTHING


async def test_a_round_makes_ticks_takes_back_what_lapsed_and_says_what_it_did(board: Board):
    await put(board, declared("a"))
    await make_due(board)
    await rows(board, "select enqueue('ping')")
    await rows(board, "update job_runs set status = 'running', locked_by = 7, locked_until = now() - interval '1 s'")
    made = await rounds().make(board, 0.0)
    assert made.ticks.runs == 1
    assert made.taken_back.crashed == 1
    assert made.partitions_made == 0
    assert made.failures == {}
    assert await runs(board) == ["queued", "queued"]


async def test_a_duty_that_fails_stops_no_other_and_comes_again_soon(board: Board):
    await put(board, declared("a"))
    await make_due(board)
    await rows(board, "alter function reap rename to reap_away")
    await rows(board, "alter function make_partitions rename to make_partitions_away")
    ours = rounds()
    made = await ours.make(board, 0.0)
    assert set(made.failures) == {"reaping", "partitions"}
    assert "wakeboard migrate" in str(made.failures["reaping"])
    assert made.ticks.runs == 1
    assert ours.due(60.0) == ["ticks", "reaping", "partitions"]
    await rows(board, "alter function reap_away rename to reap")
    await rows(board, "alter function make_partitions_away rename to make_partitions")
    assert (await ours.make(board, 60.0)).failures == {}


async def test_a_lost_connection_is_said_for_each_duty_and_the_next_round_works(board: Board, database: str):
    ours = rounds()
    async with connected(database) as lost:
        (pid,) = (await rows(lost, "select pg_backend_pid()"))[0]
        await rows(board, "select pg_terminate_backend(%s)", pid)
        assert set((await ours.make(lost, 0.0)).failures) == set(EVERYTHING)
    assert (await ours.make(board, 100.0)).failures == {}


async def test_tidying_that_is_not_done_goes_on_in_the_next_round(board: Board):
    await rows(
        board,
        "insert into job_attempts (run_id, lease_epoch, attempt, outcome, locked_by, started_at, ended_at)"
        " select -n, 1, 1, 'failed', 1, now(), now() - interval '40 days' from generate_series(1, %s) as n",
        1000 * BATCHES_AT_ONCE + 1,
    )
    ours = rounds()
    assert (await ours.make(board, 0.0)).tidied.more
    assert ours.due(0.1) == ["ticks", "tidying"]
    assert (await ours.make(board, 0.1)).tidied.rows == 1
    assert ours.due(0.2) == ["ticks"]


def test_a_waking_worker_imports_rounds_without_what_it_seldom_needs():
    heavy = {"croniter", "pydantic", "tzdata", "yaml", "wakeboard.timetable", "wakeboard.schedules"}
    script = f"import sys, wakeboard.duties.rounds; print({heavy!r} & set(sys.modules))"
    said = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert said.stdout.strip() == "set()"
