"""A backfill runs each of its ticks once, in spite of any crash and of other declarations, and can be paused."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from tests.store.sql_clients import SqlClient
from wakeboard.store.connection import connect
from wakeboard.views.queries.run_details import read_run_details
from wakeboard.views.queries.run_situation import read_run_situation
from wakeboard.views.rules.run_explanation import explain_run

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import ThreadPoolExecutor


pytestmark = pytest.mark.anyio

DAY = timedelta(days=1)
FIRST = datetime(2026, 1, 1, 2, tzinfo=UTC)
DAILY = {"schedule": "0 2 * * *", "cron_fields": "-"}


def days(count: int) -> list[datetime]:
    return [FIRST + number * DAY for number in range(count)]


def minutes(count: int) -> list[datetime]:
    return [FIRST + number * timedelta(minutes=1) for number in range(count)]


def declare(client: SqlClient, schedule: int, ticks: list[datetime], **named: Any) -> Any:
    """Declares a backfill of these ticks; its id, total and found."""
    arguments = "".join(f", {name} => %s" for name in named)
    query = f"select * from create_backfill(%s, %s::timestamptz[], %s, %s{arguments})"
    return client.sql(query, schedule, ticks, ticks[0], ticks[-1] + timedelta(seconds=1), *named.values())[0]


def ticks_of_runs(client: SqlClient) -> list[datetime]:
    return client.column("select scheduled_for from all_runs where status <> 'skipped' order by scheduled_for, id")


def work(client: SqlClient, count: int = 1000) -> int:
    """Runs what is due behind limit keys; how many runs."""
    leases = client.claim_limited(count=count)
    for lease in leases:
        assert client.complete(lease) == []
    return len(leases)


def state(client: SqlClient, number: int) -> Any:
    return client.sql("select *, paused_at is not null as paused from backfills where id = %s", number)[0]


# -- once --------------------------------------------------------------------------------------------------------------


def test_the_ticks_become_runs_of_the_lowest_priority_oldest_first(admin: SqlClient, worker: SqlClient) -> None:
    schedule = admin.define(**DAILY, priority=4, payload='{"a": 1}', starting_deadline_s=60)
    made = declare(admin, schedule, days(31), at_once=2, reason="the bank was closed")
    assert (made.total, made.found) == (31, {"new": 31})
    rows = admin.sql("select * from job_runs order by id")
    assert [row.scheduled_for for row in rows] == days(31)
    assert {(row.trigger, row.priority, row.limit_key, row.start_before, row.payload["a"]) for row in rows} == {
        ("backfill", 1, f"backfill:{made.id}", None, 1)
    }
    first = worker.claim_limited()
    assert [lease.id for lease in first] == [rows[0].id, rows[1].id]
    assert worker.claim_limited() == []
    assert worker.complete(first[0]) == []
    assert [lease.id for lease in worker.claim_limited()] == [rows[2].id]


def test_two_declarers_at_once_run_each_tick_once(
    admin: SqlClient, open_client: Callable[[], SqlClient], meanwhile: ThreadPoolExecutor
) -> None:
    schedule = admin.define(**DAILY)
    declarers = [open_client() for _ in range(6)]
    ranges = [days(80)[start:] for start in range(0, 60, 10)]
    made = meanwhile.map(declare, declarers, [schedule] * 6, ranges)
    assert sum(each.total for each in made) == 80
    assert ticks_of_runs(admin) == days(80)


def test_a_tick_without_history_is_known_from_its_backfill(admin: SqlClient, worker: SqlClient) -> None:
    schedule = admin.define(**DAILY)
    declare(admin, schedule, days(3), at_once=3)
    admin.cancel(max(admin.column("select id from job_runs")))
    assert work(worker) == 2
    admin.sql("truncate job_run_history")
    assert admin.column("select found from plan_backfill(%s, %s::timestamptz[])", schedule, days(3)) == [
        "ran",
        "ran",
        "new",
    ]
    assert declare(admin, schedule, days(3)).found == {"ran": 2, "new": 1}


# -- batches and crashes -----------------------------------------------------------------------------------------------


def test_a_killed_maintenance_task_loses_and_doubles_no_tick(
    admin: SqlClient, worker: SqlClient, open_client: Callable[[], SqlClient], meanwhile: ThreadPoolExecutor
) -> None:
    schedule = admin.define(**DAILY)
    declare(admin, schedule, minutes(1800), at_once=1000)
    assert work(worker) == 1000
    killed = open_client()
    killed.sql("begin")
    assert killed.value("select continue_backfills()") == 800
    assert admin.value("select continue_backfills()") == 0  # the other has locked the backfill
    admin.sql("select pg_terminate_backend(%s)", killed.pid)
    with pytest.raises(psycopg.OperationalError):
        killed.sql("commit")
    made = meanwhile.map(SqlClient.value, [open_client() for _ in range(4)], ["select continue_backfills()"] * 4)
    assert sum(made) == 800
    assert ticks_of_runs(admin) == minutes(1800)


# -- the audit log -----------------------------------------------------------------------------------------------------


def test_each_action_writes_who_did_it_and_why(admin: SqlClient) -> None:
    schedule = admin.define(**DAILY)
    made = declare(admin, schedule, days(3), reason="closed", actor="ada", source="cli")
    for action in ("pause", "resume"):
        admin.sql(f"select {action}(%s, 'why', 'bob', 'board')", f"backfill:{made.id}")
    admin.sql("select cancel_backfill(%s, 'why', 'bob', 'board')", made.id)
    rows = admin.sql("select * from audit_log where run_id is null order by id")
    assert [(row.action, row.actor, row.source, row.reason) for row in rows] == [
        ("create_backfill", "ada", "cli", "closed"),
        ("pause", "bob", "board", "why"),
        ("resume", "bob", "board", "why"),
        ("cancel_backfill", "bob", "board", "why"),
    ]
    assert {(row.definition_id, row.schedule, row.scope) for row in rows} == {
        (schedule, "billing/report", f"backfill:{made.id}")
    }
    assert rows[0].detail["total"] == 3


def test_a_thousand_paused_backfills_do_not_hold_up_the_next(admin: SqlClient) -> None:
    schedule = admin.define(**DAILY)
    for each in range(2):
        declare(admin, schedule, [FIRST - (each + 1) * DAY])
    admin.sql("select pause('backfill:' || id) from backfills")
    columns = (
        "definition_id, schedule, range_begin, range_end, again, at_once, total, created, actor, source, paused_at"
    )
    admin.sql(f"insert into backfills ({columns}) select {columns} from backfills, generate_series(1, 500)")
    made = declare(admin, schedule, minutes(1500))
    admin.sql("select cancel(array(select run_id from backfill_ticks where backfill_id = %s))", made.id)
    admin.sql("select continue_backfills()")
    assert state(admin, made.id).created == 1500


# -- bad input ---------------------------------------------------------------------------------------------------------

REFUSED = {
    "array[null::timestamptz], '2026-01-01Z', '2026-02-01Z'": "ticks is .*; write an array",
    "'{}', '2026-02-01Z', '2026-01-01Z'": "write range_begin before range_end",
    "'{}', '1969-01-01Z', '2026-01-01Z'": "from 1970 to now",
    "'{}', '2026-01-01Z', '2999-01-01Z'": "from 1970 to now",
    "'{}', null, '2026-01-01Z'": "from 1970 to now",
    "'{2026-03-01Z}', '2026-01-01Z', '2026-02-01Z'": "a tick is outside the range",
    "'{}', '2026-01-01Z', '2026-02-01Z', 0": "at_once is 0; write a whole number from 1",
    "'{}', '2026-01-01Z', '2026-02-01Z', again => null": "a switch is null; write true or false",
    "'{infinity}', '2026-01-01Z', '2026-02-01Z'": "write an array of at most 1000000 times from 1970 to 2999",
}


@pytest.mark.parametrize("arguments", REFUSED)
def test_a_declaration_that_makes_no_sense_is_refused(admin: SqlClient, arguments: str) -> None:
    schedule = admin.define(**DAILY)
    with pytest.raises(psycopg.DatabaseError, match=REFUSED[arguments]) as raised:
        admin.sql(f"select create_backfill({schedule}, {arguments})")
    assert raised.value.sqlstate == "22023"


def test_a_schedule_without_ticks_or_that_is_removed_or_missing_is_refused(admin: SqlClient) -> None:
    on_demand, removed = admin.define("one"), admin.define("two", **DAILY, removed_at=FIRST)
    for schedule, problem in ((on_demand, "no ticks of its own"), (removed, "was removed"), (999, "no such schedule")):
        with pytest.raises(psycopg.DatabaseError, match=problem):
            declare(admin, schedule, days(2))


# -- retention ---------------------------------------------------------------------------------------------------------


def test_finished_backfills_are_deleted_after_400_days(admin: SqlClient, worker: SqlClient) -> None:
    schedule = admin.define(**DAILY)
    made = declare(admin, schedule, days(2), at_once=2)
    assert work(worker) == 2
    admin.sql("select continue_backfills()")
    assert state(admin, made.id).finished_at is not None
    admin.sql("select delete_expired(always => true)")
    assert admin.value("select count(*) from backfills") == 1
    admin.sql("update backfills set finished_at = now() - interval '401 days'")
    while admin.value("select delete_expired(always => true)"):
        pass
    assert admin.value("select (select count(*) from backfills) + (select count(*) from backfill_ticks)") == 0


# -- what the skipped row says -----------------------------------------------------------------------------------------


async def test_the_row_of_skipped_ticks_names_the_backfill_that_runs_them(database: str, admin: SqlClient) -> None:
    schedule = admin.define(**DAILY, next_run_at=FIRST, last_tick_at=FIRST - DAY)
    admin.sql(
        "select enqueue_due_ticks(array[%s::bigint], '{1}', array[%s::timestamptz], '{null}', array[%s::timestamptz],"
        " '{null}', '{}', '{}', array[%s::bigint], array[%s::timestamptz], array[%s::timestamptz], '{5}', '{Paused}')",
        *(schedule, FIRST, days(5)[4], schedule, FIRST, days(5)[4]),
    )
    skipped = admin.value("select id from job_run_history")
    declare(admin, schedule, days(3))
    async with await connect(database) as conn:
        details = await read_run_details(conn, skipped)
        situation = await read_run_situation(conn, skipped)
    assert details is not None
    assert situation is not None
    assert [each.sentence for each in details.backfilled] == ["3 ticks of it in backfill 1"]
    assert explain_run(situation)[-1].before == "3 ticks of it in backfill 1: `wakeboard backfill 1`."


async def test_a_run_of_a_paused_backfill_is_explained(database: str, admin: SqlClient) -> None:
    made = declare(admin, admin.define(**DAILY), days(1))
    admin.sql("select pause(%s)", f"backfill:{made.id}")
    async with await connect(database) as conn:
        situation = await read_run_situation(conn, admin.value("select id from job_runs"))
    assert situation is not None
    assert "backfill_paused" in [fact.name for fact in explain_run(situation)]


# -- what it costs


def test_the_cost_of_many_backfills_grows_with_their_runs_only(admin: SqlClient) -> None:
    """Not with the number of backfills times the runs of all, for which maintenance once stopped."""
    schedule = admin.define(**DAILY)
    ticks = minutes(6000)
    for part in range(4):
        declare(admin, schedule, ticks[part * 1500 : (part + 1) * 1500])
    live = admin.value("select count(*) from job_runs")
    assert live == 4000
    admin.cancel(*admin.column("select id from job_runs where limit_key = 'backfill:1' limit 251"))
    reads = "select idx_tup_fetch + seq_tup_read from pg_stat_xact_user_tables where relid = 'backfill_ticks'::regclass"
    with admin.conn.transaction():  # until its end, the counters are those of this session, and only grow
        before = admin.value(reads)
        assert admin.value("select continue_backfills()") == 251
        assert (
            admin.value(reads) - before < 3 * live
        )  # once for all, once for the one that gets runs, and the new ticks
        assert admin.value("select continue_backfills()") == 0
        assert admin.value("select next_due('{default}', '{ping}', 60)") is None
        assert admin.value(reads) - before < 4.5 * live
