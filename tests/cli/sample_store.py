"""Puts schedules, a worker and runs in every status into a database, with the SQL functions of the store."""

from __future__ import annotations

import json
from typing import Any

import psycopg

from wakeboard.logs.queries import store_batches
from wakeboard.logs.rules import Batch, Line, packed
from wakeboard.store.connection import connect_blocking
from wakeboard.ticks.cron_parser import parse_cron

WORKER = 77


class SampleStore:
    """A connection to the test's database, with one method for each step of a run's life."""

    def __init__(self, dsn: str) -> None:
        self.dsn = dsn
        self.conn = psycopg.connect(dsn, autocommit=True)

    def close(self) -> None:
        self.conn.close()

    def sql(self, query: str, *values: Any) -> list[tuple[Any, ...]]:
        cursor = self.conn.execute(query.encode(), values or None)
        return cursor.fetchall() if cursor.description else []

    def value(self, query: str, *values: Any) -> Any:
        return self.sql(query, *values)[0][0]

    def add_schedule(
        self,
        name: str,
        schedule: str | None = "0 8 * * MON",
        *,
        due_in: str = "2 days",
        source: str = "file:test",
        **columns: Any,
    ) -> int:
        """Adds the schedule billing/NAME with its next tick `due_in` from now; returns its id."""
        namespace, _, bare = name.rpartition("/")
        row: dict[str, Any] = {
            "namespace": namespace or "billing", "name": bare, "uid": "", "generation": 1, "spec_hash": "-",
            "job_type": "report", "payload": {}, "queue": "default", "priority": 3, "time_zone": "Europe/Lisbon",
            "dst_gap": "RunAfter", "dst_overlap": "First", "jitter_s": 0, "concurrency_policy": "Allow",
            "catch_up": "Latest", "catch_up_limit": 100, "max_attempts": 5, "backoff_strategy": "exponential",
            "backoff_base_s": 10, "backoff_cap_s": 3600, "timeout_s": 600, "suspended": False,
            "tzdata_version": self.tzdata(), "schedule": schedule,
            "cron_fields": schedule and parse_cron(schedule, name=name).to_text(),
            "next_run_at": schedule and self.value("select (now() + %s::interval)::text", due_in),
            **columns,
        }  # fmt: skip
        return self.value("select id from wakeboard.sync_definitions(%s, %s)", source, json.dumps([row]))

    @staticmethod
    def tzdata() -> str:
        from wakeboard.ticks.zones import tzdata_version

        return tzdata_version()

    def enqueue(self, job_type: str = "ping", payload: Any = None, **named: Any) -> int:
        """Enqueues a run as an application does; returns its id."""
        arguments = "".join(f", {name} => %s" for name in named)
        query = f"select id from wakeboard.enqueue(%s, %s::jsonb{arguments})"
        return self.value(query, job_type, json.dumps(payload or {}), *named.values())

    def add_alert(self, examples: list[str], *, rule: str = "dead", severity: str = "warning") -> int:
        """Opens an alert as the rule `dead: 1` does; returns its id."""
        rules: Any = [{"name": rule, "severity": severity, "interval_s": 0, "definition": {}}]
        claimed_at = self.value("select claimed_at from wakeboard.claim_alert_rules(%s)", json.dumps(rules))
        query = "select wakeboard.record_alert(%s, %s, true, '3 runs are dead', 3, %s)"
        return self.value(query, rule, claimed_at, examples)

    def run_now(self, definition: int) -> int:
        return self.value("select id from wakeboard.run_now(%s)", definition)

    def register_worker(self, *job_types: str, queues: tuple[str, ...] = ("default",)) -> None:
        """Registers the worker with handlers for ping and these types."""
        query = "select wakeboard.register_worker(%s, 'worker-a', 'default', 'here', '0.1.0', %s, 10, 60, %s)"
        self.sql(query, WORKER, list(queues), ["ping", *job_types])

    def claim(self, run: int) -> int:
        """Claims this run for the worker; returns its lease epoch."""
        (job_type, queue, priority, limit_key) = self.sql(
            "select job_type, queue, priority, limit_key from wakeboard.job_runs where id = %s", run
        )[0]
        if limit_key:
            query = "select id, lease_epoch from wakeboard.claim_limited(%s, 60, %s, %s, %s, 100)"
            rows = self.sql(query, WORKER, [queue], [job_type], [limit_key])
        else:
            query = (
                "select id, lease_epoch from wakeboard.lock_due_runs(%s, array[%s],"
                " (select array_fill(run_at - interval '1 us', '{5}') from wakeboard.job_runs where id = %s),"
                " '{0,0,0,0,0}', %s, 1) as due"
                " cross join lateral wakeboard.lease_runs(%s, 60, due.ids, due.definitions)"
            )
            rows = self.sql(query, [queue], 6 - priority, run, [job_type], WORKER)
        epochs = dict(rows)
        assert run in epochs, f"run {run} cannot be claimed"
        return epochs[run]

    def log(self, run: int, *texts: str, epoch: int = 1, level: int = 20) -> None:
        """Stores lines of the log of an attempt; each text is also the name of its logger."""
        uuid = self.value("select uuid from wakeboard.all_runs where id = %s", run)
        lines = [Line(number, 1e9 + number, level, text, text) for number, text in enumerate(texts, 1)]
        with connect_blocking(self.dsn) as conn:
            batch = Batch(str(uuid), epoch, 1, 1, 1, len(lines), level, lines[0].at, packed(lines))
            store_batches(conn, [(batch, 0, 0)])

    def succeed(self, run: int, result: Any = None) -> None:
        epoch = self.claim(run)
        query = "select wakeboard.complete(%s, array[%s::bigint], array[%s::bigint], %s)"
        refused = self.sql(query, WORKER, run, epoch, json.dumps({run: result}))
        assert not refused

    def fail(self, run: int, error: str = "no luck", *, outcome: str = "failed", delay_s: float | None = 600.0) -> None:
        """Claims the run and fails the attempt; the outcome "discarded" makes the run dead."""
        epoch = self.claim(run)
        refused = self.sql(
            "select wakeboard.fail(%s, %s::bigint[], %s::bigint[], %s, %s, %s, %s, %s::real[])",
            WORKER, [run], [epoch], [outcome], ["ValueError"], [error], ["Traceback: line 1\nline 2"], [delay_s],
        )  # fmt: skip
        assert not refused

    def step(self, run: int, epoch: int, name: str, result: Any = None, *, done: bool = True) -> None:
        text = json.dumps(result) if done else None
        self.sql("select wakeboard.step(%s, %s, %s, %s, %s::text::jsonb)", WORKER, run, epoch, name, text)

    def effect(self, run: int, epoch: int, key: str, *, done: bool = False) -> None:
        self.sql("select wakeboard.effect(%s, %s, %s, %s, %s)", WORKER, run, epoch, key, done)

    def run_with_status(self, status: str) -> int:
        """Enqueues a run and brings it to this status; returns its id."""
        run = self.enqueue()
        match status:
            case "running":
                self.claim(run)
            case "failed":
                self.fail(run)
            case "dead" | "discarded":
                self.fail(run, outcome="discarded")
            case "succeeded":
                self.succeed(run)
            case _:
                pass
        if status in {"cancelled", "discarded"}:
            self.sql(f"select wakeboard.{status.removesuffix('led').removesuffix('ed')}(array[%s]::bigint[])", run)
        return run

    def backdate(self, run: int, ago: str) -> None:
        """Moves the past times of this run and its attempts, steps and effects into the past by `ago`."""
        for table, key, columns in (
            ("job_runs", "id", ("dead_at", "failed_at")),
            ("job_run_history", "id", ("finished_at",)),
            ("job_attempts", "run_id", ("started_at", "ended_at")),
            ("job_steps", "run_id", ("started_at", "finished_at")),
            ("job_effects", "run_id", ("started_at", "finished_at")),
        ):
            earlier = ", ".join(f"{column} = {column} - interval '{ago}'" for column in columns)
            self.sql(f"update wakeboard.{table} set {earlier} where {key} = %s", run)
        earlier = f"run_at = run_at - interval '{ago}', created_at = created_at - interval '{ago}'"
        self.sql(f"update wakeboard.job_runs set {earlier} where id = %s and run_at <= now()", run)
