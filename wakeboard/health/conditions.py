"""The conditions of health: each is a function, from which all else follows. No I/O, no clock.

Those of the database itself are in `database_conditions.py`.

`wakeboard check` and the board's overview report their problems in the same words, the operator exports their metrics,
and docs/troubleshooting.md lists them.

The name of a function says what it finds, and its docstring what to do: users read both. A new condition is a function
there or here, its fact in `queries/facts.py`, and its line in tests/health/test_conditions.py.
"""

from __future__ import annotations

import shlex
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from wakeboard.health.database_conditions import OF_THE_DATABASE
from wakeboard.health.problems import REGISTERED, HealthCondition, Metric, Problem, severity_order
from wakeboard.text.facts import unserved_fact
from wakeboard.text.humanize import counted, counted_at_least, relative
from wakeboard.text.sanitize import one_line
from wakeboard.views.rules.run_search import quoted
from wakeboard.views.rules.thresholds import NO_WORKER_AFTER

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from wakeboard.health.problems import Severity
    from wakeboard.health.queries.facts import DueRuns, Health

MINUTE: Final = timedelta(minutes=1)
PARTITIONS_AHEAD: Final = timedelta(weeks=2)  # maintenance creates them five weeks ahead
RETENTION_GRACE: Final = timedelta(weeks=2)  # a partition covers one week and is dropped by the next maintenance pass
CHANGE_AFTER: Final = timedelta(hours=3)  # maintenance deletes old changes after one hour
OF_ALERT: Final[dict[str, Severity]] = {"critical": "bad", "warning": "warn", "info": "note"}  # by its severity


def _workers(health: Health) -> str:
    facts = health.maintenance
    by_cause = ", ".join(f"{cause} {attempts}" for cause, attempts in sorted(facts.terminated.items()))
    ended = f" Attempts of terminated workers in 24 h: {by_cause}." if by_cause else ""
    return f"Last seen {relative(facts.last_worker, health.now)}, {counted(facts.workers, 'worker')} running.{ended}"


def _worker_age_s(health: Health) -> float:
    facts = health.maintenance
    return (health.now - (facts.last_worker or facts.installed_at or health.now)).total_seconds()


def _is_without_worker(health: Health) -> bool:
    """Whether no process executes runs, so that nothing else explains why runs wait."""
    seen = health.maintenance.last_worker
    return seen is None or health.now - seen >= NO_WORKER_AFTER


WORKER_AGE: Final = Metric(
    "wakeboard_last_worker_age_seconds", "Time since a worker was last seen, or since the installation.", _worker_age_s
)


@HealthCondition("workers", "bad", after=NO_WORKER_AFTER, metric=WORKER_AGE, alert="noWorker", right=_workers)
def missing_workers(health: Health) -> Iterator[Problem]:
    """Check the CronJob or Deployment of the workers and their last log."""
    if seen := health.maintenance.last_worker:
        yield Problem(f"No worker is running. The last one was seen {relative(seen, health.now)}.", since=seen)
    else:
        yield Problem(
            "No worker has ever registered, so nothing runs.",
            "Start one where your handlers are, or enable the CronJob of the Helm chart:",
            severity="bad" if health.definitions.schedules or health.due else "warn",
            command="wakeboard worker --forever --handlers MODULE",
        )


@HealthCondition("operators", "bad")
def operators_that_cannot_list_schedules(health: Health) -> Iterator[str]:
    """If it is refused, restore the operator's roles (rbac.create)."""
    for problem in health.maintenance.operator_problems:
        yield f"The operator of {one_line(problem)}. Changes of schedules have no effect meanwhile."


def _is_about_dead(health: Health) -> bool:
    """Whether all open alerts are about all dead runs."""
    return health.alerts is not None and health.alerts.open == len(health.alerts.of_all_dead)


@HealthCondition("alerts", "bad", right=lambda _: "")  # `wakeboard check` does not read them
def open_alerts(health: Health) -> Iterator[Problem]:
    """Their pages show what is behind them."""
    alerts = health.alerts
    if alerts is None or (health.dead and _is_about_dead(health)):
        return  # what the alert is about has its mark
    if alerts.open == 1:
        since = relative(alerts.opened_at, health.now)
        text = f"The alert {one_line(alerts.names[0])} opened {since}: {one_line(alerts.summary)}."
    else:
        more = f" and {counted(alerts.open - len(alerts.names), 'other')}" if alerts.open > len(alerts.names) else ""
        text = f"{counted(alerts.open, 'alert')} open: {', '.join(map(one_line, alerts.names))}{more}."
    yield Problem(text, severity=OF_ALERT[alerts.severity], path="/alerts", count=alerts.open)


