"""A generated history of weeks, and what its series must be, counted from its rows in Python."""

from __future__ import annotations

import math
from collections import defaultdict
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from tests.schedules.schedules import rows
from wakeboard.views.queries.rollups import OUTCOMES, OutcomeCounts, Series
from wakeboard.views.rules.histogram import MAX_RELATIVE_ERROR, Histogram

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from wakeboard.engine.maintenance_api import MaintenanceStore

DAYS: Final = 33

_PARTITIONS: Final = """
do $$
declare week timestamptz;
begin
  for week in
    select generate_series(
      date_trunc('week', now() at time zone 'UTC') at time zone 'UTC' - make_interval(weeks => {weeks}),
      now() - interval '1 week', '1 week')
  loop
    execute format(
      'create table if not exists %I partition of job_run_history for values from (%L) to (%L)',
      to_char(week at time zone 'UTC', '"job_run_history_"IYYY"w"IW'), week, week + interval '1 week');
  end loop;
end $$
"""
_RUNS: Final = """
insert into job_run_history (
  id, uuid, scheduled_for, run_at, created_at, started_at, finished_at, locked_by, lease_epoch, status, trigger,
  backoff_strategy, backoff_base_s, backoff_cap_s, timeout_s, attempts, max_attempts, crash_count, release_count,
  priority, queue, job_type, payload, definition_id, skipped_count)
select n, gen_random_uuid(), due, due, due, case when status = 'skipped' then 'epoch' else due + late end, ended, 1, 1,
       status, 'application', 'fixed', 1, 1, 60, 1, 5, 0, 0, 3, 'queue' || n % 3, 'type' || n % 7, '{{}}',
       case when n % 5 > 1 then n % 5 end, case when status = 'skipped' and n % 2 = 0 then 1 + n % 4 end
  from (select n, ended, ended - took - late as due, late,
               (case n % 29 when 0 then 'cancelled' when 1 then 'skipped' when 2 then 'dead' else 'succeeded' end
               )::run_status as status
          from (select n, now() - random() * interval '{span}' as ended,
                       exp(random() * 14 - 8) * interval '1 s' as took,
                       exp(random() * 10 - 8) * interval '1 s' as late
                  from generate_series(1, {runs}) as n) as each) as each
 order by ended
"""
# Attempts of finished runs, and of live ones that are dead or will be retried.
_ATTEMPTS: Final = """
insert into job_runs (id, job_type, queue)
overriding system value
select -n, 'type' || n % 7, 'queue' || n % 3 from generate_series(1, 200) as n;
insert into job_attempts (run_id, lease_epoch, attempt, outcome, locked_by, started_at, ended_at, died)
select id, n, n, (array['failed', 'timed_out', 'crashed', 'snoozed', 'released'])[1 + n % 5], 1, ended, ended,
       n % 4 = 0 and n % 5 < 3
  from (select id, row_number() over () as n, least(finished_at, now()) - random() * interval '3 h' as ended
          from job_run_history where id % 11 = 0
        union all
        select id, 1000000 + id, now() - random() * interval '{span}' from job_runs) as each
 where ended > now() - interval '{span}'
"""
_STEPS: Final = """
insert into job_steps (run_id, name, lease_epoch, started_at, finished_at)
select id, 'step ' || n, 1, finished_at - random() * interval '9 s', case when id % 6 > 0 then finished_at end
  from job_run_history cross join generate_series(1, 2) as n
 where id % 4 = 0
"""


