"""Measures very many schedules of an application whose ticks are spread over the hour, beside one worker."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

import wakeboard
from bench.application_schedules import BATCH, PAYLOAD, idle_share, pass_s
from bench.tables import Table, at_least, at_most, number
from bench.workers import worker_group

if TYPE_CHECKING:
    from bench.database import BenchmarkServer, Database
    from bench.plan import Plan

FEW: Final = 10  # schedules, for the comparison of an idle wake
HOUR_S: Final = 3600
HOUR: Final = timedelta(hours=1)
SECOND: Final = timedelta(seconds=1)
ANCHOR: Final = datetime(2026, 1, 1, tzinfo=UTC)  # from which the ticks of an interval are counted
SETTLE_S: Final = 2.0  # once the worker has caught up with the ticks that became due before it
DRAIN_S: Final = 30.0  # after the last tick
# Computes the ticks from the intervals, without the scheduler, and looks for their runs.
COUNTS: Final = """
with wanted as (
  select id, to_timestamp(starts + ceil((start - starts) / %(every)s) * %(every)s) as tick
    from (select id, extract(epoch from starts_at) as starts, extract(epoch from %(begin)s::timestamptz) as start
            from wakeboard.job_definitions) as def
), found as (
  select definition_id, scheduled_for, started_at from wakeboard.job_run_history
  union all
  select definition_id, scheduled_for, null from wakeboard.job_runs
), made as (
  select definition_id, scheduled_for, count(*) as times, min(started_at) as began from found group by 1, 2
)
select count(*), count(*) filter (where made.times is null), count(*) filter (where made.times > 1),
       extract(epoch from percentile_disc(0.5) within group (order by made.began - tick))::float,
       extract(epoch from percentile_disc(0.99) within group (order by made.began - tick))::float
  from wanted left join made on made.definition_id = wanted.id and made.scheduled_for = wanted.tick
 where tick < %(end)s
"""
CAUGHT_UP: Final = """
select not exists (select from wakeboard.job_definitions where next_run_at < now() - interval '1 s')
   and not exists (select from wakeboard.job_runs where run_at < now() - interval '1 s')
"""
# Of the next minutes.
NONE_DUE: Final = """
update wakeboard.job_definitions set next_run_at = next_run_at + interval '1 hour'
 where next_run_at < statement_timestamp() + interval '10 minutes'
"""


def measure_spread_schedules(server: BenchmarkServer, plan: Plan) -> Table:
    """Once: it takes a quarter of an hour."""
    with server.database(of_a_definition=False) as few, server.database(of_a_definition=False) as database:
        _create(few, 0, FEW)
        pass_s(few)
        rate = plan.many / _create(database, 0, plan.many)
        compiled_s = pass_s(database)
        database.do("truncate wakeboard.job_runs")  # of the ticks during the creation
        database.vacuum()
        with worker_group() as workers:
            workers.start(database.dsn, "--forever")
            workers.wait_until(lambda: database.ask(CAUGHT_UP), poll_s=0.5)
            time.sleep(SETTLE_S)
            begin = datetime.now(UTC).replace(microsecond=0) + timedelta(seconds=1)
            end = begin + timedelta(seconds=plan.spread_s)
            time.sleep(plan.spread_s + DRAIN_S)
        row = database.conn.execute(COUNTS.encode(), {"begin": begin, "end": end, "every": HOUR_S}).fetchone()
        assert row is not None
        ticks, lost, doubled, p50, p99 = row
        for each in few, database:
            each.do(NONE_DUE)
            each.vacuum()
        idle = idle_share(database, few)
    return Table(
        title="Schedules from code, ticks spread over the hour",
        note=f"Once. {plan.many:,} schedules `every` hour, created by `schedule_many` over one connection, {BATCH:,} a"
        f" call. {plan.spread_s:.0f} s beside one `--forever` worker, with no-op runs. A query computes the ticks from"
        " the intervals and compares them with the runs. Lateness: from the tick to the start of the handler.",
        head=("figure", "value"),
        rows=[
            ("created in bulk, schedules/s", number(rate)),
            ("the first pass of the scheduler, s", number(compiled_s)),
            ("ticks/min", number(ticks / plan.spread_s * 60)),
            ("ticks, of them lost, of them doubled", f"{ticks:,}, {lost:,}, {doubled:,}"),
            ("lateness p50, s", number(p50)),
            ("lateness p99, s", number(p99)),
            (f"a pass without a due tick, share of its time with {FEW} schedules", number(idle)),
        ],
        thresholds=[
            at_least(f"{plan.many:,} schedules created in bulk, 1/s", 5_000, [rate]),
            at_most("ticks of spread schedules that are lost or doubled", 0, [lost + doubled]),
            at_most("lateness of spread ticks, p99 s", 2, [p99]),
            at_most(f"an idle wake with {plan.many:,} schedules, share of that with {FEW}", 1.1, [idle]),
        ],
    )


def _create(database: Database, start: int, stop: int) -> float:
    """Creates these schedules. Returns the seconds."""
    began = time.perf_counter()
    for first in range(start, stop, BATCH):
        wakeboard.schedule_many(
            database.conn,
            [
                wakeboard.Schedule(f"spread/{n}", "noop", PAYLOAD, every=HOUR, starts_at=ANCHOR + n % HOUR_S * SECOND)
                for n in range(first, min(first + BATCH, stop))
            ],
        )
    return time.perf_counter() - began
