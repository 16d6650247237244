"""How runs ended over time, from `run_rollups`: the last hour, day, week and 90 days.

`roll_up` (views/sql/roll_up.sql) counts each minute once. What has finished since is read from the history, if it is
at most PRESENT_RUNS runs; otherwise a series ends where the counting has come to. Each function sends one statement, so
its figures are of one moment. Days are UTC days.

The queries need SELECT on the tables and `run_facts`; the viewer's and the operator's role have both.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, Literal, LiteralString, get_args

from psycopg.rows import dict_row

from wakeboard.engine.attempt_outcomes import FAILURES
from wakeboard.errors import InvalidValue
from wakeboard.store.statements import read
from wakeboard.views.queries.schedule_selection import EXAMINED, ScheduleFilter, few_schedules, select_schedules
from wakeboard.views.rules.histogram import Histogram, merged

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    import psycopg

Window = Literal["hour", "day", "week", "quarter"]
Dimension = Literal["all", "job_type", "queue", "schedule", "step"]
Order = Literal["failures", "volume", "failure_rate", "name"]

PRESENT_RUNS: Final = 50_000
DETAIL_RUNS: Final = 50_000  # of one schedule in the last hour
OUTCOMES: Final = ("succeeded", "cancelled", "skipped", "discarded", "failed", "timed_out", "crashed", "died")
_OUTCOMES: LiteralString = ", ".join(OUTCOMES)

_MINUTE, _HOUR, _DAY = timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)
_STEPS: Final[Mapping[str, tuple[timedelta, int]]] = {
    "hour": (_MINUTE, 60),
    "day": (20 * _MINUTE, 72),
    "week": (2 * _HOUR, 84),
    "quarter": (_DAY, 90),
}
_A_DAY_BY_HOUR: Final = (_HOUR, 24)
_DETAILS: Final = ("schedule", "step")  # their minutes are not stored


@dataclass(frozen=True, slots=True, kw_only=True)
class OutcomeCounts:
    """How runs and attempts ended.

    Runs: `succeeded` (of a step: how often it was finished), `cancelled`, `skipped` (ticks too), `discarded`, `died`
    (became dead, whatever became of them later). Attempts: `failed`, `timed_out`, `crashed`. `duration` (of the last
    attempt) and `lateness` (from when it was due to its start): of the runs that succeeded.
    """

    succeeded: int = 0
    cancelled: int = 0
    skipped: int = 0
    discarded: int = 0
    failed: int = 0
    timed_out: int = 0
    crashed: int = 0
    died: int = 0
    duration: Histogram = field(default_factory=Histogram)
    lateness: Histogram = field(default_factory=Histogram)

    @property
    def ended(self) -> int:
        """Runs that succeeded, were cancelled, were skipped or became dead.

        A discarded run counts when it became dead. A dead run that is retried counts again when it ends again.
        """
        return self.succeeded + self.cancelled + self.skipped + self.died

    @property
    def failures(self) -> int:
        """Attempts that failed, timed out or crashed."""
        return self.failed + self.timed_out + self.crashed

    @property
    def failure_rate(self) -> float | None:
        """Share of failures among these and the runs that succeeded, 0 to 1, as in queries/failures.py."""
        ended = self.failures + self.succeeded
        return round(self.failures / ended, 4) if ended else None


@dataclass(frozen=True, slots=True)
class Point:
    """What ended from `starts_at` on, for the step of its series."""

    starts_at: datetime
    counts: OutcomeCounts


@dataclass(frozen=True, slots=True)
class Series:
    """Points without gaps, oldest first. `until`: what ended later is not counted."""

    dimension: Dimension
    name: str
    step: timedelta
    until: datetime
    points: Sequence[Point]

    @property
    def total(self) -> OutcomeCounts:
        """Of all points together."""
        return total(point.counts for point in self.points)


@dataclass(frozen=True, slots=True)
class NamedCounts:
    """The counts of one name of a dimension. `label`: what to show; of a schedule namespace/name."""

    name: str
    label: str
    counts: OutcomeCounts


def total(counts: Iterable[OutcomeCounts]) -> OutcomeCounts:
    """The sum of these counts."""
    parts = list(counts)
    return OutcomeCounts(
        **{outcome: sum(getattr(part, outcome) for part in parts) for outcome in OUTCOMES},
        duration=merged(part.duration for part in parts),
        lateness=merged(part.lateness for part in parts),
    )


# The rows that cover a period from `since` on. Grain 'day': whole days, and hours where there is no row of a day.
_STORED: LiteralString = """
with progress as (
  select counted_until, days_until,
         date_bin('1 day', %(since)s - interval '1 microsecond', 'epoch') + interval '1 day' as days_since,
         (select count(*) from (select from wakeboard.job_run_history
                                 where finished_at >= (select counted_until from wakeboard.rollup_progress)
                                 limit %(present_runs)s + 1) as newest) <= %(present_runs)s as has_present
    from wakeboard.rollup_progress
), ranges as (
  select each.grain::wakeboard.rollup_grain, since, until
    from progress cross join lateral (values
      ('minute', %(since)s, 'infinity'),
      ('hour', %(since)s, case %(grain)s::text when 'day' then least(days_since, days_until) else 'infinity' end),
      ('hour', greatest(days_until, %(since)s), case %(grain)s::text when 'day' then 'infinity'::timestamptz end),
      ('day', days_since, days_until)) as each (grain, since, until)
   where each.grain = %(grain)s::text or %(grain)s::text = 'day' and each.grain = 'hour'
), stored as (
  select kept.*
    from ranges cross join lateral (               -- `offset 0`: an index scan for each range
      select * from wakeboard.run_rollups
       where grain = ranges.grain and starts_at >= since and starts_at < until
         and dimension = %(dimension)s::wakeboard.rollup_dimension
         and (%(names)s::text[] is null or name = any (%(names)s::text[])) offset 0) as kept
), present as materialized (
  select minute, measure, bucket, count,
         case %(dimension)s::text when 'all' then '' when 'job_type' then job_type when 'queue' then queue
                                  when 'schedule' then definition_id::text else job_type || ' ' || step end as name
    from progress cross join lateral wakeboard.run_facts(greatest(counted_until, %(since)s), 'infinity', true)
   where has_present and (step is not null) = (%(dimension)s::text = 'step')
)
"""

# Histograms are expanded by `unnest` in the select list: a lateral join takes twice as long.
_BINNED: LiteralString = f"""
, binned as (
  select date_bin(%(step)s, starts_at, %(since)s) as at, case when %(merged)s then '' else name end as name,
         {_OUTCOMES}, duration_buckets, duration_counts, lateness_buckets, lateness_counts
    from stored
), newest as (
  select date_bin(%(step)s, minute, %(since)s) as at, case when %(merged)s then '' else name end as name, measure,
         bucket, count
    from present
   where name = any (%(names)s::text[])
), counts as (
  select at, name, {", ".join(f"sum({each})::bigint as {each}" for each in OUTCOMES)}
    from (select at, name, {_OUTCOMES} from binned
          union all
          select at, name, {", ".join(f"case measure when '{each}' then count else 0 end" for each in OUTCOMES)}
            from newest) as each
   group by 1, 2
), histograms as (
  select at, name, measure, array_agg(bucket order by bucket) as buckets, array_agg(count order by bucket) as counts
    from (select at, name, measure, bucket, sum(count)::bigint as count
            from (select at, name, 'duration' as measure, unnest(duration_buckets) as bucket,
                         unnest(duration_counts) as count from binned
                  union all
                  select at, name, 'lateness', unnest(lateness_buckets), unnest(lateness_counts) from binned
                  union all
                  select at, name, measure, bucket, count from newest where bucket is not null) as each
           group by 1, 2, 3, 4) as summed
   group by 1, 2, 3
)
"""

_PIVOT: LiteralString = f"""
select at, name,
       {", ".join(f"coalesce(max(count) filter (where measure = '{each}'), 0) as {each}" for each in OUTCOMES)},
       array_agg(bucket order by bucket) filter (where measure = 'duration') as duration_buckets,
       array_agg(count order by bucket) filter (where measure = 'duration') as duration_counts,
       array_agg(bucket order by bucket) filter (where measure = 'lateness') as lateness_buckets,
       array_agg(count order by bucket) filter (where measure = 'lateness') as lateness_counts
