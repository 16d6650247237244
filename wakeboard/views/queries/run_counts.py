"""Counts the runs of a search by status, within bounds, and lists the names that searches may contain.

A count stops at `MOST_COUNTED`, and examines as many rows as a page of the list does. A count that stopped is marked.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, LiteralString

from psycopg.rows import dict_row, tuple_row
from psycopg.sql import SQL

from wakeboard.store.statements import read
from wakeboard.views.queries.index_order import prefer_index_order
from wakeboard.views.queries.listings import LIVE, STATUSES
from wakeboard.views.queries.run_list import FRONT, RUNNING, SEARCHED, open_list
from wakeboard.views.queries.schedule_selection import schedules_from
from wakeboard.views.rules.run_search import RunSearch

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    import psycopg

    from wakeboard.views.queries.run_conditions import Table
    from wakeboard.views.queries.run_list import RunList

MOST_COUNTED: Final = 10_000
_MOST_NAMES: Final = 5_000  # schedules
_SAMPLE: Final = 300  # newest runs, of which the payloads are read


@dataclass(frozen=True, slots=True)
class Count:
    """A number of runs. `more`: there are more, or there may be."""

    runs: int
    more: bool = False

    def __str__(self) -> str:
        return f"{self.runs:,}{'+' * self.more}"


# Each row: the schedule if they are examined one by one, the status, and how many runs were examined and fit.
_BY_ID: LiteralString = """
select null::bigint, run.status::text, count(*), count(*) filter (where true {{}})
  from (select * from wakeboard.{} order by id desc limit %(searched)s) as run
 group by run.status
"""
_LIVE_BY_ID: LiteralString = _BY_ID.format("job_runs")
_PAST_BY_ID: LiteralString = _BY_ID.format("job_run_history")
_LIVE_BY_SCHEDULE: LiteralString = """
select null::bigint, run.status::text, count(*), count(*) filter (where true {})
  from (select * from wakeboard.job_runs where definition_id = any (%(definitions)s) limit %(searched)s) as run
 group by run.status
"""
_PAST_BY_SCHEDULE: LiteralString = """
select one.definition, run.status::text, count(*), count(*) filter (where true {})
  from unnest(%(definitions)s::bigint[]) as one (definition)
 cross join lateral (
   select * from wakeboard.job_run_history where definition_id = one.definition
    order by finished_at desc limit %(searched)s) as run
 group by one.definition, run.status
"""
# Of the statuses that few live runs have.
_RARE: Final[dict[str, LiteralString]] = {
    "dead": """
select count(*), count(*) filter (where true {})
  from (select * from wakeboard.job_runs where dead_at is not null limit %(searched)s) as run
""",
    "failed": """
select count(*), count(*) filter (where run.status = 'failed' {})
  from (select * from wakeboard.job_runs where failed_at is not null and dead_at is null limit %(searched)s) as run
""",
    "running": f"""
{RUNNING}
select count(*), count(*) filter (where run.status = 'running' {{}})
  from wakeboard.job_runs as run
 where run.id = any (array(select id from leased))
