"""The leases of this worker: rows that wait, attempts that run, and outcomes that are not reported yet.

    claimed ─ add ─► waiting ──────► running ─ succeed, fail, end ─► unreported ─ take_outcomes ─► reporting ─► answered
                       │ │              │                              ▲   │ ▲                         │           ▲
                       │ └ release_waiting, enforce_limits ────────────┘   │ │ flush_deferred          │ block     │
                       │                │                                  ▼ │                         ▼           │
                       └────────────────┴─────── drop_all_leases ───────► deferred                  blocked ─ unblock

`unreported` are `succeeded`, `failures` and `releases`. What is *blocked* met a lock and is reported again until the
store answers. *Deferred* are the releases of dropped leases; they are sent when the database answers again. An attempt
whose lease is lost ends without an outcome, or with a deferred release if the database did not answer. An outcome that
was sent and not *answered* may be stored: it is deferred itself, so that the store says whether it has it.

A handler that does not stop at its timeout is abandoned: its attempt ends without it, and a new slot replaces its slot.
Once half of an executor's slots are lost that way, the worker claims no more runs, finishes the others and exits with
an error. Rows that wait longer than expected, because runs became longer, are released for idle workers.

A lease is named by (id, epoch), never by the id of its run alone: the run may be claimed again while an older lease is
still here, and a database that has lost its last commits gives the id to another run.

The event loop writes. The heartbeat's thread reads copies (`leases`), each of which CPython creates in one step, and
notes which progress the store has (`note_sent`). While the event loop is blocked, it takes the waiting rows
(`take_waiting`): each row is taken by one of the two.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from dataclasses import dataclass
from logging import ERROR, INFO, WARNING
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from wakeboard.engine.run import CANCELLED, LEASE_LOST, SHUTDOWN, TIMED_OUT, UNREACHABLE
from wakeboard.engine.worker_api import DISCONNECTED, NOT_STARTED, Failure, Release, Renewal, Times
from wakeboard.logs.rules import MAX_LINE, OUTCOME
from wakeboard.text.humanize import counted, named_runs
from wakeboard_worker.error_texts import storable
from wakeboard_worker.executor_state import ExecutorState
from wakeboard_worker.logs import log, run_lines, runs_log
from wakeboard_worker.outcomes import failure, result_json, timed_out

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from wakeboard.engine.handlers import Handler
    from wakeboard.engine.run import ClaimedRow
    from wakeboard.engine.worker_api import Attention
    from wakeboard_worker.attempt import Attempt, AttemptContext

Outcome: TypeAlias = "Attempt | Failure | Release"  # an Attempt: it succeeded
Lease: TypeAlias = tuple[int, int]  # (id, epoch)


REPORTS_OF_DROPPED: Final = 3  # one with each heartbeat, while the store refuses them


def lease_of(each: Outcome | Attempt | Renewal) -> Lease:
    """Return the lease that an attempt, an outcome or a renewal is about."""
    return each.id, each.epoch


@dataclass(slots=True)
class EndedCounts:
    """What the worker did, for its last log line."""

    claimed: int = 0
    succeeded: int = 0
    failed: int = 0
    cancelled: int = 0
    snoozed: int = 0
    released: int = 0
    lost: int = 0

    def __str__(self) -> str:
        words = (f"{getattr(self, name)} {name}" for name in self.__slots__ if getattr(self, name) or name == "claimed")
        return ", ".join(words)


class Outcomes(NamedTuple):
    """Outcomes to report."""

    succeeded: Sequence[Attempt]
    failures: Sequence[Failure]
    releases: Sequence[Release]


@dataclass(slots=True)
class BlockedOutcome:
    """An outcome that another transaction's lock has kept from being reported, since `since` (monotonic)."""

    outcome: Outcome
    since: float
    lease_lost: bool = False

    def alone(self) -> Outcomes:
        """Return the outcome as the only one to report."""
        match self.outcome:
            case Failure() as failure:
                return Outcomes([], [failure], [])
            case Release() as release:
                return Outcomes([], [], [release])
            case attempt:
                return Outcomes([attempt], [], [])


