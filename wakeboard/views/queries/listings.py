"""Read-only queries that list schedules, runs and pauses, for the command line and the board.

Needs SELECT on the tables, which the viewer's and the operator's role have. They take no lock that blocks an
SQL function. The fields of the rows are public: they are the keys of `--json`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, LiteralString, TypeVar

from psycopg.rows import class_row, dict_row, scalar_row, tuple_row

from wakeboard.store.statements import call, read
from wakeboard.text.facts import Pause
from wakeboard.views.rules.run_rows import RunRow
from wakeboard.views.rules.schedule_rows import ScheduleName

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Collection, Iterable, Sequence
    from datetime import datetime
    from uuid import UUID

    import psycopg

LIVE = ("queued", "running", "failed", "dead")
PAST = ("succeeded", "cancelled", "skipped", "discarded")
STATUSES = LIVE + PAST  # 'discarded': a dead run that was given up; its history row says dead

MOST_NAMES = 1_000
_MOST_PAUSES_READ: Final = 50_000  # of which those of removed schedules are left out: half a second

_Row = TypeVar("_Row")


def sources_with_same_name(known: Iterable[ScheduleName], source: str) -> dict[str, list[str]]:
    """The other sources that declare `known` schedules, by namespace/name. Those of different sources both run."""
    found: dict[str, list[str]] = {}
    for each in known:
        if each.source not in {source, "app"} and not each.removed:
            found.setdefault(each.short, []).append(each.source)
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class RemovalRow:
    """A removal of many schedules at once that waits for a confirmation."""

    source: str
    count: int
    requested_at: datetime
    confirmed_at: datetime | None


MAX_NAMESPACES = 1_000  # in which a name without a namespace is looked up
LAST_LETTER = "\U0010ffff"  # no name goes on with it

NAMESPACES: LiteralString = """
with recursive known (namespace) as (
  (select namespace from wakeboard.job_definitions order by namespace collate "C" limit 1)
  union all
  select (select namespace from wakeboard.job_definitions
           where namespace collate "C" > known.namespace order by namespace collate "C" limit 1)
    from known where known.namespace is not null
), namespaces (namespace) as (select namespace from known where namespace is not null limit %(most_namespaces)s)
"""
_NAMESPACES: LiteralString = f"""
{NAMESPACES}
select namespace
  from namespaces
 where exists (select from wakeboard.job_definitions as def
                where def.namespace collate "C" = namespaces.namespace and removed_at is null)
"""
# The schedules whose names begin with a text, with or without their namespace. A range, because a pattern that a join
# gives has none. `last` '' finds whole names only. `within`: only those of these namespaces. No two of the parts
# find the same schedule, so that the first `most` are enough.
BEGINNING: LiteralString = f"""
{NAMESPACES}, searched (namespace) as (
  select namespace from namespaces where %(within)s::text[] is null
  union all
  select unnest(%(within)s::text[])
), placed (id) as (
  select def.id
    from unnest(%(lefts)s::text[], %(rights)s::text[]) as split (namespace, name)
   cross join lateral (
     select id from wakeboard.job_definitions as def
      where def.namespace collate "C" = split.namespace
        and def.name collate "C" between split.name and split.name || %(last)s limit %(most)s) as def
   where %(within)s::text[] is null or split.namespace = any (%(within)s)
  union all
  (select id from wakeboard.job_definitions
    where %(within)s::text[] is null and %(last)s <> ''
      and namespace collate "C" between %(text)s and %(text)s || %(last)s limit %(most)s)
  union all
  select def.id
    from unnest(%(within)s::text[]) as own (namespace)
   cross join lateral (
     select id from wakeboard.job_definitions as def
      where def.namespace collate "C" = own.namespace limit %(most)s) as def
   where %(last)s <> '' and own.namespace collate "C" between %(text)s and %(text)s || %(last)s
  union all
  select def.id
    from searched
   cross join lateral (
     select id from wakeboard.job_definitions as def
      where def.namespace collate "C" = searched.namespace
        and def.name collate "C" between %(text)s and %(text)s || %(last)s limit %(most)s) as def
   where %(last)s = '' or searched.namespace collate "C" not between %(text)s and %(text)s || %(last)s
), beginning as (select distinct id from (select id from placed limit %(most)s) as placed)
"""
_SCHEDULE_NAMES: LiteralString = f"""
{BEGINNING}
select id, source, namespace, name, removed_at is not null as removed
  from beginning join wakeboard.job_definitions using (id)
 order by namespace collate "C", name collate "C", source
