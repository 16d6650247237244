"""What the moves do to runs, in plain Python: the model that the state machine holds the board against.

It knows no clock. A run is due or not, its lease has lapsed or not; the machine moves what the board compares with its
clock, and tells the model. Written from docs/sql-functions.md and DESIGN's rules, not from the SQL.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from tests.store.sql_clients import PRIORITIES, Lease

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

QUEUES: Final = {1: ("a", "b"), 2: ("b", "a"), 3: ("a",)}  # of each worker
TYPES: Final = {1: ("ping", "pong"), 2: ("ping", "pong"), 3: ("ping",)}
UNFINISHED: Final = ("queued", "running", "failed")
ALL_DAY: Final = 3600  # s: a delay, a lease or a backoff that ends in no example

Rank = tuple[int, int]  # of run_at: moments long ago, moments of ticks, moments of moves, each in their order


@dataclass
class ModelRun:
    """A run, live or finished. `held`: a handler's open transaction has locked it."""

    id: int
    job_type: str = "ping"
    queue: str = "a"
    priority: int = 3
    limit_key: str | None = None
    max_attempts: int = 3
    due: bool = True
    rank: Rank = (0, 0)
    status: str = "queued"
    by: int = 0
    epoch: int = 0
    attempts: int = 0
    crashes: int = 0
    releases: int = 0
    lapsed: str = ""  # crash: its worker fell silent; timeout: it ran for too long
    cancel: bool = False
    cancel_reason: str = ""
    started: bool = False
    began: bool = False  # under a lease that is over
    error_type: str | None = None
    definition: int | None = None
    trigger: str = "application"
    tick: int | None = None
    deadline: bool = False
    reason: str | None = None
    live: bool = True
    held: bool = False
    shared_limit_key: str | None = None  # of its schedule, beside the schedule's own key

    @property
    def waits(self) -> bool:
        """Whether somebody may claim it, when it is due."""
        return self.live and self.status in {"queued", "failed"}

    def free(self, *, began: bool = True) -> None:
        """Nobody has it any more."""
        self.by, self.lapsed = 0, ""
        self.began = self.started = self.began or began


