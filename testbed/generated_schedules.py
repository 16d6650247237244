"""Fills a database with very many schedules of applications, and with runs of them, as after months of use."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, LiteralString

from testbed.generated_runs import fill_runs
from wakeboard.ticks.cron_parser import parse_cron

if TYPE_CHECKING:
    import psycopg

HUGE: LiteralString = "customers"  # the namespace of three of five schedules; each of many others has 80

# Of each hundred five are removed, two suspended, three on demand, twenty have intervals, eight expect successes, one
# is stalled and one has ended; of each thousand one has a shared limit key, and one an open circuit. The others have a
# time of day each. The compiled form of an expression begins with its second, minutes and hours, as sets of bits. The
# ticks of the queue `imports`, which is paused, wait.
_SCHEDULES: LiteralString = f"""
insert into wakeboard.job_definitions (
  source, namespace, name, spec_hash, job_type, queue, payload, schedule, cron_fields, time_zone, concurrency_policy,
  limit_key, suspended, schedule_error, removed_at, next_run_at, last_tick_at, expect_success_within_s,
  success_expected_from, success_due_at, success_missed_at, suspend_after_dead, circuit_opened_at, circuit_probe_at,
  circuit_probes, created_at)
select 'app', case when n %% 5 < 3 then '{HUGE}' else 'tenant-' || n / 5 %% greatest(2, %(schedules)s / 200) end,
       'customer-' || n || (array['-report', '-sync', '-trial', '-digest'])[1 + n %% 4], '', 'job_' || n %% 60, queue,
       jsonb_build_object('customer', n),
       case when of_100 between 7 and 9 then null when of_100 >= 80 then 'every 24h'
            when of_100 = 11 then 'at 2020-01-01T00:00:00Z' else n %% 60 || ' ' || n / 60 %% 24 || ' * * *' end,
       case when of_100 between 7 and 9 then null when of_100 >= 80 then 'every 86400 0'
            when of_100 = 11 then 'at 1577836800'
            else '1 ' || to_hex(1::bigint << n %% 60) || ' ' || to_hex(1 << n / 60 %% 24) || %(rest)s end,
       (array['Etc/UTC', 'Europe/Lisbon', 'America/New_York', 'Asia/Tokyo'])[1 + n / 3 %% 4],
       case when n %% 10 = 3 then 'Forbid' else 'Allow' end, case when n %% 1000 = 13 then 'bank' end,
       of_100 in (5, 6), case when of_100 = 10 then 'unknown time zone' end,
       case when of_100 < 5 then now() - interval '1 day' end,
       case when of_100 >= 10 and of_100 <> 11
            then now() + case queue when 'imports' then -1 else 1 end * make_interval(secs => 7200 + n %% 86400) end,
       now() - n %% 86400 * interval '1 second', case when expects then 3600 end, case when expects then now() end,
       case when expects then now() + interval '2 hours' end, case when n %% 1000 = 20 then now() end,
       case when of_100 between 30 and 39 then 3 end, case when n %% 1000 = 30 then now() end,
       case when n %% 1000 = 30 then now() + interval '1 hour' end, case when n %% 1000 = 30 then 1 end,
       now() - interval '60 days'
  from (select n, n %% 100 as of_100, n %% 100 between 20 and 27 as expects,
               (array['default', 'mail', 'reports', 'imports'])[1 + n / 7 %% 4] as queue
          from generate_series(1, %(schedules)s) as n) as made
"""
# Each hundredth schedule is paused by itself, and one queue is.
_PAUSES: LiteralString = """
insert into wakeboard.pauses (scope, reason)
select 'schedule:' || id, 'the bill is not paid' from wakeboard.job_definitions where id %% 100 = 50
union all
select 'queue:imports', 'the bank has a holiday'
"""
_LIVE_RUNS: LiteralString = """
update wakeboard.job_runs as run
   set definition_id = def.id, definition_generation = 1, schedule = def.namespace || '/' || def.name,
       queue = def.queue, job_type = def.job_type
  from wakeboard.job_definitions as def
 where def.id = 1 + run.id %% %(schedules)s
"""


def fill_schedules(conn: psycopg.Connection[Any], schedules: int, *, history: int, live: int) -> None:
    """Inserts schedules, pauses, and finished and live runs. `conn` is a superuser's."""
    rest = parse_cron("0 0 * * *", name="noop").to_text().split(" ", 3)[3]
    values = {"schedules": schedules, "rest": f" {rest}"}
    conn.execute("set session_replication_role = replica")  # no triggers: these rows are as the functions leave them
    conn.execute(_SCHEDULES, values)
    conn.execute(_PAUSES, values)
    fill_runs(conn, history=history, live=live, schedules=schedules // 2)
    conn.execute(_LIVE_RUNS, values)
    conn.execute("set session_replication_role = origin")
    conn.execute("vacuum analyze wakeboard.job_definitions, wakeboard.pauses, wakeboard.job_runs")
