"""What is wrong now, worst first: a pure function from what the overview reads to sentences with links.

views/rules/health_conditions.py decides what is reported and how bad it is, here and in `wakeboard check`.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from wakeboard.text.facts import did_you_mean
from wakeboard.text.humanize import counted, counted_at_least, relative
from wakeboard.text.sanitize import one_line
from wakeboard.views.queries.commits import REMEDY, CommitFacts
from wakeboard.views.rules import health_conditions as health
from wakeboard.views.rules.run_search import quoted

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from datetime import datetime

    from wakeboard.alerts.queries.page import AlertCounts
    from wakeboard.dependencies.queries import BlockedSchedule
    from wakeboard.limits.queries import LimitRow
    from wakeboard.text.facts import Pause
    from wakeboard.views.queries.health_checks import Definitions, DueRuns, MaintenanceFacts
    from wakeboard.views.queries.listings import RemovalRow
    from wakeboard.views.queries.overview import DeadGroup
    from wakeboard.views.queries.schedule_list import ListedSchedule
    from wakeboard.views.rules.health_conditions import Severity

MAX_GROUPS: Final = 5
START_WORKER: Final = "wakeboard worker --forever --handlers MODULE"


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One problem. `path` and `parameters`: the page with what is concerned, inside the board.

    `command`: what to type against it. `alert`: the open alert that is about it. `dead`: it is about dead runs, which
    have one colour on all pages. `count`: how many problems it stands for; 0: an alert that is counted is about it.
    """

    severity: Severity
    text: str
    path: str = ""
    parameters: Mapping[str, str] = field(default_factory=dict[str, str])
    command: str = ""
    alert: str = ""
    dead: bool = False
    count: int = 1

    @property
    def colour(self) -> Severity:
        """The severity whose colour it has."""
        return "bad" if self.dead and self.severity == "warn" else self.severity


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """What the problems are computed from. `due` is empty for a viewer who may not see all namespaces."""

    now: datetime
    due: Sequence[DueRuns]
    definitions: Definitions
    maintenance: MaintenanceFacts
    stalled: Sequence[ListedSchedule]
    dead: Sequence[DeadGroup]
    limits: Sequence[LimitRow]
    pauses: Sequence[Pause]
    removals: Sequence[RemovalRow]
    alerts: AlertCounts | None = None
    blocked: Sequence[BlockedSchedule] = ()
    commits: CommitFacts = field(default_factory=CommitFacts)


def problems(situation: Situation) -> list[Problem]:
    """All problems, worst first."""
    found = [
        *_commits(situation),
        *_workers(situation),
        *_operators(situation),
        *_alerts(situation),
        *_schedules(situation),
        *_due(situation),
        *_unserved_queues(situation),
        *_dead(situation),
        *_pauses(situation),
        *_removals(situation),
        *_limits(situation),
    ]
    order = {"bad": 0, "warn": 1, "note": 2}
    return sorted(found, key=lambda problem: order[problem.severity])


def _commits(situation: Situation) -> Iterator[Problem]:
    if why := situation.commits.why_they_hang:
        yield Problem(severity=health.HANGING_COMMITS.severity, text=f"Commits hang: {one_line(why)}; {REMEDY}.")


def _operators(situation: Situation) -> Iterator[Problem]:
    for problem in situation.maintenance.operator_problems:
        text = f"The operator of {one_line(problem)}. Changes of schedules have no effect meanwhile."
        yield Problem(severity=health.REFUSED_OPERATOR.severity, text=text)


def _alerts(situation: Situation) -> Iterator[Problem]:
    alerts = situation.alerts
    if alerts is None or (situation.dead and _is_about_dead(alerts)):
        return  # `_dead` marks what the alert is about
    if alerts.open == 1:
        since = relative(alerts.opened_at, situation.now)
        text = f"The alert {one_line(alerts.names[0])} opened {since}: {one_line(alerts.summary)}."
    else:
        names = ", ".join(map(one_line, alerts.names))
        more = f" and {counted(alerts.open - len(alerts.names), 'other')}" if alerts.open > len(alerts.names) else ""
        text = f"{counted(alerts.open, 'alert')} open: {names}{more}."
    yield Problem(severity=health.OPEN_ALERTS[alerts.severity], text=text, path="/alerts", count=alerts.open)


