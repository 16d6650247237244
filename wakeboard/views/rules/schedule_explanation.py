"""Why a schedule creates no runs now, or when it will: one sentence for each fact. Pure functions of what was read.

`views/queries/schedule_situation.py` reads the model. `wakeboard explain` and the board show the same facts.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal

from wakeboard.dependencies.rules.graph import parent_facts, unmatched_fact
from wakeboard.text.facts import Fact, Pause, listed_runs, pause_fact, skipped_fact, unserved_fact
from wakeboard.text.humanize import counted, expectation, reason_in_words
from wakeboard.text.sanitize import one_line
from wakeboard.views.rules.thresholds import NO_WORKER_AFTER, OVERDUE_AFTER

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from wakeboard.dependencies.rules.graph import Parent, UnmatchedTicks

State = Literal["active", "on demand", "ended", "paused", "circuit open", "suspended", "stalled", "removed"]

_POLICIES: Final = {
    "Forbid": "The concurrency policy Forbid skips its ticks meanwhile.",
    "Queue": "The concurrency policy Queue lets its next run wait meanwhile.",
    "Replace": "The concurrency policy Replace cancels what is unfinished at its next tick.",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class SkippedTicks:
    """Ticks that did not run. `until`: the last one of several."""

    scheduled_for: datetime
    until: datetime | None
    count: int
    reason: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleSituation:
    """A schedule, its runs, and what is in its way.

    `state`: what decides whether its ticks become runs. `object_gone`: its object no longer exists, and its removal
    waits for a confirmation. `removed_itself`: an application created it, and its last tick has passed.
    `removal_count`, `removal_at`: the schedules of its source whose removal waits, and since when. `unfinished`,
    `dead`: ids of some of its runs; their numbers are of at most 10,000 live runs. `last_*`: of its newest finished
    runs, the last one that was not skipped. `last_worker`: when any worker was seen last. `operator_leads`: some
    operator has a lease. `last_maintenance`: when expired leases were last looked for. `waiting_ticks`: those that wait
    for other ticks of a parent with `ticks: All`, at most 10,000. `unread`: no scheduler has compiled its expression,
    so that `next_run_at` is the moment from which its ticks count, and no tick.
    """

    now: datetime
    id: int
    source: str
    namespace: str
    name: str
    job_type: str
    queue: str
    cron: str | None
    state: State
    concurrency_policy: str
    suspended: bool
    object_gone: bool
    removed_at: datetime | None
    removed_itself: bool
    schedule_error: str | None
    next_run_at: datetime | None
    unread: bool
    removal_count: int | None
    removal_at: datetime | None
    type_served: bool
    type_meant: str | None
    queue_served: bool
    last_worker: datetime | None
    operator_leads: bool
    last_maintenance: datetime | None
    unfinished: list[int]
    unfinished_count: int
    dead: list[int]
    dead_count: int
    last_id: int | None
    last_status: str | None
    last_finished_at: datetime | None
    skipped: list[SkippedTicks]
    pauses: list[Pause]
    parents: list[Parent]
    suspend_after_dead: int | None = None
    circuit_opened_at: datetime | None = None
    circuit_probe_at: datetime | None = None
    circuit_probe_id: int | None = None
    expect_success_within_s: int | None = None
    alert_after_missed: int | None = None
    success_missed_at: datetime | None = None
    waiting_ticks: int = 0
    oldest_waiting_tick: datetime | None = None
    unmatched: list[UnmatchedTicks] = field(default_factory=list["UnmatchedTicks"])


def explain_schedule(schedule: ScheduleSituation, *, with_counts: bool = True) -> list[Fact]:
    """The facts about a schedule: what stops it, its next tick, what is in the way of its runs, and what happened.

    `with_counts` False: without the number of other schedules, which may belong to namespaces that the viewer may not
    see.
    """
    facts = list(_stops(schedule, with_counts=with_counts))
    if not schedule.removed_at:
        facts += _ticks(schedule)
    facts += _expectation(schedule)
    facts += _runs(schedule)
    unserved = unserved_fact(
        schedule.queue,
        schedule.job_type,
        queue_served=schedule.queue_served,
        type_served=schedule.type_served,
        meant=schedule.type_meant if with_counts else None,
    )
    if unserved and not schedule.removed_at:
        facts.append(unserved)
    return facts + list(_past(schedule))


def _stops(schedule: ScheduleSituation, *, with_counts: bool) -> Iterator[Fact]:
    source = one_line(schedule.source)
    if schedule.removed_at:
        yield _removal(schedule.removed_at, source, by_itself=schedule.removed_itself)
        return
    if schedule.object_gone:
        yield Fact("suspended", "It is suspended, because its object no longer exists: no tick becomes a run.")
    elif schedule.suspended:
        by = "by an application (`suspended`)" if source == "app" else "by its specification (suspend: true)"
        yield Fact("suspended", f"It is suspended {by}: no tick becomes a run.")
    if schedule.removal_count and schedule.removal_at:
        many = counted(schedule.removal_count, "schedule") if with_counts else "schedules"
        which = "" if schedule.object_gone else "; it may be one of them"
        yield Fact(
            "removal_pending",
            f"The removal of {many} of its source waits for `wakeboard confirm removal {source}` since",
            schedule.removal_at,
            f"{which}.",
        )
    if schedule.schedule_error is not None:
        yield Fact("stalled", f"It has stalled, because its next ticks cannot be computed: {_error(schedule)}")
    for pause in schedule.pauses:
        yield pause_fact(pause, "It")
    if schedule.circuit_opened_at and not schedule.suspended:
        yield from _circuit(schedule)


def _removal(at: datetime, source: str, *, by_itself: bool) -> Fact:
    if by_itself:
        return Fact("removed", "It removed itself", at, ", after its last tick.")
    by = "an application removed it" if source == "app" else f"its source {source} no longer declares it"
    return Fact("removed", "It was removed", at, f": {by}.")


def _circuit(schedule: ScheduleSituation) -> Iterator[Fact]:
    died = f"{counted(schedule.suspend_after_dead or 1, 'run')} of its ticks died one after another"
    yield Fact(
        "circuit_open",
        "Its circuit has been open since",
        schedule.circuit_opened_at,
        f", because {died}: its ticks are skipped.",
    )
    if schedule.circuit_probe_id is not None:
        yield Fact("probe", f"Its run {schedule.circuit_probe_id} is a probe: if it succeeds, the schedule continues.")
    else:
        yield Fact("probe", "The first tick from", schedule.circuit_probe_at, " on is a probe.")
    name = one_line(f"{schedule.namespace}/{schedule.name}")
    yield Fact("resume", f"`wakeboard resume schedule {name}` continues now.")


def _error(schedule: ScheduleSituation) -> str:
    return one_line(schedule.schedule_error or "")


def _ticks(schedule: ScheduleSituation) -> Iterator[Fact]:
    if schedule.parents:
        yield from parent_facts(schedule.parents)
        yield from _waiting_ticks(schedule)
        yield from map(unmatched_fact, schedule.unmatched)
    elif schedule.cron is None:
        name = one_line(f"{schedule.namespace}/{schedule.name}")
        yield Fact("on_demand", f"It has no ticks of its own: `wakeboard run-now {name}` starts it.")
    elif schedule.state == "ended":
        yield Fact("ended", "It has ended: it has no further tick.")
    elif schedule.state != "active" or schedule.next_run_at is None:
        return
    elif schedule.next_run_at > schedule.now:
        yield Fact("next_tick", "Its next tick is", schedule.next_run_at, ".")
    else:
        name = "late" if schedule.next_run_at < schedule.now - OVERDUE_AFTER else "due"
        if schedule.unread:
            yield Fact(name, "No worker has computed its ticks yet, which count from", schedule.next_run_at, ".")
        else:
            yield Fact(name, "Its tick of", schedule.next_run_at, " has not become a run yet.")
        yield from _maintenance(schedule)


def _waiting_ticks(schedule: ScheduleSituation) -> Iterator[Fact]:
    """The ticks for which `ticks: All` is not complete yet, also because a parent's tick has no run at all."""
    if schedule.waiting_ticks:
        parents = " and ".join(one_line(parent.name) for parent in schedule.parents if parent.ticks == "All")
        waiting = counted(schedule.waiting_ticks, "tick")
        wait = "waits" if schedule.waiting_ticks == 1 else "wait"
        yield Fact(
            "waits_for_ticks",
            f"{waiting} of it {wait} until the ticks of {parents} have run; a backfill creates missing runs."
            " The oldest is of",
            schedule.oldest_waiting_tick,
            ".",
        )


