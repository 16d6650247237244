"""Plain INSERT, UPDATE and DELETE of schedules: they do what the functions do, and refuse with the same sentences."""

from __future__ import annotations

import asyncio
import re
from dataclasses import fields
from typing import TYPE_CHECKING, Final

import psycopg
import pytest

import wakeboard
from tests.schedules.schedules import MISFIRE_GRACE, connected, declared, put, rows, until
from wakeboard.schedules.scheduler import schedule_due_ticks

if TYPE_CHECKING:
    from wakeboard.engine.maintenance_api import MaintenanceStore

pytestmark = [pytest.mark.anyio, pytest.mark.every_postgres]

GOOD: Final = {"namespace": "'team'", "name": "'a'", "job_type": "'ping'", "schedule": "'0 8 * * *'"}
INSERT: Final = "insert into job_definitions ({}) values ({})"
COLUMNS: Final = ("timeout_s", "backoff_base_s", "backoff_cap_s")
ARGUMENTS: Final = {"schedule": "cron", "backoff_strategy": "backoff"}  # of columns with other names


def insert(**values: str) -> str:
    """An INSERT of `team/a` with these expressions."""
    given = {**GOOD, **values}
    return INSERT.format(", ".join(given), ", ".join(given.values()))


def call(**values: str) -> str:
    """The call of `schedule` with the same values."""
    given = {ARGUMENTS.get(column, column): value for column, value in {**GOOD, **values}.items()}
    name = f"{given.pop('namespace')} || '/' || {given.pop('name')}"
    return f"select schedule({', '.join(f'{key} => {value}' for key, value in {**given, 'name': name}.items())})"


async def refusal(store: MaintenanceStore, statement: str) -> tuple[str, str]:
    """The SQLSTATE of a statement and its sentence."""
    with pytest.raises(psycopg.Error) as refused:
        await rows(store, statement)
    return refused.value.sqlstate or "", refused.value.diag.message_primary or ""


@pytest.mark.parametrize(
    ("column", "wrong"),
    [
        ("namespace", "'Team'"),
        ("name", r"E'a\n'"),
        ("name", "''"),
        ("namespace", "''"),
        ("job_type", "null"),
        ("job_type", r"E'ping\n'"),
        ("job_type", "'wakeboard.alert'"),
        ("payload", "'1'"),
        ("schedule", "'61 * * * *'"),
        ("schedule", "'at 2199-01-01T00:00:00Z'"),
        ("schedule", "'every 400d'"),
        ("time_zone", "'Factory'"),
        ("time_zone", r"E'Etc/UTC\n'"),
        ("queue", "'a b'"),
        ("limit_key", "'a:b'"),
        ("priority", "9"),
        ("max_attempts", "0"),
        ("schedule", "'90m'"),
        ("catch_up_limit", "0"),
        ("catch_up_limit", "7"),
        ("jitter_s", "-1"),
        ("starting_deadline_s", "0"),
        ("dst_gap", "'Sometimes'"),
        ("backoff_cap_s", "1"),
        ("suspend_after_dead", "0"),
        ("alert_after_missed", "3"),
        ("ends_at", "'infinity'"),
    ],
)
async def test_a_plain_statement_is_refused_with_the_sentence_of_the_call(
    store: MaintenanceStore, column: str, wrong: str
):
    expected = await refusal(store, call(**{column: wrong}))
    assert expected[0] == "22023"
    assert await refusal(store, insert(**{column: wrong})) == expected
    await rows(store, insert())
    assert await refusal(store, f"update job_definitions set {column} = {wrong}") == expected


@pytest.mark.parametrize("column", COLUMNS)
async def test_a_number_of_seconds_out_of_bounds_is_refused_in_words(store: MaintenanceStore, column: str):
    for wrong in ("0", "2678401"):
        bounds = f"{wrong}; write a number of seconds from 1 to 2678400 (31 days)"
        runs = f"insert into job_runs (job_type, {column}) values ('ping', {wrong})"
        by_function = f"do $$ declare {COLUMNS[0]} int; {COLUMNS[2]} int; begin {runs}; end $$"
        enqueued = f"select enqueue('ping', {column} => {wrong})"
        for form in (call(**{column: wrong}), insert(**{column: wrong}), runs, by_function, enqueued):
            assert await refusal(store, form) == ("22023", f"{column} is {bounds}")
        several = insert(**{**dict.fromkeys(COLUMNS, "5"), column: wrong})
        assert await refusal(store, several) == ("22023", f"timeout_s, backoff_base_s or backoff_cap_s is {bounds}")


