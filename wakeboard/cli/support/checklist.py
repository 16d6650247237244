"""The production checks of `wakeboard check`: pure functions from the facts of the database to findings.

The queries are in views/queries/health_checks.py. views/rules/health_conditions.py decides what is reported and how
bad it is, here and on the board's overview.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final, Literal

from wakeboard.dependencies.rules.graph import cycle_text
from wakeboard.text.humanize import counted, counted_at_least, lasted, relative
from wakeboard.text.sanitize import one_line
from wakeboard.views.queries.commits import PROBE_S, REMEDY
from wakeboard.views.rules import health_conditions as health

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wakeboard.store.schema_differences import Differences
    from wakeboard.views.queries.health_checks import DueRuns, HealthFacts, Route
    from wakeboard.views.rules.health_conditions import HealthCondition, Severity

Level = Literal["ok", "warn", "fail"]
LEVELS: Final[dict[Severity | None, Level]] = {"bad": "fail", "warn": "warn", "note": "ok", None: "ok"}

MAX_CLOCK_SKEW = timedelta(seconds=5)  # a drain claims runs that are due within 15 s
TRANSACTION_AFTER = timedelta(minutes=10)
PARTITIONS_AHEAD = timedelta(weeks=2)  # maintenance creates them five weeks ahead
RETENTION_GRACE = timedelta(weeks=2)  # a partition covers one week and is dropped by the next maintenance pass
CHANGE_AFTER = timedelta(hours=3)  # maintenance deletes old changes after one hour
OLDEST_POSTGRES = 15
MAX_NAMES = 5  # in a message
BLOCKS_VACUUM = "prevents vacuum from removing dead rows"
CHECK_PROCESSES = "check that workers wake, or that the operator runs"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """The result of one check. `level`: ok, warn or fail. `hint`: what to do, or null if the level is ok."""

    level: Level
    check: str
    message: str
    hint: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalFacts:
    """Facts about this machine, its settings and the installed release. The facts of the database are HealthFacts."""

    clock_ahead: timedelta  # how far the database's clock is ahead of this machine's
    route: Route
    functions_hash: str
    functions_revision: int
    version: str
    tzdata: str
    listen: bool
    prepared_statements: bool
    history_retention: timedelta
    max_timeout_s: int


def checklist(facts: HealthFacts, local: LocalFacts) -> list[Finding]:
    """All findings: the database first, then schedules, runs and maintenance."""
    return [
        _server(facts),
        _session_settings(facts),
        _schema(facts, local),
        _clock(local),
        _connection(local),
        _durability(facts),
        _commits(facts),
        _vacuum(facts),
        _workers(facts),
        _operators(facts),
        _ticks(facts),
        _dependencies(facts),
        _time_zones(facts, local),
        _queues(facts),
        _job_types(facts),
        _due_runs(facts, local),
        _leases(facts),
        _dead_runs(facts),
        _partitions(facts),
        _retention(facts, local),
        _maintenance(facts),
        _pauses(facts),
        _limits(facts),
        _removals(facts),
    ]


def _ok(check: str, message: str) -> Finding:
    return Finding(level="ok", check=check, message=message)


def _warn(check: str, message: str, hint: str) -> Finding:
    return Finding(level="warn", check=check, message=message, hint=hint)


def _reported(severity: Severity | None, check: str, message: str, hint: str) -> Finding:
    """A finding about a condition of views/rules/health_conditions.py."""
    level = LEVELS[severity]
    return Finding(level=level, check=check, message=message, hint=None if level == "ok" else hint)


def _fail(check: str, message: str, hint: str) -> Finding:
    return Finding(level="fail", check=check, message=message, hint=hint)


def _server(facts: HealthFacts) -> Finding:
    server = facts.server
    major = server.version // 10_000
    if server.replica:
        return _fail("database", "the server is a read-only replica", "connect to the primary")
    if major < OLDEST_POSTGRES:
        return _fail("database", f"PostgreSQL {major}", f"upgrade to PostgreSQL {OLDEST_POSTGRES} or later")
    if server.encoding != "UTF8":
        message = f"the encoding is {server.encoding}, which cannot represent every text"
        return _fail("database", message, "use a database that was created with `encoding 'UTF8'`")
    return _ok("database", f"PostgreSQL {major}")


def _session_settings(facts: HealthFacts) -> Finding:
    odd = facts.server.odd_settings
    if "default_transaction_read_only = on" in odd:
        hint = "turn it off for wakeboard's roles"
        return _fail("settings", "default_transaction_read_only is on: wakeboard cannot write", hint)
    if odd:
        message = f"{', '.join(odd)}: wakeboard sets these for each statement, which takes three more round trips"
        return _warn("settings", message, "use `alter role` to set them to the Postgres defaults for wakeboard's roles")
    return _ok("settings", "sessions have the defaults that wakeboard needs")


def _schema(facts: HealthFacts, local: LocalFacts) -> Finding:
    installed = facts.installed
    message = f"at migration {installed.schema_version}, SQL functions of {installed.functions_by}"
    if installed.functions_by == local.version and installed.functions_revision > local.functions_revision:
        return _warn("schema", f"{message} that are newer than those of this release", "upgrade this installation")
    if installed.functions_hash != local.functions_hash and installed.functions_by == local.version:
        return _fail("schema", f"{message} that differ from those of this release", "run `wakeboard migrate`")
    if installed.functions_by != local.version:
        hint = "upgrade the older installation, then run `wakeboard migrate`"
        return _warn("schema", f"{message}; this is {local.version}", hint)
    return _ok("schema", message)


def schema_findings(differences: Differences | None) -> list[Finding]:
    """Whether the schema has all parts, and its roles all rights. None: the functions are of another release."""
    if differences is None:
        return []
    restore = "run `wakeboard migrate`, which restores it"
    lost = [f"{role} may not {_listed(rights)}" for role, rights in differences.rights.items()]
    rights = _fail("rights", "; ".join(lost), restore) if lost else _ok("rights", "each role has those of its parts")
    if differences.others:
        hint = "restore it from a backup, or run the statement that creates it: see wakeboard/store/migrations"
        return [_fail("objects", _listed([*differences.others, *differences.restorable]), hint), rights]
    if differences.restorable:
        return [_fail("objects", _listed(differences.restorable), restore), rights]
    return [_ok("objects", "tables, indexes, types, functions and triggers are those of this release"), rights]


def _clock(local: LocalFacts) -> Finding:
    ahead = local.clock_ahead
    message = f"the database is {lasted(abs(ahead))} {'ahead of' if ahead > timedelta() else 'behind'} this machine"
    if abs(ahead) > MAX_CLOCK_SKEW:
        return _warn("clock", message, "synchronize both clocks; wakeboard uses the database's clock")
    return _ok("clock", message)


def _connection(local: LocalFacts) -> Finding:
    if local.route == "direct":
        return _ok("connection", "direct")
    message = f"through a {local.route}"
    if local.route == "transaction pooler" and local.prepared_statements:
        hint = "set WAKEBOARD_PREPARED_STATEMENTS=false, or connect directly"
        return _fail("connection", f"{message}, which does not support prepared statements", hint)
    if local.route == "transaction pooler" and local.listen:
        # Workers poll in any case. Their settings are not known here.
        return _ok("connection", f"{message}, which does not support LISTEN: workers poll")
    return _ok("connection", message)


def _durability(facts: HealthFacts) -> Finding:
    server = facts.server
    if not server.durable:
        hint = "turn fsync, full_page_writes and synchronous_commit on"
        return _warn("durability", "commits can be lost when the server crashes", hint)
    if server.replicas > server.synchronous_replicas == 0:
        message = f"{counted(server.replicas, 'replica')}, all asynchronous: a failover can lose the latest commits"
        return _warn("durability", message, "make one replica synchronous, or expect such runs to run again")
    return _ok("durability", "commits are durable" + (" and replicated synchronously" if server.replicas else ""))


def _commits(facts: HealthFacts) -> Finding:
    commits = facts.commits
    if why := commits.why_they_hang:
        return _reported(health.HANGING_COMMITS.severity, "commits", f"commits hang: {why}", REMEDY)
    return _ok(
        "commits", "a synchronous standby confirms them" if commits.wait_for_standby else "wait for no other server"
    )


def unconfirmed_commit() -> Finding:
    """A commit that was tried hangs; nothing else is known."""
    return _reported(
        health.HANGING_COMMITS.severity,
        "commits",
        f"commits hang: no standby confirmed one within {PROBE_S:g} s",
        REMEDY,
    )


def _vacuum(facts: HealthFacts) -> Finding:
    server = facts.server
    if not server.autovacuum:
        return _fail("vacuum", "autovacuum is off", "turn on autovacuum and track_counts")
    if server.oldest_prepared is not None and server.oldest_prepared > TRANSACTION_AFTER:
        message = f"a prepared transaction is {lasted(server.oldest_prepared)} old and {BLOCKS_VACUUM}"
        return _warn("vacuum", message, "commit it or roll it back: see pg_prepared_xacts")
    if server.slots_holding_back:
        message = f"replication slot {server.slots_holding_back[0]} is inactive and {BLOCKS_VACUUM}"
        return _warn("vacuum", message, "connect its consumer or drop the slot")
    if server.oldest_transaction is not None and server.oldest_transaction > TRANSACTION_AFTER:
        application = server.oldest_transaction_of or "an unknown application"
        message = (
            f"a transaction of {application} has been open for {lasted(server.oldest_transaction)} and {BLOCKS_VACUUM}"
        )
        return _warn("vacuum", message, "end it, and set idle_in_transaction_session_timeout")
    return _ok("vacuum", "autovacuum is on and can remove dead rows")


def _workers(facts: HealthFacts) -> Finding:
    maintenance, now = facts.maintenance, facts.server.now
    if maintenance.last_worker is None:
        condition = health.NEVER_A_WORKER if facts.definitions.schedules or facts.due else health.NOT_NEEDED_WORKER
        hint = "start one: `wakeboard worker`, or the CronJob of the Helm chart"
        return _reported(condition.severity, "workers", "no worker has ever registered", hint)
    message = f"last seen {relative(maintenance.last_worker, now)}"
    if severity := health.NO_WORKER.severity_after(now - maintenance.last_worker):
        hint = "check the CronJob or Deployment of the workers and their last log"
        return _reported(severity, "workers", message, hint)
    by_cause = ", ".join(f"{cause} {attempts}" for cause, attempts in sorted(maintenance.terminated.items()))
    ended = f"; attempts of terminated workers in 24 h: {by_cause}" if by_cause else ""
    return _ok("workers", f"{message}, {counted(maintenance.workers, 'worker')} running{ended}")


def _operators(facts: HealthFacts) -> Finding:
    if problems := facts.maintenance.operator_problems:
        hint = "changes of schedules have no effect; if it is refused, restore the operator's roles (rbac.create)"
        return _reported(health.REFUSED_OPERATOR.severity, "operators", one_line(problems[0]), hint)
    return _ok("operators", "no operator reports a failed list or watch of JobSchedules")


def _ticks(facts: HealthFacts) -> Finding:
    known, now = facts.definitions, facts.server.now
    if known.stalled:
        message = f"{counted(known.stalled, 'schedule')} stalled, for example {known.stalled_example}"
        return _reported(health.STALLED_SCHEDULE.severity, "ticks", message, "correct the schedule and apply it again")
    if known.without_tick:
        example = one_line(known.without_tick_example or "")
        what = f"{counted(known.without_tick, 'schedule')} whose next tick is missing or too far away"
        return _reported(
            health.LOST_TICK.severity,
            "ticks",
            f"{what}, for example {example}",
            "apply the schedules again to compute them",
        )
    if known.late:
        message = f"{counted(known.late, 'schedule')} overdue, the oldest was due {relative(known.oldest_late, now)}"
        hint = "workers and the operator enqueue due ticks: check that they run"
        return _reported(health.OVERDUE_SCHEDULE.severity, "ticks", message, hint)
    if known.open_circuits:
        message = f"{counted(known.open_circuits, 'schedule')} stopped after dead runs, for example"
        hint = "correct what fails, then run `wakeboard resume schedule NAMESPACE/NAME`"
        return _reported(health.OPEN_CIRCUIT.severity, "ticks", f"{message} {known.open_circuit_example}", hint)
    return _ok("ticks", f"{counted(known.schedules, 'schedule')}, none overdue")


def _dependencies(facts: HealthFacts) -> Finding:
    graph = facts.dependencies
    if graph.cycle:
        hint = "remove one of them from `after`; `wakeboard graph` shows the others"
        return _reported(health.DEPENDENCY_CYCLE.severity, "dependencies", cycle_text(graph.cycle), hint)
    if graph.missing:
        child, parent = graph.missing[0]
        message = f"`after` of {one_line(child)} names {one_line(parent)}, which does not exist"
        if len(graph.missing) > 1:
            message += f"; there are {len(graph.missing):,} such entries of `after`"
        hint = "correct `after`, or declare the schedule"
        return _reported(health.MISSING_PARENT.severity, "dependencies", message, hint)
    return _ok("dependencies", f"schedules that run after others: {graph.after:,}")


def _time_zones(facts: HealthFacts, local: LocalFacts) -> Finding:
    others = [version for version in facts.definitions.tzdata_versions if version != local.tzdata]
    if others:
        message = f"some next ticks were computed with tzdata {', '.join(others)}; this release has {local.tzdata}"
        return _warn("time zones", message, "apply the schedules again to compute their next ticks")
    return _ok("time zones", f"tzdata {local.tzdata}")


def _queues(facts: HealthFacts) -> Finding:
    waits = {
        due.queue: severity
        for due in reversed(facts.due)  # the oldest last
        if not due.served and (severity := _severity(health.UNSERVED_QUEUE, due, facts.server.now))
    }
    unserved = sorted({*facts.definitions.unserved, *waits})
    if unserved:
        message = f"no worker has served {_listed(unserved)} in the last 10 minutes"
        severity = "bad" if "bad" in waits.values() else health.UNSERVED_QUEUE.severity
        hint = "add the queue to WAKEBOARD_QUEUES of a worker, or correct the schedule"
        return _reported(severity, "queues", message, hint)
    # A paused queue is meant to wait, and a worker may be about to start.
    return _ok(
        "queues", f"no run that may start has waited {lasted(health.UNSERVED_QUEUE.after)} in a queue without a worker"
    )


def _job_types(facts: HealthFacts) -> Finding:
    now = facts.server.now
    unknown = [
        due for due in facts.due if due.served and not due.known and _severity(health.UNKNOWN_JOB_TYPE, due, now)
    ]
    if unknown:
        names = sorted({due.job_type for due in unknown})
        oldest = unknown[0]
        message = (
            f"no worker of the queue has a handler for {_listed(names)}:"
            f" {_runs(unknown)} queued, the oldest due {relative(oldest.oldest, now)}"
        )
        message += "".join(f"; did you mean {due.meant}?" for due in unknown[:1] if due.meant)
        hint = f"deploy its handler (WAKEBOARD_HANDLERS), or `wakeboard cancel --all-queued --type {names[0]}`"
        return _reported(_severity(health.UNKNOWN_JOB_TYPE, oldest, now), "job types", message, hint)
    waits = lasted(health.UNKNOWN_JOB_TYPE.after)
    return _ok("job types", f"no run that may start in a served queue has waited {waits} for its handler")


def _due_runs(facts: HealthFacts, local: LocalFacts) -> Finding:
    now = facts.server.now
    late = [due for due in facts.due if due.known and _severity(health.WAITING_RUNS, due, now)]
    if not late:
        return _ok("due runs", f"{_runs(facts.due)} waiting, none for more than {lasted(health.WAITING_RUNS.after)}")
    queues = _listed(sorted({due.queue for due in late}))
    message = f"{_runs(late)} waiting in {queues}, the oldest due {relative(late[0].oldest, now)}"
    if any(due.longest_timeout_s > local.max_timeout_s for due in late):
        message += f"; some have a timeout above WAKEBOARD_MAX_TIMEOUT_SECONDS ({local.max_timeout_s})"
    hint = "add workers, or raise their concurrency or the `wakeboard limit`"
    return _reported(health.WAITING_RUNS.severity, "due runs", message, hint)


def _severity(condition: HealthCondition, due: DueRuns, now: datetime) -> Severity | None:
    """How bad it is that these runs wait; a paused queue is meant to wait."""
    return None if due.paused else condition.severity_after(now - due.oldest)


def _runs(waiting: Sequence[DueRuns]) -> str:
    """How many runs these are. A count that stopped at the bound of its read is a lower bound."""
    return counted_at_least(sum(due.runs for due in waiting), "run", more=any(due.more for due in waiting))


def _leases(facts: HealthFacts) -> Finding:
    runs, now = facts.runs, facts.server.now
    if runs.oldest_expiry is not None and health.EXPIRED_LEASE.severity_after(now - runs.oldest_expiry):
        expired = relative(runs.oldest_expiry, now)
        message = f"{counted(runs.expired, 'run')} with an expired lease, the oldest expired {expired}"
        return _reported(
            health.EXPIRED_LEASE.severity, "leases", message, f"no process reaps expired leases: {CHECK_PROCESSES}"
        )
    if runs.unacknowledged_cancels:
        count = counted(runs.unacknowledged_cancels, "run")
        message = f"{count} still running more than 5 minutes after they were cancelled"
        return _warn("leases", message, "handlers must check run.cancelled; the timeout ends a run that does not stop")
    if runs.oldest_quarantined is not None and health.WAITING_RUNS.severity_after(now - runs.oldest_quarantined):
        message = (
            f"a run whose worker crashed twice was due {relative(runs.oldest_quarantined, now)}; it must run alone"
        )
        return _warn("leases", message, "`wakeboard runs --status queued` shows it; fix its handler or cancel it")
    return _ok("leases", f"{counted(runs.running, 'run')} running, none stuck")


def _dead_runs(facts: HealthFacts) -> Finding:
    runs = facts.runs
    if runs.dead:
        message = f"{counted(runs.dead, 'dead run')}, {runs.dead_since_yesterday} new in the last 24 hours"
        hint = "list them with `wakeboard runs --status dead`, then retry or discard them"
        severity = health.DEAD_RUNS.severity if runs.dead_since_yesterday else "note"
        return _reported(severity, "dead runs", message if runs.dead_since_yesterday else f"{message}; {hint}", hint)
    return _ok("dead runs", "none")


def _partitions(facts: HealthFacts) -> Finding:
    maintenance, now = facts.maintenance, facts.server.now
    if not maintenance.partition_now or maintenance.partitions_until is None:
        hint = "run `select wakeboard.create_partitions()`"
        return _fail("partitions", "the history has no partition for this week", hint)
    message = f"the history has partitions until {maintenance.partitions_until:%Y-%m-%d}"
    if maintenance.partitions_until - now < PARTITIONS_AHEAD:
        return _warn("partitions", message, f"no process creates new ones: {CHECK_PROCESSES}")
    return _ok("partitions", message)


def _retention(facts: HealthFacts, local: LocalFacts) -> Finding:
    oldest, now = facts.maintenance.oldest_partition_end, facts.server.now
    days = local.history_retention.days
    if oldest is not None and now - oldest > local.history_retention + RETENTION_GRACE:
        message = f"the history begins at {oldest:%Y-%m-%d}; the retention is {counted(days, 'day')}"
        return _warn("retention", message, f"no process drops old partitions: {CHECK_PROCESSES}")
    return _ok("retention", f"the history is kept for {counted(days, 'day')}")


def _maintenance(facts: HealthFacts) -> Finding:
    maintenance, now = facts.maintenance, facts.server.now
    if maintenance.oldest_change is not None and now - maintenance.oldest_change > CHANGE_AFTER:
        message = f"the oldest definition change is from {relative(maintenance.oldest_change, now)}"
        return _warn("maintenance", message, f"no process deletes old rows: {CHECK_PROCESSES}")
    if not maintenance.last_reap:
        return _ok("maintenance", "no full reap of leases has been done yet")
    return _ok("maintenance", f"the last full reap of leases was {relative(maintenance.last_reap, now)}")


def _pauses(facts: HealthFacts) -> Finding:
    if not facts.pauses:
        return _ok("pauses", "nothing is paused")
    oldest = min(pause.paused_at for pause in facts.pauses)
    labels = _listed([pause.label for pause in facts.pauses])
    message = f"paused: {labels}, the first {relative(oldest, facts.server.now)}"
    held = {health.PAUSES[pause.kind].severity for pause in facts.pauses}
    return _reported("warn" if "warn" in held else "note", "pauses", message, "end a pause with `wakeboard resume`")


def _limits(facts: HealthFacts) -> Finding:
    if not facts.differing_limits:
        return _ok("limits", "all are as declared, or not declared")
    keys = _listed([limit.key for limit in facts.differing_limits])
    message = f"other than a file declares: {keys}; restore one with `wakeboard limit KEY --declared`"
    return _reported(health.DIFFERENT_LIMIT.severity, "limits", message, "")


def _removals(facts: HealthFacts) -> Finding:
    pending = [removal for removal in facts.removals if removal.confirmed_at is None]
    if not pending:
        return _ok("removals", "none is pending")
    first = pending[0]
    requested = relative(first.requested_at, facts.server.now)
    message = f"{first.source} requested the removal of {counted(first.count, 'schedule')} {requested}"
    return _reported(
        health.PENDING_REMOVAL.severity,
        "removals",
        message,
        f"if it is intended, run `wakeboard confirm removal {first.source}`",
    )


def _listed(names: list[str]) -> str:
    shown = ", ".join(names[:MAX_NAMES])
    return shown if len(names) <= MAX_NAMES else f"{shown} and {len(names) - MAX_NAMES} more"
