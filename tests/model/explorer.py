"""Searches a setup of the lease model completely, breadth first, so the first wrong state has the fewest steps."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tests.model.lease_model import transitions
from tests.model.lease_state import start, wrong_with

if TYPE_CHECKING:
    from tests.model.lease_state import Setup, State

STUCK = "a run can never be claimed again"


@dataclass
class Exploration:
    """The result. `wrong`: what is wrong after `steps`; empty if nothing is wrong in any state."""

    states: list[State]
    transitions: int = 0
    wrong: str = ""
    steps: list[str] = field(default_factory=list[str])

    def __str__(self) -> str:
        lines = [f"{number:3}  {event}" for number, event in enumerate(self.steps, 1)]
        return "\n".join([self.wrong or "nothing wrong", *lines])


def explore(setup: Setup) -> Exploration:
    """Every reachable state, or the shortest steps to a wrong one."""
    first = start(setup)
    number_of = {first: 0}
    found = Exploration([first])
    came_from: list[tuple[int, str]] = [(0, "")]
    onward: list[list[tuple[int, int]]] = []  # by state: (the worker that the step depends on, the next state)
    for here, state in enumerate(found.states):  # grows during the loop
        onward.append([])
        for who, event, then in transitions(setup, state):
            found.transitions += 1
            if then not in number_of:
                number_of[then] = len(found.states)
                found.states.append(then)
                came_from.append((here, event))
                if wrong := wrong_with(setup, then):
                    return _with_steps(found, wrong, came_from, len(found.states) - 1)
            onward[here].append((who, number_of[then]))
    for gone in (1, 2):
        for run in range(setup.runs):
            if (stuck := _stuck(found.states, onward, gone, run)) is not None:
                return _with_steps(found, f"{STUCK} if worker {gone} stops", came_from, stuck)
    return found


def _with_steps(found: Exploration, wrong: str, came_from: list[tuple[int, str]], end: int) -> Exploration:
    found.wrong = wrong
    while end:
        end, event = came_from[end]
        found.steps.insert(0, event)
    return found


def _stuck(states: list[State], onward: list[list[tuple[int, int]]], gone: int, run: int) -> int | None:
    """The first state in which, without worker `gone`, the run neither reaches the other worker nor ends."""
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
    row, other = state.runs[run], state.workers[2 - gone]
    if not any(each.claims for each in state.runs):
        return True  # worker 1 is the one that claims first
    if row.status == "waiting" and state.runs[0].status == "dead":
        return True  # until someone retries that one
    return row.status in {"succeeded", "dead"} or (other.alive and row.by == other.process)
