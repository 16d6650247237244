"""One state of the lease model: runs, two workers with their requests, a reaper, and reports of ended processes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

PROMPT: Final = 1  # tick within which a claim must be answered, or the reply is discarded
CRASHES: Final = 2  # that make a run dead in the model; the store has 3


@dataclass(frozen=True)
class Setup:
    """What may happen. `removed`: the guards that are removed."""

    name: str
    runs: int = 1
    lease: int = 1  # ticks
    limit: int | None = None  # runs at once of the key that all runs carry
    burst: int | None = None  # units of that key's rate limit; each start takes one, and one at a time comes back
    waits: bool = False  # the second run waits until the first one has succeeded
    margins: bool = False  # workers send heartbeats and stop without validity
    effects: bool = False  # handlers have effects, in transactions that stay open
    repeats: bool = False  # requests are sent again while the first may be running
    failover: bool = False  # a failover may lose a claim
    forgets: bool = False  # the server may forget its last commit, an effect or a completion, but not the claim
    random_steps: bool = False  # a claim advances the epoch at random; else by one: then the other guards hold alone
    releases: bool = False  # handlers may fail or snooze
    returns: bool = True  # handlers return
    kills: bool = False  # the process of one worker may be killed, start again, and be reported as ended
    in_two_steps: bool = True  # a claim and a reap read, then lock
    removed: frozenset[str] = frozenset()

    @property
    def valid_ticks(self) -> int:
        """Ticks without an answered heartbeat after which a worker stops without validity."""
        return self.lease - PROMPT

    def has(self, guard: str) -> bool:
        """Whether this guard is in place."""
        return guard not in self.removed


FENCE: Final = Setup("fence", effects=True, repeats=True, releases=True)
FAILOVER: Final = Setup("failover", failover=True, releases=True, in_two_steps=False)
FORGETFUL: Final = Setup("forgetful", failover=True, random_steps=True, repeats=True, releases=True, in_two_steps=False)
RESTORE: Final = Setup("restore", forgets=True, effects=True, releases=True)
VALIDITY: Final = Setup("validity", lease=3, margins=True, returns=False, in_two_steps=False)
LIMIT: Final = Setup("limit", runs=2, limit=1)
RATE: Final = Setup("rate", runs=2, limit=2, burst=1, in_two_steps=False)
WAITING: Final = Setup("waiting", runs=2, waits=True, releases=True, in_two_steps=False)
TERMINATION: Final = Setup("termination", effects=True, releases=True, kills=True)
SETUPS: Final = (FENCE, FAILOVER, FORGETFUL, RESTORE, VALIDITY, LIMIT, RATE, WAITING, TERMINATION)


class Run(NamedTuple):
    """A row of job_runs or of history, and counters."""

    status: str = "queued"  # waiting (for another run), running, dead, succeeded, or vanished (in no table)
    by: int = 0  # a process
    epoch: int = 0
    left: int = 0  # ticks until locked_until
    crashes: int = 0
    released: int = 0  # outcomes `release` or `fail`
    lost: int = 0  # claims that a failover lost
    claims: int = 0
    ended: str = ""  # how its last lease ended: released, crashed
    accepted: frozenset[int] = frozenset()  # the attempts whose completion was accepted
    effects: int = 0
    void: bool = False  # its lease was granted before the server went back in time
    voided: int = 0  # void leases that have ended
    forgot: bool = False  # the server has forgotten the effect of the attempt that is running


class Attempt(NamedTuple):
    """A lease as a worker knows it. `nth`: the number of the claim, which no process in the model reads."""

    run: int
    epoch: int
    nth: int
    done: bool = False  # the handler has returned


class Request(NamedTuple):
    """A request, then its reply."""

    what: str  # claim, renew, complete, release
    about: Attempt | None = None
    run: int = -1  # that a claim has read
    stage: str = "sent"  # locked (the limit's key), read, half; then taken, nothing, accepted, refused
    age: int = 0  # ticks since it was sent
    by: int = 0  # the process that sent it


class Effect(NamedTuple):
    """A handler's open transaction that has called `once`; `first` is its result."""

    attempt: Attempt
    first: bool


class Worker(NamedTuple):
    """A worker. Each request has its own connection. No one reads the reply to `lost_request`.

    Its first process has its number, 1 or 2. The process that starts after a kill has that number plus 2.
    """

    validity: int  # ticks in which it still trusts its leases
    process: int
    alive: bool = True
    attempt: Attempt | None = None
    claim: Request | None = None
    report: Request | None = None
    heartbeat: Request | None = None
    lost_request: Request | None = None
    effect: Effect | None = None


class State(NamedTuple):
    """`reaper`: the run that it has read. `report`: an ended process, and the run that its report has read.

    `key`: the process that has locked the limit's row. `units`: those that are taken of its rate limit, as its row
    says; `starts`: those that starts have taken. `noted`: the end of the first run, for the one that waits.
    """

    runs: tuple[Run, ...]
    workers: tuple[Worker, Worker]
    reaper: int = -1
    report: tuple[int, int] | None = None
    key: int = 0
    units: int = 0
    starts: int = 0
    noted: bool = False
    wrong: str = ""  # what the last step did wrong

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


def start(setup: Setup) -> State:
    """All runs queued, or the last one waiting; both workers idle."""
    one, two = (new_process(setup, process) for process in (1, 2))
    waits = [False] * (setup.runs - 1) + [setup.waits]
    return State(tuple(Run("waiting" if each else "queued") for each in waits), (one, two))


def new_process(setup: Setup, process: int) -> Worker:
    """A worker whose process has just started."""
    return Worker(max(1, setup.valid_ticks), process)


def number_of(process: int) -> int:
    """The worker that this process belongs to."""
    return (process - 1) % 2 + 1


def wrong_with(setup: Setup, state: State) -> str:
    """What is wrong with a state. Empty for every reachable state while all guards are in place."""
    if wrong := state.wrong or "".join(_wrong_with_run(run) for run in state.runs):
        return wrong
    if setup.margins and any(
        _works_on(state.workers[0], run) and _works_on(state.workers[1], run) for run in range(setup.runs)
    ):
        return "two workers work on one run"
    if setup.limit is not None and sum(run.status == "running" for run in state.runs) > setup.limit:
        return "a limit was exceeded"
    if setup.burst is not None and state.starts > setup.burst:
        return "a rate was exceeded"
    if setup.waits and state.runs[1].claims and state.runs[0].status != "succeeded":
        return "a run started before the one that it waits for had succeeded"
    return ""


def _wrong_with_run(run: Run) -> str:
    if len(run.accepted) > 1:
        return "two completions of one run were accepted"
    if run.effects > 1:
        return "an effect happened twice"
    if run.crashes > CRASHES:
        return "a run crashes forever"
    ended = run.crashes + run.released + run.lost + run.voided
    not_ended = run.status in {"running", "succeeded", "vanished"}
    return "" if run.claims == ended + not_ended else "an attempt ended and was not counted"


def _works_on(worker: Worker, run: int) -> bool:
    return worker.attempt is not None and worker.attempt.run == run and not worker.attempt.done
