"""Rows that another transaction has locked or inserted stop no batch of alert rules or of expired leases."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

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
