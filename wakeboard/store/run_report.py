"""Everything that is known of one run, for the person who wants to know why."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, LiteralString, TypeVar

import psycopg
from psycopg.rows import class_row, dict_row

from wakeboard.store.connection import translated
from wakeboard.store.reports import LIVE_COLUMNS, PAST_COLUMNS, RunRow

if TYPE_CHECKING:
    from datetime import datetime
_Row = TypeVar("_Row")


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptRow:
    """An attempt that went wrong: failed, crashed or timed_out. One that succeeds leaves only the run itself."""

    attempt: int
    outcome: str
    started_at: datetime
    ended_at: datetime
    worker: str | None
    error_type: str | None
    error: str | None
    stack: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class StepRow:
    """A named part of the run. `finished_at` None: begun, not done."""

    name: str
    started_at: datetime
    finished_at: datetime | None
    result: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class EffectRow:
    """Something that must happen once.

    `state`: done, begun (by the attempt that runs now), or in doubt: the attempt that began it is over and has not said
    that it was done.
    """

    key: str
    state: str
    begun_at: datetime
    done_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunReport(RunRow):
    """A run with what it was given, what it did and what went wrong."""

    payload: Any
    result: Any
    definition_id: int | None
    definition_generation: int | None
    idempotency_key: str | None
    start_before: datetime | None
    timeout_s: int
    backoff_strategy: str
    backoff_base_s: int
    backoff_cap_s: int
    lease_epoch: int
    locked_until: datetime | None
    worker: str | None
    stack: str | None
    attempts_made: list[AttemptRow]
    steps: list[StepRow]
    effects: list[EffectRow]


_MORE: LiteralString = """
       run.payload::jsonb as payload, run.definition_id, run.definition_generation, run.idempotency_key,
       run.timeout_s::integer, run.backoff_strategy::text, run.backoff_base_s::integer, run.backoff_cap_s::integer,
       run.lease_epoch, (select name from wakeboard.workers where nonce = run.locked_by) as worker
"""
_LIVE_RUN: LiteralString = f"""
select {LIVE_COLUMNS}, {_MORE}, null::jsonb as result, run.start_before,
       nullif(run.locked_until, 'epoch') as locked_until, run.last_stack as stack
  from wakeboard.job_runs as run
 where run.id = %(id)s
"""
_PAST_RUN: LiteralString = f"""
select {PAST_COLUMNS}, {_MORE}, run.result, null::timestamptz as start_before, null::timestamptz as locked_until,
       null::text as stack
  from wakeboard.job_run_history as run
 where run.id = %(id)s
 limit 1
"""
_ATTEMPTS: LiteralString = """
select attempt, outcome, started_at, ended_at, worker, error_type, error, stack
  from wakeboard.job_attempts
 where run_id = %(id)s
 order by lease_epoch
"""
_STEPS: LiteralString = """
select name, started_at, finished_at, result
  from wakeboard.job_steps
 where run_id = %(id)s
 order by started_at, name
"""
_EFFECTS: LiteralString = """
select key, begun_at, done_at,
       case when done_at is not null then 'done'
            when lease_epoch = %(epoch)s and %(running)s then 'begun'
            else 'in doubt' end as state
  from wakeboard.job_effects
 where run_uuid = %(uuid)s
 order by begun_at, key
"""


async def report_run(conn: psycopg.AsyncConnection[Any], run_id: int) -> RunReport | None:
    """The run with this id, live or in history; None when there is none, or none any more."""
    try:
        # In this order: a run may finish between the two looks, but none comes back from history.
        row = await _one(conn, _LIVE_RUN, run_id) or await _one(conn, _PAST_RUN, run_id)
        if row is None:
            return None
        values = {"id": run_id, "uuid": row["uuid"], "epoch": row["lease_epoch"], "running": row["status"] == "running"}
        return RunReport(
            **row,
            attempts_made=await _rows(conn, AttemptRow, _ATTEMPTS, values),
            steps=await _rows(conn, StepRow, _STEPS, values),
            effects=await _rows(conn, EffectRow, _EFFECTS, values),
        )
    except psycopg.Error as exc:
        raise translated(exc) from exc


async def _one(conn: psycopg.AsyncConnection[Any], query: LiteralString, run_id: int) -> dict[str, Any] | None:
    async with conn.cursor(row_factory=dict_row) as cursor:
        await cursor.execute(query, {"id": run_id})
        return await cursor.fetchone()


async def _rows(
    conn: psycopg.AsyncConnection[Any], kind: type[_Row], query: LiteralString, values: dict[str, Any]
) -> list[_Row]:
    async with conn.cursor(row_factory=class_row(kind)) as cursor:
        await cursor.execute(query, values)
        return await cursor.fetchall()
