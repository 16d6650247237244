"""What a fault is: it strikes, waits until it is over, and says what it hit."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, TypeVar

if TYPE_CHECKING:
    from collections.abc import Sequence

    from chaos.environment import Stage
    from chaos.processes import Actor

_Thing = TypeVar("_Thing")


@dataclass(frozen=True, slots=True)
class Draw:
    """What the seed decided about one strike: four numbers in [0, 1), read by each fault as it needs them."""

    who: float
    how: float
    long: float
    more: float

    def between(self, least: float, greatest: float) -> float:
        """How long it lasts, in seconds."""
        return least + self.long * (greatest - least)

    def pick(self, things: Sequence[_Thing]) -> _Thing | None:
        """Whom it hits; None if there is nobody."""
        return things[int(self.who * len(things))] if things else None

    def choose(self, ways: Sequence[_Thing]) -> _Thing:
        """How it is done."""
        return ways[int(self.how * len(ways))]


@dataclass(slots=True)
class Struck:
    """What was hit, and when (Unix time). `ended_at`: from when on everything may recover."""

    what: str
    hurt: tuple[str, ...] = ()  # names of workers whose leases are lost with it
    began_at: float = field(default_factory=time.time)
    ended_at: float = 0.0


class Fault(ABC):
    """One kind of fault; its docstring is its line in the report."""

    name: ClassVar[str]
    weight: ClassVar[int] = 10  # how often, compared with others
    needs: ClassVar[str] = ""  # "disk", "pooler": left out where that cannot be had

    @abstractmethod
    def strike(self, stage: Stage, draw: Draw) -> Struck | None:
        """Does it, and returns when it is over. None: there was nothing to hit."""

    @classmethod
    def sentence(cls) -> str:
        """What it is, for people."""
        return " ".join((cls.__doc__ or "").split())


def worker_of(stage: Stage, draw: Draw) -> Actor | None:
    """The worker that the draw hits."""
    return draw.pick(stage.cast.workers())
