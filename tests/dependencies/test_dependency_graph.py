"""What a schedule waits for, and cycles."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from wakeboard.dependencies.rules.graph import Parent, blocked_by, edges_in_cycles, waiting_for

PARENT = Parent(
    definition_id=2,
    name="extract",
    outcome="Succeeded",
    ticks="Same",
    parent_id=1,
    removed=False,
    run_id=None,
    run_status=None,
    run_tick=None,
)


def parent(**named: Any) -> Parent:
    return replace(PARENT, **named)


DEAD = parent(run_id=88, run_status="dead")
RUNNING = parent(run_id=7, run_status="running", name="rates")


OBSTACLES: list[tuple[list[Parent], str | None, str | None]] = [
    ([], None, None),
    ([parent()], None, None),
    ([RUNNING], None, "It waits for run 7 of rates, which is running."),
    ([RUNNING, DEAD], "It waits for run 88 of extract, which is dead; `wakeboard retry 88` continues it.", "dead"),
    ([DEAD, parent(parent_id=None, name="x")], "It waits for x, which does not exist in its namespace.", "exist"),
    ([parent(removed=True)], "It waits for extract, which was removed.", "removed"),
    ([parent(in_cycle=True)], "It waits for itself: extract runs after it.", "itself"),
]


@pytest.mark.parametrize(("parents", "blocked", "waits"), OBSTACLES)
def test_the_most_important_obstacle_is_named(parents: list[Parent], blocked: str | None, waits: str | None):
    assert (blocked_by(parents) or "").startswith(blocked or "")
    assert (blocked_by(parents) is None) == (blocked is None)
    assert (waits or "") in (waiting_for(parents) or "")


AFTER_TWO_CYCLES = [(1, 2), (2, 1), (2, 3), (3, 4), (4, 5), (5, 4), (5, 6)]

CYCLES: list[tuple[list[tuple[int, int]], set[tuple[int, int]]]] = [
    ([], set()),
    ([(1, 2), (2, 3), (1, 3)], set()),
    ([(1, 1)], {(1, 1)}),
    ([(0, 1), (1, 2), (2, 3), (3, 1), (3, 4)], {(1, 2), (2, 3), (3, 1)}),
    (AFTER_TWO_CYCLES, {(1, 2), (2, 1), (4, 5), (5, 4)}),
    ([(1, 2), (2, 1), (2, 3), (3, 2), (3, 1)], {(1, 2), (2, 1), (2, 3), (3, 2), (3, 1)}),
]


@pytest.mark.parametrize(("edges", "found"), CYCLES)
def test_the_edges_of_cycles_are_found_and_not_those_between_cycles(
    edges: list[tuple[int, int]], found: set[tuple[int, int]]
):
    assert edges_in_cycles(edges) == found


def test_a_long_chain_and_a_long_cycle_take_no_time():
    chain = [(number, number + 1) for number in range(100_000)]
    assert edges_in_cycles(chain) == set()
    ring = [*chain, (100_000, 0)]
    assert edges_in_cycles(ring) == set(ring)
