"""What only an operator asks, for its metrics."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, LiteralString, NamedTuple

import psycopg

from wakeboard.store.connection import translated

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

# Commits that came late with an earlier finished_at would be missed at the very edge: a second is left for them.
_NOW: LiteralString = "select statement_timestamp() - interval '1 second'"
_FINISHED: LiteralString = """
select status::text, count(*)
  from wakeboard.job_run_history
 where finished_at > %s and finished_at <= %s
 group by status
"""


class Finished(NamedTuple):
    """How many runs ended until `until`, by how they ended: succeeded, cancelled, skipped or dead (discarded)."""

    until: datetime
    runs: Mapping[str, int]


async def finished_since(conn: psycopg.AsyncConnection[Any], since: datetime | None) -> Finished:
    """Runs that ended after `since`; none when there is no such moment yet. Reads only what lies behind it."""
    try:
        row = await (await conn.execute(_NOW)).fetchone()
        assert row is not None
        if since is None:
            return Finished(row[0], {})
        found = await (await conn.execute(_FINISHED, (since, row[0]))).fetchall()
        return Finished(row[0], dict(found))
    except psycopg.Error as exc:
        raise translated(exc) from exc
