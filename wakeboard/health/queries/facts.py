"""The facts that the conditions of health look at (`health/conditions.py`).

Needs SELECT on the tables. Facts that the role may not read (other sessions, replication) are left out.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final, Literal, LiteralString

from psycopg.rows import class_row

from wakeboard.dependencies.queries import BlockedSchedule, read_blocked_schedules
from wakeboard.health.queries.commits import CommitFacts, read_commit_facts
from wakeboard.health.queries.server import Server, read_server
from wakeboard.limits.queries import list_limits
from wakeboard.restores.queries import read_unacknowledged
from wakeboard.store.connection import connect
from wakeboard.store.migration_locks import sessions_in_the_way
from wakeboard.store.statements import execute, read, translating
from wakeboard.text.humanize import counted_at_least
from wakeboard.views.queries.job_types import meant_job_types
from wakeboard.views.queries.listings import DUE_SINCE, LAST_WORKER, LIVE_QUEUES, SCHEDULE_QUEUES, SERVED, Listings
from wakeboard.views.queries.overview import OverviewQueries
from wakeboard.views.queries.schedule_selection import schedules_from
from wakeboard.views.rules.thresholds import NO_WORKER_AFTER, OVERDUE_AFTER

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from datetime import datetime

    import psycopg

    from wakeboard.alerts.queries.page import AlertCounts
    from wakeboard.limits.queries import LimitRow
    from wakeboard.restores.rules import ServerChange
    from wakeboard.store.migration_locks import LockHolder
    from wakeboard.store.schema_differences import Differences
    from wakeboard.text.facts import Pause
    from wakeboard.views.queries.listings import RemovalRow
    from wakeboard.views.queries.overview import DeadGroup

SCAN_LIMIT: Final = 10_000  # due runs of one (queue, priority) that are read
MOST_NAMED: Final = 6  # schedules of one kind that are read: those that are shown, and one more
POOLER_TRIES: Final = 5

Route = Literal["direct", "session pooler", "transaction pooler"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Storage:
    """How the server keeps commits and tables. Ages are None if there are none.

    `blind_role`: the role of the connection, if it may not see the transactions of other roles; "": it may.
    """

    autovacuum: bool = True
    durable: bool = True
    replicas: int = 0
    blind_role: str = ""
    oldest_transaction: timedelta | None = None
    oldest_transaction_of: str | None = None
    oldest_prepared: timedelta | None = None
    slots_holding_back: list[str] = field(default_factory=list[str])


@dataclass(frozen=True, slots=True, kw_only=True)
class Installed:
    """The schema and the functions in place. `sequences_behind`: the tables that have higher ids than their sequences.

    A role of no part may not see a sequence, and learns nothing about it.
    """

    schema_version: int = 0
    functions_by: str = ""
    functions_hash: str = ""
    functions_revision: int = 0
    sequences_behind: list[str] = field(default_factory=list[str])


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaFacts:
    """The standby of WAKEBOARD_READ_DSN: how far it is behind (None: unknown), or why it cannot be read from.

    `is_primary`: it is the primary itself.
    """

    lag: timedelta | None = None
    is_primary: bool = False
    problem: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalFacts:
    """Facts about this machine, its settings and the installed release."""

    clock_ahead: timedelta = timedelta()  # how far the database's clock is ahead of this machine's
    route: Route = "direct"
    functions_hash: str = ""
    functions_revision: int = 0
    version: str = ""
    tzdata: str = ""  # "": it is not compared
    listen: bool = True
    prepared_statements: bool = False
    history_days: int = 0  # 0: the retention is not compared
    max_timeout_s: float = float("inf")
    replica: ReplicaFacts | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveRuns:
    """Counts of live runs."""

    running: int = 0
    expired: int = 0
    oldest_expiry: datetime | None = None
    unacknowledged_cancels: int = 0
    dead: int = 0
    oldest_quarantined: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DueRuns:
    """Free runs of one type that are due in one queue: how many, and since when the oldest.

    `more`: there may be more, because the read of the queue stopped at its bound. `type_served`: a worker of the
    queue has known the type in the last 10 minutes; `queue_served`: one has served the queue; `meant`: a similar type
    that they know.
    """

    queue: str
    job_type: str
    runs: int
    oldest: datetime
    longest_timeout_s: int
    type_served: bool
    queue_served: bool
    paused: bool
    more: bool = False
    meant: str | None = None

    @property
    def runs_text(self) -> str:
        """How many runs: "3 runs", "10,000+ runs"."""
        return counted_at_least(self.runs, "run", more=self.more)


@dataclass(frozen=True, slots=True, kw_only=True)
class Definitions:
    """The schedules as a whole. `unserved`: queues of theirs that no worker has served in the last 10 minutes.

    `without_tick`: active, with a cron expression, and no next tick. Every valid expression has one.
    Each number is of at most SCAN_LIMIT schedules, and `more` says that there are more schedules; `tzdata_versions` and
    `without_tick` are those of the nearest and the farthest next ticks.
    """

    schedules: int = 0
    late: int = 0
    oldest_late: datetime | None = None
    unserved: list[str] = field(default_factory=list[str])
    tzdata_versions: list[str] = field(default_factory=list[str])
    open_circuits: int = 0
    open_circuit_example: str | None = None
    missed: int = 0
    missed_example: str | None = None
    without_tick: int = 0
    without_tick_example: str | None = None
    more: bool = False

    @property
    def schedules_text(self) -> str:
        """How many schedules: "3 schedules", "10,000+ schedules"."""
        return counted_at_least(self.schedules, "schedule", more=self.more)


@dataclass(frozen=True, slots=True, kw_only=True)
class MaintenanceFacts:
    """Traces of the maintenance tasks.

    `last_worker`: when one was last seen, also one that has stopped; `workers`: those seen in the last 3 minutes.
    `terminated`: by cause, the attempts that ended because the process of their worker did, among the newest 10,000 of
    the last 24 hours. `operator_problems`: why leaders cannot list or watch JobSchedules, as "SOURCE: why".
    """

    installed_at: datetime | None = None
    last_worker: datetime | None = None
    workers: int = 0
    last_reap: datetime | None = None
    partition_now: bool = True
    partitions_until: datetime | None = None
    oldest_partition_end: datetime | None = None
    oldest_change: datetime | None = None
    terminated: dict[str, int] = field(default_factory=dict[str, int])
    operator_problems: list[str] = field(default_factory=list[str])


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    """All facts. Nothing is wrong with those that a caller does not read.

    `due`, `limits` and `removals` are empty for a viewer who may not see all namespaces. `stalled`, `blocked`: at most
    MOST_NAMED.
    """

    now: datetime
    maintenance: MaintenanceFacts = field(default_factory=MaintenanceFacts)
    due: Sequence[DueRuns] = ()
    definitions: Definitions = field(default_factory=Definitions)
    commits: CommitFacts = field(default_factory=CommitFacts)
    lock_holders: Sequence[LockHolder] = ()
    server_changes: Sequence[ServerChange] = ()
    stalled: Sequence[BlockedSchedule] = ()
    blocked: Sequence[BlockedSchedule] = ()
    dead: Sequence[DeadGroup] = ()
    limits: Sequence[LimitRow] = ()
    pauses: Sequence[Pause] = ()
    removals: Sequence[RemovalRow] = ()
    alerts: AlertCounts | None = None
    runs: LiveRuns = field(default_factory=LiveRuns)
    server: Server = field(default_factory=Server)
    storage: Storage = field(default_factory=Storage)
    installed: Installed = field(default_factory=Installed)
    differences: Differences | None = None
    local: LocalFacts = field(default_factory=LocalFacts)


_STORAGE: LiteralString = """
select current_setting('autovacuum')::boolean and current_setting('track_counts')::boolean as autovacuum,
       current_setting('fsync')::boolean and current_setting('full_page_writes')::boolean
         and current_setting('synchronous_commit') <> 'off' as durable,
       (select count(*) from pg_stat_replication) as replicas,
       case when pg_has_role('pg_read_all_stats', 'usage') then '' else current_user end as blind_role,
       oldest.age as oldest_transaction, oldest.of as oldest_transaction_of,
       (select max(clock_timestamp() - prepared) from pg_prepared_xacts
         where database = current_database()) as oldest_prepared,
       array(select slot_name::text from pg_replication_slots
              where not active and (xmin is not null or (catalog_xmin is not null and database = current_database()))
              order by 1) as slots_holding_back
  from (select null) as one
  left join (
    select clock_timestamp() - xact_start as age, coalesce(nullif(application_name, ''), usename::text) as of
      from pg_stat_activity
     where datname = current_database() and pid <> pg_backend_pid() and xact_start is not null
       and backend_type = 'client backend'
     order by xact_start limit 1) as oldest on true