class InFlightBuffer:
    """All leases of a worker. `flush` is set when there are outcomes to report, `wakeup` when claims may succeed."""

    def __init__(self, handlers: dict[str, Handler], context: AttemptContext, concurrency: int, threads: int) -> None:
        self.handlers = handlers
        self.context = context
        is_async = {name: handler.is_async for name, handler in handlers.items()}
        self.coroutines = ExecutorState(concurrency, tuple(name for name in handlers if is_async[name]))
        self.threads = ExecutorState(threads, tuple(name for name in handlers if not is_async[name]))
        self.executors = [executor for executor in (self.coroutines, self.threads) if executor.job_types]
        self.executor_of = {name: executor for executor in self.executors for name in executor.job_types}
        self.succeeded: list[Attempt] = []
        self.failures: list[Failure] = []
        self.releases: list[Release] = []
        self.reporting: list[Outcome] = []  # sent to the store, not answered yet
        self.blocked: dict[Lease, BlockedOutcome] = {}  # sent again until they are accepted
        self.blocked_too_long = False  # an outcome has been blocked for a whole lease: this worker exits
        self.deferred: list[Outcome] = []  # of dropped leases; sent when the database answers again
        self.dropped: dict[Lease, int] = {}  # of which a line has said that they are lost: how many reports are left
        self.unanswered: dict[Lease, bool] = {}  # outcomes that may be stored, and whether a line has said so
        self.counts = EndedCounts()
        self.checks = 0  # calls of `enforce_limits`: while this number grows, the event loop is not blocked
        self.fatal_error: BaseException | None = None  # ended a task that must not end
        self.orphans_since: float | None = None  # time.monotonic(): the store may have leases that are not here
        self.flush, self.wakeup = asyncio.Event(), asyncio.Event()
        self.ends_matter = True  # False: the end of a run wakes no claim, because nothing waits for it
        self._ended = False  # a run has ended since `begin_turn`

    def begin_turn(self) -> None:
        """Forget what woke the claims. Until `await_ends`, the end of a run is only noted."""
        self.wakeup.clear()
        self._ended = self.ends_matter = False

    def await_ends(self) -> None:
        """Let the ends of runs wake the claims, also those since `begin_turn`."""
        self.ends_matter = True
        if self._ended:
            self.wakeup.set()

    def note_end(self) -> None:
        """Wake the claims after a run has ended, if that can let another one start."""
        self._ended = True
        if self.ends_matter:
            self.wakeup.set()

    # -- what is in flight ---------------------------------------------------------------------------------------------

    @property
    def waiting(self) -> int:
        """The number of rows that have not started."""
        return sum(len(executor.waiting) for executor in self.executors)

    @property
    def running(self) -> int:
        """The number of running attempts, without those whose coroutine has not waited for anything yet."""
        return sum(len(executor.running) for executor in self.executors)

    @property
    def unreported(self) -> int:
        """The number of outcomes to report now, without the blocked ones."""
        return len(self.succeeded) + len(self.failures) + len(self.releases) + len(self.reporting)

    @property
    def empty(self) -> bool:
        """Whether nothing is in flight."""
        return not (self.waiting or self.running or self.unreported or self.blocked or self.deferred)

    def leases(self) -> list[Renewal]:
        """All leases, for the heartbeat. Those that are known to be lost are left out."""
        attempts = [attempt for executor in self.executors for attempt in list(executor.running.values())]
        attempts += [at for executor in self.executors if (at := executor.starting) is not None and not at.has_outcome]
        rows = [row for executor in self.executors for row in list(executor.waiting)]
        outcomes = [*list(self.succeeded), *list(self.failures), *list(self.releases)]
        leases = {lease_of(each): Renewal(*lease_of(each)) for each in outcomes}
        leases |= {lease_of(each): each for each in self.leases_in_report()}
        leases |= {row[:2]: Renewal(*row[:2]) for row in rows}
        leases |= {
            lease_of(at): Renewal(at.id, at.epoch, at.age_s(), at.unsent_progress()) for at in attempts if not at.lost
        }
        return sorted(leases.values(), key=lease_of)

    def note_sent(self, renewals: Iterable[Renewal]) -> None:
        """Note that the store has the progress in these renewals. Called by the heartbeat's thread."""
        sent = {lease_of(renewal): renewal.reported for renewal in renewals if renewal.reported}
        for attempt in [at for executor in self.executors for at in list(executor.running.values())] if sent else ():
            if progress := sent.get(lease_of(attempt)):
                attempt.note_sent(progress)

    def leases_in_report(self) -> list[Renewal]:
        """The leases of outcomes that are being reported. `drop_all_leases` does not drop these."""
        blocked = [each.outcome for each in list(self.blocked.values())]
        return sorted({Renewal(*lease_of(each)) for each in [*blocked, *list(self.reporting)]})

    def longest_timeout_s(self) -> float:
        """The longest timeout of the attempts in the event loop, or 0. Called by the heartbeat's thread."""
        executor = self.coroutines
        attempts = list(executor.running.values())
        if (at := executor.starting) is not None and not at.has_outcome:
            attempts.append(at)
        return max((attempt.timeout_s for attempt in attempts), default=0)

    # -- claimed rows --------------------------------------------------------------------------------------------------

    def add(self, rows: Sequence[ClaimedRow], *, first: bool = False) -> None:
        """Add the rows of one claim, which all have job types of one executor. `first`: before all waiting rows.

        Attempts of the same runs, in either executor, have lost their leases: they are stopped.
        """
        self.counts.claimed += len(rows)
        ids = {row.id for row in rows}
        for executor in self.executors:
            executor.stop_older(ids)
        self.executor_of[rows[0].job_type].add_rows(rows, first=first)

    def release_late(self, rows: Sequence[ClaimedRow]) -> None:
        """Release claimed rows without adding them."""
        self.counts.claimed += len(rows)
        self._release(rows)

    def release_waiting(self) -> None:
        """Release all rows that have not started."""
        for executor in self.executors:
            self._release(executor.take_waiting())

    def take_waiting(self) -> list[Release]:
        """Remove all rows that have not started, and return their releases. Called by the heartbeat's thread."""
        rows = [row for executor in self.executors for row in executor.take_waiting()]
        return [Release(row.id, row.lease_epoch, reason=NOT_STARTED) for row in rows]

    def released_while_blocked(self, count: int, refused: Sequence[Release]) -> None:
        """Record what the heartbeat has released. `refused` could not be released, and is released again."""
        self.counts.released += count - len(refused)
        log.warning("a handler blocked the event loop: %s released that had not started", counted(count, "run"))
        self.defer(refused)

    def release_unstarted(self, executor: ExecutorState, attempt: Attempt) -> None:
        """Release an attempt that no thread has started. This costs the run no attempt."""
        executor.remove(attempt, 0.0)
        executor.started -= 1
        if not attempt.has_outcome:
            attempt.has_outcome = True
            self.releases.append(Release(attempt.id, attempt.epoch, reason=NOT_STARTED))
            self.flush.set()

    def _release(self, rows: Iterable[ClaimedRow]) -> None:
        self.releases += [Release(row.id, row.lease_epoch, reason=NOT_STARTED) for row in rows]
        self.flush.set()

    # -- outcomes ------------------------------------------------------------------------------------------------------

    def succeed(self, attempt: Attempt, result: Any) -> None:
        """Record that the handler returned. This overrides a late cancellation or timeout, but not a lost lease."""
        if attempt.has_outcome:
            return
        attempt.has_outcome = True
        if attempt.lost:
            self._drop_outcome(attempt)
            return
        if result is not None:
            attempt.result = result_json(result)
        self.succeeded.append(attempt)
        if run_lines.per_second and run_lines.take():
            seconds = round(attempt.ended - attempt.started, 3)
            runs_log.info("succeeded", extra={**attempt.log_fields(), "outcome": "succeeded", "seconds": seconds})

    def fail(self, attempt: Attempt, error: BaseException) -> None:
        """Record that the handler raised `error`, possibly because it was stopped."""
        if attempt.has_outcome:
            return
        if attempt.lost:
            attempt.has_outcome = True
            self._drop_outcome(attempt)
            return
        self.end(attempt, failure(attempt, error))

    def end(self, attempt: Attempt, outcome: Failure | Release) -> None:
        """End the attempt with `outcome`, even if its handler still runs."""
        attempt.failed = isinstance(outcome, Failure)  # before `has_outcome`, at which the thread of the logs looks
        attempt.has_outcome = True
        if attempt.started:
            outcome = outcome._replace(times=Times(attempt.started, attempt.ended or time.monotonic()))
        if isinstance(outcome, Release):
            outcome = outcome._replace(reported=attempt.unsent_progress())
            self.releases.append(outcome)
            if run_lines.per_second and run_lines.take():
                fields = {**attempt.log_fields(), "outcome": "released", "next_try_s": outcome.delay_s}
                runs_log.info("released", extra=fields)
        else:
            self.failures.append(outcome)
            error = f"{outcome.error_type}: {outcome.error}"
            level, word = (INFO, "cancelled") if outcome.cancelled else (WARNING, outcome.outcome)
            message = word if outcome.cancelled else f"{word.replace('_', ' ')}: {error}"
            runs_log.log(level, message, extra={**attempt.log_fields(), "outcome": word, "error": error})
            if attempt.context.logs is not None:
                stack = storable(outcome.stack, MAX_LINE - len(message) - 1)
                text = f"{message}\n{stack}".rstrip()
                attempt.context.logs.add(attempt, ERROR if level == WARNING else level, OUTCOME, text)
        self.flush.set()

    def take_outcomes(self) -> Outcomes:
        """Take all unreported outcomes. They count as being reported until `reported` is called."""
        outcomes = Outcomes(self.succeeded, self.failures, self.releases)
        self.succeeded, self.failures, self.releases = [], [], []
        self.reporting = [*outcomes.succeeded, *outcomes.failures, *outcomes.releases]
        return outcomes

    def reported(self) -> None:
        """Record that the outcomes of the last `take_outcomes` are reported, blocked or lost."""
        self.reporting = []

    def block(self, outcome: Outcome) -> None:
        """Keep an outcome that met a lock, to report it again. A second call does not change `since`."""
        self.blocked.setdefault(lease_of(outcome), BlockedOutcome(outcome, time.monotonic()))

    def unblock(self, outcome: Outcome) -> None:
        """Record that the outcome was accepted or refused."""
        self.blocked.pop(lease_of(outcome), None)

    def _drop_outcome(self, attempt: Attempt) -> None:
        self.counts.lost += 1
        fields = {**attempt.log_fields(), "outcome": "lost"}
        runs_log.warning("the lease was lost: the outcome is dropped", extra=fields)
        if attempt.stopped_because == UNREACHABLE:
            reason = DISCONNECTED if attempt.started else NOT_STARTED
            self.defer([Release(attempt.id, attempt.epoch, 0.0, reason)])

    # -- lost leases ---------------------------------------------------------------------------------------------------

    def apply_answers(self, answers: Iterable[Attention], were_busy: Collection[Lease]) -> None:
        """Stop attempts that are cancelled or whose lease is lost. Newer leases of the same runs are not affected.

        `were_busy`: leases (id, epoch) that the previous renewal did not renew, because another transaction had locked
        the row of the run.
        """
        locked: list[int] = []
        for answer in answers:
            because = CANCELLED if answer.answer == "cancel" else LEASE_LOST
            lease = (answer.id, answer.epoch)
            for executor in self.executors:
                attempt = executor.running.get(answer.id)
                if attempt is not None and attempt.epoch == answer.epoch:
                    if because == LEASE_LOST and lease in were_busy and attempt.stopped_because is None:
                        locked.append(answer.id)
                    attempt.stop(because)
                elif because == LEASE_LOST:
                    for row in [row for row in list(executor.waiting) if row[:2] == lease]:
                        with suppress(ValueError, IndexError):  # the heartbeat takes it
                            executor.waiting.remove(row)
            if because == LEASE_LOST and (blocked := self.blocked.get(lease)):
                blocked.lease_lost = True
        if locked:
            log.warning("lost: another transaction had locked the row of %s until its lease ended", named_runs(locked))

    def note_orphaned_leases(self) -> None:
        """Record that the store may have leases of this worker that are not here: a reply or a lease was lost."""
        self.orphans_since = time.monotonic()

    def drop_all_leases(self, unreachable: bool = False) -> None:  # noqa: FBT001, FBT002 - called by call_soon_threadsafe
        """Drop all leases, because they may have expired: stop the attempts and drop the unreported outcomes.

        `unreachable`: the database did not answer. Then running attempts are released once it answers again. Otherwise
        a handler may have blocked the worker, and they count as crashed.
        """
        outcomes = [*self.succeeded, *self.failures, *self.releases]
        begun = [
            *(run for executor in self.executors for run in list(executor.running)),
            *(each.id for each in outcomes),
        ]
        if not self.waiting and not begun:
            return
        self.note_orphaned_leases()
        dropped = counted(self.waiting + len(begun), "lease")
        twice = f"; {named_runs(begun)} had begun, and may run twice" if begun else ""
        log.warning("no heartbeat was answered for three quarters of a lease: dropped %s%s", dropped, twice)
        for executor in self.executors:
            waiting = executor.take_waiting()
            self.counts.lost += len(waiting)
            self.defer(Release(row.id, row.lease_epoch, 0.0, NOT_STARTED) for row in waiting)
            for attempt in list(executor.running.values()):
                attempt.stop(UNREACHABLE if unreachable else LEASE_LOST)
        self.counts.lost += len(outcomes)
        self.succeeded, self.failures, self.releases = [], [], []
        self.defer(outcomes)

    def defer(self, outcomes: Iterable[Outcome]) -> None:
        """Keep releases of these leases until the database answers. They prevent that the runs count as crashed.

        Outcomes that may be stored are kept as they are.
        """
        for outcome in outcomes:
            may_be_stored = lease_of(outcome) in self.unanswered
            if not may_be_stored:
                self.dropped.setdefault(lease_of(outcome), REPORTS_OF_DROPPED)
            keep = may_be_stored or isinstance(outcome, Release)
            self.deferred.append(outcome if keep else Release(outcome.id, outcome.epoch, 0.0, DISCONNECTED))

    def flush_deferred(self) -> None:
        """Report what was deferred. Call it when the database answers again."""
        deferred, self.deferred = self.deferred, []
        for outcome in deferred:
            match outcome:
                case Failure():
                    self.failures.append(outcome)
                case Release():
                    self.releases.append(outcome)
                case _:
                    self.succeeded.append(outcome)
        self.flush.set()

    # -- limits --------------------------------------------------------------------------------------------------------

    def enforce_limits(self) -> None:
        """Stop attempts at their timeout, abandon handlers that do not stop, and release excess prefetch."""
        now = time.monotonic()
        self.checks += 1
        for executor in self.executors:
            for attempt in list(executor.running.values()):
                over_s = now - attempt.started - attempt.timeout_s if attempt.started else 0.0
                if over_s <= 0:
                    continue
                if attempt.stopped_because is None:
                    attempt.stop(TIMED_OUT)  # timeouts under 5 s have a timer, too
                elif over_s > self.handlers[attempt.job_type].stop_grace_s:
                    self._abandon(executor, attempt)
            if excess := executor.pop_excess():
                self._release(excess)

    def _abandon(self, executor: ExecutorState, attempt: Attempt) -> None:
        executor.running.pop(attempt.id, None)
        executor.abandoned.add(attempt)
        attempt.abandoned = True
        log.error("a handler of %s does not stop: it is abandoned", attempt.job_type, extra=attempt.log_fields())
        if attempt.lost:
            attempt.has_outcome = True
        elif attempt.stopped_because == SHUTDOWN:
            self.end(attempt, Release(attempt.id, attempt.epoch))
        else:
            self.end(attempt, timed_out(attempt))
        self.wakeup.set()
