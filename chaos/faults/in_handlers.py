"""Handlers that misbehave. Each fault enqueues one run of such a handler; other runs share its worker."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from psycopg.types.json import Jsonb

from chaos.faults.fault import Fault

if TYPE_CHECKING:
    from chaos.environment import Environment
    from chaos.faults.fault import Draw


class _HandlerFault(Fault):
    """A run with the highest priority whose handler misbehaves."""

    job_types: ClassVar[tuple[str, ...]] = ()
    timeout_s: ClassVar[int] = 10
    max_attempts: ClassVar[int] = 3
    weight = 4

    def inject(self, environment: Environment, draw: Draw) -> str | None:
        job_type = draw.choose(self.job_types)
        environment.query(
            "select wakeboard.enqueue(%s, %s, priority => 5, timeout_s => %s, max_attempts => %s, backoff => 'fixed',"
            " backoff_base_s => 1)",
            *(job_type, Jsonb(self.payload(draw)), self.timeout_s, self.max_attempts),
        )
        return job_type

    def payload(self, draw: Draw) -> dict[str, Any]:
        """The payload of the run."""
        return {"seconds": round(draw.between(0.2, 1.0), 2)}


class HandlerBlocks(_HandlerFault):
    """A handler blocks its worker's event loop for longer than a lease."""

    name = "handler blocks the loop"
    job_types = ("blocks",)

    def payload(self, draw: Draw) -> dict[str, Any]:
        return {"seconds": round(draw.between(2.2, 4.0), 2)}


class HandlerNeverStops(_HandlerFault):
    """A handler swallows cancellation and outlives its timeout, in the event loop or in a thread."""

    name = "handler swallows cancellation"
    job_types = ("never-stops", "never-stops-in-a-thread")
    timeout_s = 1
    max_attempts = 2


class HandlerHangsInTransaction(_HandlerFault):
    """A handler outlives its timeout in a thread, and its open transaction after `once` keeps its run locked."""

    name = "handler hangs in a transaction"
    job_types = ("hangs-in-a-transaction",)
    timeout_s = 1
    max_attempts = 2


class HandlerForks(_HandlerFault):
    """A handler forks a child that inherits every socket of the worker, or leaves a program running."""

    name = "handler forks"
    job_types = ("forks", "starts-a-program")


class HandlerTakesAllMemory(_HandlerFault):
    """A handler allocates all the memory that its worker may have (RLIMIT_AS), and keeps it for up to a second."""

    name = "handler takes all memory"
    job_types = ("hogs",)
    max_attempts = 2


class HandlerReturnsTooMuch(_HandlerFault):
    """A handler returns 5 MB, raises an error of 5 MB with a NUL in it, or returns bytes that are not text."""

    name = "handler returns too much"
    job_types = ("returns-too-much",)
    max_attempts = 2

    def payload(self, draw: Draw) -> dict[str, Any]:
        return {"how": ("result", "error", "binary")[int(draw.more * 3)]}


class HandlerKills(_HandlerFault):
    """A handler kills its worker with everything that runs there. After three crashes its run is dead."""

    name = "handler kills its worker"
    job_types = ("kills",)
    weight = 2