"""
_SAME_NAMES: LiteralString = """
select def.id, def.source, def.namespace, def.name, def.removed_at is not null as removed
  from unnest(%(namespaces)s::text[], %(names)s::text[]) as wanted (namespace, name)
  join wakeboard.job_definitions as def
    on def.namespace collate "C" = wanted.namespace and def.name collate "C" = wanted.name
 order by 3, 4, 2
"""
_TAKEN: LiteralString = """
select namespace || '/' || name, why
  from unnest(%(namespaces)s::text[], %(names)s::text[]) as wanted (namespace, name)
 cross join lateral (select wakeboard.taken_by_application(namespace, name)) as taken (why)
 where why is not null
"""
_STALLED: LiteralString = """
select namespace || '/' || name
  from wakeboard.job_definitions
 where source = %(source)s and schedule_error is not null and removed_at is null
 limit %(most)s
"""


def beginning(
    text: str, most: int, *, whole: bool = False, namespaces: Collection[str] | None = None
) -> dict[str, Any]:
    """The parameters of BEGINNING: at most `most` schedules. `whole`: only those with exactly this name.

    `namespaces`: only those of these; None: of all.
    """
    parts = text.split("/")  # a namespace and a name may contain slashes
    return {
        "text": text,
        "last": "" if whole else LAST_LETTER,
        "most": most,
        "most_namespaces": MAX_NAMESPACES,
        "within": None if namespaces is None else sorted(namespaces),
        "lefts": ["/".join(parts[:at]) for at in range(1, len(parts))],
        "rights": ["/".join(parts[at:]) for at in range(1, len(parts))],
    }


_BOTH_HAVE: LiteralString = """
       run.id, run.uuid, run.schedule, run.definition_generation,
       run.job_type::text, run.queue::text, run.priority::integer, run.trigger::text,
       run.scheduled_for, run.run_at, run.created_at, nullif(run.started_at, 'epoch') as started_at, run.failed_at,
       run.attempts, run.max_attempts::integer, run.crash_count, run.release_count, run.limit_key::text, run.error_type,
       run.last_error as error
"""
LIVE_COLUMNS: LiteralString = (
    _BOTH_HAVE.replace("run.limit_key::text", "coalesce(run.shared_limit_key, run.limit_key)::text as limit_key")
    + """,
       run.status::text as status, run.dead_at, null::timestamptz as finished_at,
       run.progress, run.progress_message, run.cancel_requested_at,
       null::text as reason, null::timestamptz as skipped_until, null::bigint as skipped_count
"""
)
PAST_COLUMNS: LiteralString = (
    _BOTH_HAVE
    + """,
       case run.status when 'dead' then 'discarded' else run.status::text end as status, null::timestamptz as dead_at,
       run.finished_at, null::real as progress, null::text as progress_message,
       null::timestamptz as cancel_requested_at, run.reason, run.skipped_until,
       run.skipped_count
"""
)
_RUNS: LiteralString = f"""
select {LIVE_COLUMNS} from wakeboard.job_runs as run where run.id = any (%(ids)s)
union all
select {PAST_COLUMNS} from wakeboard.job_run_history as run where run.id = any (%(ids)s)
 order by id desc
"""
_PAYLOADS: LiteralString = "select id, payload::text from wakeboard.all_runs where id = any (%(ids)s)"
_IDS_OF_UUIDS: LiteralString = "select uuid, id from wakeboard.all_runs where uuid = any (%(uuids)s)"
_IDS_BETWEEN: LiteralString = """
select uuid, id from wakeboard.all_runs where uuid between %(first)s and %(last)s limit 10
"""

# Who paused a scope last. No row: the audit row is older than its retention.
PAUSED_BY: LiteralString = """
       coalesce((select actor::text from wakeboard.audit_log
                  where definition_id = substring({scope} from '^schedule:([0-9]+)$')::bigint and action = 'pause'
                  order by id desc limit 1),
                (select actor::text from wakeboard.audit_log
                  where {scope} !~ '^schedule:' and action = 'pause' and audit_log.scope = {scope}
                  order by id desc limit 1))"""
_PAUSE: LiteralString = f"""
select pause.scope, split_part(pause.scope, ':', 1) as kind,
       coalesce(def.namespace || '/' || def.name, nullif(regexp_replace(pause.scope, '^[a-z]+:?', ''), '')) as name,
       pause.reason, pause.paused_at, pause.until, {PAUSED_BY.replace("{scope}", "pause.scope")} as actor
  from (select * from wakeboard.pauses as pause where {{which}}) as pause
  left join wakeboard.job_definitions as def on def.id = substring(pause.scope from '^schedule:([0-9]+)$')::bigint