"""

# The row without a name says until when the figures count.
_SERIES: LiteralString = (
    _STORED
    + _BINNED
    + """
select counts.*, durations.buckets as duration_buckets, durations.counts as duration_counts,
       lateness.buckets as lateness_buckets, lateness.counts as lateness_counts, null::timestamptz as until
  from counts
  left join histograms as durations
         on (durations.at, durations.name, durations.measure) = (counts.at, counts.name, 'duration')
  left join histograms as lateness
         on (lateness.at, lateness.name, lateness.measure) = (counts.at, counts.name, 'lateness')
union all
select null, null, 0, 0, 0, 0, 0, 0, 0, 0, null, null, null, null,
       case when has_present then statement_timestamp() else counted_until end
  from progress
"""
)

# The minutes of a schedule are not stored; its newest runs are found by an index.
_SCHEDULE_MINUTES: LiteralString = (
    """
with found as (
  select count(*) <= %(present_runs)s as is_bounded
    from (select from wakeboard.job_run_history
           where definition_id = %(name)s::bigint and finished_at >= %(since)s limit %(present_runs)s + 1) as newest
), sums as (
  select minute as at, %(name)s::text as name, measure, bucket, sum(count)::bigint as count
    from found cross join lateral wakeboard.run_facts(%(since)s, 'infinity', true, %(name)s::bigint)
   where is_bounded and step is null
   group by 1, 2, 3, 4
)
"""
    + _PIVOT
    + """
     , null::timestamptz as until
  from sums group by 1, 2
