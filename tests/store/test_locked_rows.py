"""Rows that another transaction has locked: every function waits for a bounded time and handles the other rows."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg
import pytest
from psycopg.rows import scalar_row

from wakeboard.errors import Locked
from wakeboard.store import alert_deliveries, connection, leader_api, maintenance_api, statements, worker_api
from wakeboard.store.connection import connect
from wakeboard.store.statements import read

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import ModuleType

    from tests.store.sql_clients import Lease, SqlClient

NOBODY_WAITS = "set statement_timeout = '9s'"
LOCKED = "refused: another transaction has locked the run; try again"
REGISTER = "select register_worker(%s, 'w', 'p', 'h', '1', '{default}', 1, 60, '{ping}', 100)"


@pytest.fixture
def holder(
    open_client: Callable[[int], SqlClient], admin: SqlClient, worker: SqlClient, other: SqlClient
) -> Iterator[SqlClient]:
    """A client with an open transaction. All other clients have a statement timeout and must get their answers."""
    one = open_client(0)
    one.sql("begin")
    for each in (admin, worker, other):
        each.sql(NOBODY_WAITS)
    yield one
    one.sql("rollback")


def definition(admin: SqlClient, name: str, policy: str = "Replace") -> int:
    """A schedule whose next tick was due a second ago."""
    due = {"schedule": "* * * * *", "cron_fields": "{}", "next_run_at": datetime.now(UTC) - timedelta(seconds=1)}
    return admin.define(name, policy, source="file:t", **due)


def enqueue_due_ticks(client: SqlClient, *definitions: int) -> list[int]:
    """Makes the due tick of each; the definitions that got a run."""
    before = client.column("select id from job_runs")
    client.sql(
        "select enqueue_due_ticks(array_agg(id order by id), array_agg(generation order by id),"
        " array_agg(next_run_at order by id), array_agg(null::timestamptz), array_agg(next_run_at order by id),"
        " array_agg(null::text), array_agg(id order by id), array_agg(next_run_at order by id),"
        " '{}', '{}', '{}', '{}', '{}') from job_definitions where id = any (%s)",
        list(definitions),
    )
    return client.column("select definition_id from job_runs where id <> all (%s) order by 1", before)


# -- outcomes ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("call", ["complete", "fail", "release"])
def test_an_outcome_of_a_locked_run_is_busy_and_others_are_accepted(
    admin: SqlClient, worker: SqlClient, holder: SqlClient, call: str
) -> None:
    for _ in range(3):
        admin.enqueue()
    leases = worker.claim()
    held = leases[1]
    holder.sql("select from job_runs where id = %s for key share", held.id)
    assert getattr(worker, call)(*leases) == [held.id]
    assert worker.column("select still_leased(71, %s, %s)", *map(list, zip(*leases, strict=True))) == [held.id]
    assert worker.renew(held) == {}  # an open effect does not stop its heartbeat
    holder.sql("commit")
    assert getattr(worker, call)(held) == []
    assert worker.column("select still_leased(71, %s, %s)", [held.id], [held.epoch]) == []


def test_a_step_or_effect_of_a_locked_run_is_retried(admin: SqlClient, worker: SqlClient, holder: SqlClient) -> None:
    admin.enqueue()
    (lease,) = worker.claim()
    holder.sql("select from job_runs for update")
    for ask in (lambda: worker.step(lease, "a"), lambda: worker.effect(lease, "a")):
        with pytest.raises(psycopg.errors.LockNotAvailable):
            ask()


def test_a_heartbeat_does_not_wait_for_its_workers_row(admin: SqlClient, worker: SqlClient, holder: SqlClient) -> None:
    admin.enqueue()
    worker.register()
    (lease,) = worker.claim()
    holder.sql("delete from workers")
    assert worker.sql("select * from renew(71, 60, %s, %s, '{null}', '{null}')", [lease.id], [lease.epoch]) == []


@pytest.mark.parametrize(
    "lock", ["select from workers for update", "delete from workers", "update workers set pool = 'p'"]
)
def test_a_worker_whose_row_is_locked_registers_again_at_once(
    admin: SqlClient, worker: SqlClient, holder: SqlClient, lock: str
) -> None:
    worker.register()
    admin.sql("update workers set last_seen = now() - interval '1 h'")
    holder.sql(lock)
    worker.sql("set statement_timeout = '500ms'")  # less than the lock_timeout of the function
    assert worker.register()
    holder.sql("rollback")
    assert worker.register()
    assert admin.value("select last_seen > now() - interval '1 min' from workers")


# -- what administrators ask for ---------------------------------------------------------------------------------------


def test_a_run_inside_once_is_cancelled_and_replaced_at_once(
    admin: SqlClient, worker: SqlClient, other: SqlClient, open_client: Callable[[int], SqlClient]
) -> None:
    schedule = definition(admin, "s")
    handler = open_client(worker.worker_id)
    (run,) = admin.column("select id from run_now(%s)", schedule)
    (lease,) = worker.claim_limited()
    other.sql(NOBODY_WAITS)
    with handler.conn.transaction():
        assert handler.once(lease, "charge")
        assert other.cancel(run) == {run: "requested"}
        assert other.sql("select answer from run_now(%s)", schedule)[0].answer == "queued"
        assert enqueue_due_ticks(other, schedule) == [schedule]
    assert worker.renew(lease) == {run: "cancel"}


def test_bulk_actions_report_locked_runs_and_change_the_rest(
    admin: SqlClient, other: SqlClient, holder: SqlClient
) -> None:
    locked, free = admin.enqueue(), admin.enqueue()
    holder.sql("select from job_runs where id = %s for update", locked)
    assert other.cancel(locked, free) == {locked: LOCKED, free: "cancelled"}
    holder.sql("update job_runs set status = 'dead', dead_at = now() where id = %s", locked)
    assert other.retry(locked) == {locked: LOCKED}
    assert other.discard(locked) == {locked: LOCKED}


def test_run_now_of_replace_names_the_locked_run(admin: SqlClient, holder: SqlClient) -> None:
    schedule = definition(admin, "s")
    (run,) = admin.column("select id from run_now(%s)", schedule)
    holder.sql("select from job_runs for update")
    answer = admin.value("select answer from run_now(%s)", schedule)
    assert answer == f"refused: another transaction has locked run {run}; try again"


def test_an_action_that_met_a_lock_does_not_use_up_its_token(admin: SqlClient, holder: SqlClient) -> None:
    schedule = definition(admin, "s")
    admin.sql("select run_now(%s)", schedule)
    holder.sql("select from job_runs for update")
    with pytest.raises(psycopg.errors.LockNotAvailable, match="try again"):
        admin.sql("select run_annotation_action(%s, 'run-now', 'once')", schedule)
    holder.sql("commit")
    assert admin.value("select new from run_annotation_action(%s, 'run-now', 'once')", schedule)


@pytest.mark.parametrize(("action", "word"), [("retry-dead", "queued"), ("discard-dead", "discarded")])
def test_an_action_on_dead_runs_of_which_one_is_locked_changes_none_and_does_not_use_up_its_token(
    admin: SqlClient, holder: SqlClient, action: str, word: str
) -> None:
    schedule = definition(admin, "s", "Allow")
    runs = [admin.value("select id from run_now(%s)", schedule) for _ in range(3)]
    admin.sql("update job_runs set status = 'dead', dead_at = now()")
    holder.sql("select from job_runs where id = %s for update", runs[1])
    call = "select result from run_annotation_action(%s, %s, 'once')"
    with pytest.raises(psycopg.errors.LockNotAvailable, match="a dead run; try again"):
        admin.sql(call, schedule, action)
    assert admin.column("select status from job_runs") == ["dead"] * 3
    holder.sql("commit")
    assert admin.value(call, schedule, action).startswith(f"{word} 3 dead runs")


@pytest.mark.parametrize(
    ("held", "asked"),
    [
        ("select pause('all')", "select pause('all')"),
        ("select set_limit('k', 1)", "select set_limit('k', 2)"),
        ("select from job_definitions for update", "select run_now(1)"),
    ],
)
def test_an_action_waits_for_another_one_with_a_bound(
    admin: SqlClient, holder: SqlClient, held: str, asked: str
) -> None:
    definition(admin, "s")
    holder.sql(held)
    with pytest.raises(psycopg.errors.LockNotAvailable):
        admin.sql(asked)


# -- schedules ---------------------------------------------------------------------------------------------------------


def test_a_replace_tick_whose_run_is_locked_blocks_no_other_tick(
    admin: SqlClient, other: SqlClient, holder: SqlClient
) -> None:
    locked, free = definition(admin, "locked"), definition(admin, "free")
    for schedule in (locked, free):
        admin.sql("select run_now(%s)", schedule)
    holder.sql("select from job_runs where definition_id = %s for update", locked)
    assert enqueue_due_ticks(other, locked, free) == [free]
    holder.sql("commit")
    assert enqueue_due_ticks(other, locked) == [locked]
    assert admin.column("select reason from job_run_history order by definition_id") == ["Replaced", "Replaced"]


def test_a_locked_definition_blocks_no_other_sync_or_removal(admin: SqlClient, holder: SqlClient) -> None:
    schedules = {name: definition(admin, name, "Allow") for name in ("locked", "free", "locked run")}
    admin.sql("update job_definitions set next_run_at = now() + interval '1 h'")
    run = admin.value("select id from run_now(%s)", schedules["locked run"])
    holder.sql("select from job_definitions where name = 'locked' for update")
    holder.sql("select from job_runs where id = %s for update", run)
    columns = 'to_jsonb(def) || \'{"spec_hash": "new"}\''
    rows = admin.value(f"select jsonb_agg({columns}) from job_definitions as def where name <> 'locked run'")
    assert admin.column("select name from sync_definitions('file:t', %s::jsonb)", json.dumps(rows)) == ["free"]
    removed = admin.column("select id from remove_definitions('file:t', %s)", list(schedules.values()))
    assert removed == [schedules["free"]]


# -- backfills ---------------------------------------------------------------------------------------------------------


def declare_backfill(admin: SqlClient, name: str) -> tuple[int, int]:
    """A backfill of two ticks; its id and that of its schedule."""
    schedule = definition(admin, name, "Allow")
    admin.sql("update job_definitions set next_run_at = now() + interval '1 h' where id = %s", schedule)
    ticks = [datetime(2026, 1, 1, 2, tzinfo=UTC), datetime(2026, 1, 2, 2, tzinfo=UTC)]
    query = "select id from create_backfill(%s, %s::timestamptz[], %s, %s, 2)"
    return admin.value(query, schedule, ticks, ticks[0], ticks[-1] + timedelta(seconds=1)), schedule


@pytest.fixture(params=["backfills", "backfill_ticks"])
def stopping(request: pytest.FixtureRequest, admin: SqlClient, worker: SqlClient, holder: SqlClient) -> list[Lease]:
    """The leases of two runs of a cancelled backfill, of which `holder` has locked a row; then of another run."""
    backfill, _ = declare_backfill(admin, "s")
    plain = admin.enqueue()
    worker.register()
    leases = [*worker.claim_limited(), *worker.claim()]
    assert admin.value("select requested from cancel_backfill(%s)", backfill) == 2
    holder.sql(f"select from {request.param} for update")
    assert leases[-1].id == plain
    return leases


@pytest.mark.parametrize("call", ["fail", "release"])
def test_a_locked_backfill_blocks_no_outcome_but_those_of_its_cancelled_runs(
    admin: SqlClient, worker: SqlClient, holder: SqlClient, stopping: list[Lease], call: str
) -> None:
    blocked = [lease.id for lease in stopping[:2]]
    assert sorted(getattr(worker, call)(*stopping)) == blocked
    assert worker.column("select still_leased(71, %s, %s)", *map(list, zip(*stopping, strict=True))) == blocked
    holder.sql("commit")
    assert getattr(worker, call)(*stopping[:2]) == []
    assert [admin.status(run) for run in blocked] == ["cancelled", "cancelled"]
    assert admin.column("select created from backfills") == [0]


def test_a_locked_backfill_blocks_no_expired_lease_but_those_of_its_cancelled_runs(
    admin: SqlClient, other: SqlClient, holder: SqlClient, stopping: list[Lease]
) -> None:
    runs = [lease.id for lease in stopping]
    admin.let_lapse(*runs)
    assert other.reap() == (1, 0, 0, 0)
    assert [admin.status(run) for run in runs] == ["running", "running", "queued"]
    holder.sql("commit")
    assert other.reap() == (0, 0, 0, 2)
    assert admin.column("select created from backfills") == [0]


def test_a_locked_backfill_blocks_no_other_run_of_a_worker_that_has_ended(
    admin: SqlClient, other: SqlClient, holder: SqlClient, stopping: list[Lease]
) -> None:
    report = "select array[released, cancelled, skipped] from report_worker_terminated(71, 'Evicted')"
    assert other.value(report) == [1, 0, 2]
    holder.sql("commit")
    assert other.value(report) == [0, 2, 0]


@pytest.mark.parametrize("table", ["backfills", "backfill_ticks"])
def test_a_locked_backfill_blocks_no_other_cancellation_and_no_other_removal(
    admin: SqlClient, other: SqlClient, holder: SqlClient, table: str
) -> None:
    _, schedule = declare_backfill(admin, "s")
    free = definition(admin, "free", "Allow")
    admin.sql("update job_definitions set next_run_at = now() + interval '1 h'")
    blocked = admin.column("select id from job_runs order by id")
    plain = admin.enqueue()
    holder.sql(f"select from {table} for update")
    assert other.cancel(plain, *blocked) == {plain: "cancelled"} | dict.fromkeys(blocked, LOCKED)
    assert admin.column("select id from remove_definitions('file:t', %s)", [schedule, free]) == [free]
    holder.sql("commit")
    assert other.cancel(blocked[0]) == {blocked[0]: "cancelled"}
    assert admin.column("select id from remove_definitions('file:t', %s)", [schedule]) == [schedule]


def test_a_backfill_whose_limit_is_locked_delays_no_other_backfill(
    admin: SqlClient, other: SqlClient, holder: SqlClient
) -> None:
    """The first one ends, because its schedule is removed."""
    ended, schedule = declare_backfill(admin, "ended")
    holder.sql("select from job_limits where key = 'backfill:' || %s for update", ended)
    going, _ = declare_backfill(admin, "going")
    admin.sql("update job_definitions set removed_at = now() where id = %s", schedule)
    admin.sql("delete from job_runs where definition_id <> %s", schedule)
    unfinished = "select id from backfills where finished_at is null order by id"
    other.sql("select continue_backfills()")
    assert admin.column(unfinished) == [ended]
    assert admin.value("select finished_at is not null and cancelled_at is null from backfills where id = %s", going)
    holder.sql("commit")
    other.sql("select continue_backfills()")
    assert admin.column(unfinished) == []


# -- limits ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("call", ["consume", "pause_limit"])
def test_a_run_does_not_wait_for_its_locked_limit_key(
    admin: SqlClient, worker: SqlClient, holder: SqlClient, call: str
) -> None:
    """All handlers of a worker share one connection."""
    admin.sql("select set_rate_limit('k', 10, 1, 10)")
    admin.enqueue(limit_key="k")
    (lease,) = worker.claim_limited()
    holder.sql("select from job_limits for no key update")
    with pytest.raises(psycopg.errors.LockNotAvailable, match="could not obtain lock on row"):  # not: lock timeout
        worker.sql(f"select {call}(71, %s, %s, 1)", *lease)
    holder.sql("commit")
    worker.sql(f"select {call}(71, %s, %s, 1)", *lease)


# -- maintenance -------------------------------------------------------------------------------------------------------


def test_an_open_full_reap_blocks_no_maintenance_task(
    admin: SqlClient, worker: SqlClient, other: SqlClient, holder: SqlClient
) -> None:
    admin.enqueue()
    worker.register()
    (lease,) = worker.claim()
    holder.sql("select * from reap(0, 5000, true)")
    other.sql("select * from reap(0)")
    other.sql("select delete_expired(always => true)")
    assert worker.complete(lease) == []


def test_expired_leases_are_reaped_while_the_reap_times_are_locked(
    admin: SqlClient, worker: SqlClient, other: SqlClient, holder: SqlClient
) -> None:
    run = admin.enqueue()
    worker.claim()
    admin.let_lapse(run)
    holder.sql("update installation set reap_started_at = reap_started_at")
    for _ in range(1000):  # one in ten does
        other.sql("select * from reap(0)")
        after = other.value("select next_id from reap(0, always => true)")
        if admin.status(run) == "queued":
            break
        assert after is not None
    assert admin.status(run) == "queued"


def test_an_uncommitted_limit_blocks_no_other_limit(admin: SqlClient, worker: SqlClient, holder: SqlClient) -> None:
    admin.enqueue(limit_key="held")
    free = admin.enqueue(limit_key="free")
    holder.sql("select set_limit('held', 5)")
    assert [lease.id for lease in worker.claim_limited()] == [free]


def test_many_uncommitted_limits_delay_a_claim_by_a_bounded_time(
    admin: SqlClient, worker: SqlClient, holder: SqlClient
) -> None:
    keys = [f"held-{number}" for number in range(100)]
    for key in keys:
        admin.enqueue(limit_key=key)
        holder.sql("select set_limit(%s, 5)", key)
    worker.sql("set statement_timeout = '4s'")  # it waits for 0.2 s; for each key once, it would be 5 s
    assert worker.claim_limited(*keys) == []


def test_uncommitted_alert_rules_block_no_process(admin: SqlClient, holder: SqlClient) -> None:
    rules = [{"name": "dead", "severity": "warning", "interval_s": 0, "definition": {"dead": 1}}]
    claim = "select name from claim_alert_rules(%s::text::jsonb)"
    beat = "select enqueue_heartbeats(%s::text::jsonb)"
    beats = json.dumps([{"name": "watch", "every_s": 60}])
    holder.sql(claim, json.dumps(rules))
    holder.sql(beat, beats)
    assert admin.sql(claim, json.dumps(rules)) == []
    assert admin.value(beat, beats) == 0
    holder.sql("commit")
    assert admin.column(claim, json.dumps(rules)) == ["dead"]


FUNCTIONS = Path(maintenance_api.__file__).parent / "functions"


@pytest.mark.parametrize("caller", [alert_deliveries, connection, leader_api, maintenance_api, worker_api])
def test_every_function_of_a_process_waits_for_a_lock_with_a_bound(caller: ModuleType) -> None:
    """So a transaction left open stops one task, and neither the process nor its maintenance. A read waits, too."""
    texts = {path.stem: path.read_text() for path in FUNCTIONS.glob("*.sql")}
    names = set(re.findall(r"wakeboard\.(\w+)\b", Path(caller.__file__ or "").read_text())) & texts.keys()
    assert names
    assert [name for name in sorted(names) if "set lock_timeout = '" not in texts[name]] == []


@pytest.mark.parametrize(
    ("table", "call"),
    [
        ("workers", "renew(71, 60, '{}', '{}', '{}', '{}')"),
        ("job_runs", "claim(71, 60, '{default}', '{3}', '{-infinity}', '{0}', '{ping}', 1)"),
        ("job_runs", "advance_scan('{default}', '{3}', '{-infinity}', '{0}', '{ping}')"),
        ("job_runs", "due_limit_keys('{default}')"),
        ("job_runs", "quarantined_since('{default}', '{ping}')"),
        ("job_runs", "next_due('{default}', '{ping}', 60)"),
        ("job_runs", "still_leased(71, '{1}', '{1}')"),
        ("job_runs", "backlog('{default}')"),
        ("job_runs", "measure_alert('dead')"),
        ("job_definitions", "due_definitions()"),
        ("job_attempts", "trace_contexts('{1}')"),
        ("leadership", "acquire_leadership('k8s:one', 'me', '1', 15)"),
        ("leadership", "require_leadership('k8s:one', 1)"),
    ],
)
def test_a_locked_table_delays_a_process_by_a_bounded_time(
    worker: SqlClient, holder: SqlClient, table: str, call: str
) -> None:
    holder.sql(f"lock table {table}")
    with pytest.raises(psycopg.errors.LockNotAvailable):
        worker.sql(f"select * from {call}")


def test_a_worker_starts_while_others_lock_its_rows(worker: SqlClient, holder: SqlClient) -> None:
    holder.sql(REGISTER, 99)
    assert worker.value(REGISTER, 71)


@pytest.mark.parametrize("lock", ["wakeboard partitions", "wakeboard register"])
def test_an_advisory_lock_of_any_role_blocks_no_worker(worker: SqlClient, holder: SqlClient, lock: str) -> None:
    """Any role may take it."""
    holder.sql(
        "select pg_advisory_lock(hashtext(%s)) as one, pg_advisory_lock(hashtext(%s), hashtext('p')) as two", lock, lock
    )
    assert worker.value(REGISTER, 71)
    worker.sql("select create_partitions()")
    worker.sql("select drop_partitions()")
    holder.sql("select pg_advisory_unlock_all()")


# -- isolation ---------------------------------------------------------------------------------------------------------

NO_TICKS = "'{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}'"


@pytest.mark.parametrize(
    "call",
    [
        *(
            f"enqueue_due_ticks({NO_TICKS})",
            "run_now(1)",
            "run_annotation_action(1, 'run-now', 't')",
            "cancel('{1}')",
            "retry('{1}')",
        ),
        *("discard('{1}')", "sync_definitions('file:t', '[]')", "remove_definitions('file:t', '{}')"),
        *("claim_limited(7, 60, '{default}', '{ping}', '{k}', 1)", "claim_quarantined(7, 60, '{default}', '{ping}')"),
    ],
)
@pytest.mark.parametrize("isolation", ["repeatable read", "serializable"])
def test_functions_that_need_read_committed_refuse_one_snapshot(admin: SqlClient, isolation: str, call: str) -> None:
    admin.sql(f"begin isolation level {isolation}")
    with pytest.raises(psycopg.Error, match="must run in READ COMMITTED") as raised:
        admin.sql(f"select {call}")
    admin.sql("rollback")
    assert raised.value.sqlstate == "WB003"


# -- a partition that another transaction drops ------------------------------------------------------------------------


def test_an_uncommitted_partition_drop_delays_a_read_by_two_seconds(
    admin: SqlClient, other: SqlClient, holder: SqlClient
) -> None:
    run = admin.enqueue()
    uuid = admin.value("select uuid from job_runs where id = %s", run)
    part = admin.value("select max(relname) from pg_class where relname ~ '^job_run_history_[0-9]{4}w[0-9]{2}$'")
    holder.sql(f"alter table job_run_history detach partition {part}")
    for call in (
        f"get_run({run}, '{uuid}')",
        f"cancel_run({run}, '{uuid}')",
        f"cancel('{{{run}}}')",
        f"retry('{{{run}}}')",
        f"replay('{{{run}}}')",
        "create_partitions(9)",
        "drop_partitions()",
    ):
        with pytest.raises(psycopg.errors.LockNotAvailable) as refused:
            other.sql(f"select * from {call}")
        assert refused.value.diag.message_primary == "another transaction keeps a lock that this needs; try again", call


# -- a table that another transaction alters ---------------------------------------------------------------------------


@pytest.mark.anyio
async def test_a_read_of_a_table_that_is_being_altered_ends_with_a_sentence(
    database: str, holder: SqlClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(statements, "_BOUND_LOCK_WAITS", b"set local lock_timeout = '50ms'")
    holder.sql("lock table job_runs")
    async with await connect(database) as conn:
        with pytest.raises(Locked, match="another transaction keeps a lock"):
            await read(conn, scalar_row, "select count(*) from wakeboard.job_runs")
        holder.sql("rollback")
        assert await read(conn, scalar_row, "select count(*) from wakeboard.job_runs") == [0]
