"""Declares what runs after what, executes runs, and lists the ticks that became runs, for the tests of dependencies."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tests.store.sql_clients import Lease, SqlClient

MONDAY, TUESDAY = "2026-01-05 00:00+00", "2026-01-06 00:00+00"
WAITING = "2999-12-31 00:00+00"


def after(admin: SqlClient, child: int, *parents: str, outcome: str = "Succeeded", ticks: str = "Same") -> None:
    """Declares `spec.after` of a schedule, as a sync does."""
    for place, parent in enumerate(parents, 1):
        admin.sql(
            "insert into schedule_dependencies (definition_id, place, parent_name, parent_id, outcome, ticks)"
            " values (%s, %s, %s::text, (select id from job_definitions where name = %s), %s, %s)",
            *(child, place, parent, parent, outcome, ticks),
        )
        admin.sql("update job_definitions set has_dependents = true where name = %s", parent)


def tick(admin: SqlClient, definition: int, at: str = MONDAY, trigger: str = "tick") -> int:
    """Creates the run of a tick, as maintenance or a backfill does; its id."""
    with admin.conn.transaction():
        admin.sql("set local search_path = pg_catalog, wakeboard, pg_temp")  # as an SQL function
        return admin.value(
            "insert into job_runs (job_type, definition_id, scheduled_for, trigger, schedule, has_dependents)"
            " select 'ping', id, %s, %s::run_trigger, 'billing/x', has_dependents from job_definitions where id = %s"
            " returning id",
            *(at, trigger, definition),
        )


def lease(worker: SqlClient, *ids: int) -> list[Lease]:
    """Leases these runs, and no others. A run that waits is not leased."""
    worker.sql(
        "update job_runs set run_at = now() - interval '1 day' where id = any(%s) and run_at < '2999-12-31 00:00+00'",
        list(ids),
    )
    worker.register()
    return worker.claim(worker.value("select count(*) from job_runs where run_at <= now() - interval '1 day'"))


def succeed(worker: SqlClient, *ids: int, result: str | None = None) -> None:
    """Executes runs; no other run may be due."""
    for one in lease(worker, *ids):
        results = None if result is None else f'{{"{one.id}": {result}}}'
        worker.sql("select complete(%s, %s, %s, %s)", worker.worker_id, [one.id], [one.epoch], results)


def die(worker: SqlClient, run: int) -> None:
    (one,) = lease(worker, run)
    worker.sql(
        "select fail(%s, %s, %s, '{discarded}', '{E}', '{no}', '{\"\"}', '{null}')",
        *(worker.worker_id, [one.id], [one.epoch]),
    )


def pass_on(client: SqlClient) -> Any:
    """Lets maintenance consume the ends of runs."""
    return client.sql("select * from enqueue_dependents()")[0]


def made(admin: SqlClient, definition: int) -> list[tuple[int, str]]:
    """The ticks of a schedule that became runs, live or finished: id and tick."""
    return [
        (row.id, f"{row.day}")
        for row in admin.sql(
            "select id, to_char(scheduled_for at time zone 'UTC', 'Dy') as day from all_runs"
            " where definition_id = %s and status <> 'skipped' order by scheduled_for, id",
            definition,
        )
    ]


def days(admin: SqlClient, definition: int) -> list[str]:
    return [day for _, day in made(admin, definition)]
