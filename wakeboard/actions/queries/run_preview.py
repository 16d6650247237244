"""Counts the runs of a bulk action before it is created, groups them and shows some, within a bounded time.

Runs that an index lists are counted at once. Otherwise no index finds the runs of a search, so all runs are tested: the
newest first, in ranges that take some tenths of a second each. After `BUDGET_S` the count stops between two ranges.
Then the preview says up to where it has counted, and the bulk action has the runs of these ranges only. Another
preview continues from there. So a search in any number of finished runs costs a bounded time, and no run is left out
silently.
"""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, LiteralString

from psycopg.rows import class_row, scalar_row, tuple_row
from psycopg.sql import SQL

from wakeboard.actions.queries.run_selection import MOST_LISTED, MOST_RUNS, select_runs
from wakeboard.actions.queries.targets import RunTarget
from wakeboard.store.statements import read

if TYPE_CHECKING:
    from collections.abc import Callable

    import psycopg

    from wakeboard.actions.queries.run_selection import RunQuery, SelectedRuns

SAMPLE: Final = 10
GROUPS: Final = 6
BUDGET_S: Final = 1.5
RANGE_S: Final = 0.25  # how long a range should take
FIRST_ROWS: Final = 5_000  # runs of the first range, at most
FEWEST_ROWS: Final = 1_000
MOST_ROWS: Final = 500_000  # runs of a range, at most
FIRST_SPAN: Final = {"live": 5_000, "past": 3_600_000_000}  # ids, and microseconds
SHORTEST_SPAN: Final = 1_000
GROWTH: Final = 8  # at most, from one range to the next


@dataclass(frozen=True, slots=True, kw_only=True)
class RunGroup:
    """So many runs have this status and job type."""

    status: str
    job_type: str
    runs: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Preview:
    """The runs of a query. `count`: up to about 1,000,001. `groups`: the largest ones. `sample`: the newest runs.

    `first`: the place where counting stopped, and from which on the runs were counted; None: all were.
    """

    count: int
    groups: list[RunGroup]
    sample: list[RunTarget]
    first: int | None = None


_STATUS: Final[dict[str, LiteralString]] = {
    "live": "run.status::text",
    "past": "case run.status when 'dead' then 'discarded' else run.status::text end",
}
_ORDER: Final[dict[str, LiteralString]] = {"live": "run.id desc", "past": "run.finished_at desc, run.id desc"}
_GROUPS: LiteralString = """
select {status}, run.job_type::text, count(*), count(*) filter (where {fits})
  from ({rows} {limit}) as run
 where {only}
 group by 1, 2
"""
_SAMPLE: LiteralString = """
select run.id, {status} as status, run.job_type::text, run.schedule, split_part(run.schedule, '/', 1) as namespace
  from ({rows}) as run
 where {fits}
 order by {order}
 limit %(sample)s
"""
_NEWEST: Final[dict[str, LiteralString]] = {  # about the place after the newest run
    "live": "select coalesce(max(id), 0) + 1 from wakeboard.job_runs",
    "past": "select (extract(epoch from clock_timestamp()) * 1000000)::bigint",
}
_BY_INDEX: LiteralString = "select set_config('enable_seqscan', 'off', true)"


class _Counted:
    """Counts the runs of one range after the other."""

    def __init__(self, conn: psycopg.AsyncConnection[Any], selected: SelectedRuns) -> None:
        self._conn, self._selected = conn, selected
        table = selected.wanted.table
        parts = {
            "status": SQL(_STATUS[table]),
            "order": SQL(_ORDER[table]),
            "limit": SQL("" if selected.named else "limit %(limit)s"),
            "only": selected.fits() if selected.named else SQL("true"),  # the ids, which an index finds
            "rows": selected.rows(),
            "fits": selected.fits(),
        }
        self._groups_query, self._sample_query = SQL(_GROUPS).format(**parts), SQL(_SAMPLE).format(**parts)
        self.groups: Counter[tuple[str, str]] = Counter()
        self.sample: list[RunTarget] = []

    async def add(self, first: int | None, end: int | None, most: int | None) -> int | None:
        """Adds the runs of a range. Returns how many were tested; None: more than `most` are there, none is added."""
        values = self._selected.in_range(first, end)
        limit = None if most is None else most + 1
        rows = await read(self._conn, tuple_row, self._groups_query, {**values, "limit": limit})
        tested = sum(row[2] for row in rows)
        if most is not None and tested > most:
            return None
        found = Counter({(status, job_type): fit for status, job_type, _, fit in rows if fit})
        if found and len(self.sample) < SAMPLE:
            values = {**values, "sample": SAMPLE - len(self.sample)}
            self.sample += await read(self._conn, class_row(RunTarget), self._sample_query, values)
        self.groups += found
        return tested


async def preview_runs(
    conn: psycopg.AsyncConnection[Any],
    wanted: RunQuery,
    *,
    budget_s: float = BUDGET_S,
    clock: Callable[[], float] = time.monotonic,
) -> Preview:
    """Counts, groups and shows the selected runs. Raises WakeboardError."""
    stops_at = clock() + budget_s
    selected = await select_runs(conn, wanted)
    await read(conn, tuple_row, _BY_INDEX)
    counted = _Counted(conn, selected)
    first = None
    most = None if selected.named else MOST_LISTED
    if not (selected.named or selected.listed) or await counted.add(wanted.first, wanted.end, most) is None:
        first = await _count_ranges(conn, selected, counted, clock, stops_at)
    groups = [RunGroup(status=status, job_type=job, runs=runs) for (status, job), runs in counted.groups.items()]
    groups.sort(key=lambda group: (-group.runs, group.job_type, group.status))
    return Preview(count=counted.groups.total(), groups=groups[:GROUPS], sample=counted.sample, first=first)


async def _count_ranges(
    conn: psycopg.AsyncConnection[Any],
    selected: SelectedRuns,
    counted: _Counted,
    clock: Callable[[], float],
    stops_at: float,
) -> int | None:
    """Counts range by range, until it is time to stop. Returns the place where it stopped; None: it has counted all.

    The ranges adapt to how dense the runs are and how long they take.
    """
    wanted = selected.wanted
    lowest, latest = selected.earliest, selected.latest
    newest = latest if latest is not None else (await read(conn, scalar_row, _NEWEST[wanted.table]))[0]
    end, span, rows = newest, FIRST_SPAN[wanted.table], FIRST_ROWS
    while end > lowest:
        began = clock()
        first = max(lowest, end - span)
        tested = await counted.add(first, latest if end == newest else end, rows if span > SHORTEST_SPAN else None)
        now = clock()
        if tested is None:
            span = max(SHORTEST_SPAN, span // GROWTH)
        else:
            end = first
            if tested >= FEWEST_ROWS:
                rows = int(
                    min(
                        MOST_ROWS,
                        max(
                            FEWEST_ROWS,
                            tested * RANGE_S / max(now - began, 0.001),
                        ),
                    )
                )
            span = int(max(SHORTEST_SPAN, span * min(GROWTH, 0.7 * rows / max(tested, 1))))
        if end < newest and (now >= stops_at or counted.groups.total() > MOST_RUNS):
            break
    return end if end > lowest else None
