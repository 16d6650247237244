"""Walks a world of the lease model to its ends, breadth first: the first wrong state found is the shortest story."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tests.model.lease_model import moves
from tests.model.lease_state import start, wrong_with

if TYPE_CHECKING:
    from tests.model.lease_state import State, World

STUCK = "a run can never be claimed again"


@dataclass
class QueueScan:
    """What was found. `wrong`: what is wrong at the end of `story`; empty: nothing anywhere."""

    states: list[State]
    moves: int = 0
    wrong: str = ""
    story: list[str] = field(default_factory=list[str])

    def __str__(self) -> str:
        lines = [f"{number:3}  {said}" for number, said in enumerate(self.story, 1)]
        return "\n".join([self.wrong or "nothing wrong", *lines])


def walk(world: World) -> QueueScan:
    """Every state that can be reached, or the shortest way to one that must not be."""
    first = start(world)
    number_of = {first: 0}
    found = QueueScan([first])
    came_from: list[tuple[int, str]] = [(0, "")]
    onward: list[list[tuple[int, int]]] = []  # by state: (the worker without whom it would not happen, the next one)
    for here, state in enumerate(found.states):  # grows while it is walked
        onward.append([])
        for who, said, then in moves(world, state):
            found.moves += 1
            if then not in number_of:
                number_of[then] = len(found.states)
                found.states.append(then)
                came_from.append((here, said))
                if wrong := wrong_with(world, then):
                    return _told(found, wrong, came_from, len(found.states) - 1)
            onward[here].append((who, number_of[then]))
    for gone in (1, 2):
        for run in range(world.runs):
            if (stuck := _stuck(found.states, onward, gone, run)) is not None:
                return _told(found, f"{STUCK} if worker {gone} does nothing more", came_from, stuck)
    return found


def _told(found: QueueScan, wrong: str, came_from: list[tuple[int, str]], end: int) -> QueueScan:
    found.wrong = wrong
    while end:
        end, said = came_from[end]
        found.story.insert(0, said)
    return found


def _stuck(states: list[State], onward: list[list[tuple[int, int]]], gone: int, run: int) -> int | None:
    """The first state from which the run comes neither to the other worker nor to an end without worker `gone`."""
    backward: list[list[int]] = [[] for _ in states]
    for here, moves_on in enumerate(onward):
        for who, then in moves_on:
            if who != gone:
                backward[then].append(here)
    fine = [_is_fine(state, gone, run) for state in states]
    waiting = deque(number for number, good in enumerate(fine) if good)
    while waiting:
        for before in backward[waiting.popleft()]:
            if not fine[before]:
                fine[before] = True
                waiting.append(before)
    return next((number for number, good in enumerate(fine) if not good), None)


def _is_fine(state: State, gone: int, run: int) -> bool:
    row = state.runs[run]
    if not any(each.claims for each in state.runs):
        return True  # whoever claims first is called worker 1
    return row.status in {"succeeded", "dead"} or row.by == 3 - gone