@HealthCondition("ticks", "bad", right=lambda health: f"{health.definitions.schedules_text}, none overdue.")
def schedules_without_a_next_tick(health: Health) -> Iterator[Problem]:
    """Apply the schedules again to compute them."""
    if count := health.definitions.without_tick:
        example = one_line(health.definitions.without_tick_example or "")
        text = f"{counted(count, 'schedule')} whose next tick is missing or too far away, for example {example}."
        yield Problem(text, path="/schedules")


LATE: Final = Metric(
    "wakeboard_late_schedules", "Schedules that are five minutes late.", lambda it: it.definitions.late
)


@HealthCondition("ticks", "bad", metric=LATE, alert="late")
def overdue_schedules(health: Health) -> Iterator[Problem]:
    """Workers and the operator enqueue due ticks: check that they run."""
    if count := health.definitions.late:
        oldest = relative(health.definitions.oldest_late, health.now)
        text = f"{counted(count, 'schedule')} overdue: no process enqueues due ticks. The oldest was due {oldest}."
        yield Problem(text, path="/schedules", parameters={"health": "late"})


@HealthCondition("ticks", "warn", alert="circuitOpen")
def schedules_that_stopped_after_dead_runs(health: Health) -> Iterator[Problem]:
    """Correct what fails, then run `wakeboard resume schedule NAMESPACE/NAME`."""
    if count := health.definitions.open_circuits:
        example = one_line(health.definitions.open_circuit_example or "")
        text = f"{counted(count, 'schedule')} stopped after dead runs (suspendAfterDead), for example {example}."
        yield Problem(text, path="/schedules", parameters={"state": "circuit open"})


@HealthCondition("ticks", "warn", alert="successMissed")
def schedules_without_the_success_that_they_expect(health: Health) -> Iterator[Problem]:
    """`wakeboard explain NAMESPACE/NAME` says what is in the way of its runs."""
    if count := health.definitions.missed:
        example = one_line(health.definitions.missed_example or "")
        text = (
            f"{counted(count, 'schedule')} had no success in time (expectSuccessWithinSeconds), for example {example}."
        )
        yield Problem(text, path="/schedules", parameters={"health": "failing"})


@HealthCondition("ticks", "bad")
def stalled_schedules(health: Health) -> Iterator[Problem]:
    """Correct the schedule and apply it again, or edit it in the application that created it."""
    for each in health.stalled:
        yield Problem(f"{each.full_name} is stalled: {one_line(each.reason)}", path=f"/schedules/{each.id}")


@HealthCondition("dependencies", "warn")
def blocked_schedules(health: Health) -> Iterator[Problem]:
    """Correct `after`, declare what is missing, or retry or discard the dead run."""
    for each in health.blocked:
        severity = "bad" if each.in_cycle else None
        yield Problem(f"{each.full_name} is blocked. {each.reason}", severity=severity, path=f"/schedules/{each.id}")


@HealthCondition("time zones", "warn", right=lambda health: f"tzdata {health.local.tzdata}.")
def ticks_of_other_zone_data(health: Health) -> Iterator[str]:
    """Apply the schedules again to compute their next ticks."""
    ours = health.local.tzdata
    if ours and (others := [version for version in health.definitions.tzdata_versions if version != ours]):
        yield f"Some next ticks were computed with tzdata {', '.join(others)}; this release has {ours}."


def _waiting(health: Health, is_meant: Callable[[DueRuns], bool]) -> Iterator[Problem]:
    """That such runs wait, and for what. A paused queue is meant to wait."""
    for due in health.due:
        if due.paused or _is_without_worker(health) or not is_meant(due):
            continue
        fact = unserved_fact(
            due.queue, due.job_type, queue_served=due.queue_served, type_served=due.type_served, meant=due.meant
        )
        runs = f"{due.runs_text} of {one_line(due.job_type)} in queue {one_line(due.queue)}"
        text = f"Waiting: {runs}; the oldest was due {relative(due.oldest, health.now)}."
        if due.longest_timeout_s > health.local.max_timeout_s:
            text += f" Some have a timeout above WAKEBOARD_MAX_TIMEOUT_SECONDS ({health.local.max_timeout_s})."
        query = f"status:queued type:{quoted(due.job_type)} queue:{quoted(due.queue)}"
        text = f"{fact.before} {text}" if fact else text
        yield Problem(text, since=due.oldest, path="/runs", parameters={"q": query})


def _runs(waiting: Sequence[DueRuns], noun: str) -> str:
    """How many runs these are. A count that stopped at the bound of its read is a lower bound."""
    return counted_at_least(sum(due.runs for due in waiting), noun, more=any(due.more for due in waiting))