def _is_about_dead(alerts: AlertCounts) -> bool:
    """Whether all open alerts are about all dead runs."""
    return alerts.open == len(alerts.of_all_dead)


def _is_without_worker(situation: Situation) -> bool:
    """Whether no process executes runs, so that nothing else explains why runs wait."""
    seen = situation.maintenance.last_worker
    return seen is None or health.NO_WORKER.severity_after(situation.now - seen) is not None


def _workers(situation: Situation) -> Iterator[Problem]:
    seen = situation.maintenance.last_worker
    if seen is None:
        needed = situation.definitions.schedules or situation.due
        condition = health.NEVER_A_WORKER if needed else health.NOT_NEEDED_WORKER
        text = "No worker has ever registered, so nothing runs. Start one where your handlers are:"
        yield Problem(severity=condition.severity, text=text, command=START_WORKER)
    elif severity := health.NO_WORKER.severity_after(situation.now - seen):
        text = f"No worker is running. The last one was seen {relative(seen, situation.now)}."
        yield Problem(severity=severity, text=text)


def _schedules(situation: Situation) -> Iterator[Problem]:
    known = situation.definitions
    if known.without_tick:
        example = one_line(known.without_tick_example or "")
        text = (
            f"{counted(known.without_tick, 'schedule')} whose next tick is missing or too far away, for example"
            f" {example}. Apply them again."
        )
        yield Problem(severity=health.LOST_TICK.severity, text=text, path="/schedules")
    if known.late:
        oldest = relative(known.oldest_late, situation.now)
        text = f"{counted(known.late, 'schedule')} overdue: no process enqueues due ticks. The oldest was due {oldest}."
        yield Problem(
            severity=health.OVERDUE_SCHEDULE.severity, text=text, path="/schedules", parameters={"health": "late"}
        )
    if known.open_circuits:
        text = (
            f"{counted(known.open_circuits, 'schedule')} stopped after dead runs (suspendAfterDead), for example"
            f" {one_line(known.open_circuit_example or '')}."
        )
        yield Problem(
            severity=health.OPEN_CIRCUIT.severity, text=text, path="/schedules", parameters={"state": "circuit open"}
        )
    for schedule in situation.stalled[:MAX_GROUPS]:
        text = f"{schedule.namespace}/{schedule.name} is stalled: {one_line(schedule.schedule_error or '')}"
        yield Problem(severity=health.STALLED_SCHEDULE.severity, text=text, path=f"/schedules/{schedule.id}")
    for blocked in situation.blocked[:MAX_GROUPS]:
        text = f"{blocked.namespace}/{blocked.name} is blocked. {blocked.reason}"
        yield Problem(severity=health.BLOCKED_SCHEDULE.severity, text=text, path=f"/schedules/{blocked.id}")
    if len(situation.blocked) > MAX_GROUPS:
        yield Problem(severity=health.BLOCKED_SCHEDULE.severity, text="More schedules are blocked.", path="/schedules")


def _unserved_queues(situation: Situation) -> Iterator[Problem]:
    """Queues of schedules, whether or not runs are due. Without any worker that is the problem."""
    if _is_without_worker(situation):
        return
    for queue in sorted({*situation.definitions.unserved} - {due.queue for due in situation.due})[:MAX_GROUPS]:
        text = f"No worker has served queue {one_line(queue)} in the last 10 minutes, and schedules use it."
        yield Problem(
            severity=health.UNSERVED_QUEUE.severity, text=text, path="/schedules", parameters={"queue": queue}
        )


