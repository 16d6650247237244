"""The plan of a campaign: which faults, when, against which target and for how long. One seed gives one plan.

The seed does not decide what the processes do at these moments. A replay injects the same faults at the same times, and
meets another interleaving.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from chaos.faults.catalogue import faults_of
from chaos.faults.fault import Draw

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from chaos.faults.fault import Fault

MEAN_PAUSE_S: Final = 0.33  # between two faults
# A cluster needs some ten seconds for each of its own faults, one after another. Others happen in all of that time.
MEAN_PAUSE_OF_A_CLUSTER_S: Final = 0.5
LONGEST_PAUSE: Final = 4  # mean pauses
ISOLATED_FROM: Final = 300  # faults: a smaller campaign injects none in isolation


@dataclass(frozen=True, slots=True)
class PlannedFault:
    """`at_s`: seconds after the start, concurrent with others. None: in isolation, after those, to be measured."""

    number: int
    fault: str
    draw: Draw
    at_s: float | None


def make_plan(seed: int, faults: int, *, failover: bool = False, only: Sequence[str] = ()) -> list[PlannedFault]:
    """So many faults, in order. From ISOLATED_FROM on, the last ones are one of each kind, in isolation.

    `only`: the names of the kinds of faults, or all kinds.
    """
    chance = random.Random(seed)
    kinds = [kind for kind in faults_of(failover=failover) if not only or kind.name in only]
    isolated = [fault.name for fault in kinds] if faults >= ISOLATED_FROM else []
    chance.shuffle(isolated)
    mean_pause_s = MEAN_PAUSE_OF_A_CLUSTER_S if failover else MEAN_PAUSE_S
    concurrent = list(_concurrent(chance, kinds, faults - len(isolated), mean_pause_s))
    return concurrent + [
        PlannedFault(len(concurrent) + n, fault, _draw(chance), None) for n, fault in enumerate(isolated, 1)
    ]


def _concurrent(
    chance: random.Random, kinds: Sequence[type[Fault]], count: int, mean_pause_s: float
) -> Iterator[PlannedFault]:
    names, weights = [fault.name for fault in kinds], [fault.weight for fault in kinds]
    at_s = 0.0
    for number in range(1, count + 1):
        at_s += min(chance.expovariate(1 / mean_pause_s), LONGEST_PAUSE * mean_pause_s)
        yield PlannedFault(number, chance.choices(names, weights)[0], _draw(chance), round(at_s, 3))


def _draw(chance: random.Random) -> Draw:
    return Draw(chance.random(), chance.random(), chance.random(), chance.random())
