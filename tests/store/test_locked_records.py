"""Steps and effects that another transaction has locked: the worker gets its answer before other runs notice."""

from __future__ import annotations

from typing import TYPE_CHECKING

import psycopg
import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.store.sql_clients import Lease, SqlClient

CALLS = {
    "starts a step": "select done from step(71, %s, %s, 'one')",
    "finishes a step": "select done from step(71, %s, %s, 'one', '1')",
    "begins an effect": "select effect(71, %s, %s, 'one')",
    "finishes an effect": "select effect(71, %s, %s, 'one', true)",
}
ANSWERS = {
    "starts a step": False,
    "finishes a step": True,
    "begins an effect": "begun",
    "finishes an effect": "done",
}


@pytest.fixture
def lease(admin: SqlClient, worker: SqlClient) -> Lease:
    """The lease of a run. A call of its worker that waits for longer than the limit is a failure."""
    admin.enqueue()
    (lease,) = worker.claim()
    return lease


@pytest.fixture
def holder(open_client: Callable[[int], SqlClient]) -> SqlClient:
    """A client with an open transaction."""
    one = open_client(0)
    one.sql("begin")
    return one


@pytest.mark.parametrize("change", ["select from {} for no key update", "select from {} for update", "delete from {}"])
@pytest.mark.parametrize("call", CALLS)
def test_a_call_does_not_wait_for_its_locked_row(
    worker: SqlClient, holder: SqlClient, lease: Lease, call: str, change: str
) -> None:
    """All handlers of a worker share one connection."""
    worker.sql(CALLS["starts a step"], *lease)
    worker.sql(CALLS["begins an effect"], *lease)
    holder.sql(change.format("job_steps" if "step" in call else "job_effects"))
    with pytest.raises(psycopg.errors.LockNotAvailable, match="could not obtain lock on row"):  # not: lock timeout
        worker.sql(CALLS[call], *lease)
    holder.sql("rollback")
    assert worker.value(CALLS[call], *lease) == ANSWERS[call]


@pytest.mark.parametrize("call", CALLS)
def test_a_call_waits_for_an_open_insert_of_its_row_for_a_tenth_of_a_second(
    worker: SqlClient, holder: SqlClient, lease: Lease, call: str
) -> None:
    """No row can be locked that is not yet visible."""
    holder.sql(CALLS["starts a step"], *lease)
    holder.sql(CALLS["begins an effect"], *lease)
    worker.sql("set statement_timeout = '900ms'")  # its error is another one
    with pytest.raises(psycopg.errors.LockNotAvailable, match="lock timeout"):
        worker.sql(CALLS[call], *lease)
    worker.sql("reset statement_timeout")
    holder.sql("commit")
    assert worker.value(CALLS[call], *lease) == ANSWERS[call]


@pytest.mark.parametrize("table", ["job_steps", "job_effects"])
def test_records_of_other_runs_are_not_locked(
    admin: SqlClient, worker: SqlClient, holder: SqlClient, lease: Lease, table: str
) -> None:
    worker.sql(CALLS["starts a step"], *lease)
    worker.sql(CALLS["begins an effect"], *lease)
    holder.sql(f"select from {table} for update")
    admin.enqueue()
    (free,) = worker.claim()
    worker.sql("set statement_timeout = '9s'")
    assert [worker.value(CALLS[call], *free) for call in CALLS] == [False, True, "new", "done"]
