"""What concurrencyPolicy makes of a tick while an earlier run is unfinished."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from tests.duties.stories import (
    DAY,
    HOUR,
    claim,
    connected,
    declared,
    definition,
    history,
    hourly,
    make_due,
    put,
    rows,
    runs,
)
from wakeboard.duties.reaping import reap
from wakeboard.duties.ticks import materialise_due

if TYPE_CHECKING:
    from wakeboard.store.board import Board, Materialised

pytestmark = pytest.mark.anyio


async def make_ticks(board: Board) -> Materialised:
    return await materialise_due(board, missed_after=DAY)


async def tick(board: Board) -> Materialised:
    """One more tick of the schedule `a`, a moment later than the last one."""
    await rows(
        board,
        "update job_definitions set next_run_at ="
        " greatest(last_tick_at + interval '1 s', date_trunc('second', now() - interval '1 minute')) where name = 'a'",
    )
    return await make_ticks(board)


async def succeed(board: Board, leased: list[tuple[int, int]], worker: int = 7) -> None:
    for run, epoch in leased:
        assert not await rows(board, "select complete(%s, array[%s]::bigint[], %s)", worker, run, epoch)


async def fail(board: Board, leased: list[tuple[int, int]]) -> None:
    for run, epoch in leased:
        await rows(
            board,
            "update job_runs set status = 'failed', locked_by = 0, locked_until = 'epoch', holds_slot = false,"
            " run_at = now() + interval '1 hour' where id = %s and lease_epoch = %s",
            run,
            epoch,
        )


# -- Allow


async def test_allow_makes_every_tick(board: Board):
    await put(board, declared("a"))
    await tick(board)
    await claim(board)
    await tick(board)
    await tick(board)
    assert await runs(board, columns="status::text, limit_key") == [
        ("running", None),
        ("queued", None),
        ("queued", None),
    ]


# -- Forbid


@pytest.mark.parametrize("unfinished", ["queued", "running", "failed"])
async def test_forbid_makes_no_run_while_one_is_unfinished(board: Board, unfinished: str):
    await put(board, declared("a", concurrencyPolicy="Forbid"))
    await tick(board)
    if unfinished != "queued":
        leased = await claim(board, limited=True)
        if unfinished == "failed":
            await fail(board, leased)
    made = await tick(board)
    assert (made.runs, made.skipped) == (0, 1)
    assert await runs(board) == [unfinished]
    assert await history(board) == [("skipped", "Forbidden", 1)]


@pytest.mark.parametrize("finished", ["succeeded", "dead"])
async def test_forbid_makes_a_run_when_the_last_one_is_over(board: Board, finished: str):
    await put(board, declared("a", concurrencyPolicy="Forbid"))
    await tick(board)
    leased = await claim(board, limited=True)
    if finished == "succeeded":
        await succeed(board, leased)
    else:
        await rows(
            board,
            "update job_runs set status = 'dead', dead_at = now(), locked_by = 0, holds_slot = false",
        )
    assert (await tick(board)).runs == 1


async def test_forbid_counts_runs_that_people_made_too(board: Board):
    await put(board, declared("a", concurrencyPolicy="Forbid"))
    await board.run_now(await definition(board, "a", "id"))
    assert (await tick(board)).skipped == 1


async def test_forbid_makes_the_first_of_several_ticks_and_records_the_others_as_one_stretch(board: Board):
    await put(board, declared("a", schedule=hourly(), concurrencyPolicy="Forbid"))
    first = await make_due(board, ago=5 * HOUR)
    made = await make_ticks(board)
    assert made.runs == 1
    assert await runs(board, columns="scheduled_for") == [first]
    assert await history(board, columns="reason, scheduled_for, skipped_until, skipped_count") == [
        ("Forbidden", first + HOUR, first + made.skipped * HOUR, made.skipped)
    ]
    assert made.skipped in (4, 5)


async def test_forbid_looks_at_its_own_runs_alone(board: Board):
    await put(board, declared("a", concurrencyPolicy="Forbid"), declared("b", concurrencyPolicy="Forbid"))
    await make_due(board, "b")
    await make_ticks(board)
    assert (await tick(board)).runs == 1


# -- Replace


@pytest.mark.parametrize("waiting", ["queued", "failed"])
async def test_replace_cancels_what_waits_at_once(board: Board, waiting: str):
    await put(board, declared("a", concurrencyPolicy="Replace"))
    await tick(board)
    if waiting == "failed":
        await fail(board, await claim(board, limited=True))
    made = await tick(board)
    assert (made.runs, made.replaced) == (1, 1)
    assert await runs(board) == ["queued"]
    assert await history(board, columns="status::text, reason") == [("cancelled", "Replaced")]


async def test_replace_asks_what_runs_to_stop_and_the_new_run_waits_for_that_lease_to_end(board: Board):
    await put(board, declared("a", concurrencyPolicy="Replace"))
    await tick(board)
    old = await claim(board, limited=True)
    assert (await tick(board)).runs == 1
    assert await runs(board, columns="status::text, cancel_requested_at is not null") == [
        ("running", True),
        ("queued", False),
    ]
    assert await claim(board, limited=True) == []
    await succeed(board, old)  # a success that comes first wins
    assert len(await claim(board, limited=True)) == 1


async def test_replace_makes_the_last_of_several_ticks(board: Board):
    await put(board, declared("a", schedule=hourly(), concurrencyPolicy="Replace"))
    first = await make_due(board, ago=5 * HOUR)
    made = await make_ticks(board)
    assert (made.runs, made.replaced) == (1, 0)
    assert await runs(board, columns="scheduled_for") == [first + made.skipped * HOUR]
    assert await history(board, columns="reason, scheduled_for, skipped_until, skipped_count") == [
        ("Replaced", first, first + (made.skipped - 1) * HOUR, made.skipped)
    ]


async def test_replace_leaves_the_dead_and_the_runs_of_others_alone(board: Board):
    await put(board, declared("a", concurrencyPolicy="Replace"), declared("b", concurrencyPolicy="Replace"))
    await tick(board)
    await rows(board, "update job_runs set status = 'dead', dead_at = now()")
    await make_due(board, "b")
    await make_ticks(board)
    made = await tick(board)
    assert (made.runs, made.replaced) == (1, 0)
    assert sorted(await runs(board)) == ["dead", "queued", "queued"]


async def test_ticks_that_are_all_skipped_replace_nothing(board: Board):
    await put(board, declared("a", concurrencyPolicy="Replace", catchUp={"policy": "Skip"}))
    await tick(board)
    await make_due(board, ago=HOUR)
    await rows(board, "update job_definitions set last_tick_at = 'epoch'")
    made = await materialise_due(board, missed_after=timedelta(minutes=5))
    assert (made.skipped, made.replaced) == (1, 0)
    assert await runs(board) == ["queued"]


# -- Queue


async def test_queue_makes_every_tick_and_runs_them_one_after_the_other(board: Board):
    await put(board, declared("a", concurrencyPolicy="Queue"))
    for _ in range(3):
        await tick(board)
    key = f"schedule:{await definition(board, 'a', 'id')}"
    assert await runs(board, columns="status::text, limit_key::text") == [("queued", key)] * 3
    ticks = await runs(board, columns="id")
    done: list[int] = []
    while leased := await claim(board, limited=True):
        assert len(leased) == 1
        assert await claim(board, worker=8, limited=True) == []
        done.append(leased[0][0])
        await succeed(board, leased)
    assert done == ticks


async def test_a_schedule_with_a_policy_and_a_shared_key_needs_a_slot_of_both(board: Board):
    await put(board, declared("a", concurrencyPolicy="Queue", limitKey="api"), declared("b", limitKey="api"))
    await make_due(board)
    await make_ticks(board)
    key = f"schedule:{await definition(board, 'a', 'id')}"
    assert await runs(board, columns="limit_key::text, shared_limit_key") == [(key, "api"), ("api", None)]
    assert len(await claim(board, limited=True)) == 1
    assert await claim(board, limited=True) == []


# -- races


@pytest.mark.parametrize(("policy", "made"), [("Allow", {2, 3}), ("Forbid", {1}), ("Replace", {1}), ("Queue", {2, 3})])
async def test_two_schedulers_with_two_ticks_between_them_keep_the_policy(
    board: Board, database: str, policy: str, made: set[int]
):
    await put(board, declared("a", schedule=hourly(), concurrencyPolicy=policy))
    await make_due(board, ago=2 * HOUR)
    async with connected(database) as other:
        await asyncio.gather(make_ticks(board), make_ticks(other))
    assert len(await runs(board)) in made
    assert len(await runs(board)) + sum(count for _, _, count in await history(board)) in {2, 3}


async def test_forbid_sees_a_run_that_a_person_makes_at_the_same_moment(board: Board, database: str):
    await put(board, declared("a", concurrencyPolicy="Forbid"))
    await make_due(board)
    async with connected(database) as person:
        async with person.conn.transaction():
            await person.run_now(await definition(board, "a", "id"))
            assert (await make_ticks(board)).definitions == 0  # the schedule is locked: later
        made = await make_ticks(board)
    assert (made.runs, made.skipped) == (0, 1)


async def test_a_crashed_run_is_unfinished_until_it_is_taken_back_and_run_again(board: Board):
    await put(board, declared("a", concurrencyPolicy="Forbid"))
    await tick(board)
    await claim(board, limited=True)
    await rows(board, "update job_runs set locked_until = now() - interval '1 s'")
    assert (await reap(board, always=True)).crashed == 1
    assert (await tick(board)).skipped == 1
    assert await runs(board) == ["queued"]
