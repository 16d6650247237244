"""A statement on a schedule that another transaction removes or replaces waits, and then acts on what that one left."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Final

import pytest
from psycopg.errors import LockNotAvailable

import wakeboard
from tests.schedules.schedules import MISFIRE_GRACE, connected, rows, until
from wakeboard.schedules.scheduler import schedule_due_ticks

if TYPE_CHECKING:
    from wakeboard.engine.maintenance_api import MaintenanceStore

pytestmark = [pytest.mark.anyio, pytest.mark.every_postgres]

INSERT: Final = "insert into job_definitions (name, job_type, payload, schedule) values ('a', 'ping', '{}', '%s')"
DELETE: Final = "delete from job_definitions where name = 'a'"
FIRST: Final[dict[str, tuple[list[str], list[str]]]] = {  # what was done before, and what the first transaction does
    "replaces": ([], [DELETE, INSERT % "0 9 * * *"]),
    "brings_back": ([DELETE], [INSERT % "0 9 * * *"]),
    "removes": ([], [DELETE]),
}
SECOND: Final = {
    "schedule": "select * from schedule('a', 'ping', '{}', '0 10 * * *')",
    "schedule_many": """select * from schedule_many('[{"name": "a", "job_type": "ping", "cron": "0 10 * * *"}]')""",
    "unschedule": "select unschedule('a')",
    "unschedule_all": "select unschedule_all('default/a*')",
    "pause": "select pause_schedules('a')",
    "insert": INSERT % "0 10 * * *" + " on conflict do nothing",
    "upsert": INSERT % "0 10 * * *"
    + " on conflict (source, namespace, name) do update set schedule = excluded.schedule",
}
NO_WAIT: Final = {("brings_back", "unschedule_all"), *((first, "pause") for first in FIRST)}  # as if they came first
STATE: Final = """
select name, schedule, payload, removed_at is null, (select array_agg(scope) from pauses) from job_definitions"""


async def left_by(store: MaintenanceStore, *statements: str) -> object:
    """The schedule after these statements, in a database without it before."""
    for statement in ("delete from pauses", *statements):
        await rows(store, statement)
    return await rows(store, STATE)


@pytest.mark.parametrize("second", SECOND)
@pytest.mark.parametrize("first", FIRST)
async def test_a_statement_that_waited_acts_on_what_is_there(
    store: MaintenanceStore, database: str, first: str, second: str
):
    before, by_first = FIRST[first]
    in_turn = [SECOND[second], *by_first] if (first, second) in NO_WAIT else [*by_first, SECOND[second]]
    expected = await left_by(store, INSERT % "0 8 * * *", *before, *in_turn)
    await rows(store, "select unschedule('a')")
    await left_by(store, INSERT % "0 8 * * *", *before)
    async with connected(database) as other:
        async with other.conn.transaction():
            for statement in by_first:
                await rows(other, statement)
            waiting = asyncio.ensure_future(rows(store, SECOND[second]))
            if (first, second) in NO_WAIT:
                await waiting
            else:
                await until(other, "select 1 from pg_stat_activity where wait_event_type = 'Lock'")
        await waiting
    assert await rows(store, STATE) == expected


@pytest.mark.parametrize("second", ["schedule", "schedule_many"])
@pytest.mark.parametrize(
    ("before", "first", "answer"),
    [([], DELETE, "created"), ([DELETE], INSERT % "0 9 * * *", "updated"), ([], SECOND["schedule"], "unchanged")],
)
async def test_the_answer_says_what_the_call_did_after_its_wait(
    store: MaintenanceStore, database: str, before: list[str], first: str, second: str, answer: str
):
    await left_by(store, INSERT % "0 8 * * *", *before)
    async with connected(database) as other:
        async with other.conn.transaction():
            await rows(other, first)
            waiting = asyncio.ensure_future(rows(store, SECOND[second]))
            await until(other, "select 1 from pg_stat_activity where wait_event_type = 'Lock'")
        assert [said for _, said in await waiting] == [answer]


WAITING: Final = "select 1 where (select count(*) from pg_stat_activity where wait_event_type = 'Lock') = {}"


async def test_calls_for_many_schedules_do_not_end_each_other(store: MaintenanceStore, database: str):
    many = [wakeboard.Schedule(name, "ping", {"version": 2}) for name in ("team/a", "team/b")]
    await wakeboard.schedule_many(store.conn, [wakeboard.Schedule(each.name, "ping") for each in many])
    await wakeboard.unschedule(store.conn, "team/a")
    async with connected(database) as first, connected(database) as second, connected(database) as holder:
        async with holder.conn.transaction():
            await rows(holder, "select 1 from job_definitions where name = 'b' for update")
            removing = asyncio.ensure_future(wakeboard.unschedule_all(first.conn, "team/*"))
            await until(store, WAITING.format(1))
            await wakeboard.schedule(store.conn, "team/a", "ping")  # the removal does not know it
            editing = asyncio.ensure_future(wakeboard.schedule_many(second.conn, many))
            await until(store, WAITING.format(2))
        assert await removing == 1
        assert [each.answer for each in await editing] == ["updated", "created"]


async def test_a_bound_is_locked_before_the_schedules(store: MaintenanceStore, database: str):
    await rows(store, "select set_max_schedules(9)")
    await wakeboard.schedule(store.conn, "team/a", "ping")
    await wakeboard.unschedule(store.conn, "team/a")
    async with connected(database) as other:
        async with store.conn.transaction():
            await wakeboard.schedule(store.conn, "team/b", "ping")
            waiting = asyncio.ensure_future(wakeboard.schedule(other.conn, "team/a", "ping", {"version": 2}))
            await until(store, WAITING.format(1))
            await wakeboard.schedule(store.conn, "team/a", "ping")
        assert (await waiting).answer == "updated"


async def test_a_removal_removes_also_a_run_that_fails_meanwhile(store: MaintenanceStore, database: str):
    await rows(store, INSERT % "0 8 * * *")
    await rows(store, "insert into job_runs (job_type) values ('ping'), ('ping')")
    waits = (
        "update job_runs set definition_id = (select id from job_definitions) where id = (select {}(id) from job_runs)"
    )
    await rows(store, waits.format("min"))
    async with connected(database) as other:
        async with other.conn.transaction():
            await rows(other, "select id from job_runs for update")
            await rows(other, waits.format("max"))
            removing = asyncio.ensure_future(rows(store, "select unschedule_all('default/*')"))
            await until(other, "select 1 from pg_locks where not granted")
        assert await removing == [(1,)]
    assert await rows(store, "select count(*) from job_runs") == [(0,)]


@pytest.mark.parametrize("by", ["schedule", "update"])
@pytest.mark.parametrize("change", ["replaces the run", "changes the keys of the run", "does both"])
async def test_an_edit_waits_for_a_run_that_it_changes(store: MaintenanceStore, database: str, change: str, by: str):
    await rows(store, "select schedule('a', 'ping', cron => '0 0 1 1 *', concurrency_policy => 'Replace')")
    await schedule_due_ticks(store, misfire_grace=MISFIRE_GRACE)
    await rows(store, "insert into job_runs (job_type) values ('ping')")
    await rows(store, "update job_runs set definition_id = (select id from job_definitions)")
    if change != "changes the keys of the run":
        await rows(store, "update job_definitions set next_run_at = date_trunc('minute', now())")
    key = "null" if change == "replaces the run" else "'mail'"
    edit = {
        "schedule": "select schedule('a', 'ping', '{\"n\": 1}', '0 0 1 1 *', concurrency_policy => 'Replace',"
        f" limit_key => {key})",
        "update": f"update job_definitions set payload = '{{\"n\": 1}}', limit_key = {key}",
    }[by]
    async with connected(database) as other:
        async with other.conn.transaction():
            await rows(other, "select from job_runs for no key update")  # as a heartbeat
            await rows(store, "set lock_timeout = '100 ms'")
            began = time.monotonic()
            with pytest.raises(LockNotAvailable):
                await rows(store, edit)
            assert (time.monotonic() - began >= 2) is (by == "schedule")  # a plain statement obeys the session
            await rows(store, "reset lock_timeout")
            editing = asyncio.ensure_future(rows(store, edit))
            await until(other, "select 1 from pg_stat_activity where wait_event_type = 'Lock'")
        await editing
    ends = ["cancelled", "queued"] if change != "changes the keys of the run" else ["queued"]
    assert await rows(store, "select status::text from all_runs order by id") == [(end,) for end in ends]
    assert await rows(store, "select shared_limit_key from job_runs") == [
        (None if change == "replaces the run" else "mail",)
    ]


async def test_calls_that_name_schedules_in_other_orders_wait_for_each_other(store: MaintenanceStore, database: str):
    names = [f"team/{n}" for n in range(30)]

    async def call(caller: MaintenanceStore, names: list[str]) -> None:
        for n in range(20):
            made = await wakeboard.schedule_many(
                caller.conn, [wakeboard.Schedule(name, "ping", {"n": n}, cron="@daily") for name in names]
            )
            known = await rows(
                caller,
                "select array_agg(id order by place) from unnest(%s::text[]) with ordinality as"
                " wanted (name, place) join job_definitions as def on namespace || '/' || def.name = wanted.name",
                names,
            )
            assert [each.id for each in made] == known[0][0]

    async with connected(database) as other:
        await asyncio.gather(call(store, names), call(other, names[::-1]))


@pytest.mark.parametrize("commits", [True, False])
@pytest.mark.parametrize("many", [True, False])
async def test_a_repeat_waits_for_a_transaction_that_removes_the_schedule(
    store: MaintenanceStore, database: str, commits: bool, many: bool
):
    schedule = wakeboard.Schedule("team/a", "ping", cron="@daily")
    await wakeboard.schedule_many(store.conn, [schedule])
    (pid,) = (await rows(store, "select pg_backend_pid()"))[0]
    async with connected(database) as other:
        async with other.conn.transaction(force_rollback=not commits):
            await wakeboard.unschedule(other.conn, "team/a")
            repeat = asyncio.ensure_future(wakeboard.schedule_many(store.conn, [schedule] * (2 if many else 1)))
            await until(other, "select 1 from pg_stat_activity where pid = %s and wait_event_type = 'Lock'", pid)
        assert (await repeat)[0].answer == ("created" if commits else "unchanged")
    assert await rows(store, "select removed_at from job_definitions") == [(None,)]


async def test_a_pause_passes_over_a_schedule_that_is_removed_meanwhile(store: MaintenanceStore, database: str):
    await wakeboard.schedule_many(store.conn, [wakeboard.Schedule(f"team/{name}", "ping") for name in "ab"])
    (pid,) = (await rows(store, "select pg_backend_pid()"))[0]
    async with connected(database) as other, other.conn.transaction():
        await wakeboard.pause_schedules(other.conn, "team/a")
        pause = asyncio.ensure_future(wakeboard.pause_schedules(store.conn, "team/*"))
        await until(other, "select 1 from pg_stat_activity where pid = %s and wait_event_type = 'Lock'", pid)
        await wakeboard.unschedule(other.conn, "team/b")
    assert await pause == 0


async def test_repeats_do_not_wait_for_each_other_after_a_rollback(store: MaintenanceStore, database: str):
    repeat = "select answer from schedule('a', 'ping', '{}', '0 8 * * *')"
    await rows(store, repeat)
    async with store.conn.transaction(force_rollback=True):
        await rows(store, DELETE)
    async with connected(database) as other, other.conn.transaction():
        for caller in (other, store):
            assert await rows(caller, repeat) == [("unchanged",)]


@pytest.mark.parametrize("ended", ["", "a", "b", "ab"])  # those that have removed themselves, and whose runs wait
async def test_calls_in_name_order_do_not_end_a_removal_of_all(store: MaintenanceStore, database: str, ended: str):
    for name in "ba":  # the first has the lower id
        at = ", at => now() - interval '2 s'" if name in ended else ""
        await rows(store, f"select schedule('{name}', 'ping'{at})")
    assert (await schedule_due_ticks(store, misfire_grace=MISFIRE_GRACE)).runs == len(ended)
    async with connected(database) as other, other.conn.transaction():
        await rows(other, "select schedule('a', 'ping', '{\"n\": 1}')")
        removal = asyncio.ensure_future(rows(store, "select unschedule_all('default/*')"))
        await until(other, "select 1 from pg_locks where not granted")
        await rows(other, "select schedule('b', 'ping', '{\"n\": 1}')")
    assert await removal == [(2,)]


async def test_an_open_transaction_that_repeats_holds_no_tick_back(store: MaintenanceStore, database: str):
    repeat = "select answer from schedule('a', 'ping', '{}', '0 8 * * *')"
    await rows(store, repeat)
    async with store.conn.transaction(force_rollback=True):
        await rows(store, DELETE)  # the row keeps the mark of its lock
    async with connected(database) as other, other.conn.transaction():
        assert await rows(other, repeat) == [("unchanged",)]
        assert await rows(store, "select name from job_definitions for update nowait") == [("a",)]
