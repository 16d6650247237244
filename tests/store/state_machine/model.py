"""The model of runs: what each SQL function does to them, in plain Python.

The model has no clock. A run is due or not, and its lease has expired or not; the machine changes the store's times and
the model together. The model is written from docs/sql-functions.md, not from the SQL.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from tests.store.sql_clients import PRIORITIES, Lease
from tests.store.state_machine.model_rows import ModelRate, ModelRun, NotedEnd

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from tests.store.state_machine.model_rows import Rank

QUEUES: Final = {1: ("a", "b"), 2: ("b", "a"), 3: ("a",)}  # of each worker
TYPES: Final = {1: ("ping", "pong"), 2: ("ping", "pong"), 3: ("ping",)}
UNFINISHED: Final = ("queued", "running", "failed")
ALL_DAY: Final = 3600  # s: longer than any example


@dataclass
class StoreModel:
    """The expected state of the store."""

    runs: dict[int, ModelRun] = field(default_factory=dict[int, ModelRun])
    attempts: dict[tuple[int, int], tuple[str, int]] = field(default_factory=dict[tuple[int, int], tuple[str, int]])
    effects: dict[tuple[int, str], tuple[int, bool]] = field(default_factory=dict[tuple[int, str], tuple[int, bool]])
    forever_effects: dict[str, tuple[int, int, bool]] = field(default_factory=dict[str, tuple[int, int, bool]])
    bank: list[tuple[int, str]] = field(default_factory=list[tuple[int, str]])
    steps: dict[tuple[int, str], tuple[int, bool, Any]] = field(
        default_factory=dict[tuple[int, str], tuple[int, bool, Any]]
    )
    keys: dict[tuple[str, str], tuple[int, int]] = field(default_factory=dict[tuple[str, str], tuple[int, int]])
    unique: dict[int, int] = field(default_factory=dict[int, int])  # by customer: the run in the window
    limits: dict[str, int] = field(default_factory=dict[str, int])
    explicit_limits: set[str] = field(default_factory=set[str])
    rates: dict[str, ModelRate] = field(default_factory=dict[str, "ModelRate"])
    paused_limits: set[str] = field(default_factory=set[str])  # by handlers
    noted_ends: list[NotedEnd] = field(default_factory=list[NotedEnd])
    events: int = 0
    pauses: set[str] = field(default_factory=set[str])
    present: dict[int, bool] = field(default_factory=dict[int, bool])  # registered; False: no heartbeats
    scanned: bool = False  # reap has scanned all leases within the last minute
    late: Callable[[ModelRun], bool] = lambda _: False  # its starting deadline has passed
    now: int = 0
    base: int = 0  # leases with a lower epoch are void: the server has forgotten what was committed since
    lease_step: int = 1  # by which a claim raises the epoch

    def rank_of_now(self) -> Rank:
        """The rank of a run_at that an operation sets to the current moment."""
        self.now += 1
        return 2, self.now

    def live(self) -> list[ModelRun]:
        """The rows of job_runs."""
        return [run for run in self.runs.values() if run.live]

    def finish(self, run: ModelRun, status: str, reason: str | None) -> None:
        """Moves a run into history."""
        run.live, run.status, run.reason, run.expired = False, status, reason, ""
        self.events += 1
        run.ended = self.events
        if run.has_dependents and status != "skipped":
            self._note_end(run, "succeeded" if status == "succeeded" else "ended")

    def die(self, run: ModelRun) -> None:
        """It is dead, and stays live."""
        run.status = "dead"
        self.events += 1
        run.died = self.events
        if run.has_dependents and run.tick is not None:
            self._note_end(run, "ended")

    def _note_end(self, run: ModelRun, outcome: str) -> None:
        self.noted_ends.append((run.id, None if run.tick is None else run.definition, run.tick, outcome))

    def lease(self, worker: int, lease: Lease) -> ModelRun | None:
        """The run, if this worker has this lease of it."""
        run = self.runs.get(lease.id)
        holds = run is not None and run.live and run.by == worker and run.epoch == lease.epoch
        return run if holds and lease.epoch >= self.base else None

    def is_void(self, run: ModelRun) -> bool:
        """Whether it has a lease that was granted before the server forgot something."""
        return run.by != 0 and run.epoch < self.base

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
        """The result of `claim`, by priority and queue, then by run_at."""
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

    def due_limit_keys(self, worker: int) -> list[str]:
        """The result of `due_limit_keys`: keys of runs without a slot, due or not."""
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
        """How many runs of a limit may start; an expired lease occupies its slot until it is reaped."""
        free = self.limits.get(key, 1) - sum(
            key in {run.limit_key, run.shared_limit_key} and run.by != 0 for run in self.live()
        )
        rate = self.rates.get(key)
        return 0 if key in self.paused_limits else min(free, rate.burst - rate.used) if rate else free

    def shared_slots(self, run: ModelRun) -> bool:
        """Whether the key that its schedule shares with others has a free slot."""
        return run.shared_limit_key is None or self.slots(run.shared_limit_key) > 0

    def limited(self, worker: int, key: str, *, oldest_first: bool) -> list[int]:
        """The result of `claim_limited` for one key, if no other key takes slots that both need."""
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

    def quarantined(self, worker: int) -> list[int]:
        """The result of `claim_quarantined`: one run, or none."""
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
            run.status, run.by, run.started, run.expired = "running", worker, True, ""
            run.waits_for_start = False
            run.epoch = max(run.epoch, self.base) + self.lease_step
            run.attempts += 1
            for key in (run.limit_key, run.shared_limit_key):
                if key is not None:
                    self.limits.setdefault(key, 1)
            if rate := self.rates.get(run.rated_key or ""):
                rate.take(1)
                rate.starts.append(rate.time)
        return {Lease(number, self.runs[number].epoch) for number in ids}

    # -- outcomes: each answers with the ids that are not accepted -----------------------------------------------------

    def complete(self, worker: int, leases: Sequence[Lease]) -> set[int]:
        refused: set[int] = set()
        for lease in leases:
            run = self.lease(worker, lease)
            if run and run.locked:
                refused.add(lease.id)
            elif run:
                self.finish(run, "succeeded", None)
            elif not self._completed(worker, lease):
                refused.add(lease.id)
        return refused

    def _completed(self, worker: int, lease: Lease) -> bool:
        past = self.runs.get(lease.id)
        return (
            past is not None
            and not past.live
            and (past.status, past.by, past.epoch) == ("succeeded", worker, lease.epoch)
        )

    def fail(self, worker: int, leases: Sequence[Lease], outcome: str, *, at_once: bool) -> set[int]:
        refused: set[int] = set()
        kind = "timed_out" if outcome == "timed_out" else "failed"
        now = self.rank_of_now()  # of one statement: its runs are then ordered by their ids
        for lease in leases:
            run = self.lease(worker, lease)
            if run and run.locked:
                refused.add(lease.id)
                continue
            if run is None:
                if self.attempts.get((lease.id, lease.epoch)) not in {(kind, worker), ("cancelled", worker)}:
                    refused.add(lease.id)
                continue
            self.attempts[lease.id, lease.epoch] = "cancelled" if run.cancel else kind, worker
            if run.cancel:
                self.finish(run, "cancelled", run.cancel_reason)
                continue
            run.free()
            run.error_type = "ValueError"
            if outcome == "discarded" or run.attempts >= run.max_attempts:
                self.die(run)
            else:
                run.status, run.due, run.rank = "failed", at_once, now
        return refused

    def release(self, worker: int, leases: Sequence[Lease], *, delayed: bool, reason: str) -> set[int]:
        refused: set[int] = set()
        counted = reason in {"worker_stopped", "disconnected"}
        for lease in leases:
            run = self.lease(worker, lease)
            if run and run.locked:
                refused.add(lease.id)
                continue
            if run is None:
                known = self.runs.get(lease.id)
                repeated = known is not None and known.live and known.by == 0 and known.epoch == lease.epoch
                ended = self.attempts.get((lease.id, lease.epoch))
                repeated |= ended in [(how, worker) for how in ("cancelled", "released", "snoozed")]
                if not (repeated or self._uncounted(worker, lease, reason)):
                    refused.add(lease.id)
                continue
            costs = counted and run.releases >= 4
            if reason != "not_started":
                kind = "snoozed" if reason == "snoozed" else "released"
                self.attempts[lease.id, lease.epoch] = "cancelled" if run.cancel else kind, worker
            if run.cancel:
                self.finish(run, "cancelled", run.cancel_reason)
                continue
            run.free(began=reason != "not_started")
            run.status = "queued"
            if costs and run.attempts >= run.max_attempts:
                self.die(run)
                run.error_type = "ReleasedTooOften"
            run.attempts -= not costs
            run.releases += counted
            if delayed:
                run.due = False
        return refused

    def _uncounted(self, worker: int, lease: Lease, reason: str) -> bool:
        """Whether a reap counted a crash, and the worker now reports that there was none."""
        run = self.runs.get(lease.id)
        if run is None or not run.live or self.attempts.get((lease.id, lease.epoch)) != ("crashed", worker):
            return False
        if reason not in {"disconnected", "not_started"} or (reason == "disconnected" and run.releases >= 4):
            return False
        self.attempts[lease.id, lease.epoch] = "released", worker
        run.crashes = max(0, run.crashes - 1)
        run.releases += reason == "disconnected"
        run.error_type = None if run.error_type == "WorkerCrashed" else run.error_type
        if run.status == "dead" and run.epoch == lease.epoch + 1:
            run.status = "queued"
        return True

    def renew(self, worker: int, leases: Sequence[Lease]) -> dict[int, str]:
        if worker in self.present:
            self.present[worker] = True
        answers: dict[int, str] = {}
        for lease in leases:
            run = self.lease(worker, lease)
            if run is None or run.expired:
                answers[lease.id] = "refused"
            else:
                run.waits_for_start = True
                if run.cancel:
                    answers[lease.id] = "cancel"
        return answers

    # -- handlers ------------------------------------------------------------------------------------------------------

    def once(self, worker: int, lease: Lease, key: str, *, forever: bool) -> bool | str | None:
        """None: the lease is lost. The result takes effect when the transaction commits."""
        if self.lease(worker, lease) is None:
            return None
        if not forever:
            return (lease.id, key) not in self.effects
        return (
            "in doubt" if self.forever_effects.get(key, (0, 0, True))[2] is False else key not in self.forever_effects
        )

    def effect_done(self, lease: Lease, key: str, *, forever: bool) -> None:
        """The transaction of `once` was committed, with its effect."""
        if forever:
            self.forever_effects[key] = lease.id, lease.epoch, True
        else:
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

    def effect_forever(self, worker: int, lease: Lease, key: str, *, done: bool) -> str | None:
        """As `effect`, for a key of all runs. One lease at a time has it until it is done."""
        if self.lease(worker, lease) is None:
            return None
        known = key in self.forever_effects
        run, epoch, was_done = self.forever_effects.get(key, (lease.id, lease.epoch, False))
        if done and not was_done and (run, epoch) != lease:
            return "in doubt"  # it belongs to another lease
        if done or was_done:
            self.forever_effects[key] = run, epoch, True
            return "done"
        if (run, epoch) == lease:
            self.forever_effects[key] = run, epoch, False
            return "begun" if known else "new"
        holder = self.runs[run]
        if holder.live and holder.by and holder.epoch == epoch:
            return "held"
        self.forever_effects[key] = lease.id, lease.epoch, False
        return "in doubt"

    def step(self, worker: int, lease: Lease, name: str, result: Any) -> tuple[bool, Any] | None:
        """`result` None: it begins."""
        if self.lease(worker, lease) is None:
            return None
        epoch, done, stored = self.steps.get((lease.id, name), (0, False, None))
        if not done:
            epoch, done, stored = lease.epoch, result is not None, result
        self.steps[lease.id, name] = epoch, done, stored
        return done, stored

    # -- maintenance ---------------------------------------------------------------------------------------------------

    def reap(self, *, always: bool) -> tuple[int, int, int, int]:
        """Crashed, timed out, dead, cancelled."""
        stopped = [worker for worker, seen in self.present.items() if not seen]
        if not (always or stopped or not self.scanned):
            return 0, 0, 0, 0
        outcomes = [self._reap_run(run) for run in self.live() if (run.expired or self.is_void(run)) and not run.locked]
        for worker in stopped:
            del self.present[worker]
        self.scanned = not any(run.expired or self.is_void(run) for run in self.live())  # five seconds later
        return (
            sum(outcome.startswith("crashed") for outcome in outcomes),
            sum(outcome.startswith("timed out") for outcome in outcomes),
            sum(outcome.endswith("dead") for outcome in outcomes),
            outcomes.count("cancelled"),
        )

    def _reap_run(self, run: ModelRun) -> str:
        if self.is_void(run):
            return self._give_back(run)
        timed_out = run.expired == "timeout" and self.present.get(run.by, False)
        outcome = "timed out" if timed_out else "crashed"
        kind = "cancelled" if run.cancel else "timed_out"
        self.attempts[run.id, run.epoch] = kind if timed_out else "crashed", run.by
        if run.cancel:
            self.finish(run, "cancelled", run.cancel_reason)
            return "cancelled"
        # A lease that was renewed past its timeout, and never named as started, waited for its start.
        run.free(began=timed_out or run.expired == "crash")
        run.epoch += 1
        run.attempts -= not timed_out
        run.crashes += not timed_out
        dead = run.attempts >= run.max_attempts if timed_out else run.crashes > 2
        run.status = "failed" if timed_out else "queued"
        if dead:
            self.die(run)
        run.error_type = "Timeout" if timed_out else "WorkerCrashed"
        run.due = run.due and not (timed_out and not dead)
        return f"{outcome} dead" if dead else outcome

    def _give_back(self, run: ModelRun, *, began: bool = True) -> str:
        """As if it had not been claimed."""
        self.attempts[run.id, run.epoch] = "released", run.by
        if run.cancel:
            self.finish(run, "cancelled", run.cancel_reason)
            return "cancelled"
        run.free(began=began)
        run.epoch += 1
        run.attempts -= 1
        run.status = "queued"
        return "queued"

    def report_terminated(self, worker: int, *, disrupted: bool) -> tuple[int, int, int, int, int]:
        """Released, crashed, dead, cancelled, skipped."""
        if worker not in self.present:
            return 0, 0, 0, 0, 0
        held = [run for run in self.live() if run.by == worker]
        outcomes = [self._terminate(run, disrupted=disrupted) for run in held if not run.locked]
        return (
            sum(outcome.startswith("released") for outcome in outcomes),
            sum(outcome.startswith("crashed") for outcome in outcomes),
            sum(outcome.endswith("dead") for outcome in outcomes),
            outcomes.count("cancelled"),
            sum(run.locked for run in held),
        )

    def _terminate(self, run: ModelRun, *, disrupted: bool) -> str:
        began = run.expired == "crash" if run.expired else not run.waits_for_start
        if self.is_void(run):
            return self._give_back(run, began=began)
        outcome = "released" if disrupted else "crashed"
        self.attempts[run.id, run.epoch] = outcome, run.by
        if run.cancel:
            self.finish(run, "cancelled", run.cancel_reason)
            return "cancelled"
        costs = disrupted and run.releases >= 4
        dead = costs and run.attempts >= run.max_attempts if disrupted else run.crashes >= 2
        run.free(began=began)
        run.epoch += 1
        run.attempts -= not costs
        run.releases += disrupted
        run.crashes += not disrupted
        run.status = "queued"
        if dead:
            self.die(run)
        if not disrupted:
            run.error_type = "WorkerCrashed"
        elif dead:
            run.error_type = "ReleasedTooOften"
        return f"{outcome} dead" if dead else outcome

    def skip_past_deadline(self) -> int:
        late = [run for run in self.live() if self.late(run) and not run.started and run.by == 0]
        for run in late:
            self.finish(run, "skipped", "TooLate")
        return len(late)

    # -- users: the first word of each answer --------------------------------------------------------------------------

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

    def revoke(self, run: ModelRun | None) -> str:
        if run is None or run.status != "running" or run.locked:
            return "refused"
        return self._give_back(run)

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
            tick=run.tick,
        )
        return "queued"
