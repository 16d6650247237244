"""What there is in the lease model at one moment: runs, two workers and what they have asked, a reaper."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

PROMPT: Final = 1  # tick within which a claim must be answered to be believed
CRASHES: Final = 2  # so many make a run dead here; the board says 3


@dataclass(frozen=True)
class World:
    """What may happen. `removed`: the guards that are taken away."""

    name: str
    runs: int = 1
    lease: int = 1  # ticks
    limit: int | None = None  # runs at once of the key that all runs carry
    margins: bool = False  # workers send heartbeats, and stop by themselves; otherwise they believe in their leases
    effects: bool = False  # handlers have effects, in transactions that stay open
    repeats: bool = False  # requests are sent again, while the first may be under way
    failover: bool = False  # one may lose a claim
    gives: bool = False  # handlers fail or snooze; otherwise they succeed
    returns: bool = True  # handlers come to an end
    in_two_steps: bool = True  # a claim and a reaper look, then lock
    removed: frozenset[str] = frozenset()

    @property
    def trusted(self) -> int:
        """Ticks without an answered heartbeat after which a worker stops by itself."""
        return self.lease - PROMPT

    def has(self, guard: str) -> bool:
        """Whether this guard stands."""
        return guard not in self.removed


FENCE: Final = World("fence", effects=True, repeats=True, gives=True)
FAILOVER: Final = World("failover", failover=True, gives=True, in_two_steps=False)
TRUST: Final = World("trust", lease=3, margins=True, returns=False, in_two_steps=False)
LIMIT: Final = World("limit", runs=2, limit=1)
WORLDS: Final = (FENCE, FAILOVER, TRUST, LIMIT)


class Run(NamedTuple):
    """A row of job_runs or of history, and what has come of it."""

    status: str = "queued"  # running, dead, succeeded; vanished: in no table
    by: int = 0
    epoch: int = 0
    left: int = 0  # ticks until locked_until
    crashes: int = 0
    given: int = 0  # outcomes that gave it back
    lost: int = 0  # claims of which a failover knows nothing
    claims: int = 0
    ended: str = ""  # how its last lease ended: given, crashed
    accepted: frozenset[int] = frozenset()  # the attempts that were told that their completion counts
    effects: int = 0


class Attempt(NamedTuple):
    """A lease as a worker knows it. `nth`: which of the run's claims it was, by a count that nobody in here sees."""

    run: int
    epoch: int
    nth: int
    done: bool = False  # the handler has returned


class Asked(NamedTuple):
    """A request, and then its answer."""

    what: str  # claim, renew, complete, give
    about: Attempt | None = None
    run: int = -1  # at which a claim has looked
    stage: str = "sent"  # locked (the limit's key), looked, half; then taken, nothing, accepted, refused
    age: int = 0  # ticks since it was sent


class Effect(NamedTuple):
    """A handler's open transaction, in which `once` was called; it said `first`."""

    attempt: Attempt
    first: bool


class Worker(NamedTuple):
    """A worker process. Each request has a connection of its own; for the answer to `ghost` nobody waits any more."""

    trust: int  # ticks for which it believes in its leases
    attempt: Attempt | None = None
    claim: Asked | None = None
    tell: Asked | None = None
    beat: Asked | None = None
    ghost: Asked | None = None
    effect: Effect | None = None


class State(NamedTuple):
    """All there is. `reaper`: the run at which it has looked; `key`: who has the limit's row locked."""

    runs: tuple[Run, ...]
    workers: tuple[Worker, Worker]
    reaper: int = -1
    key: int = 0
    wrong: str = ""  # what the last step did that no step may do

    def with_run(self, number: int, **changes: object) -> State:
        """The state after a change of a run."""
        runs = list(self.runs)
        runs[number] = runs[number]._replace(**changes)
        return self._replace(runs=tuple(runs))

    def with_worker(self, number: int, **changes: object) -> State:
        """The state after a change of worker 1 or 2."""
        one, two = self.workers
        if number == 1:
            return self._replace(workers=(one._replace(**changes), two))
        return self._replace(workers=(one, two._replace(**changes)))

    def effect_open(self, run: int) -> bool:
        """Whether a handler's transaction with an effect of this run is open."""
        return any(worker.effect and worker.effect.attempt.run == run for worker in self.workers)


def start(world: World) -> State:
    """All runs queued, both workers idle."""
    worker = Worker(trust=max(1, world.trusted))
    return State(tuple(Run() for _ in range(world.runs)), (worker, worker))


def wrong_with(world: World, state: State) -> str:
    """What is wrong with a state; nothing, in all that can be reached while the guards stand."""
    if wrong := state.wrong or "".join(_wrong_with_run(run) for run in state.runs):
        return wrong
    if world.margins and any(
        _works_on(state.workers[0], run) and _works_on(state.workers[1], run) for run in range(world.runs)
    ):
        return "two workers work on one run"
    if world.limit is not None and sum(run.status == "running" for run in state.runs) > world.limit:
        return "a limit was exceeded"
    return ""


def _wrong_with_run(run: Run) -> str:
    if len(run.accepted) > 1:
        return "two completions of one run were accepted"
    if run.effects > 1:
        return "an effect happened twice"
    if run.crashes > CRASHES:
        return "a run goes on crashing"
    ended = run.crashes + run.given + run.lost
    not_ended = run.status in {"running", "succeeded", "vanished"}
    return "" if run.claims == ended + not_ended else "an attempt ended and was not counted"


def _works_on(worker: Worker, run: int) -> bool:
    return worker.attempt is not None and worker.attempt.run == run and not worker.attempt.done
