"""Read-only queries of what an action changes: runs and schedules with their namespaces, and payloads as exact text.

Needs SELECT on the tables, which the viewer's and the operator's role have.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, LiteralString

from psycopg.rows import class_row, scalar_row

from wakeboard.store.statements import read

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    import psycopg


@dataclass(frozen=True, slots=True, kw_only=True)
class RunTarget:
    """A run that an action may change. `namespace`: of its schedule; None for a run without one."""

    id: int
    status: str
    job_type: str
    schedule: str | None
    namespace: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleTarget:
    """A schedule that an action may change. `paused`: it has a pause of its own. `pause_reason`: of that pause."""

    id: int
    namespace: str
    name: str
    queue: str
    removed: bool
    paused: bool
    pause_reason: str | None


_RUNS: LiteralString = """
select id, case when status = 'dead' and finished_at > 'epoch' then 'discarded' else status::text end as status,
       job_type::text, schedule, split_part(schedule, '/', 1) as namespace
  from wakeboard.all_runs
 where id = any (%(ids)s)
   and (%(namespaces)s::text[] is null or split_part(schedule, '/', 1) = any (%(namespaces)s))
 order by id
"""
_SCHEDULES: LiteralString = """
select def.id, def.namespace, def.name, def.queue::text, def.removed_at is not null as removed,
       pause.scope is not null as paused, pause.reason as pause_reason
  from wakeboard.job_definitions as def
  left join lateral (
    select scope, reason from wakeboard.pauses as pause where scope = 'schedule:' || def.id limit 1) as pause on true
 where def.id = any (%(ids)s) and (%(namespaces)s::text[] is null or def.namespace = any (%(namespaces)s))
 order by def.namespace, def.name, def.id
"""
_INDENTED: LiteralString = "case when payload in ('{}', '[]') then payload::text else jsonb_pretty(payload) end"
_RUN_PAYLOAD: LiteralString = f"select {_INDENTED} from wakeboard.all_runs where id = %(id)s limit 1"
_SCHEDULE_PAYLOAD: LiteralString = f"select {_INDENTED} from wakeboard.job_definitions where id = %(id)s"


async def run_targets(
    conn: psycopg.AsyncConnection[Any], ids: Sequence[int], namespaces: Collection[str] | None
) -> list[RunTarget]:
    """The runs with these ids, by id. `namespaces`: only runs of schedules in these; None: all runs."""
    return await read(conn, class_row(RunTarget), _RUNS, {"ids": list(ids), "namespaces": _listed(namespaces)})


async def schedule_targets(
    conn: psycopg.AsyncConnection[Any], ids: Sequence[int], namespaces: Collection[str] | None
) -> list[ScheduleTarget]:
    """The schedules with these ids, by name. `namespaces`: only those in these; None: all."""
    values = {"ids": list(ids), "namespaces": _listed(namespaces)}
    return await read(conn, class_row(ScheduleTarget), _SCHEDULES, values)


async def run_payload(conn: psycopg.AsyncConnection[Any], run_id: int) -> str:
    """The payload of a run as indented JSON, with every digit of its numbers; "" for an unknown run."""
    return next(iter(await read(conn, scalar_row, _RUN_PAYLOAD, {"id": run_id})), "")


async def schedule_payload(conn: psycopg.AsyncConnection[Any], definition_id: int) -> str:
    """The payload of a schedule as indented JSON, with every digit of its numbers; "" for an unknown schedule."""
    return next(iter(await read(conn, scalar_row, _SCHEDULE_PAYLOAD, {"id": definition_id})), "")


def _listed(namespaces: Collection[str] | None) -> list[str] | None:
    return None if namespaces is None else sorted(namespaces)
