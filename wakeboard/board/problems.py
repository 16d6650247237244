"""What is wrong now, worst first: a pure function from what the overview reads to sentences with links.

The first problem is the sentence at the top of the first page.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Final, Literal

from wakeboard.rules.humanize import counted, relative
from wakeboard.rules.sanitize import one_line
from wakeboard.store.queries.health_checks import NO_WORKER_AFTER

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import datetime

    from wakeboard.store.queries.health_checks import Definitions, Due, MaintenanceFacts
    from wakeboard.store.queries.listings import LimitRow, PauseRow, RemovalRow
    from wakeboard.store.queries.overview import DeadGroup, StalledSchedule

WAITING_AFTER: Final = timedelta(minutes=5)
UNKNOWN_AFTER: Final = timedelta(minutes=1)
MAX_GROUPS: Final = 5

Severity = Literal["bad", "warn", "note"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One problem. `path` and `query`: the page with what is concerned, inside the board."""

    severity: Severity
    text: str
    path: str = ""
    query: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """What the problems are computed from. `due` is empty for a viewer who may not see all namespaces."""

    now: datetime
    due: Sequence[Due]
    definitions: Definitions
    maintenance: MaintenanceFacts
    stalled: Sequence[StalledSchedule]
    dead: Sequence[DeadGroup]
    limits: Sequence[LimitRow]
    pauses: Sequence[PauseRow]
    removals: Sequence[RemovalRow]


def problems(situation: Situation) -> list[Problem]:
    """All problems, worst first."""
    found = [*_workers(situation), *_schedules(situation), *_due(situation), *_dead(situation), *_held(situation)]
    order = {"bad": 0, "warn": 1, "note": 2}
    return sorted(found, key=lambda problem: order[problem.severity])


def _workers(situation: Situation) -> Iterator[Problem]:
    seen = situation.maintenance.last_worker
    if seen is None:
        severity: Severity = "bad" if situation.definitions.schedules or situation.due else "note"
        yield Problem(severity=severity, text="No worker has ever registered, so nothing runs.")
    elif situation.now - seen > NO_WORKER_AFTER:
        text = f"No worker is running. The last one was seen {relative(seen, situation.now)}."
        yield Problem(severity="bad", text=text)


def _schedules(situation: Situation) -> Iterator[Problem]:
    known = situation.definitions
    if known.late:
        oldest = relative(known.oldest_late, situation.now)
        text = f"{counted(known.late, 'schedule')} overdue: no process enqueues due ticks. The oldest was due {oldest}."
        yield Problem(severity="bad", text=text, path="/schedules")
    for schedule in situation.stalled[:MAX_GROUPS]:
        text = f"{schedule.namespace}/{schedule.name} is stalled: {one_line(schedule.schedule_error)}"
        yield Problem(severity="bad", text=text, path=f"/schedules/{schedule.id}")


def _due(situation: Situation) -> Iterator[Problem]:
    now = situation.now
    for due in situation.due:
        if due.paused:
            continue
        runs = f"{counted(due.runs, 'run')} of {one_line(due.job_type)} in queue {one_line(due.queue)}"
        oldest = f"the oldest was due {relative(due.oldest, now)}"
        query = f"status:queued type:{due.job_type} queue:{due.queue}"
        if not due.served and now - due.oldest > UNKNOWN_AFTER:
            text = f"No worker serves the queue of {runs}; {oldest}."
        elif not due.known and now - due.oldest > UNKNOWN_AFTER:
            text = f"No worker has a handler for {runs}; {oldest}."
        elif now - due.oldest > WAITING_AFTER:
            text = f"Waiting: {runs}; {oldest}."
            yield Problem(severity="warn", text=text, path="/runs", query=query)
            continue
        else:
            continue
        yield Problem(severity="bad", text=text, path="/runs", query=query)


def _dead(situation: Situation) -> Iterator[Problem]:
    for group in situation.dead[:MAX_GROUPS]:
        runs = counted(group.runs, "dead run")
        newest = relative(group.newest, situation.now)
        text = f"{runs} of {one_line(group.job_type)}: {one_line(group.error_type)}. The newest died {newest}."
        query = f"status:dead type:{group.job_type} error:{group.error_type}"
        recent = situation.now - group.newest < timedelta(days=1)
        yield Problem(severity="bad" if recent else "warn", text=text, path="/runs", query=query)
    if len(situation.dead) > MAX_GROUPS:
        more = len(situation.dead) - MAX_GROUPS
        text = f"{counted(more, 'other group')} of dead runs."
        yield Problem(severity="warn", text=text, path="/runs", query="status:dead")


def _held(situation: Situation) -> Iterator[Problem]:
    for pause in situation.pauses:
        why = f": {one_line(pause.reason)}" if pause.reason else ""
        text = f"Paused: {one_line(pause.label)}, since {relative(pause.paused_at, situation.now)}{why}"
        yield Problem(severity="warn" if pause.kind == "all" else "note", text=text, path="/schedules")
    for removal in situation.removals:
        if removal.confirmed_at is None:
            text = (
                f"{one_line(removal.source)} asks to remove {counted(removal.count, 'schedule')}. To confirm, type:"
                f" wakeboard confirm removal {one_line(removal.source)}"
            )
            yield Problem(severity="warn", text=text)
    for limit in situation.limits:
        if limit.waiting and limit.running >= limit.max_running:
            text = (
                f"The limit {one_line(limit.key)} is full ({limit.running} of {limit.max_running}):"
                f" {counted(limit.waiting, 'run')} waiting."
            )
            yield Problem(severity="note", text=text, path="/runs", query=f"limit:{limit.key} status:queued")
