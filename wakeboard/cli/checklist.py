"""The production checklist: facts in, findings out. Nothing here asks anything."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Literal

from wakeboard.rules.humanize import counted, lasted, relative
from wakeboard.store.queries.health_checks import NO_WORKER_AFTER

if TYPE_CHECKING:
    from wakeboard.store.queries.health_checks import Due, HealthFacts, Route

Level = Literal["ok", "warn", "fail"]

CLOCK_SKEW = timedelta(seconds=5)  # a drain looks 15 s ahead
UNKNOWN_AFTER = timedelta(minutes=10)
WAITING_AFTER = timedelta(minutes=5)
LAPSED_AFTER = timedelta(minutes=2)  # somebody reaps at least once a minute
TRANSACTION_AFTER = timedelta(minutes=10)
PARTITIONS_AHEAD = timedelta(weeks=2)  # they are made five weeks ahead
RETENTION_GRACE = timedelta(weeks=2)  # a partition holds one week and is dropped by the next duty
CHANGE_AFTER = timedelta(hours=3)  # untaken ones are tidied away after one
OLDEST_POSTGRES = 15


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One line of the checklist. `do`: what to do about it; None where all is well."""

    level: Level
    what: str
    says: str
    do: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Here:
    """What is true of this machine and its settings, not of the board."""

    clock_ahead: timedelta  # of the database's clock
    route: Route
    functions_hash: str
    functions_revision: int
    version: str
    tzdata: str
    listen: bool
    prepared_statements: bool
    history_retention: timedelta
    max_timeout_s: int


def checklist(vitals: HealthFacts, here: Here) -> list[Finding]:
    """Every line, in the order in which one would look: the database, the schedules, the runs, the housekeeping."""
    return [
        _server(vitals),
        _defaults(vitals),
        _moves(vitals, here),
        _clock(here),
        _route(here),
        _durability(vitals),
        _vacuum(vitals),
        _notify(vitals, here),
        _workers(vitals),
        _ticks(vitals),
        _zones(vitals, here),
        _queues(vitals),
        _types(vitals),
        _waiting(vitals, here),
        _leases(vitals),
        _dead(vitals),
        _partitions(vitals),
        _retention(vitals, here),
        _duties(vitals),
        _pauses(vitals),
        _removals(vitals),
    ]


def _ok(what: str, says: str) -> Finding:
    return Finding(level="ok", what=what, says=says)


def _warn(what: str, says: str, do: str) -> Finding:
    return Finding(level="warn", what=what, says=says, do=do)


def _fail(what: str, says: str, do: str) -> Finding:
    return Finding(level="fail", what=what, says=says, do=do)


def _server(vitals: HealthFacts) -> Finding:
    server = vitals.server
    major = server.version // 10_000
    if server.replica:
        return _fail("database", "this is a read-only replica", "connect to the primary")
    if major < OLDEST_POSTGRES:
        return _fail("database", f"PostgreSQL {major}", f"upgrade to PostgreSQL {OLDEST_POSTGRES} or newer")
    if server.encoding != "UTF8":
        says = f"the encoding is {server.encoding}, which cannot hold every text"
        return _fail("database", says, "move to a database that is made with `encoding 'UTF8'`")
    return _ok("database", f"PostgreSQL {major}")


def _defaults(vitals: HealthFacts) -> Finding:
    odd = vitals.server.odd_settings
    if "default_transaction_read_only = on" in odd:
        do = "switch it off for wakeboard's roles, when the reason for it is gone"
        return _fail("settings", "default_transaction_read_only is on: nothing can be written", do)
    if odd:
        says = f"{', '.join(odd)}: each statement of wakeboard's takes three round trips more to set what it needs"
        return _warn("settings", says, "alter role … set these to Postgres' own defaults for wakeboard's roles")
    return _ok("settings", "sessions have the defaults that wakeboard needs")


