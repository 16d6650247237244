"""The decisions that prevent starvation: the share of claims by age, and the turns of quarantined runs."""

from __future__ import annotations

import pytest

from wakeboard_worker.in_flight import ExecutorState
from wakeboard_worker.oldest_first import OldestFirst
from wakeboard_worker.quarantine_turns import WAIT_FOR_IDLE_S, YIELD_S, QuarantineTurns
from wakeboard_worker.queue_scan import QueueScan

SCAN = QueueScan(ExecutorState(1, ("ping",)), ["a"])


def by_age(oldest: OldestFirst, count: int) -> int:
    """Claim `count` rows from a backlog. Return how many of them are claimed by age."""
    share = oldest.share(count)
    oldest.record(count, share, count)
    return share


@pytest.mark.parametrize("capacity", [1, 2, 7, 19, 20, 21, 150, 1000])
def test_one_of_any_twenty_runs_of_an_executor_is_claimed_by_age(capacity: int) -> None:
    for _ in range(100):
        oldest, owed = OldestFirst(SCAN, ["a"]), 0.0
        for _ in range(100):
            owed += capacity / 20 - by_age(oldest, capacity)
            assert abs(owed) <= 1  # since the executor started


@pytest.mark.parametrize("starts", [1, 3, 30])
def test_workers_with_few_claims_together_claim_the_same_share_by_age(starts: int) -> None:
    all_of_them = [OldestFirst(SCAN, ["a"]) for _ in range(60_000 // starts)]
    by_age_total = sum(by_age(oldest, 1) for oldest in all_of_them for _ in range(starts))
    assert by_age_total == pytest.approx(3_000, rel=0.15)


def test_a_claim_of_all_due_runs_keeps_the_share_by_age() -> None:
    oldest = OldestFirst(SCAN, ["a"])
    before = oldest.share(20)
    for _ in range(100):
        oldest.record(10, 0, 20)
    assert oldest.share(20) == before


def test_a_worker_yields_half_of_its_time_to_quarantine() -> None:
    """The quarantined run waits, and the runs in flight never end."""
    turns, now, without_claims = QuarantineTurns(), 0.0, 0
    for second in range(10_000):
        now = float(second)
        if turns.query_due(now):
            turns.answered(WAIT_FOR_IDLE_S + 1, now)
        without_claims += turns.yielding
    assert 0.3 < without_claims / now < 0.55


def test_a_busy_worker_yields_to_a_quarantined_run_for_longer_each_time() -> None:
    turns, began, longest = QuarantineTurns(), 0.0, 0.0
    for second in range(4_000):
        now = float(second)
        if turns.query_due(now):
            turns.answered(WAIT_FOR_IDLE_S + 1, now)
        began = began if turns.yielding else now
        longest = max(longest, now - began)
    assert longest > 10 * YIELD_S


def test_after_a_quarantined_run_others_have_as_long() -> None:
    turns = QuarantineTurns()
    assert turns.query_due(0)
    turns.answered(WAIT_FOR_IDLE_S + 1, 0)
    assert turns.yielding
    turns.ran(10, 600)
    assert not turns.yielding
    assert not turns.query_due(1_199)
    assert turns.query_due(1_200)