@pytest.mark.parametrize(
    "column",
    [
        *("namespace", "name", "job_type", "schedule", "time_zone", "queue", "limit_key", "backoff_strategy"),
        *("concurrency_policy", "catch_up", "dst_gap", "dst_overlap", "payload"),
    ],
)
async def test_a_value_that_is_cut_shows_it(store: MaintenanceStore, column: str):
    wrong = "to_jsonb(repeat('x', 150))" if column == "payload" else "repeat('x', 150)"
    for statement in (call, insert) if column != "backoff_strategy" else (call,):  # an enum: the error is of Postgres
        assert re.search(r'"x{59,100}\.\.\.', (await refusal(store, statement(**{column: wrong})))[1])


async def test_a_null_is_the_default_as_in_the_call(store: MaintenanceStore):
    columns = {option: column for column, option in ARGUMENTS.items()}
    options = [columns.get(each.name, each.name) for each in fields(wakeboard.Schedule)[3:] if each.default is not None]
    nulls = dict.fromkeys(["payload", *options], "null")
    shown = f"select {', '.join(nulls)} from job_definitions"
    await rows(store, call())
    (expected,) = await rows(store, shown)
    assert None not in expected
    await rows(store, insert(**nulls, namespace="null", name="null"))
    assert await rows(store, shown) == [expected] * 2
    await rows(store, f"update job_definitions set {', '.join(f'{column} = null' for column in nulls)}")
    assert await rows(store, shown) == [expected] * 2
    names = await rows(store, "select namespace, name from job_definitions where namespace <> 'team'")
    assert [(namespace, name.startswith("schedule-")) for namespace, name in names] == [("default", True)]


async def test_an_edit_that_ends_all_forgets_its_limit(store: MaintenanceStore):
    await rows(store, insert(catch_up="'All'", catch_up_limit="7"))
    for wanted in ("'Skip'", "'All'"):
        edit = f"update job_definitions set catch_up = {wanted} returning catch_up_limit"
        assert await rows(store, edit) == [(100,)]


async def test_a_circuit_that_opens_edits_no_schedule_of_an_older_release(store: MaintenanceStore):
    await rows(store, insert(suspend_after_dead="3"))
    await rows(store, "set session_replication_role = replica")
    await rows(store, "update job_definitions set catch_up_limit = 7")
    await rows(store, "set session_replication_role = origin")
    opened = "circuit_opened_at = now(), circuit_probe_at = now(), circuit_probes = 0"
    for change, expected in ((opened, (1, 7)), ("priority = 4", (2, 100))):
        written = f"update job_definitions set {change} returning generation, catch_up_limit"
        assert await rows(store, written) == [expected]


async def test_an_upsert_of_a_schedule_is_not_counted_against_the_bound(store: MaintenanceStore):
    await rows(store, insert())
    await rows(store, "select set_max_schedules(1)")
    conflict = " on conflict (source, namespace, name) do update set schedule = excluded.schedule returning schedule"
    assert await rows(store, insert(schedule="'0 9 * * *'") + conflict) == [("0 9 * * *",)]
    assert await rows(store, insert() + " on conflict do nothing returning id") == []
    assert await refusal(store, insert()) == (
        "23505",
        'duplicate key value violates unique constraint "a_schedule_is_named_once_per_source"',
    )
    assert (await refusal(store, insert(name="'b'") + conflict))[0] == "22023"


async def test_at_the_bound_a_plain_insert_waits_for_two_seconds(store: MaintenanceStore, database: str):
    await rows(store, "select set_max_schedules(9)")
    async with connected(database) as other, other.conn.transaction():
        await rows(other, insert())
        state, sentence = await refusal(store, insert(name="'b'"))
        assert (state, sentence.partition(",")[0]) == ("55P03", "the namespace team has a bound")


async def test_a_removal_and_an_insert_in_one_transaction_edit_the_schedule(store: MaintenanceStore):
    ((before,),) = await rows(store, insert() + " returning id")
    async with store.conn.transaction():
        await rows(store, "delete from job_definitions")
        assert await rows(store, insert(schedule="'0 9 * * *'") + " returning id, schedule") == [(before, "0 9 * * *")]
    assert await rows(store, "select id, removed_at from job_definitions") == [(before, None)]


async def test_a_call_edits_what_a_plain_insert_has_just_brought_back(store: MaintenanceStore, database: str):
    ((known,),) = await rows(store, insert() + " returning id")
    await rows(store, "delete from job_definitions")
    async with connected(database) as other:
        async with other.conn.transaction():
            await rows(other, insert(schedule="'0 9 * * *'"))
            edit = asyncio.ensure_future(wakeboard.schedule(store.conn, "team/a", "ping", cron="0 10 * * *"))
            await until(other, "select 1 from pg_stat_activity where wait_event_type = 'Lock'")
        assert await edit == (known, "updated")
    assert await rows(store, "select id, schedule, generation from job_definitions") == [(known, "0 10 * * *", 3)]