""",
}


async def count_runs(
    conn: psycopg.AsyncConnection[Any],
    search: RunSearch,
    *,
    namespaces: Collection[str] | None,
    searched: int = SEARCHED,
) -> Mapping[str, Count]:
    """How many runs of each status fit the search, whose own statuses do not matter. Raises WakeboardError.

    At most `searched` runs of each table are examined, the newest by id, or the newest ones of each schedule.
    """
    any_status = RunSearch(terms=tuple(term for term in search.terms if term.qualifier != "status"))
    runs = await open_list(conn, any_status, namespaces, searched)
    await prefer_index_order(conn)
    by_schedule = runs.definitions is not None
    values = {"definitions": runs.definitions, "front": FRONT, "searched": searched}
    live = await _counted(runs, "live", _LIVE_BY_SCHEDULE if by_schedule else _LIVE_BY_ID, values)
    if not by_schedule and any(count.more for count in live.values()):
        live |= await _rare(runs, values)
    if by_schedule:
        values["searched"] = max(1, searched // 3 // max(1, len(runs.definitions or ())))
    past = await _counted(runs, "past", _PAST_BY_SCHEDULE if by_schedule else _PAST_BY_ID, values)
    past["discarded"] = past.pop("dead", Count(0))
    return {status: (live if status in LIVE else past).get(status, Count(0)) for status in STATUSES}


async def _counted(runs: RunList, table: Table, query: LiteralString, values: dict[str, Any]) -> dict[str, Count]:
    """The counts of a table. If not all of its rows were examined, there may be more of each status."""
    conditions = runs.conditions(table)
    rows = await read(runs.conn, tuple_row, SQL(query).format(conditions.and_()), {**values, **conditions.values})
    examined: dict[int | None, int] = {}
    fits: dict[str, int] = {}
    for definition, status, seen, fit in rows:
        examined[definition] = examined.get(definition, 0) + seen
        fits[status] = fits.get(status, 0) + fit
    more = any(seen >= values["searched"] for seen in examined.values())
    statuses = (
        ("queued", "running", "failed", "dead") if table == "live" else ("succeeded", "cancelled", "skipped", "dead")
    )
    return {status: _bounded(fits.get(status, 0), more=more) for status in statuses}


async def _rare(runs: RunList, values: dict[str, Any]) -> dict[str, Count]:
    conditions = runs.conditions("live")
    counts: dict[str, Count] = {}
    for status, query in _RARE.items():
        found = await read(runs.conn, tuple_row, SQL(query).format(conditions.and_()), {**values, **conditions.values})
        seen, fit = found[0]
        counts[status] = _bounded(fit, more=seen >= values["searched"])
    return counts


def _bounded(runs: int, *, more: bool) -> Count:
    return Count(min(runs, MOST_COUNTED), more or runs > MOST_COUNTED)


# -- names -------------------------------------------------------------------------------------------------------------

_NAMES: LiteralString = """
with mine as (
  select namespace || '/' || name as schedule, job_type::text, queue::text, limit_key::text
    from wakeboard.job_definitions
   where id = any (%(ids)s) and removed_at is null
   order by 1
), newest as (
  select job_type::text, queue::text, payload, definition_id
    from (select job_type, queue, payload, definition_id from wakeboard.job_runs order by id desc limit %(sample)s)
           as run
  union all
  select job_type, queue, payload, definition_id
    from (select job_type, queue, payload, definition_id from wakeboard.job_run_history
           order by id desc limit %(sample)s) as run
), shown as (
  select * from newest
   where %(namespaces)s::text[] is null
      or (select namespace from wakeboard.job_definitions where id = newest.definition_id) = any (%(namespaces)s)
)
select array(select job_type from mine union select job_type from shown
             union select job_type from wakeboard.worker_types
                    where last_known_at > statement_timestamp() - interval '1 day' and %(namespaces)s::text[] is null
              order by 1 limit 500) as type,
       array(select queue from mine union select queue from shown
             union select queue from wakeboard.worker_types
                    where last_known_at > statement_timestamp() - interval '1 day' and %(namespaces)s::text[] is null
              order by 1 limit 500) as queue,
       array(select schedule from mine)
         || array(select distinct split_part(schedule, '/', 1) || '/*' from mine order by 1) as schedule,
       array(select limit_key from mine where limit_key is not null
             union select key from wakeboard.job_limits
              where %(namespaces)s::text[] is null and key not like '%%:%%'
              order by 1 limit 500) as "limit",
       array(select distinct key from shown cross join lateral jsonb_object_keys(
               case jsonb_typeof(payload) when 'object' then payload else '{}' end) as key
              order by 1 limit 200) as payload
"""


async def known_names(
    conn: psycopg.AsyncConnection[Any], *, namespaces: Collection[str] | None
) -> Mapping[str, list[str]]:
    """What searches may name: job types, queues, schedules, limit keys, and the keys of the newest payloads."""
    within = None if namespaces is None else sorted(namespaces)
    ids, _ = await schedules_from(conn, within, None, _MOST_NAMES)
    values = {"namespaces": within, "ids": ids, "sample": _SAMPLE}
    return (await read(conn, dict_row, _NAMES, values))[0]
