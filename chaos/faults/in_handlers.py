"""Handlers that do what no handler should: a fault of this kind enqueues one, and others run beside it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from psycopg.types.json import Jsonb

from chaos.faults.fault import Fault, Struck

if TYPE_CHECKING:
    from chaos.environment import Stage
    from chaos.faults.fault import Draw


class _Misbehaviour(Fault):
    """A run whose handler misbehaves."""

    job_types: ClassVar[tuple[str, ...]] = ()
    timeout_s: ClassVar[int] = 10
    max_attempts: ClassVar[int] = 3
    weight = 4

    def strike(self, stage: Stage, draw: Draw) -> Struck | None:
        """Enqueues it first in line."""
        job_type = draw.choose(self.job_types)
        stage.ask(
            "select wakeboard.enqueue(%s, %s, priority => 5, timeout_s => %s, max_attempts => %s, backoff => 'fixed',"
            " backoff_base_s => 1)",
            *(job_type, Jsonb(self.payload(draw)), self.timeout_s, self.max_attempts),
        )
        return Struck(job_type)

    def payload(self, draw: Draw) -> dict[str, Any]:
        """What its handler is told."""
        return {"seconds": round(draw.between(0.2, 1.0), 2)}


class HandlerBlocks(_Misbehaviour):
    """A handler blocks its worker's event loop for longer than a lease."""

    name = "handler blocks the loop"
    job_types = ("blocks",)

    def payload(self, draw: Draw) -> dict[str, Any]:
        """For how long."""
        return {"seconds": round(draw.between(2.2, 4.0), 2)}


class HandlerNeverStops(_Misbehaviour):
    """A handler swallows cancellation and outlives its timeout, in the loop or in a thread."""

    name = "handler swallows cancellation"
    job_types = ("never-stops", "never-stops-in-a-thread")
    timeout_s = 1
    max_attempts = 2


class HandlerHangsBehindOnce(_Misbehaviour):
    """A handler outlives its timeout in a thread, and its open transaction keeps its run locked meanwhile."""

    name = "handler hangs behind once"
    job_types = ("hangs-behind-once",)
    timeout_s = 1
    max_attempts = 2


class HandlerForks(_Misbehaviour):
    """A handler forks a child that holds every socket of the worker, or leaves a program running."""

    name = "handler forks"
    job_types = ("forks", "starts-a-program")


class HandlerTakesAllMemory(_Misbehaviour):
    """A handler takes all the memory that its worker may have (RLIMIT_AS), and keeps it for a second."""

    name = "handler takes all memory"
    job_types = ("hogs",)
    max_attempts = 2


class HandlerSaysTooMuch(_Misbehaviour):
    """A handler returns five megabytes, raises five megabytes with a NUL in it, or returns bytes that are no text."""

    name = "handler says too much"
    job_types = ("says-too-much",)
    max_attempts = 2

    def payload(self, draw: Draw) -> dict[str, Any]:
        """What it says."""
        return {"how": ("result", "error", "binary")[int(draw.more * 3)]}


class HandlerKills(_Misbehaviour):
    """A handler kills its worker, and everything that runs there: three times, then its run is dead."""

    name = "handler kills its worker"
    job_types = ("kills",)
    weight = 2