union all
select null, null, 0, 0, 0, 0, 0, 0, 0, 0, null, null, null, null,
       case when is_bounded then statement_timestamp() else %(since)s end
  from found
"""
)

_NAMES: LiteralString = (
    _STORED
    + """
, totals as (
  select name, sum(failed + timed_out + crashed) as failures, sum(succeeded) as succeeded,
         sum(succeeded + cancelled + skipped + died) as volume
    from stored group by name
  union all
  select name, sum(count) filter (where measure = any (%(failing)s::text[])),
         sum(count) filter (where measure = 'succeeded'),
         sum(count) filter (where measure in ('succeeded', 'cancelled', 'skipped', 'died'))
    from present
   where bucket is null and (%(names)s::text[] is null or name = any (%(names)s::text[]))
   group by name
), ranked as (
  select name, coalesce(sum(failures), 0) as failures, coalesce(sum(volume), 0) as volume,
         sum(failures) / nullif(coalesce(sum(failures), 0) + coalesce(sum(succeeded), 0), 0) as failure_rate
    from totals
   where name is not null and position(lower(%(containing)s) in lower(name)) > 0
   group by name
)
select name
  from ranked
 where %(order)s::text <> 'failures' or failures > 0
 order by case %(order)s::text when 'failures' then failures
                                when 'failure_rate' then coalesce(failure_rate, -1) end desc,
          case %(order)s::text when 'name' then name end,
          volume desc, failures desc, name
 limit %(limit)s
"""
)

_SPARKLINES: LiteralString = (
    _STORED
    + """
, points as (
  select starts_at as at, name, succeeded + cancelled + skipped + died as runs,
         failed + timed_out + crashed as failures
    from stored
  union all
  select minute, name, case when measure in ('succeeded', 'cancelled', 'skipped', 'died') then count else 0 end,
         case when measure = any (%(failing)s::text[]) then count else 0 end
    from present
   where bucket is null and name = any (%(names)s::text[])
)
select name, date_bin(%(step)s, at, %(since)s) as at, sum(runs)::bigint as runs, sum(failures)::bigint as failures
  from points
 group by 1, 2