"""
_PAUSES_OF: LiteralString = f"{_PAUSE.format(which='pause.scope = any (%(scopes)s)')} order by pause.scope"
# A removed schedule keeps its pause, for the case that it is created again. Until then the pause holds nothing.
_PAUSES_FROM: LiteralString = f"""
{_PAUSE.format(which="pause.scope > %(after)s order by pause.scope limit %(read)s")}
 where def.removed_at is null
 order by pause.scope limit %(most)s
"""

# Since when a due run has waited. An application may enqueue a run for a past time; a tick that is enqueued late
# has waited since its time. tests/store/test_sql_texts.py keeps this text equal in all queries and functions.
DUE_SINCE: LiteralString = "case when trigger = 'tick' then run_at else greatest(run_at, created_at) end"

# Whether a worker of the queue has known the job type, and whether one has served the queue, in the last 10 minutes.
SERVED: LiteralString = """
       exists (select from wakeboard.worker_types as known
                where known.queue = {of}.queue and known.job_type = {of}.job_type
                  and known.last_known_at > statement_timestamp() - interval '10 minutes') as type_served,
       exists (select from wakeboard.worker_types as known
                where known.queue = {of}.queue
                  and known.last_known_at > statement_timestamp() - interval '10 minutes') as queue_served"""
# When a worker was last seen, also one that has stopped.
LAST_WORKER: LiteralString = """
       greatest((select max(last_seen) from wakeboard.workers),
                (select max(last_known_at) from wakeboard.worker_types)) as last_worker"""

# The queues of live runs without a limit key: one index descent for each queue, however many runs it has. It begins at
# the last runs of a queue, because the index has entries of many deleted runs at the first ones.
LIVE_QUEUES: LiteralString = """
with recursive live (queue) as (
  (select queue::text from wakeboard.job_runs where limit_key is null and crash_count < 2 and dead_at is null
    order by queue desc limit 1)
  union all
  select (select queue::text from wakeboard.job_runs
           where queue < live.queue and limit_key is null and crash_count < 2 and dead_at is null
           order by queue desc limit 1)
    from live where live.queue is not null)
"""
# The queues of schedules: one index descent for each.
SCHEDULE_QUEUES: LiteralString = """
used (queue) as (
  (select queue::text from wakeboard.job_definitions where removed_at is null order by queue limit 1)
  union all
  select (select queue::text from wakeboard.job_definitions
           where removed_at is null and queue > used.queue order by queue limit 1)
    from used where used.queue is not null)
"""
_QUEUES: LiteralString = f"""
{LIVE_QUEUES}, {SCHEDULE_QUEUES}
select queue from live where queue is not null
union
(select queue from used where queue is not null limit 1000)
union
select queue from wakeboard.worker_types where last_known_at > statement_timestamp() - interval '1 day'
union
select substr(scope, 7)
  from (select scope from wakeboard.pauses as pause order by scope limit 1000) as first_ones -- queues, then schedules
 where scope ^@ 'queue:'
 order by 1
