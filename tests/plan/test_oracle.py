"""A plan says of random pairs of states what a simulation minute by minute says."""

from __future__ import annotations

import os
import random

import pytest

from tests.plan.oracle import States, expected, random_pair, ticks_of_state
from wakeboard.plan.plan import plan
from wakeboard.plan.rules.state import State
from wakeboard.schedules.rules.job_schedule import load_job_schedule

SEED = int(os.environ.get("PLAN_SEED", "47"))


@pytest.mark.timeout(600)
@pytest.mark.parametrize("pairs", [20, pytest.param(1000, marks=pytest.mark.release)])
def test_a_plan_is_what_a_simulation_of_both_states_finds(pairs: int):
    chance = random.Random(SEED)
    for number in range(pairs):
        before, after, begin, days = random_pair(chance)
        found = plan(state(before), state(after), begin, days)
        shown = {
            each.schedule.partition("/")[2]: (
                *(each.ticks_before, each.ticks_after, each.gained, each.lost, each.moved),
                *(each.first_lost, each.first_gained),
            )
            for each in found.schedules
            if each.first_lost or each.first_gained
        }
        assert shown == expected(before, after, begin, days), f"pair {number} of seed {SEED}: {before} {after}"
        for total, whole in ((found.ticks_before, before), (found.ticks_after, after)):
            assert total == sum(map(len, ticks_of_state(whole, found.begin, found.end).values()))
        assert found.ticks_after - found.ticks_before == found.gained - found.lost


def state(planned: States) -> State:
    schedules = [load_job_schedule(each.document(name), name) for name, each in planned.items()]
    return State(schedules={(each.metadata.namespace, each.metadata.name): each for each in schedules})