def _moves(vitals: HealthFacts, here: Here) -> Finding:
    installed = vitals.installed
    says = f"at migration {installed.schema_version}, moves of {installed.functions_by}"
    if installed.functions_by == here.version and installed.functions_revision > here.functions_revision:
        return _warn("schema", f"{says} and newer than this installation's", "upgrade this installation")
    if installed.functions_hash != here.functions_hash and installed.functions_by == here.version:
        return _fail("schema", f"{says}, which differ from those of this installation", "run `wakeboard migrate`")
    if installed.functions_by != here.version:
        return _warn("schema", f"{says}; this is {here.version}", "upgrade what is older, then run `wakeboard migrate`")
    return _ok("schema", says)


def _clock(here: Here) -> Finding:
    ahead = here.clock_ahead
    says = f"the database's is {lasted(abs(ahead))} {'ahead of' if ahead > timedelta() else 'behind'} this machine's"
    if abs(ahead) > CLOCK_SKEW:
        return _warn("clock", says, "let both follow the same time service; the database's clock decides")
    return _ok("clock", says)


def _route(here: Here) -> Finding:
    if here.route == "direct":
        return _ok("connection", "direct")
    says = f"through a {here.route}"
    if here.route == "transaction pooler" and here.prepared_statements:
        do = "set WAKEBOARD_PREPARED_STATEMENTS=false, or connect directly"
        return _fail("connection", f"{says}, where prepared statements break", do)
    if here.route == "transaction pooler" and here.listen:
        # This command sees the settings of this machine, not those of the workers. They poll in any case.
        return _ok("connection", f"{says}, where LISTEN receives nothing: workers behind it poll")
    return _ok("connection", says)


def _durability(vitals: HealthFacts) -> Finding:
    server = vitals.server
    if not server.durable:
        do = "turn fsync, full_page_writes and synchronous_commit on"
        return _warn("durability", "commits may be lost when the server crashes", do)
    if server.replicas > server.synchronous_replicas == 0:
        says = f"{counted(server.replicas, 'replica')}, all asynchronous: a failover may lose the newest commits"
        return _warn("durability", says, "expect a failover to replay its lost tail, or make one replica synchronous")
    return _ok("durability", "commits are safe" + (" on a synchronous replica too" if server.replicas else ""))


def _vacuum(vitals: HealthFacts) -> Finding:
    server = vitals.server
    if not server.autovacuum:
        return _fail("vacuum", "autovacuum is off", "turn autovacuum and track_counts on: job_runs lives on it")
    if server.oldest_prepared is not None and server.oldest_prepared > TRANSACTION_AFTER:
        says = f"a prepared transaction is {lasted(server.oldest_prepared)} old and keeps dead rows"
        return _warn("vacuum", says, "commit or roll it back: see pg_prepared_xacts")
    if server.slots_holding_back:
        says = f"replication slot {server.slots_holding_back[0]} is not in use and keeps dead rows"
        return _warn("vacuum", says, "connect its consumer or drop the slot")
    if server.oldest_transaction is not None and server.oldest_transaction > TRANSACTION_AFTER:
        who = server.oldest_transaction_of or "somebody"
        says = f"a transaction of {who} has been open for {lasted(server.oldest_transaction)} and keeps dead rows"
        return _warn("vacuum", says, "end it, and set idle_in_transaction_session_timeout")
    return _ok("vacuum", "autovacuum is on, no old transaction keeps dead rows")


def _notify(vitals: HealthFacts, here: Here) -> Finding:
    if vitals.server.notify_trigger:
        return _ok("notify", "new runs wake listening workers")
    says = "the trigger job_runs_notify is missing or disabled: workers only poll"
    do = "alter table wakeboard.job_runs enable trigger job_runs_notify"
    return _warn("notify", says, do) if here.listen else _ok("notify", says)


def _workers(vitals: HealthFacts) -> Finding:
    duties, now = vitals.maintenance, vitals.server.now
    if duties.last_worker is None:
        level = "fail" if vitals.definitions.schedules or vitals.due else "warn"
        do = "start one: `wakeboard worker`, or the CronJob of the Helm chart"
        return Finding(level=level, what="workers", says="no worker was ever seen", do=do)
    says = f"last seen {relative(duties.last_worker, now)}"
    if now - duties.last_worker > NO_WORKER_AFTER:
        return _fail("workers", says, "look at the worker's CronJob or Deployment and at its last log")
    return _ok("workers", f"{says}, {duties.workers} at work")


