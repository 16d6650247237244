"""What a worker has in hand: rows that wait, attempts that run, outcomes to be told to the board.

The sweep, twice a second, keeps two promises. A handler that outlives its timeout is stopped, and abandoned when it
does not stop: its attempt is settled without it, and when half of a lane is lost that way the worker claims nothing
more, finishes the rest, and ends with an error. Rows that have waited since the last sweep, because runs became longer
than they were when these were claimed, go back to where an idle worker finds them.

The loop is the only writer. The heartbeat's thread reads snapshots (`held`), which CPython copies in one step.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

from wakeboard.rules.humanize import counted
from wakeboard.run import CANCELLED, LEASE_LOST, SHUTDOWN, TIMED_OUT, UNREACHABLE
from wakeboard.store.worker_api import DISCONNECTED, NOT_STARTED, Release, Renewal
from wakeboard_worker.logs import log, runs_log
from wakeboard_worker.outcomes import failure, result_json, timed_out

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from wakeboard.handlers import Handler
    from wakeboard.run import ClaimedRow
    from wakeboard.store.worker_api import Attention, Failure
    from wakeboard_worker.attempt import Attempt, AttemptContext

Outcome: TypeAlias = "Attempt | Failure | Release"  # an attempt: it succeeded

DEBUG = 10  # logging.DEBUG
PATIENCE_S = 2.0  # between telling a handler to stop and abandoning it
LARGEST_APPETITE = 2_000  # rows of a lane that may wait here, while they start soon
MEAN_OF = 16  # a new value counts for one sixteenth
STARTED_SOON = 0.1  # of what started since the last sweep: what starts within 50 ms


@dataclass(slots=True)
class Counts:
    """What a wake did, for the line at its end."""

    claimed: int = 0
    succeeded: int = 0
    failed: int = 0
    snoozed: int = 0
    released: int = 0
    lost: int = 0

    def __str__(self) -> str:
        words = (f"{getattr(self, name)} {name}" for name in self.__slots__ if getattr(self, name) or name == "claimed")
        return ", ".join(words)


@dataclass(slots=True)
class Blocked:
    """An outcome that was not accepted because another transaction has locked its run, since `since` (monotonic)."""

    outcome: Outcome
    result: str | None
    since: float
    lost: bool = False  # its lease has been lost meanwhile

    @property
    def lease(self) -> Renewal:
        """For the heartbeat."""
        return Renewal(self.outcome.id, self.outcome.epoch)


@dataclass(slots=True)
class Executor:
    """Where attempts of one kind run: the event loop's slots, or the threads."""

    name: str
    width: int  # attempts at once
    job_types: tuple[str, ...]
    waiting: deque[ClaimedRow] = field(default_factory=deque["ClaimedRow"])
    running: dict[int, Attempt] = field(default_factory=dict[int, "Attempt"])
    abandoned: set[Attempt] = field(default_factory=set["Attempt"])  # their handlers do not stop, and have not yet
    stepping: Attempt | None = None  # taking its first step in the loop: it may block there for long
    mean_s: float = 1.0  # that an attempt in `running` lasts, lately
    started: int = 0
    taken: int = 0
    appetite: int = LARGEST_APPETITE  # rows to claim at most
    _started_before: int = 0
    _taken_before: int = 0

    @property
    def places(self) -> int:
        """Attempts that could begin, if nothing waited."""
        return self.width - len(self.running)

    @property
    def free(self) -> int:
        """Rows that could start now."""
        return self.places - len(self.waiting)

    @property
    def exhausted(self) -> bool:
        """Half of it is lost to handlers that cannot be stopped."""
        return len(self.abandoned) * 2 >= self.width

    @property
    def ended(self) -> int:
        """Attempts that have."""
        return self.started - len(self.running)

    @property
    def pace(self) -> float:
        """Attempts per second that end while the lane is full, if none ended at once."""
        return self.width / max(self.mean_s, 1e-6)

    def leave(self, attempt: Attempt, at: float) -> None:
        """Its handler has ended; `at`: time.monotonic() then."""
        if attempt.started and not attempt.abandoned:
            self.mean_s += (at - attempt.started - self.mean_s) / MEAN_OF
        if self.running.get(attempt.id) is attempt:
            del self.running[attempt.id]
        self.abandoned.discard(attempt)

    def overstock(self) -> list[ClaimedRow]:
        """Takes out rows that have waited since the last call and will not start soon, and claims less from now on."""
        started, taken = self.started - self._started_before, self.taken - self._taken_before
        self._started_before, self._taken_before = self.started, self.taken
        if len(self.waiting) <= taken:
            if not self.waiting:
                self.appetite = min(LARGEST_APPETITE, 4 * self.appetite)
            return []
        soon = max(0, int(started * STARTED_SOON))  # attempts that were given back unstarted count against `started`
        self.appetite = max(1, soon)
        return [self.waiting.pop() for _ in range(len(self.waiting) - soon)]


