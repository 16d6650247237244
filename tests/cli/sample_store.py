"""Runs in every state, made as they come about: by the board's moves, in plain SQL."""

from __future__ import annotations

import json
from typing import Any

import psycopg

from wakeboard.rules.cron_parser import parse_cron

WORKER = 77


class SampleStore:
    """What happened on a board, told move by move."""

    def __init__(self, dsn: str) -> None:
        self.conn = psycopg.connect(dsn, autocommit=True)

    def close(self) -> None:
        self.conn.close()

    def sql(self, query: str, *values: Any) -> list[tuple[Any, ...]]:
        cursor = self.conn.execute(query.encode(), values or None)
        return cursor.fetchall() if cursor.description else []

    def value(self, query: str, *values: Any) -> Any:
        return self.sql(query, *values)[0][0]

    # -- people and applications

    def declare(
        self,
        name: str,
        schedule: str | None = "0 8 * * MON",
        *,
        due_in: str = "2 days",
        source: str = "file:test",
        **columns: Any,
    ) -> int:
        """Declares billing/NAME, whose next tick is due in so long; its id."""
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
        from wakeboard.rules.zones import tzdata_version

        return tzdata_version()

    def enqueue(self, job_type: str = "ping", payload: Any = None, **named: Any) -> int:
        """Enqueues as an application does; the run's id."""
        arguments = "".join(f", {name} => %s" for name in named)
        query = f"select id from wakeboard.enqueue(%s, %s::jsonb{arguments})"
        return self.value(query, job_type, json.dumps(payload or {}), *named.values())

    def run_now(self, definition: int) -> int:
        return self.value("select id from wakeboard.run_now(%s)", definition)

    # -- a worker

    def works(self, *job_types: str, queues: tuple[str, ...] = ("default",)) -> None:
        """A worker is here that knows these types."""
        query = "select wakeboard.register_worker(%s, 'worker-a', 'default', 'here', '0.1.0', %s, 10, 60, %s)"
        self.sql(query, WORKER, list(queues), ["ping", *job_types])

    def claim(self, run: int) -> int:
        """The worker claims this run; the epoch of its lease."""
        (job_type, queue, priority, limit_key) = self.sql(
            "select job_type, queue, priority, limit_key from wakeboard.job_runs where id = %s", run
        )[0]
        if limit_key:
            query = "select id, lease_epoch from wakeboard.claim_limited(%s, 60, %s, %s, %s, 100)"
            rows = self.sql(query, WORKER, [queue], [job_type], [limit_key])
        else:
            query = (
                "select id, lease_epoch from wakeboard.claim(%s, 60, %s, %s::smallint[],"
                " array(select run_at - interval '1 us' from wakeboard.job_runs where id = %s), '{0}', %s, 1)"
            )
            rows = self.sql(query, WORKER, [queue], [priority], run, [job_type])
        found = dict(rows)
        assert run in found, f"run {run} cannot be claimed"
        return found[run]

    def succeed(self, run: int, result: Any = None) -> None:
        epoch = self.claim(run)
        refused = self.sql(
            "select wakeboard.complete(%s, %s::bigint[], %s, %s)", WORKER, [run], epoch, json.dumps({run: result})
        )
        assert not refused

    def fail(self, run: int, error: str = "no luck", *, outcome: str = "failed", delay_s: float | None = 600.0) -> None:
        """An attempt goes wrong; `outcome` discarded makes it dead."""
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

    def in_state(self, state: str) -> int:
        """A run in that state."""
        run = self.enqueue()
        match state:
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
        if state in {"cancelled", "discarded"}:
            self.sql(f"select wakeboard.{state.removesuffix('led').removesuffix('ed')}(array[%s]::bigint[])", run)
        return run

    # -- time passes

    def long_ago(self, run: int, ago: str) -> None:
        """What is known of this run happened so long ago; what is to come stays."""
        for table, key, moments in (
            ("job_runs", "id", ("dead_at", "failed_at")),
            ("job_run_history", "id", ("finished_at",)),
            ("job_attempts", "run_id", ("started_at", "ended_at")),
            ("job_steps", "run_id", ("started_at", "finished_at")),
            ("job_effects", "run_id", ("started_at", "finished_at")),
        ):
            moved = ", ".join(f"{moment} = {moment} - interval '{ago}'" for moment in moments)
            self.sql(f"update wakeboard.{table} set {moved} where {key} = %s", run)
        due = f"update wakeboard.job_runs set run_at = run_at - interval '{ago}' where id = %s and run_at <= now()"
        self.sql(due, run)
