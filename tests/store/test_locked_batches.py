"""Rows that another transaction has locked or inserted stop no batch of alert rules, of limits or of counted runs."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import psycopg
import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.store.sql_clients import SqlClient


@pytest.fixture
def holder(open_client: Callable[[int], SqlClient], admin: SqlClient, other: SqlClient) -> Iterator[SqlClient]:
    """A client with an open transaction. The others must get their answers before the lock_timeout of the functions."""
    one = open_client(0)
    one.sql("begin")
    for each in (admin, other):
        each.sql("set statement_timeout = '1900ms'")
    yield one
    one.sql("rollback")


def test_a_locked_alert_of_a_removed_rule_stops_no_evaluation(admin: SqlClient, holder: SqlClient) -> None:
    rules = [
        {"name": name, "severity": "warning", "interval_s": 0, "definition": {"dead": 1}} for name in ("a", "b", "kept")
    ]
    claim = "select name, claimed_at from claim_alert_rules(%s::text::jsonb)"
    for name, claimed_at in admin.sql(claim, json.dumps(rules)):
        admin.sql("select record_alert(%s, %s, true, 'x', 1)", name, claimed_at)
    admin.sql("update alert_rules set evaluated_at = now() - interval '2 h' where name <> 'kept'")
    holder.sql("select from alerts where rule = 'a' for update")
    removed = "select rule from alerts where resolution = 'rule removed' order by rule"
    assert admin.column(claim, json.dumps(rules[2:])) == ["kept"]
    assert admin.column(removed) == ["b"]
    assert admin.column("select name from alert_rules order by name") == ["a", "kept"]
    holder.sql("rollback")
    assert admin.column(claim, json.dumps(rules[2:])) == ["kept"]
    assert admin.column(removed) == ["a", "b"]
    assert admin.column("select name from alert_rules order by name") == ["kept"]


CLAIM_RULE = """
select claimed_at from claim_alert_rules('[{"name": "a", "severity": "info", "interval_s": 0, "definition": {}}]')
"""


@pytest.mark.parametrize("is_firing", [True, False])
def test_the_record_of_a_locked_alert_does_not_wait(admin: SqlClient, holder: SqlClient, is_firing: bool) -> None:
    """A worker claims runs over the same connection."""
    record = "select record_alert('a', %s, %s, 'x', 1) is not null"
    admin.sql(record, admin.value(CLAIM_RULE), True)
    claimed_at = admin.value(CLAIM_RULE)
    holder.sql("select from alerts for update")
    with pytest.raises(psycopg.errors.LockNotAvailable, match="could not obtain lock on row"):  # not: lock timeout
        admin.sql(record, claimed_at, is_firing)
    holder.sql("rollback")
    assert admin.value(record, claimed_at, is_firing)


def test_the_record_of_an_alert_waits_for_an_open_insert_for_a_tenth_of_a_second(
    admin: SqlClient, holder: SqlClient
) -> None:
    claimed_at = admin.value(CLAIM_RULE)
    holder.sql("insert into alerts (rule, severity, definition, summary, value) values ('a', 'info', '{}', 'x', 1)")
    admin.sql("set statement_timeout = '900ms'")  # its error is another one
    with pytest.raises(psycopg.errors.LockNotAvailable, match="lock timeout"):
        admin.sql("select record_alert('a', %s, true, 'x', 1)", claimed_at)


def test_a_locked_delivery_of_an_old_alert_delays_only_its_deletion(admin: SqlClient, holder: SqlClient) -> None:
    record = "select record_alert('a', %s, %s, 'x', 1, notification => %s, receivers => '{r}')"
    for is_firing, notification in ((True, "open"), (False, "resolved")) * 2:
        admin.sql(record, admin.value(CLAIM_RULE), is_firing, notification)
    admin.sql("update alerts set resolved_at = now() - interval '10000 days'")
    locked, free = admin.column("select id from alerts order by id")
    holder.sql("select from alert_deliveries where alert_id = %s for update", locked)
    claimed_at = admin.value(CLAIM_RULE)
    new = admin.value(record, claimed_at, True, "open")
    assert admin.column("select id from alerts order by id") == [locked, new]
    assert free not in admin.column("select alert_id from alert_deliveries")
    holder.sql("rollback")
    admin.sql(record, claimed_at, True, None)
    assert admin.column("select id from alerts") == [new]


def test_locked_rollups_are_left_to_a_later_call_after_a_tenth_of_a_second(admin: SqlClient, holder: SqlClient) -> None:
    """A worker claims runs over the same connection."""
    admin.sql(
        "insert into run_rollups (grain, starts_at, dimension, name, succeeded, cancelled, skipped, discarded, failed,"
        " timed_out, crashed, died) values ('minute', now() - interval '2 days', 'all', '', 1, 0, 0, 0, 0, 0, 0, 0)"
    )
    admin.sql("update rollup_progress set deleted_at = 'epoch'")
    holder.sql("select from run_rollups for update")
    admin.sql("set statement_timeout = '1500ms'")  # its error is another one
    with pytest.raises(psycopg.errors.LockNotAvailable, match="lock timeout"):
        admin.sql("select roll_up(always => true)")
    holder.sql("rollback")
    while admin.value("select roll_up(always => true)"):
        pass
    assert admin.value("select count(*) from run_rollups where starts_at < now() - interval '1 day'") == 0


@pytest.mark.parametrize(
    "lock",
    [
        "select from job_limits where key = 'b' for update",
        "select from declared_limits where key = 'b' for update",
        "insert into job_limits (key) values ('new-1'), ('new-2'), ('new-3'), ('new-4'), ('new-5'), ('new-6')",
    ],
)
def test_a_locked_limit_delays_no_other_declared_limit(admin: SqlClient, holder: SqlClient, lock: str) -> None:
    def declare(*limits: tuple[str, int]) -> dict[str, str]:
        rows = json.dumps([{"key": key, "max_running": limit} for key, limit in limits])
        return {row.key: row.answer for row in admin.sql("select * from declare_limits('t', %s::text::jsonb)", rows)}

    def in_force() -> dict[str, int]:
        return {row.key: row.max_running for row in admin.sql("select key, max_running from job_limits")}

    declare(("a", 1), ("b", 1), ("c", 1))
    holder.sql(lock)
    new = [f"new-{number}" for number in range(1, 7)] if lock.startswith("insert") else ["b"]
    wanted = {"a": 2, "c": 2} | dict.fromkeys(new, 2)
    answers = declare(*wanted.items())
    assert {key: answers[key] for key in ("a", "c", *new)} == {"a": "set", "c": "set"} | dict.fromkeys(new, "locked")
    assert (in_force()["a"], in_force()["c"]) == (2, 2)
    if "b" in new:
        assert in_force()["b"] == 1
    holder.sql("commit")
    assert declare(*wanted.items()) == dict.fromkeys(new, "set")
    assert in_force() | wanted == in_force()
    assert declare(*wanted.items()) == {}