class InFlightBuffer:
    """Rows waiting, attempts running, outcomes to tell. `flush`: there is something to tell; `room`: one may claim."""

    def __init__(self, handlers: dict[str, Handler], context: AttemptContext, concurrency: int, threads: int) -> None:
        self.handlers = handlers
        self.context = context
        in_loop = tuple(name for name, handler in handlers.items() if handler.is_async)
        in_threads = tuple(name for name, handler in handlers.items() if not handler.is_async)
        self.loop_lane = Executor("loop", concurrency, in_loop)
        self.thread_lane = Executor("threads", threads, in_threads)
        self.executors = [executor for executor in (self.loop_lane, self.thread_lane) if executor.job_types]
        self.lane_of = {name: executor for executor in self.executors for name in executor.job_types}
        self.succeeded: list[Attempt] = []
        self.results: dict[int, str] = {}
        self.failures: list[Failure] = []
        self.releases: list[Release] = []
        self.telling: list[Any] = []  # on its way to the board
        self.blocked: dict[int, Blocked] = {}  # by run; sent again until they are accepted
        self.stuck = False  # an outcome has been blocked for a whole lease: this worker exits
        self.given_up: list[Release] = []  # to be sent when the database can be reached again
        self.counts = Counts()
        self.sweeps = 0  # so far: the event loop turns as long as this grows
        self.broken: BaseException | None = None  # what ended a part of this worker that must not end
        self.lost_sight_at: float | None = None  # time.monotonic(): leases may be ours that are not in hand
        self.flush, self.room = asyncio.Event(), asyncio.Event()

    # -- in ------------------------------------------------------------------------------------------------------------

    def take(self, rows: Sequence[ClaimedRow], *, first: bool = False) -> None:
        """Claimed rows wait in the lane of their type. `first`: before all others."""
        for row in reversed(rows) if first else rows:
            executor = self.lane_of[row[2]]
            (executor.waiting.appendleft if first else executor.waiting.append)(row)
            executor.taken += 1
            self.counts.claimed += 1

    @property
    def waiting(self) -> int:
        """Rows that have not started."""
        return sum(len(executor.waiting) for executor in self.executors)

    @property
    def running(self) -> int:
        """Attempts that have started and not ended (an attempt that never suspends is not counted)."""
        return sum(len(executor.running) for executor in self.executors)

    @property
    def untold(self) -> int:
        """Outcomes to be sent now, without the blocked ones, which are sent separately."""
        return len(self.succeeded) + len(self.failures) + len(self.releases) + len(self.telling)

    @property
    def empty(self) -> bool:
        """Nothing in hand at all."""
        return not (self.waiting or self.running or self.untold or self.blocked or self.given_up)

    def held(self) -> list[Renewal]:
        """Every lease in hand, for the heartbeat. Attempts that were told that theirs is lost let go of it."""
        attempts = [attempt for executor in self.executors for attempt in list(executor.running.values())]
        attempts += [at for executor in self.executors if (at := executor.stepping) is not None and not at.settled]
        rows = [row for executor in self.executors for row in list(executor.waiting)]
        outcomes = [*list(self.succeeded), *list(self.failures), *list(self.releases)]
        known = {at.id: Renewal(at.id, at.epoch, at.age_s(), at.fraction) for at in attempts if not at.lost}
        known |= {row[0]: Renewal(row[0], row[1]) for row in rows}
        known |= {told.id: Renewal(told.id, told.epoch) for told in outcomes if told.id not in known}
        known |= {told.id: told for told in self.on_its_way() if told.id not in known}
        return sorted(known.values())

    def on_its_way(self) -> list[Renewal]:
        """The leases of outcomes that are being told: they are not given up with everything else."""
        told = {told.id: Renewal(told.id, told.epoch) for told in list(self.telling)}
        return sorted(({each.lease.id: each.lease for each in list(self.blocked.values())} | told).values())

    def longest_timeout_s(self) -> float:
        """Of what runs in the event loop; 0: nothing does. For the heartbeat's thread."""
        executor = self.loop_lane
        attempts = list(executor.running.values())
        if (at := executor.stepping) is not None and not at.settled:
            attempts.append(at)
        return max((attempt.timeout_s for attempt in attempts), default=0)

    # -- out -----------------------------------------------------------------------------------------------------------

    def succeed(self, attempt: Attempt, result: Any) -> None:
        """The handler returned. It wins over a cancel or timeout that came too late, not over a lost lease."""
        if attempt.settled:
            return
        attempt.settled = True
        if attempt.lost:
            self._lose(attempt)
            return
        if result is not None:
            self.results[attempt.id] = result_json(result)
        self.succeeded.append(attempt)
        if runs_log.isEnabledFor(DEBUG):
            seconds = round(attempt.age_s() or 0.0, 3)
            runs_log.debug("succeeded", extra={**attempt.log_fields(), "outcome": "succeeded", "seconds": seconds})

    def fail(self, attempt: Attempt, error: BaseException) -> None:
        """The handler raised, or was stopped."""
        if attempt.settled:
            return
        if attempt.lost:
            attempt.settled = True
            self._lose(attempt)
            return
        self.settle(attempt, failure(attempt, error))

    def settle(self, attempt: Attempt, outcome: Failure | Release) -> None:
        """The attempt ends with `outcome`, whatever its handler still does."""
        attempt.settled = True
        if isinstance(outcome, Release):
            self.releases.append(outcome)
            runs_log.debug(
                "given back", extra={**attempt.log_fields(), "outcome": "released", "next_try_s": outcome.delay_s}
            )
        else:
            self.failures.append(outcome)
            said = f"{outcome.error_type}: {outcome.error}"
            quiet = attempt.stopped_because == CANCELLED
            level = DEBUG + 10 if quiet else DEBUG + 20
            facts = {**attempt.log_fields(), "outcome": outcome.outcome, "error": said}
            runs_log.log(level, "cancelled" if quiet else f"{outcome.outcome.replace('_', ' ')}: {said}", extra=facts)
        self.flush.set()

    def _lose(self, attempt: Attempt) -> None:
        self.counts.lost += 1
        runs_log.warning(
            "the lease was lost; its outcome is dropped", extra={**attempt.log_fields(), "outcome": "lost"}
        )
        if attempt.stopped_because == UNREACHABLE:
            self.give_up([Release(attempt.id, attempt.epoch, 0.0, DISCONNECTED if attempt.started else NOT_STARTED)])

    # -- what the board says about leases ------------------------------------------------------------------------------

    def attend(self, answers: Iterable[Attention]) -> None:
        """Handles leases that are lost or whose run is to be cancelled. A newer lease of the same run is untouched."""
        for answer in answers:
            because, lease = CANCELLED if answer.answer == "cancel" else LEASE_LOST, (answer.id, answer.epoch)
            for executor in self.executors:
                attempt = executor.running.get(answer.id)
                if attempt is not None and attempt.epoch == answer.epoch:
                    attempt.stop(because)
                elif because == LEASE_LOST:
                    executor.waiting = deque(row for row in executor.waiting if row[:2] != lease)
            if (
                because == LEASE_LOST
                and (blocked := self.blocked.get(answer.id))
                and blocked.outcome.epoch == answer.epoch
            ):
                blocked.lost = True

    def lose_sight(self) -> None:
        """Leases may have been given to this worker, or be left, that it does not know: a reply was lost."""
        self.lost_sight_at = time.monotonic()

    def lose_everything(self, away: bool = False) -> None:  # noqa: FBT001, FBT002 - called by call_soon_threadsafe
        """Gives up all leases, which may have lapsed: stops the runs and drops the outcomes that were not sent.

        `away`: because the board could not be reached. Otherwise what runs may be to blame, and is not excused.
        """
        in_hand = self.waiting + self.running + len(self.succeeded) + len(self.failures) + len(self.releases)
        if not in_hand:
            return
        self.lose_sight()
        log.warning("no heartbeat was answered for three quarters of a lease: %s given up", counted(in_hand, "lease"))
        for executor in self.executors:
            self.counts.lost += len(executor.waiting)
            self.give_up(Release(row[0], row[1], 0.0, NOT_STARTED) for row in executor.waiting)
            executor.waiting.clear()
            for attempt in list(executor.running.values()):
                attempt.stop(UNREACHABLE if away else LEASE_LOST)
        untold = [*self.succeeded, *self.failures, *self.releases]
        self.counts.lost += len(untold)
        self.succeeded, self.failures, self.releases, self.results = [], [], [], {}
        self.give_up(untold)

    def give_up(self, leases: Iterable[Attempt | Failure | Release]) -> None:
        """Stores releases of these leases, to be sent when the database can be reached, so that no crash is counted."""
        self.given_up += [
            lease if isinstance(lease, Release) else Release(lease.id, lease.epoch, 0.0, DISCONNECTED)
            for lease in leases
        ]

    def tell_given_up(self) -> None:
        """Queues the stored releases: the database can be reached again."""
        self.releases += self.given_up
        self.given_up = []
        self.flush.set()

    def release_waiting(self) -> None:
        """Rows that have not started go back, uncounted: the worker leaves."""
        for executor in self.executors:
            while executor.waiting:
                row = executor.waiting.popleft()
                self.releases.append(Release(row[0], row[1], reason=NOT_STARTED))
        self.flush.set()

    def give_back(self, executor: Executor, run: Attempt) -> None:
        """An attempt that has not begun goes back, uncounted."""
        executor.leave(run, 0.0)
        executor.started -= 1
        if not run.settled:
            run.settled = True
            self.releases.append(Release(run.id, run.epoch, reason=NOT_STARTED))
            self.flush.set()

    def sweep(self) -> None:
        """Every half second: timeouts, handlers that do not stop, rows that wait for too long."""
        now = time.monotonic()
        self.sweeps += 1
        for executor in self.executors:
            for attempt in list(executor.running.values()):
                over_s = now - attempt.started - attempt.timeout_s if attempt.started else 0.0
                if over_s > PATIENCE_S and attempt.stopped_because is not None:
                    self._abandon(executor, attempt)
                elif over_s > 0:
                    attempt.stop(TIMED_OUT)  # shorter timeouts have a timer as well
            if overstock := executor.overstock():
                self.releases += [Release(row[0], row[1], reason=NOT_STARTED) for row in overstock]
                self.flush.set()

    def _abandon(self, executor: Executor, attempt: Attempt) -> None:
        executor.running.pop(attempt.id, None)
        executor.abandoned.add(attempt)
        attempt.abandoned = True
        log.error("a handler of %s does not stop: it is abandoned", attempt.job_type, extra=attempt.log_fields())
        if attempt.lost:
            attempt.settled = True
        elif attempt.stopped_because == SHUTDOWN:
            self.settle(attempt, Release(attempt.id, attempt.epoch))
        else:
            self.settle(attempt, timed_out(attempt))
        self.room.set()
