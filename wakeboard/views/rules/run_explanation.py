"""Why a run does not run now, or what happened to it: one sentence for each fact. Pure functions of what was read.

`views/queries/run_situation.py` reads the model. `wakeboard explain` and the board show the same facts.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from wakeboard.dependencies.rules.graph import awaited_run_facts
from wakeboard.text.facts import Fact, Pause, listed_runs, pause_fact, skipped_fact, unserved_fact
from wakeboard.text.humanize import counted, counted_at_least, lasted, reason_in_words
from wakeboard.text.sanitize import one_line

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import datetime

    from wakeboard.backfills.rules import BackfilledTicks
    from wakeboard.dependencies.rules.graph import AwaitedRun
    from wakeboard.views.rules.run_rows import StoredRun

MOST_AHEAD: Final = 1000
QUARANTINED: Final = 2  # crashes, see docs/architecture.md
BACKFILL_KEY: Final = "backfill:"  # begins the limit keys of backfills
_LONGEST_ERROR: Final = 300  # characters


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitOfRun:
    """A limit key that a run needs a slot of.

    `holders`: ids of some of the `running` runs. `schedule_policy`: the key is the schedule's own, for this policy.
    `next_start_s`: seconds until its rate limit, or a handler's pause (`paused`), lets a run start; 0: now.
    """

    key: str
    max_running: int
    running: int
    holders: list[int]
    schedule_policy: str | None
    next_start_s: float
    paused: bool


@dataclass(frozen=True, slots=True)
class RunsAhead:
    """The due runs that precede a run.

    `read`: how many were read, at most `MOST_AHEAD` + 1, those first that are claimed first. `claimable`: how many of
    them a worker can claim that can claim this run. The others do not keep it waiting.
    """

    claimable: int
    read: int

    def counted(self, noun: str) -> str:
        """For users. `1,000+ runs` or `7+ runs` if more may precede."""
        return counted_at_least(min(self.claimable, MOST_AHEAD), noun, more=self.read > MOST_AHEAD)


@dataclass(frozen=True, slots=True, kw_only=True)
class Obstacles:
    """What may keep a run from being claimed.

    `pauses`: of everything, of its queue and of its schedule. `type_served`, `queue_served`: a worker knew the job type
    in this queue, or served the queue, in the last 10 minutes. `type_meant`: a similar one that they know. `higher`,
    `earlier`: free runs of its queue (and of its limit key if it has one) that are due and have a higher priority, or
    the same one and were due before it. None are read if the run is not due or is quarantined. `waits_for`: runs that
    must succeed before.
    """

    pauses: list[Pause]
    limits: list[LimitOfRun]
    type_served: bool
    type_meant: str | None
    queue_served: bool
    higher: RunsAhead
    earlier: RunsAhead
    waits_for: list[AwaitedRun]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSituation:
    """A run, live or finished, and what is in its way.

    `actor`, `actor_reason`: who cancelled or discarded it last, and why. `obstacles`: of a queued or failed run.
    `backfilled`: of a skipped one.
    """

    now: datetime
    run: StoredRun
    actor: str | None = None
    actor_reason: str | None = None
    obstacles: Obstacles | None
    backfilled: Sequence[BackfilledTicks] = ()


def explain_run(situation: RunSituation, *, with_counts: bool = True) -> list[Fact]:
    """The facts about a run, in the order in which they matter.

    `with_counts` False: without ids and numbers of other runs, which may belong to namespaces that the viewer may not
    see.
    """
    run = situation.run
    match run.status:
        case "running":
            return list(_running(run, situation.now))
        case "dead":
            return list(_dead(run))
        case "queued" | "failed" if situation.obstacles:
            return list(_waiting(run, situation.now, situation.obstacles, with_counts=with_counts))
        case _:
            return list(_finished(situation))


def _running(run: StoredRun, now: datetime) -> Iterator[Fact]:
    worker = f"The worker {one_line(run.worker)}" if run.worker else "A worker"
    if run.locked_until and run.locked_until < now:
        yield Fact(
            "lease_expired",
            f"{worker} has not renewed its lease, which expired",
            run.locked_until,
            ". Maintenance takes it back, unless another transaction has locked the run.",
        )
    else:
        attempt = f"attempt {run.attempts} of {run.max_attempts}"
        yield Fact("running", f"{worker} has been executing {attempt} since", run.started_at, ".")
        yield Fact("lease", "Its lease ends", run.locked_until, " unless the worker renews it.")
    if run.cancel_requested_at:
        yield Fact("stop_requested", "A stop was requested", run.cancel_requested_at, ".")


def _waiting(run: StoredRun, now: datetime, obstacles: Obstacles, *, with_counts: bool) -> Iterator[Fact]:
    due = run.due_since <= now
    yield from awaited_run_facts(obstacles.waits_for, with_names=with_counts)
    if not (due or obstacles.waits_for):
        yield Fact("not_due", "It is retried" if run.status == "failed" else "It is due", run.due_since, ".")
    missed = bool(run.start_before and run.start_before < now and not run.started_at)
    if missed:
        yield Fact("too_late", "It is skipped: it had to start before", run.start_before, ".")
    found = [*_pauses(obstacles), *_full_limits(obstacles, with_counts=with_counts)]
    unserved = unserved_fact(
        run.queue,
        run.job_type,
        queue_served=obstacles.queue_served,
        type_served=obstacles.type_served,
        meant=obstacles.type_meant if with_counts else None,
    )
    yield from [*found, unserved] if unserved else found
    if run.crash_count >= QUARANTINED:
        crashes = counted(run.crash_count, "crash")
        yield Fact("quarantined", f"It was running at {crashes}, so a worker executes it alone.")
    ahead = _ahead(run, obstacles, with_counts=with_counts)
    if ahead:
        yield ahead
    for pause in obstacles.pauses:
        if pause.kind == "schedule":
            yield pause_fact(pause, "Its schedule, which creates no further runs meanwhile,")
    if due and not ahead:
        yield Fact("due", "It became due", run.due_since, ".")
        if not (found or unserved or missed):
            allowed = f"a timeout of {run.timeout_s:,} s (WAKEBOARD_MAX_TIMEOUT_SECONDS)"
            yield Fact(
                "claimable",
                f"A worker that is free and allows {allowed} claims it,"
                " unless another transaction has locked it or its limit.",
            )


def _pauses(obstacles: Obstacles) -> Iterator[Fact]:
    """The pauses that keep a run from being claimed. A pause of its schedule does not."""
    for pause in obstacles.pauses:
        if pause.kind != "schedule":
            yield pause_fact(pause, "Its schedule")


def _full_limits(obstacles: Obstacles, *, with_counts: bool) -> Iterator[Fact]:
    for limit in obstacles.limits:
        number = limit.key.removeprefix(BACKFILL_KEY) if limit.key.startswith(BACKFILL_KEY) else ""
        key = f"Backfill {number}" if number else f"The limit key {one_line(limit.key)}"
        if limit.running >= limit.max_running:
            whose = (
                f"The schedule has the concurrency policy {limit.schedule_policy}"
                if limit.schedule_policy
                else f"{key} allows {counted(limit.max_running, 'run')} at a time"
            )
            if not limit.max_running and not number:
                allowed = (
                    f"{key} allows no run to start: `wakeboard limit {one_line(limit.key)} --at-once N` changes that."
                )
                yield Fact("limit_full", allowed)
                continue
            holders = f"{limit.running:,} {'is' if limit.running == 1 else 'are'} running"
            held = f"{holders}: {listed_runs(limit.holders, limit.running)}" if with_counts else "as many are running"
            if number and not limit.max_running:
                yield Fact("backfill_paused", f"{key} is paused: `wakeboard backfill {number} --resume` ends that.")
            else:
                yield Fact("limit_full", f"{whose}, and {held}.")
        if limit.next_start_s > 0:
            name, why = (
                ("limit_paused", "is paused by a handler")
                if limit.paused
                else ("limit_exhausted", "has used up its rate")
            )
            yield Fact(name, f"{key} {why}; the next run starts in {lasted(timedelta(seconds=limit.next_start_s))}.")


def _ahead(run: StoredRun, obstacles: Obstacles, *, with_counts: bool) -> Fact | None:
    """The fact that other runs are claimed before it, or may be."""
    whose = "queue and limit key" if run.limit_key else "queue"
    parts: list[str] = []
    if obstacles.higher.claimable:
        parts.append(f"{obstacles.higher.counted('run')} of higher priority")
    if obstacles.earlier.claimable:
        parts.append(obstacles.earlier.counted("earlier run"))
    if not parts:
        if obstacles.type_served and max(obstacles.higher.read, obstacles.earlier.read) > MOST_AHEAD:
            first = f"the first {MOST_AHEAD:,} of them" if with_counts else "the first of them"
            return Fact("behind", f"It may wait behind other runs of its {whose}; its workers cannot claim {first}.")
        return None
    others = " and ".join(parts) if with_counts else "other runs"
    return Fact("behind", f"It waits behind {others} of its {whose}.")


def _dead(run: StoredRun) -> Iterator[Fact]:
    yield Fact("dead", "It stays dead until a user retries or discards it. It became dead", run.dead_at, ".")
    if run.crash_count > QUARANTINED:
        yield Fact("crashed", f"It was running at {counted(run.crash_count, 'crash')} of its workers.")
    yield from _last_error(run)
    yield Fact("advice", f"`wakeboard retry {run.id}` runs it again, `wakeboard discard {run.id}` moves it to history.")


def _last_error(run: StoredRun) -> Iterator[Fact]:
    error = one_line(": ".join(part for part in (run.error_type, run.error) if part))
    if error:
        made = f"{run.attempts} of {counted(run.max_attempts, 'attempt')}"
        cut = f"{error[:_LONGEST_ERROR]}…" if len(error) > _LONGEST_ERROR else error
        yield Fact("error", f"Its last error, after {made}: {cut}")


def _finished(situation: RunSituation) -> Iterator[Fact]:
    run = situation.run
    match run.status:
        case "succeeded":
            took = run.finished_at - run.started_at if run.finished_at and run.started_at else None
            after = f", after {lasted(took)}" if took is not None else ""
            which = f"Attempt {run.attempts} of {run.max_attempts} succeeded"
            yield Fact("succeeded", which, run.finished_at, f"{after}.")
        case "skipped":
            yield from _skipped(run, situation.backfilled)
            return
        case _:
            by = f" by {one_line(situation.actor)}" if situation.actor else ""
            why = one_line(situation.actor_reason or "") or reason_in_words(run.reason, run.status)
            yield Fact(run.status, f"It was {run.status}{by}", run.finished_at, f": {why.rstrip('.')}." if why else ".")
            yield from _last_error(run)
    yield Fact("advice", f"`wakeboard replay {run.id}` enqueues a copy of it.")


def _skipped(run: StoredRun, backfilled: Sequence[BackfilledTicks]) -> Iterator[Fact]:
    why = reason_in_words(run.reason, run.status)
    if run.trigger == "tick":
        yield skipped_fact(run.skipped_count or 1, run.scheduled_for, run.skipped_until, why)
    else:
        yield Fact("skipped", "It was skipped", run.finished_at, f": {why}." if why else ".")
    for each in backfilled:
        yield Fact("backfilled", f"{each.sentence.capitalize()}: `wakeboard backfill {each.backfill_id}`.")
