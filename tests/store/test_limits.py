"""Never more runs of a limit key at once than its limit, however many workers claim."""

from __future__ import annotations

from typing import TYPE_CHECKING

import psycopg
import pytest

if TYPE_CHECKING:
    from tests.store.sql_clients import SqlClient


def test_a_limit_of_zero_starts_no_run(admin: SqlClient, worker: SqlClient) -> None:
    admin.enqueue(limit_key="printer")
    admin.sql("select set_limit('printer', 0)")
    assert worker.claim_limited("printer") == []
    with pytest.raises(psycopg.errors.InvalidParameterValue, match="a limit is -1"):
        admin.sql("select set_limit('printer', -1)")


def test_a_worker_serves_the_keys_in_turn(admin: SqlClient, worker: SqlClient) -> None:
    for key in ("c", "a", "b", "a"):
        admin.enqueue(limit_key=key)
    admin.enqueue(limit_key="elsewhere", queue="elsewhere")
    admin.enqueue()
    keys = "select due_limit_keys('{default}', %s, 2)"
    assert worker.column(keys, "") == ["a", "b"]
    assert worker.column(keys, "b") == ["c"]
    assert worker.column(keys, "c") == []
    assert worker.column("select due_limit_keys('{default, elsewhere}')") == ["a", "b", "c", "elsewhere"]


def test_a_slot_is_a_fact_of_the_row(admin: SqlClient) -> None:
    admin.enqueue()
    with pytest.raises(psycopg.errors.CheckViolation, match="only_a_limited_run_with_a_lease_holds_a_slot"):
        admin.sql("update job_runs set holds_slot = true")
