"""What an error of the database means: to be tried again, or not."""

from __future__ import annotations

import psycopg
import pytest

from wakeboard.errors import DatabaseUnavailable, LeaseLost, WakeboardError
from wakeboard.store.connection import translated


@pytest.mark.parametrize(
    "sqlstate",
    [
        "08P01",  # PgBouncer, about its server
        "08006",
        "57P01",  # an administrator's command
        "57014",  # statement_timeout, pg_cancel_backend
        "25006",  # read only: a failover
        "40001",
        "40P01",
        "53100",  # disk full
        "53300",  # too many connections
        "55P03",
        "58030",  # a file cannot be read or written
    ],
)
def test_what_passes_is_tried_again(sqlstate: str) -> None:
    assert type(translated(psycopg.errors.lookup(sqlstate)("it says why"))) is DatabaseUnavailable


def test_a_broken_connection_without_a_code_is_tried_again() -> None:
    assert type(translated(psycopg.OperationalError("consuming input failed"))) is DatabaseUnavailable


def test_what_does_not_pass_is_no_outage() -> None:
    assert type(translated(psycopg.errors.lookup("22003")("out of range"))) is WakeboardError
    lost = psycopg.DatabaseError("the lease is lost")
    lost.sqlstate = "WB001"
    assert type(translated(lost)) is LeaseLost
