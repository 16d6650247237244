"""Counts of finished runs, for the operator's metrics."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, LiteralString, NamedTuple

from psycopg.rows import scalar_row, tuple_row

from wakeboard.store.statements import read

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    import psycopg

# A run may commit after this read with an earlier finished_at. One second is left for that.
_NOW: LiteralString = "select statement_timestamp() - interval '1 second'"
_FINISHED: LiteralString = """
select status::text, count(*)
  from wakeboard.job_run_history
 where finished_at > %(since)s and finished_at <= %(until)s
 group by status
"""


class Finished(NamedTuple):
    """How many runs ended until `until`, by how they ended: succeeded, cancelled, skipped or dead (discarded)."""

    until: datetime
    runs: Mapping[str, int]


async def finished_since(conn: psycopg.AsyncConnection[Any], since: datetime | None) -> Finished:
    """Counts the runs that ended after `since`; None: only returns the current time. Reads no older rows."""
    until: datetime = (await read(conn, scalar_row, _NOW))[0]
    if since is None:
        return Finished(until, {})
    return Finished(until, dict(await read(conn, tuple_row, _FINISHED, {"since": since, "until": until})))