"""
)

_SCHEDULES_OF: LiteralString = """
select id::text
  from wakeboard.job_definitions
 where id = any (%(ids)s)
   and (%(namespaces)s::text[] is null or namespace = any (%(namespaces)s))
   and position(lower(%(containing)s) in lower(namespace || '/' || name)) > 0
 order by id desc
"""

_LABELS: LiteralString = """
select id::text as name, namespace || '/' || name as label
  from wakeboard.job_definitions where id = any (%(ids)s::bigint[])
"""


async def read_series(
    conn: psycopg.AsyncConnection[Any],
    window: Window,
    now: datetime,
    dimension: Dimension = "all",
    names: Sequence[str] = ("",),
    *,
    merged: bool = False,
) -> list[Series]:
    """A series for each of `names`, in their order, whose last point contains `now` (the database's clock).

    With `merged` there is one series, named "", of all these names together.

    The last hour by minute, the day by 20 minutes (schedules and steps: by hour), the week by 2 hours, 90 days by day.
    Steps have no series of the last hour, and a schedule's hour needs its own call. Names: of a schedule its id, of a
    step its job type, a space and its name. Raises InvalidValue.
    """
    _require(window, dimension)
    step, count = _steps(window, dimension)
    since = _floor(now, step) - (count - 1) * step
    values = {**_values(dimension, since, _grain_of_series(window, dimension)), "names": list(names), "step": step}
    values |= {"merged": merged}
    if window == "hour" and dimension == "schedule":
        if len(names) != 1 or not names[0].isdecimal():
            raise InvalidValue("the last hour of a schedule is read for one schedule, by its id.")
        rows = await read(conn, dict_row, _SCHEDULE_MINUTES, {**values, "name": names[0], "present_runs": DETAIL_RUNS})
    else:
        rows = await read(conn, dict_row, _SERIES, values)
    until = next(row["until"] for row in rows if row["name"] is None).astimezone(UTC)
    found = {(row["name"], row["at"].astimezone(UTC)): _counts(row) for row in rows if row["name"] is not None}
    starts = [since + number * step for number in range(count)]
    return [
        Series(dimension, name, step, until, [Point(at, found.get((name, at), OutcomeCounts())) for at in starts])
        for name in ([""] if merged else names)
    ]


async def read_top(
    conn: psycopg.AsyncConnection[Any],
    window: Window,
    now: datetime,
    dimension: Dimension,
    order: Order = "failures",
    limit: int = 10,
    *,
    names: Sequence[str] | None = None,
    containing: str = "",
) -> list[NamedCounts]:
    """The names with the most failures (only those with any), the most runs or the highest rate, or the first names.

    `names`: only these. `containing`: only names with this text in them, in capitals or not.
    The window begins at a whole minute (hour), hour (day, week) or day (quarter). Raises InvalidValue for schedules and
    steps in the last hour.
    """
    _require(window, dimension)
    if window == "hour" and dimension in _DETAILS:
        raise InvalidValue("schedules and steps are not counted by minute: read the day.")
    unit = {"hour": _MINUTE, "day": _HOUR, "week": _HOUR, "quarter": _DAY}[window]
    span = _STEPS[window][0] * _STEPS[window][1]
    grain = {"hour": "minute", "day": "hour"}.get(window, "day")
    values = _values(dimension, _floor(now, unit) + unit - span, grain)
    asked = {**values, "order": order, "limit": limit, "containing": containing}
    rows = await read(conn, dict_row, _NAMES, {**asked, "names": None if names is None else list(names)})
    ranked: list[str] = [row["name"] for row in rows]
    rows = await read(conn, dict_row, _SERIES, {**values, "names": ranked, "step": span + _DAY, "merged": False})
    counts = {row["name"]: _counts(row) for row in rows if row["name"] is not None}
    labels = await _labels(conn, ranked) if dimension == "schedule" else {}
    return [NamedCounts(name, labels.get(name, name), counts.get(name, OutcomeCounts())) for name in ranked]


async def read_sparklines(
    conn: psycopg.AsyncConnection[Any], window: Window, now: datetime, dimension: Dimension, names: Sequence[str]
) -> dict[str, list[tuple[int, int]]]:
    """How many runs ended and how many attempts failed, for each point of time, of each name.

    The points are those of `read_series`, but the day is by hour. Raises InvalidValue for schedules and steps in the
    last hour.
    """
    _require(window, dimension)
    if window == "hour" and dimension in _DETAILS:
        raise InvalidValue("schedules and steps are not counted by minute: read the day.")
    step, count = _A_DAY_BY_HOUR if window == "day" else _STEPS[window]
    since = _floor(now, step) - (count - 1) * step
    values = _values(dimension, since, {"hour": "minute", "quarter": "day"}.get(window, "hour"))
    rows = await read(conn, dict_row, _SPARKLINES, {**values, "names": list(names), "step": step})
    found = {name: [(0, 0)] * count for name in names}
    for row in rows:
        found[row["name"]][(row["at"] - since) // step] = (row["runs"], row["failures"])
    return found


async def read_schedules(
    conn: psycopg.AsyncConnection[Any], namespaces: Collection[str] | None, containing: str = ""
) -> list[str]:
    """The ids of up to 10,000 schedules, also removed ones, in these namespaces (None: all), the newest of them first.

    `containing`: only those with this text in namespace/name, in capitals or not; of very many schedules, only those
    whose names begin with it.
    """
    visible = None if namespaces is None else frozenset(namespaces)
    wanted = ScheduleFilter(namespaces=visible, words=(containing,) if containing else ())
    found = await few_schedules(conn, wanted) or await select_schedules(conn, wanted, "name", None, EXAMINED)
    values = {"ids": found.ids, "namespaces": wanted.within, "containing": containing}
    return [row["id"] for row in await read(conn, dict_row, _SCHEDULES_OF, values)]


async def _labels(conn: psycopg.AsyncConnection[Any], names: Sequence[str]) -> dict[str, str]:
    rows = await read(conn, dict_row, _LABELS, {"ids": [int(name) for name in names]})
    return {row["name"]: row["label"] for row in rows}


def _require(window: str, dimension: str) -> None:
    for value, known in ((window, get_args(Window)), (dimension, get_args(Dimension))):
        if value not in known:
            raise InvalidValue(f"{value!r} is none of {', '.join(known)}.")
    if window == "hour" and dimension == "step":
        raise InvalidValue("schedules and steps are not counted by minute: read the day.")


def _steps(window: Window, dimension: Dimension) -> tuple[timedelta, int]:
    return _A_DAY_BY_HOUR if window == "day" and dimension in _DETAILS else _STEPS[window]


def _grain_of_series(window: Window, dimension: Dimension) -> str:
    if window == "quarter":
        return "day"
    return "hour" if window == "week" or dimension in _DETAILS else "minute"


def _values(dimension: Dimension, since: datetime, grain: str) -> dict[str, Any]:
    shared = {"present_runs": PRESENT_RUNS, "failing": list(FAILURES)}
    return {"dimension": dimension, "since": since, "grain": grain, **shared}


def _floor(moment: datetime, step: timedelta) -> datetime:
    epoch = datetime(1970, 1, 1, tzinfo=UTC)
    return epoch + (moment - epoch) // step * step


def _counts(row: Mapping[str, Any]) -> OutcomeCounts:
    return OutcomeCounts(
        **{outcome: row[outcome] for outcome in OUTCOMES},
        duration=Histogram.from_columns(row["duration_buckets"], row["duration_counts"]),
        lateness=Histogram.from_columns(row["lateness_buckets"], row["lateness_counts"]),
    )