@HealthCondition("queues", "warn", after=MINUTE, bad_after=10 * MINUTE)
def queues_without_a_worker(health: Health) -> Iterator[Problem]:
    """Add the queue to WAKEBOARD_QUEUES of a worker, or correct the schedule."""
    if not _is_without_worker(health):
        yield from _waiting(health, lambda due: not due.queue_served)
        for queue in sorted({*health.definitions.unserved} - {due.queue for due in health.due}):
            text = f"No worker has served the queue {one_line(queue)} in the last 10 minutes, and schedules use it."
            yield Problem(text, path="/schedules", parameters={"queue": queue})
    elif waiting := [due for due in health.due if not due.paused]:
        oldest, verb = min(due.oldest for due in waiting), "waits" if sum(due.runs for due in waiting) == 1 else "wait"
        text = f"{_runs(waiting, 'due run')} {verb} for a worker; the oldest was due {relative(oldest, health.now)}."
        yield Problem(text, "Start one.", oldest, path="/runs", parameters={"q": "status:queued", "sort": "due"})


@HealthCondition("job types", "warn", after=MINUTE, bad_after=10 * MINUTE)
def job_types_without_a_handler(health: Health) -> Iterator[Problem]:
    """Deploy the handler (WAKEBOARD_HANDLERS), or run `wakeboard cancel --all-queued --type TYPE`."""
    return _waiting(health, lambda due: due.queue_served and not due.type_served)


def _oldest_due_s(health: Health) -> dict[str, float]:
    oldest: dict[str, float] = {}
    for due in health.due:
        age_s = 0.0 if due.paused else (health.now - due.oldest).total_seconds()
        oldest[due.queue] = max(oldest.get(due.queue, 0.0), age_s)
    return oldest


OLDEST_DUE: Final = Metric(
    "wakeboard_oldest_due_seconds", "Age of the oldest due run, 0 while its queue is paused.", _oldest_due_s, "queue"
)


@HealthCondition(
    *("due runs", "warn", 5 * MINUTE),
    metric=OLDEST_DUE,
    alert="late",
    right=lambda it: f"{_runs(it.due, 'run')} waiting.",
)
def runs_that_wait_for_too_long(health: Health) -> Iterator[Problem]:
    """Add workers, or raise their concurrency or the `wakeboard limit`."""
    return _waiting(health, lambda due: due.type_served)


# Expired leases are reaped at least once a minute.
@HealthCondition(
    "leases", "bad", after=2 * MINUTE, right=lambda it: f"{counted(it.runs.running, 'run')} running, none stuck."
)
def expired_leases(health: Health) -> Iterator[Problem]:
    """No process reaps expired leases. Check that workers wake, or that the operator runs."""
    if since := health.runs.oldest_expiry:
        runs, expired = counted(health.runs.expired, "run"), relative(since, health.now)
        yield Problem(f"{runs} with an expired lease, the oldest expired {expired}.", since=since)


@HealthCondition("leases", "warn")
def runs_that_do_not_stop(health: Health) -> Iterator[str]:
    """Handlers must check run.cancelled; the timeout ends a run that does not stop."""
    if count := health.runs.unacknowledged_cancels:
        yield f"{counted(count, 'run')} still running more than 5 minutes after they were cancelled."


@HealthCondition("leases", "warn", after=5 * MINUTE)
def quarantined_runs_that_wait(health: Health) -> Iterator[Problem]:
    """`wakeboard runs --status queued` shows it; fix its handler or cancel it."""
    if since := health.runs.oldest_quarantined:
        text = f"A run whose worker crashed twice was due {relative(since, health.now)}; it must run alone."
        yield Problem(text, since=since)


DEAD: Final = Metric("wakeboard_dead_runs", "Dead runs, which wait for a user.", lambda health: health.runs.dead)


@HealthCondition("dead runs", "warn", note_after=timedelta(days=1), metric=DEAD, alert="dead")
def dead_runs(health: Health) -> Iterator[Problem]:
    """Correct what fails, then retry or discard them: `wakeboard runs --status dead` lists them."""
    alerts = health.alerts
    alert = ", ".join(map(one_line, alerts.of_all_dead)) if alerts else ""
    is_counted = alert and alerts and alerts.severity == "critical" and not _is_about_dead(health)
    for group in health.dead:
        died = relative(group.newest, health.now)
        yield Problem(
            f"{group.runs_text} of {one_line(group.job_type)}: {one_line(group.error_type)}. The newest died {died}.",
            since=group.newest,
            severity=OF_ALERT[alerts.severity] if alerts and _is_about_dead(health) else None,
            path="/runs",
            parameters={"q": f"status:dead type:{quoted(group.job_type)} error:{quoted(group.error_type)}"},
            alert=alert,
            count=0 if is_counted else 1,
        )


def _until(health: Health) -> str:
    until = health.maintenance.partitions_until
    return f"The history has partitions until {until:%Y-%m-%d}." if until else ""