@dataclass
class StoreModel:
    """The board as it should be."""

    runs: dict[int, ModelRun] = field(default_factory=dict[int, ModelRun])
    attempts: dict[tuple[int, int], tuple[str, int]] = field(default_factory=dict[tuple[int, int], tuple[str, int]])
    effects: dict[tuple[int, str], tuple[int, bool]] = field(default_factory=dict[tuple[int, str], tuple[int, bool]])
    bank: list[tuple[int, str]] = field(default_factory=list[tuple[int, str]])
    steps: dict[tuple[int, str], tuple[int, bool, Any]] = field(
        default_factory=dict[tuple[int, str], tuple[int, bool, Any]]
    )
    keys: dict[tuple[str, str], tuple[int, int]] = field(default_factory=dict[tuple[str, str], tuple[int, int]])
    limits: dict[str, int] = field(default_factory=dict[str, int])
    pauses: set[str] = field(default_factory=set[str])
    present: dict[int, bool] = field(default_factory=dict[int, bool])  # workers that registered; False: silent since
    walked: bool = False  # reap has walked within the last minute
    late: Callable[[ModelRun], bool] = lambda _: False  # its deadline to start has passed
    now: int = 0

    def rank_of_now(self) -> Rank:
        """Of a run_at that a move sets to its own moment."""
        self.now += 1
        return 2, self.now

    def live(self) -> list[ModelRun]:
        """The rows of job_runs."""
        return [run for run in self.runs.values() if run.live]

    def finish(self, run: ModelRun, status: str, reason: str | None) -> None:
        """Into history."""
        run.live, run.status, run.reason, run.lapsed = False, status, reason, ""

    def lease(self, worker: int, lease: Lease) -> ModelRun | None:
        """The run, if this worker holds it under this lease."""
        run = self.runs.get(lease.id)
        holds = run is not None and run.live and run.by == worker and run.epoch == lease.epoch
        return run if holds else None

    # -- claims --------------------------------------------------------------------------------------------------------

    def may_start(self, worker: int, run: ModelRun) -> bool:
        """Whether a worker may take this run, as far as queue, type, time and pauses go."""
        return (
            run.waits
            and run.due
            and run.queue in QUEUES[worker]
            and run.job_type in TYPES[worker]
            and not self.pauses & {"all", f"queue:{run.queue}"}
        )

    def in_time(self, run: ModelRun) -> bool:
        """Whether it started once, or may start still."""
        return run.started or not self.late(run)

    def claimable(self, worker: int, count: int, scan_limit: int | None) -> list[int]:
        """What `claim` gives, by queue and priority, then by run_at."""
        found: list[int] = []
        for priority in PRIORITIES:
            for queue in QUEUES[worker]:
                pair = [
                    run
                    for run in self.live()
                    if (run.queue, run.priority, run.limit_key) == (queue, priority, None)
                    and run.crashes < 2
                    and run.status != "dead"
                    and run.due
                ]
                pair.sort(key=lambda run: (run.rank, run.id))
                found += [run.id for run in pair[:scan_limit] if self.may_start(worker, run) and self.in_time(run)]
        return found[:count]

    def keys_to_look_at(self, worker: int) -> list[str]:
        """What `due_limit_keys` gives: keys with runs that hold no slot, due or not."""
        return sorted(
            {
                run.limit_key
                for run in self.live()
                if run.limit_key
                and run.waits
                and run.crashes < 2
                and run.queue in QUEUES[worker]
                and not self.pauses & {"all", f"queue:{run.queue}"}
            }
        )

    def slots(self, key: str) -> int:
        """Free slots of a limit; a lease that lapsed holds its own until it is taken back."""
        return self.limits.get(key, 1) - sum(
            key in {run.limit_key, run.shared_limit_key} and run.by != 0 for run in self.live()
        )

    def shared_slots(self, run: ModelRun) -> bool:
        """Whether the key that its schedule shares with others has a free slot."""
        return run.shared_limit_key is None or self.slots(run.shared_limit_key) > 0

    def limited(self, worker: int, key: str, *, oldest_first: bool) -> list[int]:
        """What `claim_limited` gives of one key, if no other key takes slots that both need."""
        queues = QUEUES[worker]
        waiting = [
            run for run in self.live() if run.limit_key == key and run.crashes < 2 and self.may_start(worker, run)
        ]
        heads: dict[tuple[int, str], Rank] = {}
        for run in waiting if oldest_first else ():
            pair = run.priority, run.queue
            heads[pair] = min(run.rank, heads.get(pair, run.rank))
        waiting.sort(
            key=lambda run: (
                heads.get((run.priority, run.queue), (0, 0)),
                *(-run.priority, queues.index(run.queue), run.rank, run.id),
            )
        )
        found = [run.id for run in waiting if self.in_time(run) and self.shared_slots(run)]
        return found[: max(0, self.slots(key))]

    def shared_key_of(self, key: str) -> str:
        """The key whose slots the runs behind `key` need as well; `key` itself when there is none."""
        return next((run.shared_limit_key for run in self.live() if run.limit_key == key), None) or key

    def suspect(self, worker: int) -> list[int]:
        """What `claim_quarantined` gives: one, or none."""
        waiting = [
            run
            for run in self.live()
            if run.crashes >= 2
            and self.may_start(worker, run)
            and (run.limit_key is None or (self.slots(run.limit_key) > 0 and self.shared_slots(run)))
        ]
        return [run.id for run in sorted(waiting, key=lambda run: (run.rank, run.id))[:1]]

    def claimed(self, worker: int, ids: Iterable[int]) -> set[Lease]:
        """These runs are taken; their leases."""
        for run in (self.runs[number] for number in ids):
            run.status, run.by, run.started, run.lapsed = "running", worker, True, ""
            run.epoch += 1
            run.attempts += 1
            for key in (run.limit_key, run.shared_limit_key):
                if key is not None:
                    self.limits.setdefault(key, 1)
        return {Lease(number, self.runs[number].epoch) for number in ids}

    # -- outcomes: each answers with the ids that are not accepted -----------------------------------------------------

    def complete(self, worker: int, leases: Sequence[Lease]) -> set[int]:
        refused: set[int] = set()
        for lease in leases:
            run = self.lease(worker, lease)
            if run and run.held:
                refused.add(lease.id)
            elif run:
                self.finish(run, "succeeded", None)
            elif not self._completed(worker, lease):
                refused.add(lease.id)
        return refused

    def _completed(self, worker: int, lease: Lease) -> bool:
        past = self.runs[lease.id]
        return not past.live and (past.status, past.by, past.epoch) == ("succeeded", worker, lease.epoch)

    def fail(self, worker: int, leases: Sequence[Lease], outcome: str, *, at_once: bool) -> set[int]:
        refused: set[int] = set()
        kind = "timed_out" if outcome == "timed_out" else "failed"
        for lease in leases:
            run = self.lease(worker, lease)
            if run and run.held:
                refused.add(lease.id)
                continue
            if run is None:
                if self.attempts.get((lease.id, lease.epoch)) != (kind, worker):
                    refused.add(lease.id)
                continue
            self.attempts[lease.id, lease.epoch] = kind, worker
            if run.cancel:
                self.finish(run, "cancelled", run.cancel_reason)
                continue
            run.free()
            run.error_type = "ValueError"
            run.status = "dead" if outcome == "discarded" or run.attempts >= run.max_attempts else "failed"
            if run.status == "failed":
                run.due, run.rank = at_once, self.rank_of_now()
        return refused

    def release(self, worker: int, leases: Sequence[Lease], *, delayed: bool, reason: str) -> set[int]:
        refused: set[int] = set()
        counted = reason in {"worker_stopped", "disconnected"}
        for lease in leases:
            run = self.lease(worker, lease)
            if run and run.held:
                refused.add(lease.id)
                continue
            if run is None:
                known = self.runs[lease.id]
                repeated = known.live and known.by == 0 and known.epoch == lease.epoch
                if not (repeated or self._uncounted(worker, lease, reason)):
                    refused.add(lease.id)
                continue
            costs = counted and run.releases >= 4
            if reason != "not_started":
                self.attempts[lease.id, lease.epoch] = "snoozed" if reason == "snoozed" else "released", worker
            if run.cancel:
                self.finish(run, "cancelled", run.cancel_reason)
                continue
            run.free(began=reason != "not_started")
            run.status = "dead" if costs and run.attempts >= run.max_attempts else "queued"
            run.error_type = "ReleasedTooOften" if run.status == "dead" else run.error_type
            run.attempts -= not costs
            run.releases += counted
            if delayed:
                run.due = False
        return refused

    def _uncounted(self, worker: int, lease: Lease, reason: str) -> bool:
        """Whether it was taken for crashed, and was not: its worker says so."""
        run = self.runs[lease.id]
        if not run.live or self.attempts.get((lease.id, lease.epoch)) != ("crashed", worker):
            return False
        if reason not in {"disconnected", "not_started"} or (reason == "disconnected" and run.releases >= 4):
            return False
        self.attempts[lease.id, lease.epoch] = "released", worker
        run.crashes = max(0, run.crashes - 1)
        run.releases += reason == "disconnected"
        if run.status == "dead" and run.epoch == lease.epoch + 1:
            run.status = "queued"
        return True

    def renew(self, worker: int, leases: Sequence[Lease]) -> dict[int, str]:
        if worker in self.present:
            self.present[worker] = True
        answers: dict[int, str] = {}
        for lease in leases:
            run = self.lease(worker, lease)
            if run is None or run.lapsed:
                answers[lease.id] = "refused"
            elif run.cancel:
                answers[lease.id] = "cancel"
        return answers

    # -- what handlers ask ---------------------------------------------------------------------------------------------

    def once(self, worker: int, lease: Lease, key: str) -> bool | None:
        """None: the lease is lost. What it says counts when its transaction commits."""
        return None if self.lease(worker, lease) is None else (lease.id, key) not in self.effects

    def effect_done(self, lease: Lease, key: str) -> None:
        """The transaction of `once` was committed, with its effect."""
        self.effects[lease.id, key] = lease.epoch, True
        self.bank.append((lease.id, key))

    def effect(self, worker: int, lease: Lease, key: str, *, done: bool) -> str | None:
        if self.lease(worker, lease) is None:
            return None
        epoch, was_done = self.effects.get((lease.id, key), (0, False))
        if done or was_done:
            self.effects[lease.id, key] = epoch or lease.epoch, True
            return "done"
        self.effects.setdefault((lease.id, key), (lease.epoch, False))
        return "new" if epoch == 0 else "begun" if epoch == lease.epoch else "in doubt"

    def step(self, worker: int, lease: Lease, name: str, result: Any) -> tuple[bool, Any] | None:
        """`result` None: it begins."""
        if self.lease(worker, lease) is None:
            return None
        epoch, done, stored = self.steps.get((lease.id, name), (0, False, None))
        if not done:
            epoch, done, stored = lease.epoch, result is not None, result
        self.steps[lease.id, name] = epoch, done, stored
        return done, stored

    # -- duties --------------------------------------------------------------------------------------------------------

    def reap(self, *, always: bool) -> tuple[int, int, int, int]:
        """Crashed, timed out, dead, cancelled."""
        silent = [worker for worker, seen in self.present.items() if not seen]
        if not (always or silent or not self.walked):
            return 0, 0, 0, 0
        verdicts = [self._taken_back(run) for run in self.live() if run.lapsed and not run.held]
        for worker in silent:
            del self.present[worker]
        self.walked = not any(run.lapsed for run in self.live())  # five seconds later
        return (
            sum(verdict.startswith("crashed") for verdict in verdicts),
            sum(verdict.startswith("timed out") for verdict in verdicts),
            sum(verdict.endswith("dead") for verdict in verdicts),
            verdicts.count("cancelled"),
        )

    def _taken_back(self, run: ModelRun) -> str:
        timed_out = run.lapsed == "timeout" and self.present.get(run.by, False)
        verdict = "timed out" if timed_out else "crashed"
        self.attempts[run.id, run.epoch] = "timed_out" if timed_out and not run.cancel else "crashed", run.by
        if run.cancel:
            self.finish(run, "cancelled", run.cancel_reason)
            return "cancelled"
        run.free()
        run.epoch += 1
        run.attempts -= not timed_out
        run.crashes += not timed_out
        dead = run.attempts >= run.max_attempts if timed_out else run.crashes > 2
        run.status = "dead" if dead else "failed" if timed_out else "queued"
        run.error_type = "Timeout" if timed_out else "WorkerCrashed"
        run.due = run.due and not (timed_out and not dead)
        return f"{verdict} dead" if dead else verdict

    def skip_past_deadline(self) -> int:
        late = [run for run in self.live() if self.late(run) and not run.started and run.by == 0]
        for run in late:
            self.finish(run, "skipped", "TooLate")
        return len(late)

    # -- people: the first word of each answer -------------------------------------------------------------------------

    def cancel(self, run: ModelRun | None) -> str:
        if run is None or not run.live or run.status == "dead":
            return "refused"
        if run.status == "running":
            run.cancel, run.cancel_reason = True, run.cancel_reason or "Cancelled"
            return "requested"
        self.finish(run, "cancelled", "Cancelled")
        return "cancelled"

    def retry(self, run: ModelRun | None) -> str:
        if run is None or not run.live or run.status not in {"dead", "failed"}:
            return "refused"
        run.status, run.attempts, run.crashes, run.releases, run.cancel = "queued", 0, 0, 0, False
        run.cancel_reason = ""
        run.due, run.rank = True, self.rank_of_now()
        return "queued"

    def discard(self, run: ModelRun | None) -> str:
        if run is None or not run.live or run.status != "dead":
            return "refused"
        self.finish(run, "dead", "Discarded")
        return "discarded"

    def replay(
        self, run: ModelRun | None, new_id: int | None, keys: Callable[[ModelRun], tuple[str | None, str | None]]
    ) -> str:
        """`keys`: the limit keys that a new run of its schedule has."""
        if run is None or run.live or run.status == "skipped":
            return "refused"
        assert new_id is not None
        limit_key, shared_limit_key = keys(run)
        self.runs[new_id] = ModelRun(
            *(new_id, run.job_type, run.queue, run.priority, limit_key, run.max_attempts),
            shared_limit_key=shared_limit_key,
            rank=self.rank_of_now(),
            definition=run.definition,
            trigger="replay",
        )
        return "queued"