"""

_INSTALLED: LiteralString = """
select (select max(version) from wakeboard.migrations) as schema_version, functions_by, functions_hash,
       functions_revision,
       array(select used.name
               from (select 'job_runs' as name, greatest((select max(id) from wakeboard.job_runs),
                                                         (select max(id) from wakeboard.job_run_history)) as id
                     union all select 'job_definitions', max(id) from wakeboard.job_definitions
                     union all select 'alerts', max(id) from wakeboard.alerts
                     union all select 'audit_log', max(id) from wakeboard.audit_log
                     union all select 'bulk_actions', max(id) from wakeboard.bulk_actions
                     union all select 'backfills', max(id) from wakeboard.backfills) as used
               join pg_sequences on schemaname = 'wakeboard' and sequencename = used.name || '_id_seq'
              where used.id > coalesce(last_value, 0)
                and has_sequence_privilege('wakeboard.' || sequencename, 'usage, select')
              order by 1) as sequences_behind
  from wakeboard.installation
"""

_LIVE_RUNS: LiteralString = f"""
select count(*) filter (where locked_by <> 0) as running,
       count(*) filter (where locked_by <> 0 and locked_until < statement_timestamp()) as expired,
       min(locked_until) filter (where locked_by <> 0 and locked_until < statement_timestamp()) as oldest_expiry,
       count(*) filter (where locked_by <> 0
                          and cancel_requested_at < statement_timestamp() - interval '5 minutes')
         as unacknowledged_cancels,
       count(*) filter (where dead_at is not null) as dead,
       min({DUE_SINCE}) filter (
         where crash_count >= 2 and dead_at is null and locked_by = 0 and run_at <= statement_timestamp()
       ) as oldest_quarantined
  from wakeboard.job_runs
