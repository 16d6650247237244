"""The database's clock is the only one, and a move asks it for the moment of its own statement."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.store.sql_clients import SqlClient

pytestmark = pytest.mark.every_postgres

OTHER_CLOCKS = re.compile(
    r"\b(now\(|clock_timestamp|transaction_timestamp|current_timestamp|localtimestamp|timeofday)", re.IGNORECASE
)


def test_no_move_asks_another_clock(admin: SqlClient) -> None:
    """But `schema_state`, which workers compare their own clock with: it says the moment at which it is read."""
    sources = admin.sql("select proname, prosrc from pg_proc where pronamespace = 'wakeboard'::regnamespace")
    assert any("statement_timestamp" in source for _, source in sources)
    asking = {name for name, source in sources if OTHER_CLOCKS.search(re.sub(r"--.*", "", source))}
    assert asking == {"schema_state"}


def test_no_column_gets_the_moment_at_which_a_transaction_began(admin: SqlClient) -> None:
    defaults = (
        "select attrelid::regclass::text, attname, pg_get_expr(adbin, adrelid) as given"
        "  from pg_attrdef join pg_attribute on attrelid = adrelid and attnum = adnum"
        " where adrelid::regclass::text ~ '^(wakeboard[.])?[a-z_]+$'"
    )
    rows = admin.sql(defaults)
    assert any("statement_timestamp" in row.given for row in rows)
    assert [row for row in rows if OTHER_CLOCKS.search(row.given)] == []


def test_in_a_transaction_that_began_long_ago_a_run_is_due_when_it_was_enqueued(
    admin: SqlClient, worker: SqlClient
) -> None:
    with admin.conn.transaction():
        admin.sql("select")
        run = admin.enqueue()
        assert admin.value("select run_at > now() and created_at > now() from job_runs where id = %s", run)
    with worker.conn.transaction():
        worker.sql("select")
        (lease,) = worker.claim(lease_s=60)
        assert worker.value("select started_at > now() from job_runs where id = %s", lease.id)
        assert worker.value("select locked_until = started_at + interval '60 s' from job_runs where id = %s", lease.id)
