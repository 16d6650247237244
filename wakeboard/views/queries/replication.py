"""How far a hot standby is behind its primary: the position of each in the write-ahead log."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, LiteralString

from psycopg.rows import class_row

from wakeboard.store.statements import read

if TYPE_CHECKING:
    from datetime import datetime, timedelta
    from uuid import UUID

    import psycopg

# `pg_current_wal_lsn` fails on a standby. Some managed services say nothing about their replicas: then it is null.
_POSITION: LiteralString = """
select id as installation, pg_is_in_recovery() as in_recovery,
       case when pg_is_in_recovery() then pg_last_wal_replay_lsn() else pg_current_wal_lsn() end::text as reached,
       case when pg_is_in_recovery() then pg_last_wal_replay_lsn() >= %(than)s::pg_lsn end as is_as_far,
       clock_timestamp() - pg_last_xact_replay_timestamp() as since_last_commit,
       pg_postmaster_start_time() as started_at, server_started_at as recorded
  from wakeboard.installation
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class WalPosition:
    """Where a server is. `is_as_far`: a standby has replayed the position that was asked for.

    `since_last_commit`: since the primary's commit that a standby has replayed last; the lag is not longer.
    `started_at`: when this server started; no two servers start at one moment. `recorded`: the start of the primary
    that maintenance has recorded last (note_server), as this server has it.
    """

    installation: UUID
    in_recovery: bool
    reached: str | None
    is_as_far: bool | None
    since_last_commit: timedelta | None
    started_at: datetime
    recorded: datetime


async def read_position(conn: psycopg.AsyncConnection[object], than: str | None = None) -> WalPosition:
    """The position of the server, compared with `than`. Raises WakeboardError."""
    return (await read(conn, class_row(WalPosition), _POSITION, {"than": than}))[0]
