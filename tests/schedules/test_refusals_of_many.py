"""A refusal of `schedule_many` says what `schedule` says, and which schedule it means."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

import wakeboard
from tests.schedules.schedules import rows
from wakeboard.errors import InvalidValue

if TYPE_CHECKING:
    from wakeboard.engine.maintenance_api import MaintenanceStore

pytestmark = [pytest.mark.anyio, pytest.mark.every_postgres]


@pytest.mark.parametrize("name", ["a", "b"])
async def test_a_refusal_of_many_names_the_schedule_and_the_field(store: MaintenanceStore, name: str):
    """What JSON cannot represent, what Postgres cannot store, and what the type of the field refuses."""
    place = "ab".index(name)
    for value, problem in ((float("nan"), "is nan"), ({1}, "is {1}"), ("\0", "holds a NUL")):
        many = [wakeboard.Schedule(f"team/{each}", "ping", {"x": value if each == name else 1}) for each in "ab"]
        sentence = f"schedules[{place}] (team/{name}): payload.x {problem}"
        with pytest.raises(InvalidValue, match=f"^{re.escape(sentence)}"):
            await wakeboard.schedule_many(store.conn, many)
    for field, value, wanted in (
        ("priority", 2.5, "a whole number from 1 to 5, of which 5 goes first"),
        ("timeout_s", 10**12, "a number of seconds from 1 to 2678400 (31 days)"),
        ("jitter_s", 2**40, "a whole number from 0 to 86400, for example 0"),
        ("suspended", "perhaps", "true or false"),
        ("every", "long", "whole seconds, from 1 second to 366 days"),
        ("every", f"{2**53 - 1} s", "whole seconds, from 1 second to 366 days"),
        ("at", "2031-02-30T08:00:00Z", "a time that exists"),
    ):
        rest = [
            {"name": f"team/{each}", "job_type": "ping", **({field: value} if each == name else {})} for each in "ab"
        ]
        shown = json.dumps(value)
        sentence = f"schedules[{place}] (team/{name}): {field} is {shown}; write {wanted}"
        with pytest.raises(psycopg.errors.InvalidParameterValue, match=f"^{re.escape(sentence)}"):
            await store.conn.execute("select wakeboard.schedule_many(%s)", [json.dumps(rest)])


@pytest.mark.parametrize(
    "options",
    [
        *({"every": each} for each in (timedelta(microseconds=1), timedelta.max, timedelta.min, timedelta(days=-1))),
        *({"at": each} for each in (datetime.max.replace(tzinfo=UTC), datetime.min.replace(tzinfo=UTC))),
        *({"cron": "@daily", bound: datetime.max.replace(tzinfo=UTC)} for bound in ("starts_at", "ends_at")),
    ],
)
async def test_python_sends_a_time_of_many_as_it_sends_one(store: MaintenanceStore, options: Any):
    with pytest.raises(InvalidValue) as one:
        await wakeboard.schedule(store.conn, "team/a", "ping", **options)
    with pytest.raises(InvalidValue, match=f"^{re.escape(str(one.value))}$"):
        await wakeboard.schedule_many(store.conn, [wakeboard.Schedule("team/a", "ping", **options)])


@pytest.mark.parametrize("key", ["at", "starts_at", "ends_at"])
@pytest.mark.parametrize("moment", ["infinity", "-infinity", "0044-03-15 00:00:00+00 BC", "2100-01-01 00:00:00+00"])
async def test_a_time_out_of_bounds_is_refused_alike_in_an_array(store: MaintenanceStore, key: str, moment: str):
    options = {"cron": None if key == "at" else "@daily", key: moment}
    with pytest.raises(psycopg.errors.InvalidParameterValue, match="from 1970 to 2099") as one:
        await rows(store, f"select schedule('a', 'ping', cron => %s, {key} => %s)", *options.values())
    with pytest.raises(psycopg.errors.InvalidParameterValue) as many:
        await rows(store, "select schedule_many(%s)", json.dumps([{"name": "a", "job_type": "ping", **options}]))
    assert many.value.diag.message_primary == one.value.diag.message_primary


@pytest.mark.parametrize("key", ["at", "starts_at", "ends_at"])
async def test_a_time_without_a_zone_is_refused_in_an_array(store: MaintenanceStore, key: str):
    many = "select answer from schedule_many(jsonb_build_array(jsonb_build_object("
    many += "'name', 'team/a', 'job_type', 'ping', 'cron', %s::text, %s::text, %s::text)))"
    cron = None if key == "at" else "@daily"
    for wrong in ("2031-01-04 08:00", "2031-01-04", "2031-01-04T08:00:00", "2031-01-04 08:00 PM", "tomorrow"):
        with pytest.raises(psycopg.errors.InvalidParameterValue, match=f"{key} is .*{wrong}.*; write a time with its"):
            await rows(store, many, cron, key, wrong)
    answers = [
        (await rows(store, many, cron, key, f"2031-01-04{right}"))[0][0]
        for right in (" 08:00+00", "T08:00:00Z", "T08:00:00.000000+00:00", " 10:00 Europe/Kyiv", "T060000-0200")
    ]
    assert answers == ["created", *["unchanged"] * 4]