"""

# Runs that no worker claims are the oldest of their queue and priority, so a bounded scan finds them.
_DUE: LiteralString = f"""
{LIVE_QUEUES}, scanned as (
  select run.queue, run.job_type, run.due_since, run.timeout_s, run.read = %(scan_limit)s as more
    from live
   cross join generate_series(1, 5) as level (priority)
   cross join lateral (
     select *, count(*) over () as read
       from (select queue::text, job_type::text, {DUE_SINCE} as due_since, timeout_s, locked_by
               from wakeboard.job_runs
              where job_runs.queue = live.queue and job_runs.priority = level.priority
                and limit_key is null and crash_count < 2 and dead_at is null and run_at <= statement_timestamp()
              order by run_at, id
              limit %(scan_limit)s) as bounded) as run
   where live.queue is not null and run.locked_by = 0
  union all
  select queue, job_type, due_since, timeout_s, count(*) over () = %(scan_limit)s
    from (select queue::text, job_type::text, {DUE_SINCE} as due_since, timeout_s
            from wakeboard.job_runs
           where limit_key is not null and not holds_slot and crash_count < 2 and dead_at is null
             and run_at <= statement_timestamp()
           limit %(scan_limit)s) as limited
)
select scanned.queue, scanned.job_type, count(*) as runs, min(scanned.due_since) as oldest,
       max(scanned.timeout_s) as longest_timeout_s, bool_or(scanned.more) as more,
       {SERVED.replace("{of}", "scanned")},
       exists (select from wakeboard.pauses where scope in ('all', 'queue:' || scanned.queue)) as paused
  from scanned
 group by scanned.queue, scanned.job_type
 order by oldest