async def test_copy_and_merge_create_and_edit_schedules(store: MaintenanceStore):
    await rows(store, insert())
    async with (
        store.conn.cursor() as cursor,
        cursor.copy("copy wakeboard.job_definitions (namespace, name, job_type, schedule, queue) from stdin") as copy,
    ):
        await copy.write_row(("team", "b", "ping", "0 9 * * *", None))
    if store.conn.info.server_version >= 150_000:
        await rows(
            store,
            "merge into job_definitions as def using (values ('a'), ('c')) as wanted (name)"
            " on def.source = 'app' and def.namespace = 'team' and def.name = wanted.name"
            " when matched then update set schedule = '0 7 * * *'"
            " when not matched then insert (namespace, name, job_type, schedule)"
            " values ('team', wanted.name, 'ping', '0 7 * * *')",
        )
    assert await rows(store, "select name, schedule, queue::text from job_definitions order by name") == [
        ("a", "0 7 * * *", "default"),
        ("b", "0 9 * * *", "default"),
        ("c", "0 7 * * *", "default"),
    ]


async def test_plain_statements_treat_a_removed_schedule_as_the_functions_do(store: MaintenanceStore):
    insert = "insert into job_definitions (namespace, name, job_type, schedule) values ('team', %s, 'ping', %s)"
    again = f"{insert} returning id, generation"
    remove, change = "delete from job_definitions", "update job_definitions set priority = 2"
    kept = "select id, generation, priority, removed_at is null, last_tick_at from job_definitions order by id"

    ((once, _),) = await rows(store, again, "once", "at 2026-11-01T00:00:00Z")
    ((paused, _),) = await rows(store, again, "paused", "* * * * *")
    assert tuple(await schedule_due_ticks(store, misfire_grace=MISFIRE_GRACE)) == (2, 1, 0, 0)
    await wakeboard.pause_schedules(store.conn, "team/paused", "no bill")
    await rows(store, remove)  # also of the one that has removed itself, whose run waits
    assert await rows(store, "select status::text, schedule from job_run_history") == [("cancelled", "team/once")]
    before = await rows(store, kept)
    for statement in (remove, change):  # by the owner of the table
        assert (await store.conn.execute(f"{statement} where namespace = 'team'".encode())).rowcount == 0
    assert await rows(store, kept) == before

    assert await rows(store, again, "once", "at 2026-11-01T00:00:00Z") == [(once, 2)]
    assert await rows(store, again, "paused", "* * * * *") == [(paused, 2)]
    assert tuple(await schedule_due_ticks(store, misfire_grace=MISFIRE_GRACE)) == (1, 0, 0, 0)  # removes team/once
    await rows(store, "update job_definitions set next_run_at = date_trunc('minute', now()) where name = 'paused'")
    assert tuple(await schedule_due_ticks(store, misfire_grace=MISFIRE_GRACE)) == (0, 0, 0, 0)
    assert [(one.name, one.paused) for one in await wakeboard.list_schedules(store.conn, "team/*")] == [
        ("team/paused", True)
    ]
    await rows(store, "update job_definitions set removed_at = now() - interval '31 days'")
    await rows(store, remove)
    assert await rows(store, kept) == []


async def test_a_rename_is_refused_as_a_new_schedule_of_that_name_is(store: MaintenanceStore):
    await rows(store, insert())
    await put(store, declared("b"))
    rename = "update job_definitions set {} where source = 'app' returning namespace, name"
    for wrong, sentence in (
        ("name = 'Renamed X'", "name is .*Renamed X.*; write lower-case letters"),
        ("namespace = 'Team'", "namespace is .*Team.*; write lower-case letters"),
        ("name = 'b'", "the schedule team/b belongs to file:test; write another name"),
    ):
        with pytest.raises(psycopg.errors.InvalidParameterValue, match=sentence):
            await rows(store, rename.format(wrong))
    assert await rows(store, rename.format("name = 'c'")) == [("team", "c")]


async def test_a_row_without_a_name_gets_one_that_is_free(store: MaintenanceStore):
    insert = "insert into job_definitions (name, job_type) values (%s, 'ping') returning id, name"
    ((number, _),) = await rows(store, insert, None)
    await rows(store, insert, f"schedule-{number + 2}")
    ((number, name),) = await rows(store, insert, None)
    assert name == f"schedule-{number}"
    ((number, name),) = await rows(store, "insert into job_definitions (job_type) values ('ping') returning id, name")
    assert name == f"schedule-{number}"
