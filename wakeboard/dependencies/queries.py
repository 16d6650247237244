"""Reads what schedules and runs wait for: the models of `dependencies/rules/graph.py`. Needs SELECT on the tables."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, LiteralString

from psycopg.rows import class_row, tuple_row

from wakeboard.dependencies.rules.graph import (
    AwaitedRun,
    Node,
    Parent,
    UnmatchedTicks,
    blocked_by,
    edges_in_cycles,
    missing_parent,
    waiting_for,
)
from wakeboard.store.statements import read

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from typing import Any

    import psycopg

_MOST_RUNS = 10_000  # live runs of a parent that are read
_MOST_AWAITED = 20
_CANDIDATES = 1_000  # schedules that may be blocked, read at once

# The pause that holds a schedule; scopes in order: all, queue:NAME, schedule:ID. It is looked up for each schedule.
# Where Postgres expects one schedule and finds thousands, it would join by reading all pauses for each of them.
PAUSE_OF_SCHEDULE: LiteralString = """
  left join lateral (
    select scope, reason, paused_at from wakeboard.pauses
     where scope in ('all', 'queue:' || def.queue, 'schedule:' || def.id)
     order by scope limit 1) as pause on true
"""
# Whether its ticks become runs, for every list, page and sentence; it needs this join.
ENDED: LiteralString = """
              (def.next_run_at is null and not def.suspended
               and (def.cron_fields ^@ 'at ' or strpos(def.cron_fields, ' until=') > 0))"""
STATE: LiteralString = f"""
         case when def.removed_at is not null then 'removed'
              when def.schedule_error is not null then 'stalled'
              when def.suspended then 'suspended'
              when {ENDED} then 'ended'
              when pause.scope is not null then 'paused'
              when def.circuit_opened_at is not null then 'circuit open'
              when def.schedule is null
                   and not exists (select from wakeboard.schedule_dependencies where definition_id = def.id)
                   then 'on demand'
              else 'active' end"""
_PARENTS: LiteralString = f"""
select edge.definition_id, edge.parent_name as name, edge.outcome, edge.ticks, edge.parent_id,
       coalesce(parent.removed_at is not null, false) as removed, {STATE} = 'active' as is_active,
       waited.id as run_id, waited.status as run_status, waited.scheduled_for as run_tick
  from wakeboard.schedule_dependencies as edge
  join wakeboard.job_definitions as def on def.id = edge.definition_id {PAUSE_OF_SCHEDULE}
  left join wakeboard.job_definitions as parent on parent.id = edge.parent_id
  left join lateral (
    select run.id, run.status, run.scheduled_for
      from (select id, status::text, scheduled_for, dead_at from wakeboard.job_runs
             where definition_id = edge.parent_id and trigger <> 'manual' limit %(most)s) as run
     where not (edge.outcome = 'Ended' and run.dead_at is not null)
       and not exists (select from wakeboard.schedule_ticks as tick
                        where tick.definition_id = edge.definition_id and tick.scheduled_for = run.scheduled_for
                          and tick.waits_for is null)
     order by run.dead_at is null, run.scheduled_for, run.id
     limit 1) as waited on true
 where edge.definition_id = any (%(ids)s)
 order by edge.definition_id, edge.place
"""
_EDGES: LiteralString = """
select parent_id, definition_id from wakeboard.schedule_dependencies where parent_id is not null
"""
_MISSING: LiteralString = """
select child.namespace || '/' || child.name as name, child.namespace || '/' || edge.parent_name
  from unnest(%(namespaces)s::text[], %(names)s::text[]) as wanted (namespace, name)
  join wakeboard.job_definitions as child
    on child.namespace collate "C" = wanted.namespace and child.name collate "C" = wanted.name
   and child.removed_at is null
  join wakeboard.schedule_dependencies as edge on edge.definition_id = child.id
 where not exists (select from wakeboard.job_definitions where id = edge.parent_id and removed_at is null)
 order by name, edge.place
"""
# Schedules in cycles, and those that run after one which has dead runs or does not exist.
_PERHAPS_BLOCKED: LiteralString = """
select def.id, def.namespace, def.name
  from (select unnest(%(in_cycles)s::bigint[]) as id
        union
        select edge.definition_id
          from wakeboard.schedule_dependencies as edge
          left join wakeboard.job_definitions as parent on parent.id = edge.parent_id and parent.removed_at is null
         where parent.id is null
            or exists (
              select from wakeboard.job_runs as run where run.definition_id = parent.id and run.dead_at is not null)
       ) as perhaps
  join wakeboard.job_definitions as def using (id)
 where def.removed_at is null and (%(namespaces)s::text[] is null or def.namespace = any (%(namespaces)s))
 order by 2, 3
"""
_UNMATCHED: LiteralString = """
select has.parent_name as has, lacks.parent_name as lacks, count(*) as count, max(tick.scheduled_for) as newest
  from wakeboard.schedule_dependencies as has
  join wakeboard.job_definitions as child on child.id = has.definition_id
  join wakeboard.schedule_dependencies as lacks
    on lacks.definition_id = has.definition_id and lacks.ticks = 'Same' and lacks.place <> has.place
  join wakeboard.job_definitions as other on other.id = lacks.parent_id and other.removed_at is null
 cross join lateral (
   select scheduled_for, recorded_at from wakeboard.schedule_ticks
    where definition_id = has.parent_id and outcome is not null
    order by scheduled_for desc limit 100) as tick
 where has.definition_id = %(id)s and has.ticks = 'Same' and tick.recorded_at >= child.created_at
   and (other.next_run_at > tick.scheduled_for
        or exists (select from wakeboard.schedule_ticks
                    where definition_id = other.id and scheduled_for > tick.scheduled_for and outcome is not null))
   and not exists (select from wakeboard.schedule_ticks
                    where definition_id = child.id and scheduled_for = tick.scheduled_for)
   and not exists (select from wakeboard.schedule_ticks
                    where definition_id = other.id and scheduled_for = tick.scheduled_for)
   and not exists (select from wakeboard.job_runs
                    where definition_id = other.id and scheduled_for = tick.scheduled_for and trigger <> 'manual')
 group by 1, 2
 order by newest desc, 1
 limit 3
