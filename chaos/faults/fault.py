"""The interface of a fault, and the random numbers that the seed gives to one injection."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, TypeVar

if TYPE_CHECKING:
    from collections.abc import Sequence

    from chaos.environment import Environment
    from chaos.processes import ManagedProcess

_Item = TypeVar("_Item")


@dataclass(frozen=True, slots=True)
class Draw:
    """Four numbers in [0, 1) that the seed gives to one injection. Each fault reads those that it needs."""

    who: float
    how: float
    long: float
    more: float

    def between(self, least: float, greatest: float) -> float:
        """A duration in seconds."""
        return least + self.long * (greatest - least)

    def pick(self, items: Sequence[_Item]) -> _Item | None:
        """The target, or None if there is none."""
        return items[int(self.who * len(items))] if items else None

    def choose(self, variants: Sequence[_Item]) -> _Item:
        """The variant of the fault."""
        return variants[int(self.how * len(variants))]


class Fault(ABC):
    """One kind of fault. Its docstring is its description in the report."""

    name: ClassVar[str]
    weight: ClassVar[int] = 10  # relative frequency
    # "pooler", "disk" and "network": skipped where the machine does not offer it. One server alone has a disk or is
    # "alone", a cluster has a network (and disks) or is "patroni".
    needs: ClassVar[str] = ""

    @abstractmethod
    def inject(self, environment: Environment, draw: Draw) -> str | None:
        """Injects the fault and returns when it is over. Returns what was hit, or None if there was no target."""

    @classmethod
    def description(cls) -> str:
        """The docstring on one line."""
        return " ".join((cls.__doc__ or "").split())


class WorkerFault(Fault):
    """A fault of one worker, which the draw picks."""

    def inject(self, environment: Environment, draw: Draw) -> str | None:
        worker = draw.pick(environment.supervisor.workers())
        return worker.name if worker is not None and self.hit(worker, environment, draw) else None

    @abstractmethod
    def hit(self, worker: ManagedProcess, environment: Environment, draw: Draw) -> bool:
        """Injects the fault into this worker. Returns False if it had no effect."""
