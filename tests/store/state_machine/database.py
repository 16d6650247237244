"""The real store under the state machine: SQL clients, ways to let time pass, and a snapshot of all tables."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from tests.schedules.schedules import declared, hourly, put
from tests.store.sql_clients import SqlClient
from tests.store.state_machine.model import ALL_DAY, QUEUES, TYPES
from wakeboard.engine.maintenance_api import MaintenanceStore
from wakeboard.store.connection import connect

if TYPE_CHECKING:
    from collections.abc import Coroutine
    from datetime import datetime

    from tests.store.tick_model import ModelSpec
    from wakeboard.schedules.desired_schedule import DesiredSchedule
    from wakeboard.schedules.sync import SyncReport

TIMEOUT_S: Final = 2 * ALL_DAY
STATEMENT_TIMEOUT_S: Final = 20

_CLEAR: Final = """
delete from job_runs; delete from job_run_history; delete from job_attempts; delete from job_steps;
delete from job_effects; delete from job_forever_effects; delete from job_keys; delete from job_limits;
delete from job_definitions;
delete from definition_changes; delete from pauses; delete from workers; delete from worker_types; delete from bank;
delete from backfills; delete from backfill_ticks; delete from job_unique_keys; delete from run_dependencies;
delete from schedule_dependencies; delete from schedule_ticks; delete from ended_runs;
select note_server(); delete from server_changes;
update installation
   set reap_completed_at = 'epoch', reap_started_at = 'epoch', reap_skipped_at = 'epoch', lease_base = 0
"""
# The model counts the epochs.
_STEP: Final = "create or replace function lease_step() returns bigint language sql as 'select {}::bigint'"
_COLUMNS: Final = """
select relname::text as table, string_agg(quote_ident(attname), ', ' order by attnum) as columns
  from pg_class join pg_attribute on attrelid = pg_class.oid and attnum > 0 and not attisdropped and attgenerated = ''
 where relnamespace = 'wakeboard'::regnamespace and relkind in ('r', 'p') and not relispartition
   and relname <> 'migrations'
 group by 1 order by 1
"""
_SEQUENCES: Final = "select sequencename::text, last_value from pg_sequences where schemaname = 'wakeboard'"
# As a server into which the backup was loaded: it finds the row of another one.
_MOVE: Final = "update installation set server_system = server_system - 1, server_started_at = statement_timestamp()"

# Ticks are numbered from the first future one at the start of the example. The machine says how many hours have passed.
_SNAPSHOT: Final = """
with taken as (delete from definition_changes returning definition_id)
select json_build_object(
  'runs', array(select json_build_array(
            id, status, locked_by, lease_epoch, attempts, crash_count, release_count, holds_slot, dead_at is not null,
            cancel_requested_at is not null, run_at <= now(), locked_by <> 0 and locked_until < now(), error_type,
            queue, priority, limit_key, shared_limit_key, definition_id, trigger,
            case when trigger in ('tick', 'backfill')
                 then round(extract(epoch from scheduled_for - %(first)s) / 3600) + %(hours)s end,
            run_at > '2999-12-01', has_dependents is true)
            from job_runs),
  'past', array(select json_build_array(
            id, status, reason, locked_by, lease_epoch, attempts, crash_count, release_count)
            from job_run_history where skipped_count is null),
  'skipped', array(select json_build_array(
               definition_id, reason, round(extract(epoch from scheduled_for - %(first)s) / 3600) + %(hours)s,
               round(extract(epoch from skipped_until - %(first)s) / 3600) + %(hours)s, skipped_count)
               from job_run_history where skipped_count is not null),
  'attempts', array(select json_build_array(run_id, lease_epoch, outcome, locked_by) from job_attempts),
  'effects', array(select json_build_array(run_id, key, lease_epoch, finished_at is not null) from job_effects),
  'forever_effects', array(select json_build_array(key, run_id, lease_epoch, finished_at is not null)
                           from job_forever_effects),
  'bank', array(select json_build_array(run, key) from bank),
  'steps', array(select json_build_array(run_id, name, lease_epoch, finished_at is not null, result) from job_steps),
  'definitions', array(select json_build_array(
                   id, name, generation, round(extract(epoch from next_run_at - %(first)s) / 3600) + %(hours)s,
                   removed_at is not null, schedule_error) from job_definitions),
  'circuits', array(select json_build_array(id, circuit_opened_at is not null, circuit_probe_id, circuit_probes)
                from job_definitions),
  'schedule_ticks', array(select json_build_array(
                      definition_id, round(extract(epoch from scheduled_for - %(first)s) / 3600) + %(hours)s,
                      run_id, outcome, waits_for) from schedule_ticks),
  'parents', array(select json_build_array(run_id, place, parent_id, succeeded) from run_dependencies),
  'backfills', array(select json_build_array(
                 id, total, created, paused_at is not null, cancelled_at is not null, finished_at is not null)
                 from backfills),
  'backfill_ticks', array(select json_build_array(
                      backfill_id, round(extract(epoch from tick - %(first)s) / 3600) + %(hours)s, run_id)
                      from backfill_ticks),
  'uuids', array(select json_build_array(id, uuid) from all_runs),
  'changed', array(select distinct definition_id from taken))
