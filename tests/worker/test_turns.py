"""Decisions that keep runs from starving: shares by age, and room for suspects."""

from __future__ import annotations

import pytest

from wakeboard_worker.in_flight import Executor
from wakeboard_worker.oldest_first import OldestFirst
from wakeboard_worker.quarantine_turns import PATIENCE_S, ROOM_S, QuarantineTurns
from wakeboard_worker.queue_scan import QueueScan

WALK = QueueScan(Executor("loop", 1, ("ping",)), ["a"])


def by_age(executor: OldestFirst, count: int) -> int:
    """How many of so many rows go by age, when there is a backlog of everything."""
    share = executor.share(count)
    executor.note(count, share, count)
    return share


@pytest.mark.parametrize("capacity", [1, 2, 7, 19, 20, 21, 150, 1000])
def test_of_any_twenty_starts_of_a_lane_one_goes_by_age(capacity: int) -> None:
    for _ in range(100):
        executor, owed = OldestFirst(WALK, ["a"]), 0.0
        for _ in range(100):
            owed += capacity / 20 - by_age(executor, capacity)
            assert abs(owed) <= 1  # since the lane began


@pytest.mark.parametrize("starts", [1, 3, 30])
def test_workers_that_live_for_few_starts_give_the_same_share_together(starts: int) -> None:
    executors = [OldestFirst(WALK, ["a"]) for _ in range(60_000 // starts)]
    given = sum(by_age(executor, 1) for executor in executors for _ in range(starts))
    assert given == pytest.approx(3_000, rel=0.15)


def test_a_claim_of_all_due_runs_adds_nothing_to_the_share() -> None:
    executor = OldestFirst(WALK, ["a"])
    before = executor.share(20)
    for _ in range(100):
        executor.note(10, 0, 20)
    assert executor.share(20) == before


def test_room_for_a_suspect_is_made_for_half_of_the_time_at_most() -> None:
    """It waits, and what is in hand never ends."""
    turns, now, without_claims = QuarantineTurns(), 0.0, 0
    for second in range(10_000):
        now = float(second)
        if turns.asks(now):
            turns.answered(PATIENCE_S + 1, now)
        without_claims += turns.making_room
    assert 0.3 < without_claims / now < 0.55


def test_attempts_to_make_room_for_a_suspect_get_longer_while_the_worker_is_busy() -> None:
    turns, began, longest = QuarantineTurns(), 0.0, 0.0
    for second in range(4_000):
        now = float(second)
        if turns.asks(now):
            turns.answered(PATIENCE_S + 1, now)
        began = began if turns.making_room else now
        longest = max(longest, now - began)
    assert longest > 10 * ROOM_S


def test_after_a_suspect_other_runs_are_claimed_for_as_long_as_it_took() -> None:
    turns = QuarantineTurns()
    assert turns.asks(0)
    turns.answered(PATIENCE_S + 1, 0)
    assert turns.making_room
    turns.ran(10, 600)
    assert not turns.making_room
    assert not turns.asks(1_199)
    assert turns.asks(1_200)
