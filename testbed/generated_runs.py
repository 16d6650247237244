"""Fills a database with many runs in a few statements, as they would be after weeks of work."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, LiteralString

if TYPE_CHECKING:
    import psycopg

JOB_TYPES = ("send_mail", "import_rates", "render_report", "sync_orders", "charge_card")

# Partitions of past weeks: create_partitions makes only this week's and later ones.
_PARTITIONS: LiteralString = """
do $$
declare
  week timestamptz;
begin
  for week in
    select generate_series(date_trunc('week', now() at time zone 'UTC') at time zone 'UTC' - interval '5 weeks', now(),
                           '1 week') loop
    continue when to_regclass(to_char(week at time zone 'UTC', '"wakeboard.job_run_history_"IYYY"w"IW')) is not null;
    execute format('create table wakeboard.%I partition of wakeboard.job_run_history for values from (%L) to (%L)',
                   to_char(week at time zone 'UTC', '"job_run_history_"IYYY"w"IW'), week, week + interval '1 week');
  end loop;
end $$
"""
_SCHEDULES: LiteralString = """
insert into wakeboard.job_definitions (source, namespace, name, spec_hash, job_type, schedule, cron_fields)
select 'file:test', (array['billing', 'shop', 'ops'])[1 + n %% 3], 'schedule-' || n, 'x',
       (%(types)s::text[])[1 + n %% 5], '* * * * *', '* * * * *'
  from generate_series(1, %(schedules)s) as n
"""
# One run a minute or so for four weeks, in the order of their ends; every 50th was cancelled, every 500th discarded.
_HISTORY: LiteralString = """
insert into wakeboard.job_run_history (
  id, uuid, scheduled_for, run_at, created_at, started_at, finished_at, locked_by, lease_epoch, status, trigger,
  backoff_strategy, backoff_base_s, backoff_cap_s, timeout_s, attempts, max_attempts, crash_count, release_count,
  priority, queue, job_type, payload, definition_id, definition_generation, schedule, failed_at, error_type, last_error,
  reason)
select n, gen_random_uuid(), due, due, due, due, due + make_interval(secs => 1 + n %% 90), 1, 1,
       status::wakeboard.run_status,
       case when def.id is null then 'application' else 'tick' end::wakeboard.run_trigger, 'exponential', 10, 3600, 600,
       1, 5, 0, 0, 3, 'default', coalesce(def.job_type, (%(types)s::text[])[1 + n %% 5]),
       jsonb_build_object('customer', n %% 1000), def.id, 1, def.namespace || '/' || def.name,
       case status when 'dead' then due end, case status when 'dead' then 'TimeoutError' end,
       case status when 'dead' then 'no answer from the bank' end, case status when 'cancelled' then 'Cancelled' end
  from (
    select n, now() - interval '4 weeks' + interval '4 weeks' * n / (%(history)s + 1) - interval '2 minutes' as due,
           case when n %% 500 = 0 then 'dead' when n %% 50 = 0 then 'cancelled' else 'succeeded' end as status
      from generate_series(1, %(history)s) as n) as made
  left join wakeboard.job_definitions as def on def.id = 1 + n %% (2 * %(schedules)s)
"""
# Live runs: of each thousand 980 are queued, 10 failed and 10 dead; the 20 that are due first are running.
_LIVE: LiteralString = """
insert into wakeboard.job_runs (
  id, run_at, created_at, scheduled_for, status, locked_by, locked_until, lease_epoch, started_at, attempts, job_type,
  payload, failed_at, dead_at, error_type, last_error)
overriding system value
select %(history)s + n, due, due, due,
       case when n <= 20 then 'running' when n %% 100 = 1 then 'dead' when n %% 100 = 2 then 'failed'
            else 'queued' end::wakeboard.run_status,
       (n <= 20)::integer, case when n <= 20 then now() + interval '1 hour' else 'epoch' end, 1,
       case when n <= 20 then now() else 'epoch' end, 1, (%(types)s::text[])[1 + n %% 5],
       jsonb_build_object('customer', n %% 1000), case when n > 20 and n %% 100 in (1, 2) then due end,
       case when n > 20 and n %% 100 = 1 then due end, case when n > 20 and n %% 100 in (1, 2) then 'TimeoutError' end,
       case when n > 20 and n %% 100 in (1, 2) then 'no answer from the bank' end
  from (select n, now() - interval '1 hour' + interval '1 hour' * n / %(live)s as due
          from generate_series(1, %(live)s) as n) as made
"""


def fill(conn: psycopg.Connection[Any], *, history: int, live: int, schedules: int = 100) -> None:
    """Inserts schedules, and finished and live runs; half of the finished ones belong to schedules.

    `conn` is a superuser's.
    """
    conn.execute("set session_replication_role = replica")
    conn.execute(_SCHEDULES, {"schedules": schedules, "types": list(JOB_TYPES)})
    fill_runs(conn, history=history, live=live, schedules=schedules)


def fill_runs(conn: psycopg.Connection[Any], *, history: int, live: int, schedules: int) -> None:
    """As `fill`, for the schedules that are there. `schedules`: how many of them, from id 1, have finished runs."""
    values = {"history": history, "live": live, "schedules": schedules, "types": list(JOB_TYPES)}
    conn.execute("set session_replication_role = replica")  # no triggers: these rows are as the functions leave them
    conn.execute(_PARTITIONS)
    for query in (_HISTORY, _LIVE):
        conn.execute(query, values)
    conn.execute("select setval('wakeboard.job_runs_id_seq', %s)", [history + live + 1])
    conn.execute("set session_replication_role = origin")
    conn.execute("vacuum analyze wakeboard.job_definitions, wakeboard.job_run_history, wakeboard.job_runs")


_AUDIT: LiteralString = """
insert into wakeboard.audit_log (at, actor, source, action, run_id, run_uuid, schedule, reason)
select now() - interval '4 weeks' + interval '4 weeks' * n / (%(rows)s + 1),
       (array['ada', 'grace', 'edsger', 'barbara'])[1 + n %% 4], 'board',
       (array['retry', 'cancel', 'discard'])[1 + n %% 3], n, gen_random_uuid(),
       case when n %% 2 = 0 then (array['billing', 'shop', 'ops'])[1 + n %% 3] || '/schedule-' || n %% 100 end,
       'not wanted'
  from generate_series(1, %(rows)s) as n
"""


def fill_audit(conn: psycopg.Connection[Any], rows: int) -> None:
    """Inserts so many audit rows of four weeks; half of them belong to schedules of three namespaces."""
    conn.execute(_AUDIT, {"rows": rows})
    conn.execute("vacuum analyze wakeboard.audit_log")