@HealthCondition("partitions", "warn", right=_until)
def missing_partitions(health: Health) -> Iterator[Problem | str]:
    """No process creates new ones. Check that workers wake, or that the operator runs."""
    until = health.maintenance.partitions_until
    if not health.maintenance.partition_now:
        text = "The history has no partition for this week."
        yield Problem(text, "Run `select wakeboard.create_partitions()`.", severity="bad")
    elif until is not None and until - health.now < PARTITIONS_AHEAD:
        yield _until(health)


@HealthCondition(
    "retention", "warn", right=lambda it: f"The history is kept for {counted(it.local.history_days, 'day')}."
)
def partitions_older_than_the_retention(health: Health) -> Iterator[str]:
    """No process drops old partitions. Check that workers wake, or that the operator runs."""
    oldest, days = health.maintenance.oldest_partition_end, health.local.history_days
    if oldest is not None and days and health.now - oldest > timedelta(days) + RETENTION_GRACE:
        yield f"The history begins at {oldest:%Y-%m-%d}; the retention is {counted(days, 'day')}."


def _reaped(health: Health) -> str:
    at = health.maintenance.last_reap
    return (
        f"The last full reap of leases was {relative(at, health.now)}."
        if at
        else "No full reap of leases was done yet."
    )


@HealthCondition("maintenance", "warn", right=_reaped)
def rows_that_maintenance_should_have_deleted(health: Health) -> Iterator[str]:
    """No process deletes old rows. Check that workers wake, or that the operator runs."""
    oldest = health.maintenance.oldest_change
    if oldest is not None and health.now - oldest > CHANGE_AFTER:
        yield f"The oldest definition change is from {relative(oldest, health.now)}."


@HealthCondition("pauses", "warn")
def pauses(health: Health) -> Iterator[Problem]:
    """End a pause with `wakeboard resume`."""
    for pause in health.pauses:
        why = f" ({one_line(pause.reason)})" if pause.reason else ""
        by = f" by {one_line(pause.actor)}" if pause.actor else ""
        end = f", ends {relative(pause.until, health.now)}" if pause.until else ""
        text = f"Paused {relative(pause.paused_at, health.now)}{by}{end}: {one_line(pause.label)}{why}."
        if pause.kind == "schedule":
            yield Problem(text, severity="note", path="/schedules", parameters={"state": "paused"})
        else:
            yield Problem(text, path="/limits")


@HealthCondition("limits", "note")
def full_limits(health: Health) -> Iterator[Problem]:
    """Raise the limit with `wakeboard limit`, or wait."""
    for limit in health.limits:
        if limit.waiting and limit.running >= limit.max_running:
            text = f"The limit {one_line(limit.key)} is full ({limit.running} of {limit.max_running})"
            query = f"limit:{quoted(limit.key)} status:queued"
            yield Problem(f"{text}: {counted(limit.waiting, 'run')} waiting.", path="/runs", parameters={"q": query})


@HealthCondition("limits", "note")
def limits_other_than_declared(health: Health) -> Iterator[Problem]:
    """Restore one with `wakeboard limit KEY --declared`."""
    for limit in health.limits:
        if limit.differs_from:
            sources = ", ".join(map(one_line, limit.differs_from))
            yield Problem(f"The limit {one_line(limit.key)} differs from what {sources} declares.", path="/limits")


def _pending_removals(health: Health) -> int:
    return sum(removal.confirmed_at is None for removal in health.removals)


REMOVALS: Final = Metric("wakeboard_pending_removals", "Removals to be confirmed.", _pending_removals)


@HealthCondition("removals", "warn", metric=REMOVALS)
def removals_that_wait_for_a_confirmation(health: Health) -> Iterator[Problem]:
    """Confirm it if it is intended: `wakeboard confirm removal SOURCE`."""
    for removal in health.removals:
        if removal.confirmed_at is None:
            source, asked = one_line(removal.source), relative(removal.requested_at, health.now)
            text = f"{source} asked {asked} to remove {counted(removal.count, 'schedule')}."
            command = f"wakeboard confirm removal {shlex.quote(source)}"
            yield Problem(text, "Confirm it if it is intended:", command=command)


CONDITIONS: Final = tuple(REGISTERED)
"""In the order of the rows of `wakeboard check`."""


def problems(health: Health) -> list[Problem]:
    """All problems, the worst first."""
    return sorted((each for condition in CONDITIONS for each in condition.problems(health)), key=severity_order)


def server_problems(health: Health) -> list[Problem]:
    """What keeps the server from working (`read_server_health`), in no order."""
    checks = {"database", "logins", "settings", "commits", "locks"}
    return [each for one in OF_THE_DATABASE if one.check in checks for each in one.problems(health)]
