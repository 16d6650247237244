"""Unique windows of an hour for a customer, for the tests of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import wakeboard

if TYPE_CHECKING:
    import psycopg

HOUR: dict[str, Any] = {"unique_for": 3600, "unique_by": ["customer"]}
REPLACE: dict[str, Any] = {**HOUR, "if_exists": "replace"}
END_WINDOWS = "update job_unique_keys set unique_until = now()"


def sync(conn: psycopg.Connection[Any], customer: object, **named: Any) -> wakeboard.Enqueued:
    return wakeboard.enqueue(conn, "ping", {"customer": customer}, **{**HOUR, **named})