def _ticks(vitals: HealthFacts) -> Finding:
    known, now = vitals.definitions, vitals.server.now
    if known.stalled:
        says = f"{counted(known.stalled, 'schedule')} stalled, such as {known.stalled_example}"
        return _fail("ticks", says, "correct the schedule and apply it again")
    if known.late:
        says = f"{counted(known.late, 'schedule')} overdue, the oldest since {relative(known.oldest_late, now)}"
        return _fail("ticks", says, "ticks are made by waking workers: see that they run")
    return _ok("ticks", f"{counted(known.schedules, 'schedule')}, none overdue")


def _zones(vitals: HealthFacts, here: Here) -> Finding:
    others = [version for version in vitals.definitions.tzdata_versions if version != here.tzdata]
    if others:
        says = f"some schedules were computed with zone data {', '.join(others)}; this is {here.tzdata}"
        return _warn("time zones", says, "apply them again: their next ticks are then computed anew")
    return _ok("time zones", f"zone data {here.tzdata}")


def _queues(vitals: HealthFacts) -> Finding:
    now = vitals.server.now
    waiting = [due.queue for due in vitals.due if not due.served and _waits(due, now, UNKNOWN_AFTER)]
    unserved = sorted({*vitals.definitions.unserved, *waiting})
    if unserved:
        says = f"no worker has served {_listed(unserved)} in the last 10 minutes"
        return _warn("queues", says, "name the queue in a worker's WAKEBOARD_QUEUES, or correct the schedule")
    return _ok("queues", "all are served")


def _types(vitals: HealthFacts) -> Finding:
    now = vitals.server.now
    unknown = [due for due in vitals.due if due.served and not due.known and not due.paused]
    if unknown:
        names = sorted({due.job_type for due in unknown})
        oldest = unknown[0]
        says = (
            f"no worker of its queue knows {_listed(names)}:"
            f" {counted(sum(due.runs for due in unknown), 'run')} queued, the oldest due {relative(oldest.oldest, now)}"
        )
        do = f"deploy its handler (WAKEBOARD_HANDLERS), or `wakeboard cancel --all-queued --type {names[0]}`"
        long = any(_waits(due, now, UNKNOWN_AFTER) for due in unknown)
        return _fail("job types", says, do) if long else _warn("job types", says, do)
    return _ok("job types", "all that wait are known")


def _waiting(vitals: HealthFacts, here: Here) -> Finding:
    now = vitals.server.now
    late = [due for due in vitals.due if due.known and _waits(due, now, WAITING_AFTER)]
    if not late:
        return _ok("due runs", f"{counted(sum(due.runs for due in vitals.due), 'run')} waiting, none for long")
    says = (
        f"{counted(sum(waiting.runs for waiting in late), 'run')} waiting in {_listed(sorted({w.queue for w in late}))}"
    )
    says += f", the oldest due {relative(late[0].oldest, now)}"
    if any(waiting.longest_timeout_s > here.max_timeout_s for waiting in late):
        says += f"; some have a timeout above WAKEBOARD_MAX_TIMEOUT_SECONDS ({here.max_timeout_s})"
    return _warn("due runs", says, "more workers or concurrency, a higher `wakeboard limit`, or shorter runs")


def _waits(due: Due, now: datetime, for_long: timedelta) -> bool:
    return not due.paused and now - due.oldest > for_long