async def generate(store: MaintenanceStore, *, days: int = DAYS, runs: int = 6_000) -> None:
    """Inserts finished runs, attempts and steps of so many days, and sets the rollups back to before them."""
    span = f"{days} days"
    await rows(store, _PARTITIONS.format(weeks=days // 7 + 1))
    await rows(store, _RUNS.format(span=span, runs=runs))
    for statement in _ATTEMPTS.format(span=span).split(";"):
        await rows(store, statement)
    await rows(store, _STEPS)
    await begin_at(store, f"now() - interval '{days} days 1 hour'")


async def begin_at(store: MaintenanceStore, moment: str) -> None:
    """Sets the rollups back, as if maintenance had not run since `moment`."""
    await rows(
        store,
        "update rollup_progress set counted_until = hour, checked_until = hour, verified_until = hour,"
        " details_deleted_until = hour, days_until = date_bin('1 day', hour, 'epoch'), rolled_up_at = hour,"
        " is_behind = true"
        f" from (select date_bin('1 hour', {moment}, 'epoch') as hour) as start",
    )


async def roll_up_all(store: MaintenanceStore) -> int:
    """Calls roll_up until no work is left; returns the number of calls."""
    calls = 1
    while await store.roll_up(timedelta()):
        calls += 1
    return calls


class Fact(NamedTuple):
    """What happened to one run, attempt or step."""

    at: datetime
    outcome: str
    number: int
    names: Mapping[str, str]  # by dimension
    duration_s: float | None = None
    lateness_s: float | None = None


async def facts(store: MaintenanceStore) -> list[Fact]:
    """Everything in the history, row by row."""
    found: list[Fact] = []
    names: dict[int, dict[str, str]] = {}
    live = await rows(store, "select id, job_type, queue, definition_id from job_runs")
    past = await rows(
        store,
        "select id, job_type, queue, definition_id, status::text, finished_at, started_at, run_at, skipped_count"
        " from job_run_history",
    )
    for run, job_type, queue, definition, *_ in [*live, *past]:
        names[run] = {"all": "", "job_type": job_type, "queue": queue}
        if definition is not None:
            names[run]["schedule"] = str(definition)
    ended: dict[int, datetime] = {}
    for run, *_, status, finished, started, due, skipped in past:
        ended[run] = finished
        times = (None, None)
        if status == "succeeded":
            times = ((finished - started).total_seconds(), (started - due).total_seconds())
        outcome = "discarded" if status == "dead" else status
        found.append(Fact(finished, outcome, skipped or 1, names[run], *times))
    for run, outcome, at, died in await rows(store, "select run_id, outcome, ended_at, died from job_attempts"):
        if outcome in {"failed", "timed_out", "crashed"}:
            found.append(Fact(at, outcome, 1, names[run]))
        if died:
            found.append(Fact(at, "died", 1, names[run]))
    steps = "select run_id, name, finished_at - started_at from job_steps where finished_at is not null"
    for run, name, took in await rows(store, steps):
        if run in ended:
            step = {"step": f"{names[run]['job_type']} {name}"}
            found.append(Fact(ended[run], "succeeded", 1, step, took.total_seconds()))
    return found


def check(series: Series, among: Sequence[Fact]) -> None:
    """Raises AssertionError for a point that differs from a count of the facts."""
    bins: dict[datetime, list[Fact]] = defaultdict(list)
    for fact in among:
        if fact.names.get(series.dimension) == series.name:
            bins[_floor(fact.at, series.step)].append(fact)
    for point in series.points:
        check_counts(point.counts, bins[point.starts_at])


def check_counts(counts: OutcomeCounts, expected: Sequence[Fact]) -> None:
    """Raises AssertionError for counts that are not those of the facts, or quantiles beyond the stated error."""
    found = {outcome: getattr(counts, outcome) for outcome in OUTCOMES}
    assert found == {name: sum(fact.number for fact in expected if fact.outcome == name) for name in OUTCOMES}
    check_histogram(counts.duration, [fact.duration_s for fact in expected if fact.duration_s is not None])
    check_histogram(counts.lateness, [fact.lateness_s for fact in expected if fact.lateness_s is not None])


def check_histogram(histogram: Histogram, exact: Iterable[float]) -> None:
    """Raises AssertionError unless p50 and p95 are within the stated error."""
    values = sorted(exact)
    assert histogram.total == len(values)
    for share in (0.5, 0.95):
        estimate = histogram.quantile(share)
        if not values:
            assert estimate is None
            continue
        value = values[math.ceil(share * len(values)) - 1]
        assert estimate is not None
        assert abs(estimate - value) <= max(value * MAX_RELATIVE_ERROR * 1.000001, 0.001)


def _floor(moment: datetime, step: timedelta) -> datetime:
    return moment - (moment - datetime(1970, 1, 1, tzinfo=UTC)) % step


async def database_now(store: MaintenanceStore) -> datetime:
    """The database's clock."""
    return (await store.now()).astimezone(UTC)


async def stored(store: MaintenanceStore, where: str = "true") -> list[tuple[Any, ...]]:
    """The rows of run_rollups, in order."""
    return await rows(store, f"select * from run_rollups where {where} order by grain, starts_at, dimension, name")
