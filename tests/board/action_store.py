"""What tests of actions prepare and check in the database."""

from __future__ import annotations

from typing import Any

import psycopg
from psycopg.types.json import Jsonb

from wakeboard.ticks.cron_parser import parse_cron


class Store:
    """What the tests prepare and check in the database."""

    def __init__(self, dsn: str) -> None:
        self._dsn = dsn
        self.conn = psycopg.connect(dsn, autocommit=True, options="-c search_path=wakeboard")

    def another(self) -> Store:
        """Another connection."""
        return Store(self._dsn)

    def rows(self, query: str, *values: Any) -> list[Any]:
        return self.conn.execute(query, values or None).fetchall()  # pyright: ignore[reportArgumentType, reportCallIssue]

    def value(self, query: str, *values: Any) -> Any:
        return self.rows(query, *values)[0][0]

    def run(self, status: str = "queued", payload: Any = None, schedule: int | None = None) -> int:
        """A run with this status, of an application or of a schedule."""
        self.rows("select wakeboard.enqueue('send_mail', %s)", Jsonb(payload if payload is not None else {}))
        run_id = self.value("select max(id) from job_runs")
        if schedule is not None:
            self.rows(
                "update job_runs set definition_id = def.id, schedule = def.namespace || '/' || def.name"
                " from job_definitions as def where def.id = %s and job_runs.id = %s returning 1",
                schedule,
                run_id,
            )
        if status == "dead":
            self.rows(
                "update job_runs set status = 'dead', dead_at = now(), attempts = 5 where id = %s returning 1", run_id
            )
        elif status == "running":
            self.rows(
                "update job_runs set status = 'running', locked_by = 7, lease_epoch = 1, attempts = 1,"
                " started_at = now(), locked_until = now() + interval '1 min' where id = %s returning 1",
                run_id,
            )
        elif status == "cancelled":
            self.rows("select * from cancel(array[%s::bigint])", run_id)
        return run_id

    def schedule(self, name: str = "shop/nightly") -> int:
        namespace, _, own = name.partition("/")
        return self.value(
            "insert into job_definitions (source, namespace, name, uid, spec_hash, job_type)"
            " values ('test', %s, %s, gen_random_uuid(), repeat('0', 64), 'send_mail') returning id",
            namespace,
            own,
        )

    def timed_schedule(self, name: str = "shop/daily", cron: str = "0 2 * * *") -> int:
        """A schedule with ticks in Europe/Lisbon."""
        schedule = self.schedule(name)
        fields = parse_cron(cron, name=name).to_text()
        self.rows(
            "update job_definitions set schedule = %s, cron_fields = %s, time_zone = 'Europe/Lisbon' where id = %s"
            " returning 1",
            *(cron, fields, schedule),
        )
        return schedule

    def status(self, run_id: int) -> str:
        return self.value("select status::text from all_runs where id = %s", run_id)

    def audit(self) -> list[tuple[str, str, str, str]]:
        """The audit rows: actor, source, action and reason, oldest first."""
        return self.rows("select actor::text, source::text, action, reason from audit_log order by id")

    def dead_runs(self, count: int) -> list[int]:
        """So many dead runs; their ids."""
        self.rows("insert into job_runs (job_type) select 'send_mail' from generate_series(1, %s) returning 1", count)
        found = self.rows("update job_runs set status = 'dead', dead_at = now(), attempts = 5 returning id")
        return sorted(row[0] for row in found)

    def everything(self) -> list[Any]:
        """All rows that an action may change."""
        tables = (
            "job_runs",
            "job_run_history",
            "audit_log",
            "pauses",
            "job_limits",
            "bulk_actions",
            "job_definitions",
            "backfills",
        )
        return [self.rows(f"select t::text from {table} as t order by 1") for table in (*tables, "job_definitions")]