def _maintenance(schedule: ScheduleSituation) -> Iterator[Fact]:
    """Who should have made the run of a late tick."""
    seen = schedule.last_worker
    if not schedule.operator_leads and (seen is None or seen < schedule.now - NO_WORKER_AFTER):
        who = "No operator leads, and no worker has been seen"
        yield Fact("no_maintenance", f"{who} since" if seen else f"{who} yet.", seen, "." if seen else "")
    elif schedule.last_maintenance:
        yield Fact("maintenance", "Maintenance was last done", schedule.last_maintenance, ".")


def _expectation(schedule: ScheduleSituation) -> Iterator[Fact]:
    """What it expects of its ticks, and whether they have missed it. A suspended or paused one has no expectation."""
    if schedule.expect_success_within_s is None:
        return
    expected = expectation(schedule.expect_success_within_s, schedule.alert_after_missed)
    if schedule.success_missed_at and not schedule.suspended and not schedule.pauses:
        yield Fact(
            "success_missed", f"It expects {expected}. It has missed this since", schedule.success_missed_at, "."
        )
    elif not schedule.removed_at:
        yield Fact("expects", f"It expects {expected}.")


def _runs(schedule: ScheduleSituation) -> Iterator[Fact]:
    if schedule.unfinished:
        which = listed_runs(schedule.unfinished, schedule.unfinished_count)
        is_or_are = "is" if schedule.unfinished_count == 1 else "are"
        policy = _POLICIES.get(schedule.concurrency_policy, "")
        name = "in_the_way" if policy else "unfinished"
        yield Fact(name, f"Its {which} {is_or_are} unfinished. {policy}".rstrip())
        yield Fact("advice", f"`wakeboard explain {min(schedule.unfinished)}` explains the first one.")
    if schedule.dead:
        which = listed_runs(schedule.dead, schedule.dead_count)
        yield Fact("dead", f"Its {which} {'is' if schedule.dead_count == 1 else 'are'} dead.")


def _past(schedule: ScheduleSituation) -> Iterator[Fact]:
    for ticks in schedule.skipped:
        why = reason_in_words(ticks.reason, "skipped")
        yield skipped_fact(ticks.count, ticks.scheduled_for, ticks.until, why)
    if schedule.last_id is not None:
        yield Fact("last_run", f"Its last run {schedule.last_id} {_ended(schedule)}", schedule.last_finished_at, ".")


def _ended(schedule: ScheduleSituation) -> str:
    status = schedule.last_status or ""
    return status if status == "succeeded" else f"was {status}"