"""


def _pauses(rows: list[dict[str, Any]]) -> list[Pause]:
    return [Pause(**{name: row[name] for name in row if name != "scope"}) for row in rows]


class Listings:
    """The queries, over one async connection. Raises WakeboardError (see errors.py)."""

    def __init__(self, conn: psycopg.AsyncConnection[Any]) -> None:
        self.conn = conn

    async def now(self) -> datetime:
        """The time of the database's clock."""
        return (await call(self.conn, "select pg_catalog.clock_timestamp()"))[0][0]

    async def schedule_names(
        self, text: str, most: int = MOST_NAMES, *, whole: bool = False, namespaces: Collection[str] | None = None
    ) -> list[ScheduleName]:
        """At most `most` schedules, removed ones too, whose NAME or NAMESPACE/NAME begins with `text` (`whole`: is it).

        A name without a namespace is looked up in these namespaces; None: in the first 1,000.
        """
        values = beginning(text, most, whole=whole, namespaces=namespaces)
        return await self._rows(ScheduleName, _SCHEDULE_NAMES, **values)

    async def schedules_called(self, names: Collection[tuple[str, str]]) -> list[ScheduleName]:
        """The schedules of all sources with one of these names (namespace, name), removed ones too."""
        namespaces, own = [namespace for namespace, _ in names], [name for _, name in names]
        return await self._rows(ScheduleName, _SAME_NAMES, namespaces=namespaces, names=own)

    async def taken_names(self, names: Collection[tuple[str, str]]) -> dict[str, str]:
        """Why declared schedules cannot have these names (namespace, name), by NAMESPACE/NAME; others are left out."""
        namespaces, own = [namespace for namespace, _ in names], [name for _, name in names]
        return dict(await read(self.conn, tuple_row, _TAKEN, {"namespaces": namespaces, "names": own}))

    async def stalled(self, source: str) -> set[str]:
        """The schedules of a source whose ticks have stopped because of an error; at most 1,000."""
        return set(await self._values(_STALLED, source=source, most=MOST_NAMES))

    async def namespaces(self) -> list[str]:
        """The namespaces that have schedules, by name; at most 1,000."""
        return await self._values(_NAMESPACES, most_namespaces=MAX_NAMESPACES)

    async def runs(self, ids: Sequence[int]) -> list[RunRow]:
        """The runs with these ids, newest first. One that does not exist is left out."""
        return await self._rows(RunRow, _RUNS, ids=list(ids))

    async def payloads(self, ids: Sequence[int]) -> dict[int, str]:
        """The payloads of these runs as JSON texts."""
        return dict(await read(self.conn, tuple_row, _PAYLOADS, {"ids": list(ids)}))

    async def ids_of(self, uuids: Sequence[UUID]) -> dict[UUID, int]:
        """The ids of runs known by uuid. Neither table has an index for it: seconds where there are many millions."""
        return dict(await self._pairs(_IDS_OF_UUIDS, uuids=list(uuids)))

    async def ids_between(self, first: UUID, last: UUID) -> list[tuple[UUID, int]]:
        """Up to ten runs whose uuids are between these two. It scans like `ids_of`."""
        return await self._pairs(_IDS_BETWEEN, first=first, last=last)

    async def has_run(self, run_id: int) -> bool:
        """Whether a run, live or past, has this id."""
        query: LiteralString = "select true from wakeboard.all_runs where id = %(id)s limit 1"
        return bool(await self._values(query, id=run_id))

    async def pauses_of(self, scopes: Sequence[str]) -> list[Pause]:
        """What is paused of these scopes: all, queue:NAME or schedule:ID."""
        return _pauses(await read(self.conn, dict_row, _PAUSES_OF, {"scopes": list(scopes)}))

    async def pauses(self) -> list[Pause]:
        """What is paused: everything, queues, then schedules that are not removed; at most 1,000.

        Reads the first 50,000 pauses, with those of removed schedules.
        """
        return _pauses(await self._pauses_from("", _MOST_PAUSES_READ))

    async def pause_pages(self) -> AsyncIterator[list[Pause]]:
        """As `pauses`, without a bound: pages of 1,000."""
        after = ""
        while found := await self._pauses_from(after):
            after = found[-1]["scope"]
            yield _pauses(found)

    async def _pauses_from(self, after: str, reads: int | None = None) -> list[dict[str, Any]]:
        return await read(self.conn, dict_row, _PAUSES_FROM, {"after": after, "read": reads, "most": MOST_NAMES})

    async def removals(self) -> list[RemovalRow]:
        """Removals that wait for a confirmation."""
        query: LiteralString = (
            "select source, count, requested_at, confirmed_at from wakeboard.pending_removals order by source"
        )
        return await self._rows(RemovalRow, query)

    async def queues(self) -> list[str]:
        """The queues of schedules, of live runs without a limit key, of workers, and of pauses."""
        return await self._values(_QUEUES)

    async def _rows(self, kind: type[_Row], query: LiteralString, **values: Any) -> list[_Row]:
        return await read(self.conn, class_row(kind), query, values)

    async def _pairs(self, query: LiteralString, **values: Any) -> list[tuple[UUID, int]]:
        return await read(self.conn, tuple_row, query, values)

    async def _values(self, query: LiteralString, **values: Any) -> list[Any]:
        return await read(self.conn, scalar_row, query, values)