def _leases(vitals: HealthFacts) -> Finding:
    runs, now = vitals.runs, vitals.server.now
    if runs.oldest_lapse is not None and now - runs.oldest_lapse > LAPSED_AFTER:
        says = f"{counted(runs.lapsed, 'run')} with a lapsed lease, the oldest since {relative(runs.oldest_lapse, now)}"
        return _fail("leases", says, "nobody reaps: see that workers wake, or the operator runs")
    if runs.cancels_unheeded:
        says = f"{counted(runs.cancels_unheeded, 'run')} asked to stop more than 5 minutes ago still going"
        return _warn("leases", says, "a handler must look at run.cancelled; its timeout ends it at last")
    if runs.oldest_quarantined is not None and now - runs.oldest_quarantined > WAITING_AFTER:
        since = relative(runs.oldest_quarantined, now)
        says = f"a run that killed its worker twice has waited since {since} to run alone"
        return _warn("leases", says, "`wakeboard runs --status queued` shows it; fix its handler, or cancel it")
    return _ok("leases", f"{counted(runs.running, 'run')} at work, none stuck")


def _dead(vitals: HealthFacts) -> Finding:
    runs = vitals.runs
    if runs.dead:
        says = f"{counted(runs.dead, 'dead run')}, {runs.dead_since_yesterday} of them since yesterday"
        do = "`wakeboard runs --status dead`, then retry or discard them"
        return _warn("dead runs", says, do) if runs.dead_since_yesterday else _ok("dead runs", f"{says}; {do}")
    return _ok("dead runs", "none")


def _partitions(vitals: HealthFacts) -> Finding:
    duties, now = vitals.maintenance, vitals.server.now
    if not duties.partition_now or duties.partitions_until is None:
        return _fail("partitions", "history has none for this week", "select wakeboard.create_partitions()")
    says = f"history can be written until {duties.partitions_until:%Y-%m-%d}"
    if duties.partitions_until - now < PARTITIONS_AHEAD:
        return _warn("partitions", says, "nobody makes new ones: see that workers wake, or the operator runs")
    return _ok("partitions", says)


def _retention(vitals: HealthFacts, here: Here) -> Finding:
    oldest, now = vitals.maintenance.oldest_partition_end, vitals.server.now
    days = here.history_retention.days
    if oldest is not None and now - oldest > here.history_retention + RETENTION_GRACE:
        says = f"history reaches back to {oldest:%Y-%m-%d}, beyond the {counted(days, 'day')} that it is kept"
        return _warn("retention", says, "nobody drops old partitions: see that workers wake and reach the database")
    return _ok("retention", f"history is kept for {counted(days, 'day')}")


def _duties(vitals: HealthFacts) -> Finding:
    duties, now = vitals.maintenance, vitals.server.now
    if duties.oldest_change is not None and now - duties.oldest_change > CHANGE_AFTER:
        says = f"change rows lie since {relative(duties.oldest_change, now)}"
        return _warn("tidying", says, "nobody tidies up: see that workers wake, or the operator runs")
    reaped = relative(duties.last_reap, now) if duties.last_reap else "not yet"
    return _ok("tidying", f"leases looked over {reaped}")


def _pauses(vitals: HealthFacts) -> Finding:
    if not vitals.pauses:
        return _ok("pauses", "nothing is paused")
    names = [f"{pause.what} {pause.name}" if pause.name else pause.what for pause in vitals.pauses]
    oldest = min(pause.paused_at for pause in vitals.pauses)
    says = f"paused: {_listed(names)}, the first {relative(oldest, vitals.server.now)}"
    return _warn("pauses", says, "`wakeboard resume` when it is time")


def _removals(vitals: HealthFacts) -> Finding:
    held = [removal for removal in vitals.removals if removal.confirmed_at is None]
    if not held:
        return _ok("removals", "none is held")
    first = held[0]
    since = relative(first.requested_at, vitals.server.now)
    says = f"{first.source} would remove {counted(first.count, 'schedule')} at once: held since {since}"
    return _warn("removals", says, f"if that is meant: `wakeboard confirm removal {first.source}`")


def _listed(names: list[str]) -> str:
    shown = ", ".join(names[:5])
    return shown if len(names) <= 5 else f"{shown} and {len(names) - 5} more"  # noqa: PLR2004 - a line's worth


def worst(findings: list[Finding]) -> Level:
    """The worst level among them."""
    found = {finding.level for finding in findings}
    return "fail" if "fail" in found else "warn" if "warn" in found else "ok"
