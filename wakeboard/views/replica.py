"""Reads from a hot standby (WAKEBOARD_READ_DSN), and from the primary while the standby cannot be used.

A standby is compared with its primary, not with its own clock or its connection: an idle primary commits nothing, and
a standby whose connection hangs believes that it has everything. While the primary does not answer, the standby does,
as far as it has come. A server that was promoted has a history of its own, and so has a standby of a former primary:
neither is read.
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
from datetime import timedelta
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol, TypeVar

from wakeboard.errors import DatabaseUnavailable, QueryTimedOut, SchemaMismatch, WakeboardError
from wakeboard.process.failure_log import FailureLog
from wakeboard.store.connection import connect
from wakeboard.store.reply_limit import ReplyLimit
from wakeboard.text.humanize import lasted
from wakeboard.views.queries.replication import read_position

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from wakeboard.store.connection import AsyncConnection
    from wakeboard.views.connection_pool import ConnectionPool

MAX_LAG: Final = timedelta(seconds=5)
LOOK_S: Final = 1.0  # between two comparisons
LOOK_AGAIN_S: Final = 10.0  # while the standby is not used
LOOKS: Final = 5  # at a standby that seems to lag: a primary that was idle has just committed something,
PAUSE_S: Final = 0.1  # so far apart
NO_STANDBY: Final = "it is no standby any more: it was promoted, so it has a history of its own"
ANSWER_S: Final = 3.0  # of each server, to a command

_Result = TypeVar("_Result")


class Reads(Protocol):
    """Where queries run."""

    async def run(self, query: Callable[[AsyncConnection], Awaitable[_Result]], /) -> _Result:
        """The result of `query`. Raises WakeboardError."""
        ...


class Usable(NamedTuple):
    """How far a replica is behind the primary; `lag` None: unknown. `is_primary`: it is the primary itself."""

    lag: timedelta | None
    is_primary: bool = False


async def require_usable(primary: Reads, replica: Reads) -> Usable:
    """How far the replica is behind the primary; unknown while the primary does not answer.

    Raises DatabaseUnavailable with the reason why reads cannot use the replica.
    """
    try:
        wanted = await primary.run(read_position)
    except DatabaseUnavailable:
        if not (await replica.run(read_position)).in_recovery:
            raise DatabaseUnavailable(NO_STANDBY) from None
        return Usable(None)
    behind: timedelta | None = None
    is_on_branch = True
    for look in range(LOOKS):
        await asyncio.sleep(PAUSE_S if look else 0)
        found = await replica.run(lambda conn: read_position(conn, wanted.reached))
        if found.installation != wanted.installation:
            raise DatabaseUnavailable("it has another installation")
        if not found.in_recovery and found.started_at == wanted.started_at:
            return Usable(timedelta(), is_primary=True)
        if not found.in_recovery:
            raise DatabaseUnavailable(NO_STANDBY)
        is_on_branch = found.recorded == wanted.recorded  # a position alone says nothing of the history behind it
        if is_on_branch and found.is_as_far:
            return Usable(look * timedelta(seconds=PAUSE_S))
        behind = found.since_last_commit
        if is_on_branch and behind is not None and behind <= MAX_LAG:
            return Usable(max(behind, timedelta()))
    if not is_on_branch:
        raise DatabaseUnavailable("it does not know the last start of the primary, or follows a former primary")
    raise DatabaseUnavailable(
        "it does not say how far it is behind" if behind is None else f"it is {lasted(behind)} behind"
    )


class Replica:
    """Whether a board may read from its standby.

    `lag`: None if it is not known; `is_primary`: it is the primary itself; `problem`: why it is not used.
    """

    def __init__(self, primary: Reads, replica: Reads) -> None:
        self._primary, self._replica = primary, replica
        self._failures = FailureLog(logging.getLogger(__name__), what="the board's")
        self._looking: asyncio.Task[None] | None = None
        self._looked_at = self._primary_until = -math.inf
        self.lag: timedelta | None = None
        self.is_primary = False
        self.problem = ""

    async def may_be_used(self) -> bool:
        """Whether a read may use the standby now. A read waits for a look at it only if the last look is old."""
        now = time.monotonic()
        known_for_s = now - self._looked_at
        if known_for_s > (LOOK_AGAIN_S if self.problem else LOOK_S) and (self._looking is None or self._looking.done()):
            self._looking = asyncio.create_task(self._look())
        if self._looking is not None and not self.problem and known_for_s > MAX_LAG.total_seconds():
            await asyncio.shield(self._looking)
        return not self.problem and now >= self._primary_until

    def look_again(self) -> None:
        """Looks at the standby at the next read."""
        self._looked_at = -math.inf

    def read_own_changes(self) -> None:
        """Reads from the primary until the standby has what is committed now, or is not used."""
        self._primary_until = time.monotonic() + MAX_LAG.total_seconds()

    async def close(self) -> None:
        """Stops looking."""
        if self._looking is not None:
            self._looking.cancel()
            await asyncio.gather(self._looking, return_exceptions=True)

    @property
    def in_words(self) -> str:
        """Where pages come from."""
        if self.problem:
            return f"read from the primary, because the standby cannot be used: {self.problem}"
        if self.is_primary:
            return "read from the primary, which WAKEBOARD_READ_DSN names"
        return "read from a standby" + (f", {lasted(self.lag)} behind" if self.lag is not None else "")

    async def _look(self) -> None:
        try:
            self.lag, self.is_primary = await require_usable(self._primary, self._replica)
        except WakeboardError as error:
            self.lag, self.is_primary, self.problem = None, False, str(error)
            self._failures.failed("reading from the standby (WAKEBOARD_READ_DSN)", error)
        else:
            self.problem = ""
            self._failures.succeeded("reading from the standby (WAKEBOARD_READ_DSN)")
        self._looked_at = time.monotonic()


class ReplicaReads:
    """Runs queries on the standby if it may be used, and otherwise on the primary."""

    def __init__(self, state: Replica, primary: ConnectionPool, replica: ConnectionPool) -> None:
        self._state, self._primary, self._replica = state, primary, replica

    async def run(self, query: Callable[[AsyncConnection], Awaitable[_Result]]) -> _Result:
        """The result of `query`. Raises WakeboardError."""
        if await self._state.may_be_used():
            try:
                return await self._replica.run(query)
            except QueryTimedOut:  # it would take as long on the primary; or the standby does not answer
                self._state.look_again()
                raise
            except (DatabaseUnavailable, SchemaMismatch):  # also a query that replay has cancelled
                self._state.look_again()
        return await self._primary.run(query)


async def connect_to_replica(dsn: str, primary_dsn: str, *, name: str) -> tuple[AsyncConnection, Usable]:
    """A connection to the standby for one command, and how far it is behind, as `require_usable` says and raises."""
    limit = ReplyLimit(ANSWER_S)
    replica = await connect(dsn, name=name, reply_limit=limit)
    try:
        usable = await require_usable(_NewConnection(primary_dsn, name), _OpenConnection(replica))
    except BaseException:
        await replica.close()
        raise
    limit.seconds = math.inf
    return replica, usable


class _OpenConnection:
    def __init__(self, conn: AsyncConnection) -> None:
        self._conn = conn

    async def run(self, query: Callable[[AsyncConnection], Awaitable[_Result]]) -> _Result:
        return await query(self._conn)


class _NewConnection:
    def __init__(self, dsn: str, name: str) -> None:
        self._dsn, self._name = dsn, name

    async def run(self, query: Callable[[AsyncConnection], Awaitable[_Result]]) -> _Result:
        async with await connect(self._dsn, name=self._name, reply_limit=ReplyLimit(ANSWER_S)) as conn:
            return await query(conn)
