"""The SQL functions of the engine's maintenance, typed, and the store through which a feature's `calls` send theirs.

Each call is one statement on an autocommit connection and may be repeated if its reply was lost.
docs/sql-functions.md describes each function. Functions for administrators are in admin_api.py, for workers in
worker_api.py, and for leader election in leader_api.py.
"""

from __future__ import annotations

from datetime import UTC
from typing import TYPE_CHECKING, Any, NamedTuple

from wakeboard.store.statements import call

if TYPE_CHECKING:
    from datetime import datetime, timedelta

    import psycopg


class Reaped(NamedTuple):
    """What one slice of a scan revoked. `next_id` None: the scan has ended, or none was due."""

    next_id: int | None
    crashed: int
    timed_out: int
    dead: int
    cancelled: int


class MaintenanceStore:
    """Calls SQL functions over one async connection. Raises WakeboardError (see errors.py)."""

    def __init__(self, conn: psycopg.AsyncConnection[Any]) -> None:
        self.conn = conn

    async def rows(self, query: str, *values: Any) -> list[tuple[Any, ...]]:
        """The rows of one call."""
        return await call(self.conn, query, *values)

    async def value(self, query: str, *values: Any) -> Any:
        """The value of one call of a function that returns one."""
        return (await self.rows(query, *values))[0][0]

    async def reap(self, after_id: int = 0, *, always: bool = False) -> Reaped:
        """Revokes expired leases in one slice of runs. Call it again with `next_id` until that is None."""
        query = "select next_id, crashed, timed_out, dead, cancelled from wakeboard.reap(%s, always => %s)"
        return Reaped(*(await self.rows(query, after_id, always))[0])

    async def now(self) -> datetime:
        """The time of the database's clock, in UTC."""
        return (await self.value("select now from wakeboard.schema_state()")).astimezone(UTC)

    async def skip_past_deadline(self) -> int:
        """Skips runs that had not started by their deadline. Returns how many."""
        return await self.value("select wakeboard.skip_past_deadline()")

    async def create_partitions(self) -> int:
        """Creates the history's partitions for the coming weeks. Returns how many."""
        return await self.value("select wakeboard.create_partitions()")

    async def drop_partitions(self, retention: timedelta) -> int:
        """Drops the history's partitions older than `retention`. Returns how many."""
        return await self.value("select wakeboard.drop_partitions(%s)", retention)

    async def roll_up(self, min_interval: timedelta) -> bool:
        """Continues `run_rollups`, unless another call began less than `min_interval` ago. True: work is left."""
        return await self.value("select wakeboard.roll_up(%s)", min_interval)

    async def end_pauses(self) -> int:
        """Ends the pauses whose time is over. Returns how many it ended."""
        return await self.value("select wakeboard.end_pauses()")

    async def continue_backfills(self) -> int:
        """Creates the next runs of the backfills, and ends those that are done. Returns how many runs."""
        return await self.value("select wakeboard.continue_backfills()")

    async def set_retention(
        self,
        history: timedelta,
        keys: timedelta,
        dead: timedelta | None,
        effects: timedelta | None,
        logs: timedelta | None = None,
    ) -> None:
        """Sets the minimum retention; a worker's settings can only lengthen it. `logs` None: as before."""
        query = "select wakeboard.set_retention(%s, %s, %s, %s, %s)"
        await self.rows(query, history, keys, dead, effects, logs)

    async def set_misfire_grace(self, grace: timedelta) -> None:
        """Sets how late the due tick of a schedule may be that an application edits, before `catch_up` decides."""
        await self.rows("select wakeboard.set_misfire_grace(%s)", grace)

    async def set_audit_retention(self, retention: timedelta) -> None:
        """Sets how long audit rows and bulk actions are kept."""
        await self.rows("select wakeboard.set_audit_retention(%s)", retention)

    async def delete_expired(
        self, key_retention: timedelta, dead_retention: timedelta | None, history_retention: timedelta
    ) -> int | None:
        """Deletes a bounded batch of expired rows. Returns how many: call it again until it is 0.

        None: less than an hour ago a call found nothing to delete.
        """
        query = "select wakeboard.delete_expired(%s, %s, %s)"
        return await self.value(query, key_retention, dead_retention, history_retention)