"""
_AWAITED: LiteralString = """
select edge.parent_id as id, coalesce(run.schedule, run.job_type::text) as name,
       case when run.status = 'dead' and run.finished_at > 'epoch' then 'discarded' else run.status::text end as status
  from wakeboard.run_dependencies as edge
  left join lateral (select * from wakeboard.all_runs where id = edge.parent_id limit 1) as run on true
 where edge.run_id = %(id)s and not edge.succeeded
 order by run.dead_at is null, edge.place
 limit %(most)s
"""
_NODES: LiteralString = f"""
select def.id, def.namespace || '/' || def.name as name, def.schedule, {STATE} as state
  from (select definition_id as id from wakeboard.schedule_dependencies
        union
        select parent_id from wakeboard.schedule_dependencies where parent_id is not null) as connected
  join wakeboard.job_definitions as def using (id) {PAUSE_OF_SCHEDULE}
 where def.removed_at is null and (%(namespace)s::text is null or def.namespace = %(namespace)s)
 order by name, def.source
"""


async def read_parents(conn: psycopg.AsyncConnection[Any], ids: Sequence[int]) -> list[Parent]:
    """What these schedules run after, in the order of their `after`."""
    found = await read(conn, class_row(Parent), _PARENTS, {"ids": list(ids), "most": _MOST_RUNS})
    if not found:
        return []
    cycles = edges_in_cycles(await read(conn, tuple_row, _EDGES, {}))
    return [replace(each, in_cycle=(each.parent_id, each.definition_id) in cycles) for each in found]


@dataclass(frozen=True, slots=True)
class BlockedSchedule:
    """A schedule that gets no runs, and why, in a sentence. `in_cycle`: it is part of a cycle of dependencies."""

    id: int
    namespace: str
    name: str
    reason: str
    in_cycle: bool = False

    @property
    def full_name(self) -> str:
        """namespace/name."""
        return f"{self.namespace}/{self.name}"


async def read_blocking_reasons(conn: psycopg.AsyncConnection[Any], ids: Sequence[int]) -> dict[int, str]:
    """Why those of these schedules are blocked that are, by id: the fact that `explain` shows."""
    parents: dict[int, list[Parent]] = {}
    for parent in await read_parents(conn, ids):
        parents.setdefault(parent.definition_id, []).append(parent)
    found = {definition: blocked_by(each) for definition, each in parents.items()}
    return {definition: reason for definition, reason in found.items() if reason}


async def read_blocked_schedules(
    conn: psycopg.AsyncConnection[Any], namespaces: Collection[str] | None = None, most: int = 1000
) -> list[BlockedSchedule]:
    """The first schedules that are blocked, by name."""
    in_cycles = {child for _, child in edges_in_cycles(await read(conn, tuple_row, _EDGES, {}))}
    values = {"namespaces": None if namespaces is None else sorted(namespaces), "in_cycles": list(in_cycles)}
    rows = await read(conn, tuple_row, _PERHAPS_BLOCKED, values)
    blocked: list[BlockedSchedule] = []
    for first in range(0, len(rows), _CANDIDATES):
        candidates = rows[first : first + _CANDIDATES]
        reasons = await read_blocking_reasons(conn, [row[0] for row in candidates])
        blocked += [
            BlockedSchedule(definition, namespace, name, reasons[definition], definition in in_cycles)
            for definition, namespace, name in candidates
            if definition in reasons
        ]
        if len(blocked) >= most:
            break
    return blocked[:most]


async def missing_parents(conn: psycopg.AsyncConnection[Any], names: Collection[str]) -> list[str]:
    """A sentence for each entry of `after` of these schedules that names no schedule."""
    parts = [name.partition("/") for name in names]
    values = {"namespaces": [part[0] for part in parts], "names": [part[2] for part in parts]}
    missing = await read(conn, tuple_row, _MISSING, values)
    return [missing_parent(name, wanted) for name, wanted in missing]


async def read_unmatched_ticks(conn: psycopg.AsyncConnection[Any], definition_id: int) -> list[UnmatchedTicks]:
    """The recent ticks that only one of two parents had; of at most three pairs of parents."""
    return await read(conn, class_row(UnmatchedTicks), _UNMATCHED, {"id": definition_id})


async def read_awaited_runs(conn: psycopg.AsyncConnection[Any], run_id: int) -> list[AwaitedRun]:
    """The runs that a run waits for, dead ones first; some of them if there are many."""
    return await read(conn, class_row(AwaitedRun), _AWAITED, {"id": run_id, "most": _MOST_AWAITED})


async def read_graph(
    conn: psycopg.AsyncConnection[Any], namespace: str | None = None
) -> tuple[dict[int, Node], list[Parent]]:
    """The schedules that have dependencies or dependents, by id in order of their names, and the edges between them."""
    nodes = await read(conn, class_row(Node), _NODES, {"namespace": namespace})
    edges = await read_parents(conn, [node.id for node in nodes])
    parents: dict[int, list[Parent]] = {}
    for edge in edges:
        parents.setdefault(edge.definition_id, []).append(edge)
    return {node.id: replace(node, waiting_for=waiting_for(parents.get(node.id, []))) for node in nodes}, edges
