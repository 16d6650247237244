"""Converts Postgres' binary timestamps. The store's hot queries return them as numbers, which cost less to read."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final

PG_EPOCH: Final = datetime(2000, 1, 1, tzinfo=UTC)


def from_pg_timestamp(microseconds: int) -> datetime:
    """The UTC datetime of a binary `timestamptz`, which counts microseconds since 2000-01-01 UTC."""
    return PG_EPOCH + timedelta(microseconds=microseconds)


def to_pg_timestamp(moment: datetime) -> int:
    """The binary `timestamptz` of an aware datetime."""
    return (moment - PG_EPOCH) // timedelta(microseconds=1)
