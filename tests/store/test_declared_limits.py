"""Limits that files declare: applied when a declaration changes, never against an administrator, never by half."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor

    from tests.store.sql_clients import SqlClient

API = {"key": "api", "rate_count": 60, "rate_period_s": 60, "rate_burst": 10}
PRINTER = {"key": "printer", "max_running": 2}


def declare(admin: SqlClient, *limits: dict[str, Any], source: str = "file:t") -> dict[str, str]:
    rows = admin.sql("select key, answer from declare_limits(%s, %s::text::jsonb)", source, json.dumps(limits))
    return {row.key: row.answer for row in rows}


def in_force(admin: SqlClient, key: str) -> tuple[Any, ...] | None:
    """max_running (None: any number, or the default), and the rate; None: the key has no row."""
    rows = admin.sql(
        "select case when is_explicit then max_running end, rate_count, rate_period_s, rate_burst"
        " from job_limits where key = %s",
        key,
    )
    return tuple(rows[0]) if rows else None


def test_a_declaration_is_applied_once_and_a_repeat_changes_nothing(admin: SqlClient) -> None:
    assert declare(admin, API, PRINTER) == {"api": "set", "printer": "set"}
    assert in_force(admin, "api") == (None, 60, 60, 10)
    assert in_force(admin, "printer") == (2, None, None, None)
    audited = admin.value("select count(*) from audit_log")
    assert declare(admin, API, PRINTER) == {}
    assert admin.value("select count(*) from audit_log") == audited == 2


def test_what_an_administrator_sets_stays_until_the_declaration_changes(admin: SqlClient) -> None:
    declare(admin, API)
    admin.sql("select set_rate_limit('api', 1, 60, 1)")
    assert declare(admin, API) == {}
    assert in_force(admin, "api") == (None, 1, 60, 1)
    assert declare(admin, {**API, "rate_count": 30}) == {"api": "set"}
    assert in_force(admin, "api") == (None, 30, 60, 10)


def test_a_declared_key_has_exactly_the_declared_limits(admin: SqlClient) -> None:
    admin.sql("select set_limit('api', 7), set_rate_limit('api', 1, 60, 1)")
    declare(admin, {**API, "max_running": 5})
    assert in_force(admin, "api") == (5, 60, 60, 10)
    declare(admin, {"key": "api", "max_running": 3})
    assert in_force(admin, "api") == (3, None, None, None)
    declare(admin, API)
    assert in_force(admin, "api") == (None, 60, 60, 10)
    assert admin.value("select max_running from job_limits where key = 'api'") == 1_000_000


def test_the_newest_declaration_of_several_sources_counts(admin: SqlClient) -> None:
    declare(admin, API, source="k8s:a")
    declare(admin, {**API, "rate_count": 5}, source="k8s:b")
    assert in_force(admin, "api") == (None, 5, 60, 10)
    assert declare(admin, API, source="k8s:a") == {}, "it does not fight with the other source"
    assert declare(admin, source="k8s:b") == {"api": "removed"}
    assert in_force(admin, "api") == (None, 60, 60, 10)


def test_another_number_at_once_does_not_end_a_handlers_pause(admin: SqlClient) -> None:
    declare(admin, API)
    admin.sql("update job_limits set paused_until = now() + interval '1 h' where key = 'api'")
    declare(admin, {**API, "max_running": 4})
    assert admin.value("select paused_until > now() from job_limits where key = 'api'")


@pytest.mark.parametrize(
    ("bad", "sentence"),
    [
        ({"key": "b", "rate_count": 0, "rate_period_s": 1, "rate_burst": 1}, "write a whole number from 1 to 1000000"),
        ({"key": "b", "rate_count": 1, "rate_period_s": 0, "rate_burst": 1}, "write a whole number from 1 to 2678400"),
        ({"key": "b", "rate_count": 1, "rate_period_s": 1, "rate_burst": 10**7}, "a burst is 10000000 runs"),
        ({"key": "b", "max_running": 1.5}, "not a whole number"),
        ({"key": "b", "max_running": -1}, "write a whole number from 0 to 1000000"),
        ({"key": "schedule:1", "max_running": 1}, "limit_key"),
        ({"key": "b"}, "limits must be an array of objects"),
        ({"max_running": 1}, "limits must be an array of objects"),
        (PRINTER, "limits names a key twice"),
    ],
)
def test_one_bad_limit_changes_none(admin: SqlClient, bad: dict[str, Any], sentence: str) -> None:
    declare(admin, PRINTER)
    with pytest.raises(psycopg.Error, match=sentence):
        declare(admin, API, {**PRINTER, "max_running": 9}, bad)
    assert in_force(admin, "api") is None
    assert in_force(admin, "printer") == (2, None, None, None)
    assert admin.column("select key from declared_limits") == ["printer"]


def test_two_processes_that_declare_at_the_same_time_apply_it_once(
    admin: SqlClient, other: SqlClient, meanwhile: ThreadPoolExecutor
) -> None:
    for count in range(1, 20):
        limits = {**API, "rate_count": count}
        first, second = (meanwhile.submit(declare, client, limits) for client in (admin, other))
        assert sorted([len(first.result()), len(second.result())]) == [0, 1]
