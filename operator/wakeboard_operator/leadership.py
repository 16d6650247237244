"""Leader election: one operator at a time acts for a source, on a lease in the database.

The leader renews its lease every third of the lease. It stops acting when two thirds of the lease have passed since it
sent the last successful request, by a clock that includes suspends. Each change of leader begins a new term. The store
refuses the writes of an earlier term (wakeboard.schedules.leader_api).

A term ends in one of three ways:

- A leader that is stopped releases its leadership. NOTIFY wakes the standbys.
- A leader that is killed loses its database session, and with it an advisory lock. Standbys check the lock every half
  second.
- A leader that is frozen, or whose node is lost, does not renew its lease, and the lease expires.

Through a pooler only the first and the third way work, and standbys check the lease every half second. A check that
finds a leader writes nothing.
"""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
import socket
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from wakeboard import __version__
from wakeboard.errors import DatabaseUnavailable, WakeboardError
from wakeboard.process.clock import boottime
from wakeboard.process.failure_log import Outages
from wakeboard.schedules.leader_api import OperatorStore
from wakeboard.store.reconnecting import ReconnectingConnection
from wakeboard.text.sanitize import one_line

if TYPE_CHECKING:
    from wakeboard.schedules.leader_api import LeadershipState

log = logging.getLogger("wakeboard.operator")
outages = Outages(log)  # shared by all tasks of the operator

STANDBY_POLL_S: Final = 0.5
RETRY_S: Final = 0.5
REQUEST_TIMEOUT_S: Final = 5.0  # with the connection
REPLY_S: Final = 4.0  # then the statement is given up, and the next request asks which server is the primary
MAX_PROBLEM: Final = 256  # characters
BLOCKED: Final = (
    "release %s leads %s in this database: this operator is a standby and is not ready. For two releases to work side"
    " by side, set operator.namespaces and operator.source (WAKEBOARD_NAMESPACES, WAKEBOARD_SOURCE) in each."
)


class Leadership:
    """This process as a candidate for the leadership of `source`.

    `state` is the last answer of the store, None before the first one. `database_error` is why there is no newer one.
    `changed` is set when this process gains or loses the leadership. `problem` is why the last list or watch failed;
    the store keeps it with the lease.
    """

    def __init__(self, dsn: str, source: str, lease_s: int, release: str = "") -> None:
        self._source, self._lease_s = source, lease_s
        self._release = release or __version__
        self.identity = f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(4)}"
        self.state: LeadershipState | None = None
        self.changed = asyncio.Event()
        self.database_error: str | None = None
        self.problem: str | None = None
        self._valid_until = 0.0  # boottime()
        self._seen_server: str | None = None  # of the last answer of any term
        self._connection = ReconnectingConnection(
            dsn, f"wakeboard leadership {self.identity}", OperatorStore, listens=True, reply_s=REPLY_S
        )
        self._store: OperatorStore | None = None  # on the open connection, once it listens
        self._receives_notifications = False
        self._check_requested = asyncio.Event()
        self._stopped = False

    def is_leader(self) -> bool:
        """Whether this process may act now."""
        return self.state is not None and self.state.is_leader and boottime() < self._valid_until

    @property
    def term(self) -> int:
        """The current term, as far as this process knows. 0: unknown."""
        return self.state.term if self.state else 0

    def blocked_by(self) -> str | None:
        """The other release that leads this source, if one does."""
        state = self.state
        if state is None or state.is_leader or state.leader_release == self._release:
            return None
        return state.leader_release

    async def run(self) -> None:
        """Acquires and renews the leadership until cancelled or released."""
        while not self._stopped:
            before = self.is_leader(), self.term
            try:
                await self._acquire_or_renew()
            except (WakeboardError, TimeoutError) as error:
                await self._record_error(error)
            if (self.is_leader(), self.term) != before:
                self.changed.set()
            await self._pause()

    def check_now(self) -> None:
        """Asks the store at once who leads. Call it when the store refused a write because the term is over."""
        self._check_requested.set()

    async def release(self) -> None:
        """Ends the leadership, so that a standby may lead at once."""
        self._stopped = True
        if self.state is not None and self.state.is_leader and self._store is not None and not self._store.conn.closed:
            with suppress(WakeboardError, TimeoutError):
                async with asyncio.timeout(REQUEST_TIMEOUT_S):
                    await self._store.release_leadership(self._source, self.state.term)
                log.info("term %d of %s: released", self.state.term, self._source)
        self.state = None
        await self._close()

    async def _acquire_or_renew(self) -> None:
        requested_at = boottime()
        async with asyncio.timeout(REQUEST_TIMEOUT_S):
            store = await self._open()
            problem = one_line(self.problem or "")[:MAX_PROBLEM]
            state = await store.acquire_leadership(
                self._source, self.identity, self._release, self._lease_s, problem, self._seen_server
            )
            self._seen_server = state.seen_server
        if state.is_leader:
            self._valid_until = requested_at + self._lease_s * 2 / 3
        elif self.state is not None and self.state.is_leader:
            await self._close()  # and with it the advisory lock of the earlier term
        self._record(state)

    async def _open(self) -> OperatorStore:
        store = await self._connection.store()
        if store is not self._store:
            self._receives_notifications = await store.listen_for_released_leadership()
            self._store = store
        return store

    def _record(self, state: LeadershipState) -> None:
        if self.state is None or (state.term, state.is_leader) != (self.state.term, self.state.is_leader):
            who = "this operator" if state.is_leader else f"{state.leader} (release {state.leader_release})"
            log.info("term %d of %s: %s leads", state.term, self._source, who)
        blocked_before = self.blocked_by()
        self.state, self.database_error = state, None
        if (release := self.blocked_by()) is not None and release != blocked_before:
            log.warning(BLOCKED, release, self._source)
        outages.recovered("leadership")

    async def _record_error(self, error: Exception) -> None:
        message = str(error) or "the database did not answer in time"
        if isinstance(error, DatabaseUnavailable | TimeoutError):
            outages.lost("leadership", error)
            await self._close()
        elif self.database_error != message:
            log.warning("cannot acquire leadership: %s", message)
        self.database_error = message

    async def _pause(self) -> None:
        """Waits until the next request: a third of the lease as leader, half a second or a notification as standby."""
        if self.database_error is not None:
            await asyncio.sleep(RETRY_S)
        elif self.is_leader():
            self._check_requested.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(self._lease_s / 3):
                    await self._check_requested.wait()
        elif self._receives_notifications and self._store is not None:
            try:
                await self._store.leadership_released(STANDBY_POLL_S)
            except WakeboardError as error:
                await self._record_error(error)
        else:
            await asyncio.sleep(STANDBY_POLL_S)

    async def _close(self) -> None:
        self._store = None
        with suppress(Exception):
            await self._connection.close()
