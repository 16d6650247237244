"""Reads times that Python cannot represent, such as infinity, as a time two days from the ends of its calendar.

The SQL functions store no such time. But the owner of the database may, and one row must not break each list of runs.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

import psycopg
from psycopg.adapt import Loader
from psycopg.pq import Format

if TYPE_CHECKING:
    from psycopg.abc import AdaptContext, Buffer

_TIMESTAMPTZ: Final = psycopg.adapters.types["timestamptz"].oid
# Two days from the ends, so that conversions to any time zone do not overflow.
_EARLIEST: Final = datetime.min.replace(tzinfo=UTC) + timedelta(days=2)
_LATEST: Final = datetime.max.replace(tzinfo=UTC) - timedelta(days=2)


class _BoundedLoader(Loader):
    """Loads as psycopg's own loader does, within the bounds. A time for which that raises DataError is a bound."""

    def __init__(self, oid: int, context: AdaptContext | None = None) -> None:
        super().__init__(oid, context)
        loader = psycopg.adapters.get_loader(_TIMESTAMPTZ, self.format)
        assert loader is not None
        self._load = loader(oid, context).load

    def load(self, data: Buffer) -> Any:
        try:
            return min(max(self._load(data), _EARLIEST), _LATEST)
        except psycopg.DataError:
            return _EARLIEST if self._is_early(bytes(data)) else _LATEST

    def _is_early(self, data: bytes) -> bool:
        return data.startswith(b"-") or data.endswith(b"BC")


class _BoundedBinaryLoader(_BoundedLoader):
    format = Format.BINARY

    def _is_early(self, data: bytes) -> bool:
        return data[0] >= 0x80  # noqa: PLR2004 - the sign bit


def bound_times(conn: psycopg.Connection[Any] | psycopg.AsyncConnection[Any]) -> None:
    """Makes `conn` able to read all times that Postgres has."""
    conn.adapters.register_loader("timestamptz", _BoundedLoader)
    conn.adapters.register_loader("timestamptz", _BoundedBinaryLoader)