"""
# Via another millennium: two ticks of one schedule may never have one moment, not even between two statements.
_HOURS_PASS: Final = """
update job_definitions
   set next_run_at = next_run_at - {h}, last_tick_at = greatest(last_tick_at - {h}, 'epoch'),
       former_timings = (select jsonb_agg(former || jsonb_build_object(
                           'until', (former ->> 'until')::timestamptz - {h},
                           'since', (former ->> 'since')::timestamptz - {h}) order by place)
                           from jsonb_array_elements(former_timings) with ordinality as each (former, place)),
       circuit_probe_at = circuit_probe_at - {h};
update job_runs set scheduled_for = scheduled_for - {h} - interval '999 years' where definition_id is not null;
update job_runs set scheduled_for = scheduled_for + interval '999 years', start_before = start_before - {h}
 where definition_id is not null;
update job_run_history
   set scheduled_for = scheduled_for - {h}, skipped_until = skipped_until - {h} where definition_id is not null;
update ended_runs set scheduled_for = scheduled_for - {h};
update schedule_ticks set scheduled_for = scheduled_for - {h} - interval '999 years', since = since - {h};
update schedule_ticks set scheduled_for = scheduled_for + interval '999 years';
update backfill_ticks set tick = tick - {h} - interval '999 years';
update backfill_ticks set tick = tick + interval '999 years'
"""


@dataclass(frozen=True)
class Backup:
    """What the schema `saved` does not say: the last number of each sequence, the hours that had passed, and so on."""

    sequences: dict[str, int | None]
    hours: int
    server_changes: int


class StoreHarness:
    """SQL clients of one store. `first`: the moment of tick 0; `hours`: how many have passed."""

    def __init__(self, dsn: str) -> None:
        self._runner = asyncio.Runner()
        self.user, self.handler = SqlClient(dsn), SqlClient(dsn)
        self.workers = {worker_id: SqlClient(dsn, worker_id) for worker_id in QUEUES}
        self.store = MaintenanceStore(self.do(connect(dsn)))
        for client in (self.user, *self.workers.values()):
            self.restore_statement_timeout(client)  # no call may wait for the handler's open transaction
        self.user.sql("create table bank (run bigint, key text)")
        self._tables = dict(self.user.sql(_COLUMNS))
        copies = (f"create table saved.{name} as table {name} with no data" for name in self._tables)
        self.user.sql("; ".join(["create schema saved", *copies]))
        self.steps, self.first, self.hours = 0, self.user.value("select now()"), 0

    def restore_statement_timeout(self, client: SqlClient) -> None:
        """The bound of any call."""
        client.sql(f"set statement_timeout = '{STATEMENT_TIMEOUT_S} s'")

    def do(self, call: Coroutine[Any, Any, Any]) -> Any:
        """Runs a coroutine."""
        return self._runner.run(call)

    def close(self) -> None:
        """Closes all connections."""
        for client in (self.user, self.handler, *self.workers.values()):
            client.close()
        self.do(self.store.conn.close())
        self._runner.close()

    def clear(self) -> None:
        """Empties the store."""
        self.user.sql(_CLEAR)
        self.user.sql(_STEP.format(1))
        self.cron, self.hours = hourly(), 0
        self.first = self.user.value(
            "select hour + make_interval(hours => (hour <= now())::int)"
            "  from (select date_trunc('hour', now(), 'UTC') + make_interval(mins => %s)) as next (hour)",
            int(self.cron.split()[0]),
        )

    def snapshot(self) -> dict[str, list[Any]]:
        """All rows. It also pops the definitions whose status may have changed."""
        self.steps += 1
        values = {"first": self.first, "hours": self.hours}
        return self.user.conn.execute(_SNAPSHOT.encode(), values).fetchall()[0][0]

    # -- backups -------------------------------------------------------------------------------------------------------

    def save(self) -> Backup:
        """Copies all tables."""
        self.user.sql(
            "; ".join(
                f"delete from saved.{name}; insert into saved.{name} ({columns}) select {columns} from {name}"
                for name, columns in self._tables.items()
            )
        )
        changes = self.user.value("select count(*) from server_changes")
        return Backup(dict(self.user.sql(_SEQUENCES)), self.hours, changes)

    def restore(self, backup: Backup, step: int) -> None:
        """Puts the copies in place of the tables, as on another server. Claims then raise an epoch by `step`."""
        put_back = [
            f"delete from {name}; insert into {name} ({columns}) overriding system value"
            f" select {columns} from saved.{name}"
            for name, columns in self._tables.items()
        ]
        last = [
            f"select setval('{name}', {number or 1}, {number is not None})" for name, number in backup.sequences.items()
        ]
        without_triggers = "set local session_replication_role = replica"
        self.user.sql("; ".join([without_triggers, *put_back, *last, _MOVE, _STEP.format(step)]))
        self.user.sql(_HOURS_PASS.format(h=f"interval '{self.hours - backup.hours} h'"))

    def notice_server(self) -> None:
        """Records the server, if it is another one, as the next call of maintenance or of a worker does."""
        self.user.sql("select lease_base()")

    # -- time passes ---------------------------------------------------------------------------------------------------

    def hours_pass(self, hours: int) -> None:
        """Moves schedules and their ticks into the past."""
        self.hours += hours
        self.user.sql(_HOURS_PASS.format(h=f"interval '{hours} h'"))

    def five_seconds_pass(self) -> None:
        """For reap only: it repeats a scan then that had to skip an expired lease, and no other."""
        self.user.sql(
            "update installation set reap_started_at = now() - interval '5 s', reap_skipped_at = 'epoch',"
            " reap_completed_at = now() - case when reap_completed_at < reap_started_at"
            " then interval '6 s' else interval '5 s' end"
        )

    def expire_lease(self, run: int, worker: int, *, timeout: bool) -> None:
        """A lease expired: its worker sent no heartbeat, or (`timeout`) it ran for too long."""
        began = f"now() - interval '{TIMEOUT_S + 20} s'" if timeout else "started_at"
        self.user.sql(
            f"update job_runs set started_at = {began}, locked_until = now() - interval '1 s' where id = %s", run
        )
        if timeout:
            self.user.sql(
                "update workers set last_seen = now() where worker_id = %s and last_seen > now() - interval '1 h'",
                worker,
            )

    def stops_heartbeats(self, worker: int) -> None:
        """The last heartbeat was long ago."""
        self.user.sql("update workers set last_seen = now() - interval '2 h' where worker_id = %s", worker)

    # -- schedules -----------------------------------------------------------------------------------------------------

    def declared(self, name: str, spec: ModelSpec) -> DesiredSchedule:
        """The schedule of this spec."""
        fields: dict[str, Any] = {"startingDeadlineSeconds": 2 * ALL_DAY} if spec.deadline else {}
        if spec.catch_up == "All":
            fields["catchUp"] = {"policy": "All", "limit": 2}
        else:
            fields["catchUp"] = {"policy": spec.catch_up}
        if spec.after:
            fields["schedule"] = None
            fields["after"] = [dict(zip(("schedule", "outcome", "ticks"), entry, strict=True)) for entry in spec.after]
        else:
            fields["schedule"], fields["suspendAfterDead"] = self.cron, spec.suspend_after_dead
        return declared(
            name,
            **fields,
            queue="a",
            priority=spec.priority,
            suspend=spec.suspended,
            concurrencyPolicy=spec.policy,
            limitKey=spec.limit_key,
            maxAttempts=2,
            timeoutSeconds=TIMEOUT_S,
            backoff={"strategy": "Fixed", "baseSeconds": 2 * ALL_DAY, "maxSeconds": 2 * ALL_DAY},
        )

    def moment(self, tick: int) -> datetime:
        """When it is, or was."""
        return self.first + timedelta(hours=tick - self.hours)

    def sync(self, *schedules: DesiredSchedule, prune: bool = False) -> SyncReport:
        """Syncs these schedules."""
        return self.do(put(self.store, *schedules, prune=prune))

    def register(self, worker: int) -> None:
        """Registers a worker."""
        client = self.workers[worker]
        query = "select register_worker(%s, %s, 'pool', 'here', '1', %s, 10, %s, %s)"
        client.sql(query, worker, f"worker {worker}", list(QUEUES[worker]), ALL_DAY, list(TYPES[worker]))