"""

# Indexes find what few schedules have. `lacks_tick` accepts a tick within four days for every expression.
_DEFINITIONS: LiteralString = f"""
with recursive {SCHEDULE_QUEUES}, mine as materialized (
  select queue::text from wakeboard.job_definitions where id = any (%(ids)s) and removed_at is null
), circuits as (
  select namespace || '/' || name as example
    from (select * from wakeboard.job_definitions where circuit_opened_at is not null and removed_at is null
           limit %(most)s) as def
   where (%(namespaces)s::text[] is null or namespace = any (%(namespaces)s))
), missed as (
  select namespace || '/' || name as example
    from (select * from wakeboard.job_definitions where success_missed_at is not null and not suspended
           limit %(most)s) as def
   where (%(namespaces)s::text[] is null or namespace = any (%(namespaces)s))
     and not exists (select from wakeboard.pauses
                      where scope in ('all', 'queue:' || def.queue, 'schedule:' || def.id) offset 0)
), late as (
  select def.next_run_at
    from wakeboard.due_schedules(statement_timestamp() - %(overdue)s::interval, %(most)s) as due
    join wakeboard.job_definitions as def using (id)
   where (%(namespaces)s::text[] is null or namespace = any (%(namespaces)s))
), nearest as (
  select tzdata_version, schedule
    from wakeboard.job_definitions where removed_at is null and not suspended and schedule_error is null
   order by next_run_at, id limit %(most)s
), farthest as (
  select namespace, name, schedule, tzdata_version, cron_fields, next_run_at
    from wakeboard.job_definitions where removed_at is null and not suspended and schedule_error is null
   order by next_run_at desc, id desc limit %(most)s
), tickless as (
  select namespace || '/' || name as example
    from farthest
   where (next_run_at is null or next_run_at > statement_timestamp() + interval '4 days')
     and wakeboard.lacks_tick(cron_fields, next_run_at)
     and (%(namespaces)s::text[] is null or namespace = any (%(namespaces)s))
)
select (select count(*) from mine) as schedules, %(more)s as more,
       (select count(*) from circuits) as open_circuits, (select min(example) from circuits) as open_circuit_example,
       (select count(*) from missed) as missed, (select min(example) from missed) as missed_example,
       (select count(*) from tickless) as without_tick, (select min(example) from tickless) as without_tick_example,
       (select count(*) from late) as late, (select min(next_run_at) from late) as oldest_late,
       array((select queue from used where queue is not null and %(namespaces)s::text[] is null limit 1000)
             union
             select queue from mine where %(namespaces)s::text[] is not null
             except select queue from wakeboard.worker_types
                     where last_known_at > statement_timestamp() - interval '10 minutes'
              order by 1) as unserved,
       array(select tzdata_version from nearest where schedule is not null and tzdata_version <> ''
             union select tzdata_version from farthest where schedule is not null and tzdata_version <> '')
         as tzdata_versions               -- those of applications have none: each tick is computed again
"""

_STALLED: LiteralString = """
select id, namespace, name, schedule_error as reason
  from (select * from wakeboard.job_definitions where removed_at is null and schedule_error is not null
         limit 10000) as stalled
 where (%(namespaces)s::text[] is null or namespace = any (%(namespaces)s))
 order by namespace, name
 limit %(most)s