def _due(situation: Situation) -> Iterator[Problem]:
    waiting = [due for due in situation.due if not due.paused]
    if waiting and _is_without_worker(situation):
        count = sum(due.runs for due in waiting)
        runs = counted_at_least(count, "due run", more=any(due.more for due in waiting))
        oldest = min(due.oldest for due in waiting)
        text = f"{runs} {'waits' if count == 1 else 'wait'} for a worker; the oldest was due"
        if severity := health.UNSERVED_QUEUE.severity_after(situation.now - oldest):
            text = f"{text} {relative(oldest, situation.now)}."
            yield Problem(severity=severity, text=text, path="/runs", parameters={"q": "status:queued", "sort": "due"})
        return
    for due in waiting:
        lasted = situation.now - due.oldest
        runs = f"{due.runs_text} of {one_line(due.job_type)} in queue {one_line(due.queue)}"
        oldest = f"the oldest was due {relative(due.oldest, situation.now)}"
        if not due.served:
            severity, text = (
                health.UNSERVED_QUEUE.severity_after(lasted),
                f"No worker serves the queue of {runs}; {oldest}.",
            )
        elif not due.known:
            severity = health.UNKNOWN_JOB_TYPE.severity_after(lasted)
            text = f"No worker has a handler for {runs}; {oldest}.{did_you_mean(due.meant)}"
        else:
            severity, text = health.WAITING_RUNS.severity_after(lasted), f"Waiting: {runs}; {oldest}."
        if severity:
            query = f"status:queued type:{quoted(due.job_type)} queue:{quoted(due.queue)}"
            yield Problem(severity=severity, text=text, path="/runs", parameters={"q": query})


def _dead(situation: Situation) -> Iterator[Problem]:
    alerts = situation.alerts
    alert = ", ".join(map(one_line, alerts.of_all_dead)) if alerts else ""
    is_counted = alert and alerts and alerts.severity == "critical" and not _is_about_dead(alerts)

    def problem(newest: datetime, text: str, query: str) -> Problem:
        lasting = health.DEAD_RUNS.severity_after(situation.now - newest) or health.DEAD_RUNS.severity
        severity = health.OPEN_ALERTS[alerts.severity] if alerts and _is_about_dead(alerts) else lasting
        return Problem(
            severity=severity,
            text=text,
            path="/runs",
            parameters={"q": query},
            alert=alert,
            dead=True,
            count=0 if is_counted else 1,
        )

    for group in situation.dead[:MAX_GROUPS]:
        newest = relative(group.newest, situation.now)
        yield problem(
            group.newest,
            f"{group.runs_text} of {one_line(group.job_type)}: {one_line(group.error_type)}. The newest died {newest}.",
            f"status:dead type:{quoted(group.job_type)} error:{quoted(group.error_type)}",
        )
    if others := situation.dead[MAX_GROUPS:]:
        text = f"{counted(len(others), 'other group')} of dead runs."
        yield problem(max(group.newest for group in others), text, "status:dead")


def _pauses(situation: Situation) -> Iterator[Problem]:
    for pause in situation.pauses:
        why = f" ({one_line(pause.reason)})" if pause.reason else ""
        by = f" by {one_line(pause.actor)}" if pause.actor else ""
        text = f"Paused {relative(pause.paused_at, situation.now)}{by}: {one_line(pause.label)}{why}"
        path, parameters = ("/schedules", {"state": "paused"}) if pause.kind == "schedule" else ("/limits", {})
        yield Problem(severity=health.PAUSES[pause.kind].severity, text=text, path=path, parameters=parameters)


def _removals(situation: Situation) -> Iterator[Problem]:
    for removal in situation.removals:
        if removal.confirmed_at is None:
            source = one_line(removal.source)
            text = f"{source} asks to remove {counted(removal.count, 'schedule')}. To confirm, type:"
            command = f"wakeboard confirm removal {shlex.quote(source)}"
            yield Problem(severity=health.PENDING_REMOVAL.severity, text=text, command=command)


def _limits(situation: Situation) -> Iterator[Problem]:
    for limit in situation.limits:
        if limit.waiting and limit.running >= limit.max_running:
            text = (
                f"The limit {one_line(limit.key)} is full ({limit.running} of {limit.max_running}):"
                f" {counted(limit.waiting, 'run')} waiting."
            )
            query = f"limit:{quoted(limit.key)} status:queued"
            yield Problem(severity=health.FULL_LIMIT.severity, text=text, path="/runs", parameters={"q": query})
    differing = [limit for limit in situation.limits if limit.differs_from]
    for limit in differing[:MAX_GROUPS]:
        sources = ", ".join(map(one_line, limit.differs_from))
        text = f"The limit {one_line(limit.key)} differs from what {sources} declares."
        yield Problem(severity=health.DIFFERENT_LIMIT.severity, text=text, path="/limits")
    if len(differing) > MAX_GROUPS:
        text = f"In addition, {counted(len(differing) - MAX_GROUPS, 'limit')} not as declared."
        yield Problem(severity=health.DIFFERENT_LIMIT.severity, text=text, path="/limits")
