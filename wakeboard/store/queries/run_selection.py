"""Selects the runs of a bulk action: those that fit a search or are listed by id, and that the action accepts.

The ids do not leave the database: `AdminStore.create_bulk_action_on` creates the bulk action from the query. A preview
counts the runs of the same query, groups them and shows some.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, LiteralString

from psycopg.rows import class_row, scalar_row
from psycopg.sql import SQL, Composed

from wakeboard.store.queries.action_targets import RunTarget
from wakeboard.store.queries.listings import LIVE, PAST
from wakeboard.store.queries.run_conditions import conditions_of
from wakeboard.store.queries.run_list import schedules_of
from wakeboard.store.statements import read

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    import psycopg

    from wakeboard.rules.run_search import RunSearch

MOST_RUNS: Final = 1_000_000  # of a bulk action
SAMPLE: Final = 10
GROUPS: Final = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class RunQuery:
    """The runs of a search that an action accepts.

    `takes`: the statuses that it accepts. `ids`: only these runs; None: all. `namespaces`: only runs of schedules in
    these; None: all runs.
    """

    search: RunSearch
    takes: Sequence[str]
    ids: Sequence[int] | None = None
    namespaces: Collection[str] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunGroup:
    """So many runs have this status and job type."""

    status: str
    job_type: str
    runs: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Preview:
    """The runs of a query. `count`: up to 1,000,001. `groups`: the largest ones. `sample`: the newest runs."""

    count: int
    groups: list[RunGroup]
    sample: list[RunTarget]


# The predicates of the partial indexes of dead and failed runs.
_NARROWED: Final[dict[frozenset[str], LiteralString]] = {
    frozenset({"dead"}): "run.dead_at is not null",
    frozenset({"failed"}): "run.failed_at is not null and run.dead_at is null",
    frozenset({"dead", "failed"}): "(run.dead_at is not null or run.failed_at is not null and run.dead_at is null)",
}
_GROUPS: LiteralString = """
select run.status, run.job_type, count(*) as runs
  from (select * from ({}) as found limit %(count)s) as run
 group by run.status, run.job_type
 order by runs desc, run.job_type, run.status
"""
_SAMPLE: LiteralString = """
select run.id, run.status, run.job_type, run.schedule, split_part(run.schedule, '/', 1) as namespace
  from ({}) as run
 order by run.id desc
 limit %(sample)s
"""
_IDS: LiteralString = "select run.id from ({}) as run order by run.id limit %(most)s"
_NOW: LiteralString = "select clock_timestamp()"


async def selected_runs(conn: psycopg.AsyncConnection[Any], wanted: RunQuery) -> tuple[Composed, dict[str, Any]]:
    """A query of id, status, job_type and schedule of the selected runs, and its values. Raises WakeboardError."""
    now = (await read(conn, scalar_row, _NOW))[0]
    parts: list[Composed] = []
    values: dict[str, Any] = {
        "ids": None if wanted.ids is None else list(wanted.ids),
        "definitions": await schedules_of(conn, wanted.search, wanted.namespaces),  # found by an index
    }
    statuses = [status for status in wanted.search.statuses if status in wanted.takes]
    live = conditions_of(wanted.search, "live", now, wanted.namespaces, by_schedule=False)
    past = conditions_of(wanted.search, "past", now, wanted.namespaces, by_schedule=False)
    taken_live = [status for status in statuses if status in LIVE]
    taken_past = ["dead" if status == "discarded" else status for status in statuses if status in PAST]
    if taken_live:
        narrowed: LiteralString = _NARROWED.get(frozenset(taken_live), "true")
        query: LiteralString = f"""
select run.id, run.status::text, run.job_type::text, run.schedule from wakeboard.job_runs as run
 where {narrowed} and run.status = any (%(taken_live)s::text[]::wakeboard.run_status[])
       and (%(ids)s::bigint[] is null or run.id = any (%(ids)s))
       and (%(definitions)s::bigint[] is null or run.definition_id = any (%(definitions)s)) {{}}"""
        parts.append(SQL(query).format(live.and_()))
        values |= {"taken_live": taken_live, **live.values}
    if taken_past:
        parts.append(
            SQL("""
select run.id, case run.status when 'dead' then 'discarded' else run.status::text end as status, run.job_type::text,
       run.schedule
  from wakeboard.job_run_history as run
 where run.status = any (%(taken_past)s::text[]::wakeboard.run_status[])
       and (%(ids)s::bigint[] is null or run.id = any (%(ids)s))
       and (%(definitions)s::bigint[] is null or run.definition_id = any (%(definitions)s)) {}""").format(past.and_())
        )
        values |= {"taken_past": taken_past, **past.values}
    if not parts:
        return SQL("select null::bigint as id, '' as status, '' as job_type, '' as schedule where {}").format(
            SQL("false")
        ), {}
    return SQL(" union all ").join(parts), values


async def preview_runs(conn: psycopg.AsyncConnection[Any], wanted: RunQuery) -> Preview:
    """Counts, groups and shows the selected runs. Raises WakeboardError."""
    query, values = await selected_runs(conn, wanted)
    groups = await read(conn, class_row(RunGroup), SQL(_GROUPS).format(query), {**values, "count": MOST_RUNS + 1})
    sample = await read(conn, class_row(RunTarget), SQL(_SAMPLE).format(query), {**values, "sample": SAMPLE})
    return Preview(count=sum(group.runs for group in groups), groups=groups[:GROUPS], sample=sample)


async def ids_of_selected(
    conn: psycopg.AsyncConnection[Any], wanted: RunQuery, most: int
) -> tuple[Composed, dict[str, Any]]:
    """A query of the ids of the selected runs, of the oldest `most` ones if there are more, and its values."""
    query, values = await selected_runs(conn, wanted)
    return SQL(_IDS).format(query), {**values, "most": most}