"""

_MAINTENANCE: LiteralString = f"""
select {LAST_WORKER},
       (select count(*) from wakeboard.workers
         where last_seen > statement_timestamp() - %(no_worker)s::interval) as workers,
       (select created_at from wakeboard.installation) as installed_at,
       (select nullif(reap_started_at, 'epoch') from wakeboard.installation) as last_reap,
       coalesce(bool_or(began <= statement_timestamp() and ends > statement_timestamp()), false) as partition_now,
       max(ends) as partitions_until, min(ends) as oldest_partition_end,
       (select min(changed_at)
          from (select changed_at from wakeboard.definition_changes limit 1000) as first_ones) as oldest_change,
       array(select source || ': ' || problem from wakeboard.leadership
              where problem <> '' and expires_at > statement_timestamp() order by 1) as operator_problems,
       (select coalesce(jsonb_object_agg(cause, attempts), '{{}}')
          from (select cause, count(*) as attempts
                  from (select cause from wakeboard.job_attempts
                         where ended_at > statement_timestamp() - interval '24 hours'
                         order by ended_at desc limit 10000) as newest
                 where cause is not null
                 group by 1) as each) as terminated
  from (
    select (regexp_match(bounds, $$FROM \\('([^']+)'\\)$$))[1]::timestamptz as began,
           (regexp_match(bounds, $$TO \\('([^']+)'\\)$$))[1]::timestamptz as ends
      from (select pg_get_expr(child.relpartbound, child.oid) as bounds
              from pg_inherits join pg_class as child on child.oid = inhrelid
             where inhparent = 'wakeboard.job_run_history'::regclass) as part) as part
"""


async def read_health(conn: psycopg.AsyncConnection[Any], namespaces: Collection[str] | None = None) -> Health:
    """What the board shows of these namespaces; None: of all, as `wakeboard check` does. Each read is bounded."""
    listings, sees_all = Listings(conn), namespaces is None
    return Health(
        now=await listings.now(),
        maintenance=await read_maintenance(conn),
        due=await read_due(conn) if sees_all else (),
        definitions=await read_definitions(conn, namespaces),
        server_changes=await read_unacknowledged(conn),
        stalled=await read(conn, class_row(BlockedSchedule), _STALLED, _of(namespaces)),
        blocked=await read_blocked_schedules(conn, namespaces, MOST_NAMED),
        dead=await OverviewQueries(conn, namespaces).dead(),
        limits=await list_limits(conn) if sees_all else (),
        pauses=await listings.pauses(),
        removals=await listings.removals() if sees_all else (),
    )


async def read_server_health(conn: psycopg.AsyncConnection[Any], dsn: str) -> Health:
    """What can keep the server that `conn` reaches, a connection to `dsn`, from working. Raises WakeboardError."""
    now = await Listings(conn).now()
    holders = await sessions_in_the_way(conn)
    return Health(
        now=now, lock_holders=holders, server=await read_server(conn), commits=await read_commit_facts(conn, dsn)
    )


async def read_measured(conn: psycopg.AsyncConnection[Any]) -> Health:
    """What the metrics show. One scan of job_runs, some tenths of a second for a million live runs."""
    listings = Listings(conn)
    return Health(
        now=await listings.now(),
        maintenance=await read_maintenance(conn),
        due=await read_due(conn),
        definitions=await read_definitions(conn),
        removals=await listings.removals(),
        server_changes=await read_unacknowledged(conn),
        runs=await read_live_runs(conn),
    )


async def read_installation(conn: psycopg.AsyncConnection[Any]) -> Health:
    """All facts that a connection shows. Raises WakeboardError, as the other reads do."""
    return replace(
        await read_health(conn),
        runs=await read_live_runs(conn),
        server=await read_server(conn),
        storage=(await read(conn, class_row(Storage), _STORAGE))[0],
        installed=(await read(conn, class_row(Installed), _INSTALLED))[0],
    )


async def read_live_runs(conn: psycopg.AsyncConnection[Any]) -> LiveRuns:
    """Counts of live runs: one scan of job_runs."""
    return (await read(conn, class_row(LiveRuns), _LIVE_RUNS))[0]


async def read_due(conn: psycopg.AsyncConnection[Any], scan_limit: int = SCAN_LIMIT) -> list[DueRuns]:
    """Due runs by queue and job type, the oldest first; of each queue and priority the first `scan_limit`."""
    found = await read(conn, class_row(DueRuns), _DUE, {"scan_limit": scan_limit})
    meant = await meant_job_types(conn, {(due.queue, due.job_type) for due in found if not due.type_served})
    return [replace(due, meant=meant.get((due.queue, due.job_type))) for due in found]


async def read_definitions(
    conn: psycopg.AsyncConnection[Any], namespaces: Collection[str] | None = None
) -> Definitions:
    """The schedules of these namespaces as a whole; None: of all."""
    within = None if namespaces is None else sorted(namespaces)
    ids, further = await schedules_from(conn, within, None, SCAN_LIMIT)
    values = {**_of(namespaces), "ids": ids, "more": further is not None, "most": SCAN_LIMIT}
    return (await read(conn, class_row(Definitions), _DEFINITIONS, values))[0]


def _of(namespaces: Collection[str] | None) -> dict[str, Any]:
    return {
        "namespaces": None if namespaces is None else sorted(namespaces),
        "overdue": OVERDUE_AFTER,
        "most": MOST_NAMED,
    }


async def read_maintenance(conn: psycopg.AsyncConnection[Any]) -> MaintenanceFacts:
    """Traces of the maintenance tasks."""
    return (await read(conn, class_row(MaintenanceFacts), _MAINTENANCE, {"no_worker": NO_WORKER_AFTER}))[0]


async def route_to(dsn: str, conn: psycopg.AsyncConnection[Any]) -> Route:
    """Whether `conn`, made with `dsn`, reaches the server directly or through a pooler, and of which kind.

    A pooler reports its own process id when a client connects. In transaction mode it assigns server processes to
    clients for one transaction at a time. So it is one if a second connection gets the server process of the first,
    or if the server process of the first changes.
    """
    with translating(conn):
        first = await _server_process(conn)
        if first == conn.info.backend_pid:
            return "direct"
        other = await connect(dsn, name="wakeboard check")
        async with other, other.transaction():
            if await _server_process(other) == first:
                return "transaction pooler"
            changed = [await _server_process(conn) != first for _ in range(POOLER_TRIES)]
            return "transaction pooler" if any(changed) else "session pooler"


async def _server_process(conn: psycopg.AsyncConnection[Any]) -> int:
    return (await execute(conn, "select pg_catalog.pg_backend_pid()"))[0][0]
