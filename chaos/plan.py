"""What the seed decides: which fault strikes when, whom, how and for how long. The same seed writes the same script.

What it cannot decide is what the processes are doing at that moment: a replay meets the same faults at the same times,
and another interleaving.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from chaos.faults.catalogue import KINDS
from chaos.faults.fault import Draw

if TYPE_CHECKING:
    from collections.abc import Iterator

PAUSE_S: Final = 0.33  # between two faults, in the mean
MOST_PAUSES: Final = 4  # a pause is never longer than so many mean ones
ALONE_FROM: Final = 300  # faults: with fewer, none is measured alone


@dataclass(frozen=True, slots=True)
class Strike:
    """One fault: `at_s` after the curtain, beside others; or alone after all of those (`at_s` None), to be measured."""

    number: int
    kind: str
    draw: Draw
    at_s: float | None


def write_script(seed: int, faults: int) -> list[Strike]:
    """So many strikes, in order. From ALONE_FROM on, the last ones are one of each kind, alone."""
    chance = random.Random(seed)
    alone = [kind.name for kind in KINDS] if faults >= ALONE_FROM else []
    chance.shuffle(alone)
    beside = list(_beside(chance, faults - len(alone)))
    return beside + [Strike(len(beside) + n, kind, _draw(chance), None) for n, kind in enumerate(alone, 1)]


def _beside(chance: random.Random, count: int) -> Iterator[Strike]:
    names, weights = [kind.name for kind in KINDS], [kind.weight for kind in KINDS]
    at_s = 0.0
    for number in range(1, count + 1):
        at_s += min(chance.expovariate(1 / PAUSE_S), MOST_PAUSES * PAUSE_S)
        yield Strike(number, chance.choices(names, weights)[0], _draw(chance), round(at_s, 3))


def _draw(chance: random.Random) -> Draw:
    return Draw(chance.random(), chance.random(), chance.random(), chance.random())
