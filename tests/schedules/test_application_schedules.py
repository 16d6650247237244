"""Schedules that an application creates: in its own transaction, by the rules of a declared schedule."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final
from zoneinfo import ZoneInfo

import psycopg
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import wakeboard
from tests.schedules.cel_rules import admitted
from tests.schedules.schedules import connected, declared, make_due, put, rows, runs, until, yearly
from tests.ticks.cron_expressions import cron_lines, loose_lines
from wakeboard.errors import InvalidValue, Locked, Refused
from wakeboard.schedules.rules.builtin_payloads import payload_problem
from wakeboard.schedules.scheduler import schedule_due_ticks
from wakeboard.ticks.zones import known_zones

if TYPE_CHECKING:
    from wakeboard.engine.maintenance_api import MaintenanceStore

pytestmark = pytest.mark.anyio


async def make_ticks(store: MaintenanceStore) -> tuple[int, ...]:
    """(definitions, runs, skipped, replaced)"""
    return tuple(await schedule_due_ticks(store, misfire_grace=timedelta(minutes=5)))


async def add(store: MaintenanceStore, name: str = "team/a", **named: Any) -> wakeboard.Scheduled:
    given: dict[str, Any] = {"cron": "* * * * *", **named}
    return await wakeboard.schedule(store.conn, name, "ping", **given)


async def test_a_schedule_exists_if_and_only_if_its_transaction_commits(store: MaintenanceStore):
    async with store.conn.transaction(force_rollback=True):
        await add(store)
    assert await rows(store, "select from job_definitions") == []
    async with store.conn.transaction():
        assert (await add(store)).answer == "created"
    assert await make_ticks(store) == (1, 0, 0, 0)
    assert await rows(store, "select cron_fields is null, next_run_at > now() from job_definitions") == [(False, True)]


async def test_a_tick_between_the_call_and_the_scheduler_is_not_lost(store: MaintenanceStore):
    await add(store, payload={"a": 1})
    await rows(store, "update job_definitions set next_run_at = date_trunc('minute', now()) - interval '1 ms'")
    assert await make_ticks(store) == (1, 1, 0, 0)
    assert await runs(store, columns="payload, scheduled_for = date_trunc('minute', created_at)") == [({"a": 1}, True)]
    assert await make_ticks(store) == (0, 0, 0, 0)


@pytest.mark.parametrize(
    "far", ["schedule = 'at 2199-01-01T00:00:00Z'", "starts_at = '2199-01-01'", "starts_at = '-infinity'"]
)
async def test_a_moment_that_no_scheduler_takes_stops_only_its_own_schedule(store: MaintenanceStore, far: str):
    await add(store, "team/far")
    await rows(store, "alter table job_definitions disable trigger user")
    await rows(store, f"update job_definitions set {far}")
    await put(store, declared("near"))
    await make_due(store, "near")
    assert await make_ticks(store) == (2, 1, 0, 0)
    ((error,),) = await rows(store, "select schedule_error from job_definitions where name = 'far'")
    assert error is not None
    assert "to 2099" in error


async def test_the_same_call_again_changes_nothing(store: MaintenanceStore):
    first = await add(store, payload={"a": [1]}, priority=5, limit_key="api")
    before = await rows(store, "select * from job_definitions")
    assert await add(store, payload={"a": [1]}, priority=5, limit_key="api") == (first.id, "unchanged")
    absent = {"a": [1], "b": None}
    assert await add(store, payload=absent, priority=5, limit_key="api") == (first.id, "unchanged")
    assert await rows(store, "select * from job_definitions") == before
    assert await add(store, payload={"a": [2]}, priority=5, limit_key="api") == (first.id, "updated")
    assert await rows(store, "select generation, payload from job_definitions") == [(2, {"a": [2]})]


async def test_the_second_of_two_callers_of_one_name_waits_for_the_first(store: MaintenanceStore, database: str):
    async with connected(database) as other, connected(database) as third:
        async with other.conn.transaction():
            await add(other)
            assert (await add(third, "team/b")).answer == "created"  # no caller of another name waits
            assert await make_ticks(third) == (1, 0, 0, 0)
            sentence = r"^team/a: another transaction keeps a lock that this needs; try again$"
            with pytest.raises(Locked, match=sentence):
                await add(store)
            many = [wakeboard.Schedule(f"team/{name}", "ping", cron=yearly()) for name in ("z", "a", "0", "b")]
            with pytest.raises(Locked, match=sentence):  # no statement sees the row of the one that is being created
                await wakeboard.schedule_many(store.conn, many)
            assert [each.name for each in await wakeboard.list_schedules(store.conn, "team/*")] == ["team/b"]
        assert (await add(store)).answer == "unchanged"
        async with other.conn.transaction():
            await add(other, payload={"edited": True})
            with pytest.raises(Locked, match=sentence):
                await wakeboard.schedule_many(store.conn, [wakeboard.Schedule("team/a", "ping", cron=yearly())])
            for remove, argument in ((wakeboard.unschedule, "team/a"), (wakeboard.unschedule_all, "team/*")):
                with pytest.raises(Locked, match=sentence):
                    await remove(store.conn, argument)


async def test_applications_and_declared_schedules_never_change_each_other(store: MaintenanceStore):
    await add(store)
    report = await put(store, declared("a"), declared("b"), prune=True)
    assert (report.created, report.failed) == (
        ["team/b"],
        {"team/a": "the schedule team/a belongs to an application; write another name, or remove that one first"},
    )
    with pytest.raises(InvalidValue, match="the schedule team/b belongs to file:test; write another name"):
        await add(store, "team/b")
    with pytest.raises(InvalidValue, match="the schedule team/b belongs to file:test; remove it there"):
        await wakeboard.unschedule(store.conn, "team/b")
    await put(store, prune=True)
    assert await rows(store, "select name from job_definitions where removed_at is null") == [("a",)]
    assert (
        await rows(
            store, "select name from job_definitions join definition_changes on id = definition_id where source = 'app'"
        )
        == []
    )


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"cron": "61 * * * *"}, 'schedule "61 * * * *": the minute is 0-59, in steps of 1-60; write for example "0"'),
        (
            {"cron": "at 2199-01-01T00:00:00Z"},
            'schedule "at 2199-01-01T00:00:00Z": write a time in UTC, from 1970 to 2099',
        ),
        ({"time_zone": "Mars/X"}, 'time_zone "Mars/X": this is not a known time zone; write for example Europe/Lisbon'),
        ({"name": "Team/a"}, 'namespace is "Team"; write lower-case letters, digits and inner hyphens, at most 63'),
        ({"name": "a/b/c"}, 'name is "b/c"; write lower-case'),
        ({"cron": ""}, 'cron is ""; write text of 1 to 100 characters, such as 0 8 * * MON'),
        ({"jitter_s": -1}, "jitter_s is -1; write a whole number from 0 to 86400"),
        *(({"name": name}, 'name is ""; write lower-case') for name in ("", "team/")),
        ({"max_attempts": 2**40}, "max_attempts is 1099511627776; write a whole number"),
        ({"catch_up": "Some"}, 'catch_up is "Some"; write Skip, Latest or All'),
        (
            {"cron": None, "every": timedelta(days=400)},
            'every is "400 days"; write whole seconds, from 1 second to 366',
        ),
        ({"at": datetime(2031, 1, 1, tzinfo=UTC)}, "cron, every and at exclude each other"),
        ({"catch_up_limit": 7}, "catch_up_limit is 7, but only All has a limit; write catch_up All, or leave it out"),
        ({"cron": "every 0s"}, "s, m, h or d, from 1s to 366d; write for example every 90m"),
        *(({"cron": line}, "write for example every 90m") for line in ("every 0.5s", "90m", "Every 5m", "every")),
        *(({"cron": line}, "or at 2026-12-01T08:00:00Z") for line in ("2027-01-04 08:00", "At 2027-01-04T08:00:00Z")),
        ({"cron": "every 5x"}, 'schedule "every 5x": '),
        ({"cron": "at 27-02-30"}, 'schedule "at 27-02-30": '),
        ({"time_zone": ZoneInfo("Asia/Tokyo")}, 'time_zone is a ZoneInfo; write its name, time_zone="Asia/Tokyo"'),
        ({"cron": None, "every": 5}, "every is 5; write a timedelta, for example timedelta(seconds=5)"),
        ({"priority": 9}, "priority is 9; write a whole number from 1 to 5"),
        ({"backoff_cap_s": 1}, "backoff_cap_s is 1, below backoff_base_s 10"),
        ({"queue": "a b"}, 'queue is "a b"; write letters'),
        ({"jitter_s": 9, "starting_deadline_s": 9}, "jitter_s must be below starting_deadline_s"),
    ],
)
async def test_a_call_refuses_what_kubectl_apply_refuses(store: MaintenanceStore, wrong: Any, sentence: str):
    with pytest.raises(InvalidValue) as refused:
        await add(store, **wrong)
    assert sentence in str(refused.value)


SQL_CHECK = """
select wakeboard.schedule_problem(def) is null
  from jsonb_populate_record(null::wakeboard.job_definitions, jsonb_build_object(
         'source', 'app', 'namespace', 'a', 'name', 'b', 'time_zone', %s::text, 'schedule', %s::text)) as def"""


def test_sql_admits_exactly_what_the_api_server_admits(database: str):
    with psycopg.connect(database, autocommit=True) as conn:

        def is_admitted(line: str, zone: str = "UTC") -> bool:
            row = conn.execute(SQL_CHECK, [zone, line]).fetchone()
            return row == (True,)

        @settings(max_examples=300, deadline=None)
        @given(st.one_of(cron_lines, loose_lines, st.text("0123456789*,-/#LHT=@ MONFRIJAé\t", max_size=20)))
        def agree(line: str) -> None:
            assert is_admitted(line) == admitted(line)

        agree()
        assert [zone for zone in known_zones() if not is_admitted("@daily", zone)] == []
        assert [zone for zone in ("", "+05:00", "Local", "UTC Zulu", "utc") if is_admitted("@daily", zone)] == []


async def test_many_are_created_and_removed_or_none(store: MaintenanceStore):
    many = [wakeboard.Schedule(f"customers/{n}-report", "ping", {"n": n}, cron="@daily") for n in range(41, 44)]
    assert [made.answer for made in await wakeboard.schedule_many(store.conn, many)] == ["created"] * 3
    assert [made.answer for made in await wakeboard.schedule_many(store.conn, many)] == ["unchanged"] * 3
    wrong = [wakeboard.Schedule("customers/44", "ping"), wakeboard.Schedule("customers/45", "ping", cron="@never")]
    with pytest.raises(InvalidValue, match=r'^schedules\[1\] \(customers/45\): schedule "@never": a schedule has five'):
        await wakeboard.schedule_many(store.conn, wrong)
    await wakeboard.schedule(store.conn, "customers/4", "ping")
    names = [each.name for each in await wakeboard.list_schedules(store.conn, "customers/*")]
    assert names == ["customers/4", "customers/41-report", "customers/42-report", "customers/43-report"]
    assert await wakeboard.unschedule_all(store.conn, "customers/42-*") == 1
    assert await wakeboard.unschedule_all(store.conn, "customers/4*") == 3
    assert await wakeboard.list_schedules(store.conn, "customers/*") == []


async def test_one_schedule_is_got_by_its_name(store: MaintenanceStore):
    await add(store)
    found = await wakeboard.get_schedule(store.conn, "team/a")
    assert found == (await wakeboard.list_schedules(store.conn, "team/a"))[0]
    assert await wakeboard.get_schedule(store.conn, "team/b") is None
    with pytest.raises(InvalidValue, match="write the name of one schedule"):
        await wakeboard.get_schedule(store.conn, "team/*")


async def test_a_list_of_all_namespaces_has_pages_and_changes_none(store: MaintenanceStore):
    names = ["a-b/z", "a/x", "a/y", "default/x"]  # in the order of namespaces, then of names
    await wakeboard.schedule_many(store.conn, [wakeboard.Schedule(name, "ping") for name in names])
    await put(store, declared("declared"))
    names.sort(key=lambda name: name.split("/"))
    listed: list[str] = []
    for _ in range(3):
        page = await wakeboard.list_schedules(store.conn, "*/*", after=listed[-1] if listed else "", count=2)
        listed += [one.name for one in page]
    assert listed == names
    with pytest.raises(InvalidValue, match="pattern is"):
        await wakeboard.unschedule_all(store.conn, "*/*")


async def test_paused_schedules_have_no_ticks_until_they_are_resumed(store: MaintenanceStore):
    await add(store)
    await make_ticks(store)
    assert await wakeboard.pause_schedules(store.conn, "team/*", "unpaid") == 1
    assert await wakeboard.pause_schedules(store.conn, "team/*") == 0
    await rows(store, "update job_definitions set next_run_at = date_trunc('minute', now())")
    assert await make_ticks(store) == (0, 0, 0, 0)
    assert (await wakeboard.list_schedules(store.conn, "team/a"))[0].paused
    assert await wakeboard.resume_schedules(store.conn, "team/a") == 1
    assert await make_ticks(store) == (1, 1, 0, 0)


@pytest.mark.parametrize("ended", [True, False])  # it has removed itself after its last tick, and its run waits
async def test_a_removal_names_the_schedule_whose_run_is_locked(store: MaintenanceStore, database: str, ended: bool):
    for name in ("team/a", "team/b"):
        await wakeboard.schedule(store.conn, name, "ping", at=datetime(2026, 1, 1, tzinfo=UTC))
    assert await make_ticks(store) == (2, 2, 0, 0)
    if not ended:
        await rows(store, "update job_definitions set schedule = '@daily', removed_at = null")
    async with connected(database) as other, other.conn.transaction():
        await rows(other, "select from job_runs join job_definitions as def on def.id = definition_id"
                   " where def.name = 'b' for update of job_runs")  # fmt: skip
        for remove, argument in ((wakeboard.unschedule, "team/b"), (wakeboard.unschedule_all, "team/*")):
            with pytest.raises(Locked, match=r"^team/b: another transaction keeps a lock that this needs; try again$"):
                await remove(store.conn, argument)


async def test_a_caller_that_waits_for_a_bound_says_so(store: MaintenanceStore, database: str):
    await rows(store, "select set_max_schedules(9)")
    async with connected(database) as other, other.conn.transaction():
        await add(other, "team/a")
        sentence = "the namespace team has a bound, so callers that create schedules in it wait for each other, and"
        with pytest.raises(Locked, match=f"^team/b: {sentence} another one keeps it; try again$"):
            await add(store, "team/b")
        many = [wakeboard.Schedule(f"team/{name}", "ping", cron=yearly()) for name in "bc"]
        with pytest.raises(Locked, match=f"^{sentence}"):
            await wakeboard.schedule_many(store.conn, many)


async def test_a_bound_of_zero_asks_for_no_removal(store: MaintenanceStore):
    await rows(store, "select set_max_schedules(0)")
    with pytest.raises(InvalidValue, match=r"^the namespace team takes no new schedules .* bound is 0, set by an adm"):
        await add(store)


async def test_an_administrator_bounds_the_schedules_of_a_namespace(store: MaintenanceStore, database: str):
    await rows(store, "select set_max_schedules(1)")
    await add(store, "team/a")
    await add(store, "other/a")
    with pytest.raises(
        InvalidValue, match="team has all the schedules of applications that it may have: the bound is 1,"
    ):
        await add(store, "team/b")
    await wakeboard.unschedule(store.conn, "team/a")
    async with connected(database) as other:
        async with store.conn.transaction():
            await add(store, "team/b")
            await add(other, "else/b")
            second = asyncio.create_task(add(other, "team/c"))
            await until(store, "select 1 from pg_locks where locktype = 'advisory' and not granted")
        with pytest.raises(InvalidValue, match="the namespace team has all the schedules"):
            await second
    with pytest.raises(InvalidValue, match="the namespace team has all the schedules"):
        await add(store, "team/a")  # it was removed
    await store.conn.set_isolation_level(psycopg.IsolationLevel.REPEATABLE_READ)
    sentence = (
        "a new schedule in a namespace with a bound must run in READ COMMITTED, and this .* REPEATABLE READ: call it"
    )
    with pytest.raises(Refused, match=sentence):
        async with store.conn.transaction():
            await add(store, "third/a")


async def test_intervals_bounds_and_single_moments_come_back_as_they_were_given(store: MaintenanceStore):
    begin = datetime(2031, 1, 1, 8, tzinfo=UTC)
    given: list[dict[str, Any]] = [
        {"every": timedelta(minutes=90), "starts_at": begin},
        {"every": timedelta(seconds=45), "ends_at": begin},
        {"at": begin},
        {"cron": "0 8 * * *", "starts_at": begin, "ends_at": begin + timedelta(days=1), "time_zone": "Asia/Tokyo"},
    ]
    many = [wakeboard.Schedule(f"team/{n}", "ping", **options) for n, options in enumerate(given)]
    await wakeboard.schedule_many(store.conn, many)
    for one, options in zip(many, given, strict=True):
        assert (await wakeboard.schedule(store.conn, one.name, "ping", **options)).answer == "unchanged"
    listed = await wakeboard.list_schedules(store.conn, "team/*")
    assert [wakeboard.Schedule(**each.definition) for each in listed] == many
    assert await make_ticks(store) == (4, 0, 0, 0)
    assert [each.next_run_at for each in await wakeboard.list_schedules(store.conn, "team/2")] == [begin]


async def test_a_moment_that_has_passed_is_due_at_once_and_once(store: MaintenanceStore):
    moment = datetime.now(UTC) - timedelta(days=1)
    ways: list[dict[str, Any]] = [{"at": moment}, {"cron": f"at {moment:%Y-%m-%dT%H:%M:%SZ}"}]
    for number, options in enumerate(ways):
        for answer, ticks in (("created", (1, 1, 0, 0)), ("ended", (0, 0, 0, 0))):
            assert (await wakeboard.schedule(store.conn, f"team/once-{number}", "ping", **options)).answer == answer
            assert await make_ticks(store) == ticks


@pytest.mark.parametrize("moment", ["2027-02-30T08:00:00Z", "2027-01-04T24:00:00Z", "2027-01-04T23:59:60Z"])
async def test_a_moment_that_the_scheduler_cannot_read_is_refused_in_the_call(store: MaintenanceStore, moment: str):
    await add(store, "team/a")
    for call in (
        f"insert into job_definitions (job_type, schedule) values ('ping', 'at {moment}')",
        f"update job_definitions set schedule = 'at {moment}'",
        f"select schedule('team/never', 'ping', cron => 'at {moment}')",
    ):
        with pytest.raises(psycopg.errors.InvalidParameterValue, match=r"write a time (that exists|in UTC)"):
            await rows(store, call)


async def test_an_edit_of_a_moment_that_has_run_says_ended(store: MaintenanceStore):
    moment = datetime.now(UTC) - timedelta(hours=1)

    async def answer(**options: Any) -> str:
        return (await wakeboard.schedule(store.conn, "team/once", "ping", **options)).answer

    assert await answer(at=moment) == "created"
    assert await make_ticks(store) == (1, 1, 0, 0)
    assert [await answer(at=moment, priority=4) for _ in range(2)] == ["ended", "ended"]
    assert await make_ticks(store) == (1, 0, 0, 0)
    assert await answer(at=moment, priority=4) == "ended"
    assert await answer(at=moment + timedelta(seconds=9)) == "updated"
    assert await make_ticks(store) == (1, 1, 0, 0)


@pytest.mark.parametrize(
    ("wrong", "meant"), [("timezone", "time_zone"), ("startsAt", "starts_at"), ("suspend", "suspended")]
)
async def test_a_misspelt_option_is_refused_with_the_one_meant(store: MaintenanceStore, wrong: str, meant: str):
    with pytest.raises(TypeError, match=rf"schedule\(\) has no argument {wrong}; did you mean {meant}\?"):
        await add(store, **{wrong: "x"})


async def test_an_empty_pattern_and_a_count_of_another_type_are_refused(store: MaintenanceStore):
    count: Any
    for count in ("x", 2.5, True):
        with pytest.raises(InvalidValue, match=f"^count is {count!r}; write a whole number"):
            await wakeboard.list_schedules(store.conn, "team/*", count=count)
    for pattern in ("", "team/"):
        with pytest.raises(InvalidValue, match=f'^pattern is "{pattern}"; write namespace/name'):
            await wakeboard.unschedule_all(store.conn, pattern)
    wrong: Any = 5
    for call in (wakeboard.unschedule_all, wakeboard.pause_schedules, wakeboard.resume_schedules):
        with pytest.raises(InvalidValue, match=r"^pattern is 5"):
            await call(store.conn, wrong)
    with pytest.raises(psycopg.Error, match=r'^a key of schedules is "corn"; write an argument of wakeboard\.s'):
        await rows(store, """select schedule_many('[{"name": "a", "job_type": "ping", "corn": "@daily"}]')""")


async def test_a_schedule_whose_end_has_passed_says_so_and_changes_once(store: MaintenanceStore):
    past, later = (datetime.now(UTC) + timedelta(days=days) for days in (-1, 1))

    async def answer(**options: Any) -> str:
        return (await wakeboard.schedule(store.conn, "team/over", "ping", cron="* * * * *", **options)).answer

    over = wakeboard.Schedule("team/over", "ping", cron="* * * * *", ends_at=past)
    assert [made.answer for made in await wakeboard.schedule_many(store.conn, [over, over])] == ["ended", "ended"]
    assert await make_ticks(store) == (1, 0, 0, 0)
    stored = await rows(store, "select xmin::text from job_definitions")
    assert [await answer(ends_at=past) for _ in range(2)] == ["ended", "ended"]
    assert await rows(store, "select xmin::text from job_definitions") == stored
    assert await answer(ends_at=later) == "updated"
    await wakeboard.unschedule(store.conn, "team/over")
    assert await answer(ends_at=later) == "created"
    assert await answer(ends_at=later) == "unchanged"


async def test_a_single_moment_never_runs_early(store: MaintenanceStore):
    moment = datetime(2050, 1, 4, 8, 0, 0, 1, tzinfo=UTC)
    await wakeboard.schedule(store.conn, "team/once", "ping", at=moment)
    await make_ticks(store)
    (listed,) = await wakeboard.list_schedules(store.conn, "team/*")
    assert listed.next_run_at == moment.replace(second=1, microsecond=0)


PAYLOADS: Final[list[tuple[str, Any]]] = [
    ("http", {}),
    ("http", {"url": "https://a.example/x", "method": "post", "headers": None}),
    ("http", {"url": "HTTP://a.example"}),
    ("http", {"url": "https://"}),
    ("http", {"url": {"$secret": None}}),
    ("http", {"url": {"secret": "x"}}),
    ("http", {"url": "https://a.example", "method": "FETCH"}),
    ("http", {"url": "https://a.example", "headers": ["a"]}),
    ("http", {"url": "https://a.example", "uri": 1, "Uri": 2, "gone": None}),
    ("command", {"command": "backup", "args": "x"}),
    ("command", ["backup"]),
    ("job", {"cronJob": "nightly-report", "args": []}),
    ("job", {"cronJob": "x" * 53}),
    ("job", {"cronJob": "Nightly"}),
    ("mine", {"url": 1}),
]


async def test_a_wrong_payload_of_a_built_in_job_is_refused_at_once(store: MaintenanceStore):
    for job_type, payload in PAYLOADS:
        problem = payload_problem(job_type, payload)
        try:
            await wakeboard.schedule(store.conn, "team/built-in", job_type, payload)
        except InvalidValue as refused:
            found = str(refused)
        else:
            found = None
        wanted = problem and f"payload does not fit the built-in job type {job_type}: {problem}"
        assert found == wanted, (job_type, payload)


WRONG_COLUMNS: Final[list[dict[str, Any]]] = [
    {"dst_gap": "Ignore"},
    {"catch_up_limit": 0},
    {"jitter_s": -1},
    {"alert_after_missed": 101},
    {"job_type": "wakeboard.x"},
    {"limit_key": "schedule:1"},
    {"origin": "x" * 301},
    {"labels": "[]"},
    {"schedule": "@daily"},
    {"circuit_probes": 1},
    {"starts_at": "2031-01-02", "ends_at": "2031-01-01"},
]


async def test_the_database_refuses_a_declared_schedule_beyond_its_bounds(store: MaintenanceStore):
    async def insert(**columns: Any) -> None:
        row = {"source": "file:a", "namespace": "a", "spec_hash": "", "job_type": "ping", **columns}
        places = ", ".join(["%s"] * len(row))
        await rows(store, f"insert into job_definitions ({', '.join(row)}) values ({places})", *row.values())

    await insert(name="right")
    for wrong in WRONG_COLUMNS:
        update = f"update job_definitions set {', '.join(f'{name} = %s' for name in wrong)}"
        for writing in (insert(name="wrong", **wrong), rows(store, update, *wrong.values())):
            with pytest.raises((psycopg.errors.InvalidParameterValue, psycopg.errors.CheckViolation)):
                await writing


@pytest.mark.parametrize("removed", [False, True])
async def test_a_circuit_is_no_edit_even_of_what_is_refused_today(store: MaintenanceStore, removed: bool):
    """A zone that is known no more must not stop the ticks of other schedules, nor a last probe bring one back."""
    await add(store, suspend_after_dead=1)
    async with store.conn.transaction():
        await rows(store, "set local session_replication_role = replica")
        gone = ", removed_at = now()" if removed else ""
        await rows(store, f"update job_definitions set time_zone = 'Gone/Zone'{gone}")
    kept = "select generation, removed_at, next_run_at, updated_at from job_definitions"
    before = await rows(store, kept)
    opened = "update job_definitions set circuit_opened_at = now(), circuit_probe_at = now(), circuit_probes = 0"
    await rows(store, opened)
    assert await rows(store, kept) == before
    with pytest.raises(psycopg.errors.InvalidParameterValue, match="Gone/Zone"):
        await rows(store, "update job_definitions set priority = 5, removed_at = null")


async def test_the_operator_reads_no_change_of_a_schedule_of_an_application(store: MaintenanceStore):
    await add(store)
    await rows(store, "insert into definition_changes (definition_id) select id from job_definitions")
    assert await rows(store, "select pop_changed_definitions()") == []
    assert await rows(store, "select from definition_changes") == []
