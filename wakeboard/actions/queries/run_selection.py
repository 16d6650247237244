"""Selects the runs of a bulk action: those that fit a search or are listed by id, and that the action accepts.

The ids do not leave the database: `AdminStore.create_bulk_action` creates the bulk action from the query. An action
accepts unfinished runs only or finished runs only, so a selection reads one table.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, LiteralString

from psycopg.rows import scalar_row
from psycopg.sql import SQL, Composed

from wakeboard.store.statements import read
from wakeboard.text.object_ids import LARGEST_ID
from wakeboard.views.queries.listings import PAST, Listings
from wakeboard.views.queries.run_conditions import conditions_of
from wakeboard.views.queries.run_list import schedules_of

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    import psycopg

    from wakeboard.views.queries.run_conditions import Conditions, Table
    from wakeboard.views.rules.run_search import RunSearch

MOST_RUNS: Final = 1_000_000  # of a bulk action
MOST_LISTED: Final = 50_000  # runs of an index that are counted at once

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_LAST_MOMENT: Final = datetime(9999, 12, 31, tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunQuery:
    """The runs of a search that an action accepts.

    `takes`: the statuses that it accepts. `ids`: only these runs; None: all. `namespaces`: only runs of schedules in
    these; None: all runs. `first`, `end`: only runs from one place to before another; None: unbounded. The place of a
    finished run is the time of its end in microseconds since 1970, and that of an unfinished one is its id.
    """

    search: RunSearch
    takes: Sequence[str]
    ids: Sequence[int] | None = None
    namespaces: Collection[str] | None = None
    first: int | None = None
    end: int | None = None

    @property
    def table(self) -> Table:
        """The table that has these runs."""
        return "past" if all(status in PAST for status in self.takes) else "live"


def moment_of(place: int) -> datetime:
    """The time that the place of a finished run stands for."""
    return _EPOCH + timedelta(microseconds=min(max(place, 0), place_of(_LAST_MOMENT)))


def place_of(moment: datetime) -> int:
    """The place of a run that ended at this time."""
    return (moment - _EPOCH) // timedelta(microseconds=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class SelectedRuns:
    """A query that was prepared: what it reads, and its conditions.

    `named`: all runs are named by their ids. `listed`: an index lists the runs whose conditions must be tested.
    Otherwise all runs of a range are tested.
    """

    wanted: RunQuery
    now: datetime
    conditions: Conditions
    narrowed: LiteralString
    values: dict[str, Any]
    named: bool
    listed: bool

    def rows(self) -> Composed:
        """A query of id, status, job_type, schedule and all else of the runs in a range that an index can find.

        The values `first` and `end` are the range. The conditions are not tested.
        """
        past = self.wanted.table == "past"
        return SQL(_PAST_ROWS if past else _LIVE_ROWS).format(narrowed=SQL(self.narrowed))

    def in_range(self, first: int | None, end: int | None) -> dict[str, Any]:
        """The values of the query for a range of places."""
        if self.wanted.table == "past":
            return {
                **self.values,
                "first": moment_of(first or 0),
                "end": _LAST_MOMENT if end is None else moment_of(end),
            }
        return {**self.values, "first": first or 0, "end": LARGEST_ID if end is None else min(end, LARGEST_ID)}

    @property
    def earliest(self) -> int:
        """The place of the first run that can fit."""
        return max([self.wanted.first or 0, *self._places("since")])

    @property
    def latest(self) -> int | None:
        """A place after the last run that can fit; None: unbounded."""
        return min([*self._places("until"), *([] if self.wanted.end is None else [self.wanted.end])], default=None)

    def _places(self, qualifier: str) -> list[int]:
        """The places that the times of a search bound."""
        if self.wanted.table == "live":
            return []
        moments = [term.moment for term in self.wanted.search.of(qualifier) if term.moment is not None]
        return [place_of(self.now - moment if isinstance(moment, timedelta) else moment) for moment in moments]

    def fits(self) -> Composed:
        """The conditions."""
        return SQL("(true {})").format(self.conditions.and_())


# The predicates of the partial indexes of dead and failed runs.
_NARROWED: Final[dict[frozenset[str], LiteralString]] = {
    frozenset({"dead"}): "run.dead_at is not null",
    frozenset({"failed"}): "run.failed_at is not null and run.dead_at is null",
    frozenset({"dead", "failed"}): "(run.dead_at is not null or run.failed_at is not null and run.dead_at is null)",
}
_LISTED: LiteralString = """
       (%(ids)s::bigint[] is null or run.id = any (%(ids)s))
       and (%(definitions)s::bigint[] is null or run.definition_id = any (%(definitions)s))
"""
_LIVE_ROWS: LiteralString = f"""
select * from wakeboard.job_runs as run
 where {{narrowed}} and {_LISTED} and run.id >= %(first)s and run.id < %(end)s
"""
_PAST_ROWS: LiteralString = f"""
select * from wakeboard.job_run_history as run
 where {{narrowed}} and {_LISTED} and run.finished_at >= %(first)s and run.finished_at < %(end)s
"""
_IDS: LiteralString = "select run.id from ({rows}) as run where {fits} order by run.id limit %(most)s"


async def select_runs(conn: psycopg.AsyncConnection[Any], wanted: RunQuery) -> SelectedRuns:
    """Prepares a query of the selected runs. Raises WakeboardError."""
    now = await Listings(conn).now()
    definitions = await schedules_of(conn, wanted.search, wanted.namespaces)
    statuses = [status for status in wanted.search.statuses if status in wanted.takes]
    conditions = conditions_of(wanted.search, wanted.table, now, wanted.namespaces, by_schedule=False)
    stored = ["dead" if status == "discarded" else status for status in statuses]
    conditions.add("(run.status = any ({}::text[]::wakeboard.run_status[]))", stored)
    narrowed = _NARROWED.get(frozenset(statuses)) if wanted.table == "live" else None
    return SelectedRuns(
        wanted=wanted,
        now=now,
        conditions=conditions,
        narrowed=narrowed or "true",
        values={
            "ids": None if wanted.ids is None else list(wanted.ids),
            "definitions": definitions,
            **conditions.values,
        },
        named=wanted.ids is not None or any(not term.negated for term in wanted.search.of("id")),
        listed=wanted.table == "live" and (narrowed is not None or definitions is not None),
    )


async def read_selected_ids(conn: psycopg.AsyncConnection[Any], wanted: RunQuery) -> list[int]:
    """The ids of all selected runs, oldest first."""
    return await read(conn, scalar_row, *await ids_of_selected(conn, wanted, LARGEST_ID))


async def ids_of_selected(
    conn: psycopg.AsyncConnection[Any], wanted: RunQuery, most: int
) -> tuple[Composed, dict[str, Any]]:
    """A query of the ids of the selected runs, of the oldest `most` ones if there are more, and its values."""
    selected = await select_runs(conn, wanted)
    query = SQL(_IDS).format(rows=selected.rows(), fits=selected.fits())
    return query, {**selected.in_range(wanted.first, wanted.end), "most": most}
