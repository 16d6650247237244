"""Leadership: one operator acts for a source at a time, on a lease in the database.

The leader renews every third of the lease and stops acting when two thirds have passed since its last success was asked
for, by a clock that goes on while the machine sleeps. What an old leader still writes is refused by its term
(wakeboard.store.leader_api).

A leadership ends in three ways:

- A leader that is stopped resigns. Standbys receive that by NOTIFY.
- A leader that is killed loses its database session, and with it an advisory lock. Standbys check the lock every half
  second.
- A leader that is frozen, or whose node is lost, does not renew its lease, and the lease lapses.

Behind a pooler only resignation and the lease count, and standbys check the lease every half second. A check that
finds a leader writes nothing.
"""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
import socket
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from wakeboard import __version__
from wakeboard.errors import DatabaseUnavailable, WakeboardError
from wakeboard.store.connection import connect
from wakeboard.store.leader_api import LeadershipState, OperatorStore
from wakeboard.store.outages import Outages

if TYPE_CHECKING:
    from wakeboard.store.connection import AsyncConnection

log = logging.getLogger("wakeboard.operator")
outages = Outages(log)  # of all parts of the operator

STANDBY_LOOKS_EVERY_S: Final = 0.5
AFTER_AN_ERROR_S: Final = 1.0
ANSWER_WITHIN_S: Final = 5.0
BLOCKED: Final = (
    "release %s leads %s in this database: this operator stands by and is not ready. For two releases to work side by"
    " side, set operator.namespaces and operator.source (WAKEBOARD_NAMESPACES, WAKEBOARD_SOURCE) in each."
)


def boot_time() -> float:
    """Seconds since the machine started, those in which it slept or was frozen included."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic()


class Leadership:
    """This process's claim to lead `source`. `led`: what the board said last; None: nothing yet, or it is away."""

    def __init__(self, dsn: str, source: str, lease_s: int, release: str = "") -> None:
        self._dsn, self._source, self._lease_s = dsn, source, lease_s
        self._release = release or __version__
        self.holder = f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(4)}"
        self.led: LeadershipState | None = None
        self.changed = asyncio.Event()
        self.database_away: str | None = None
        self._good_until = 0.0
        self._conn: AsyncConnection | None = None
        self._listens = False
        self._by_session = 0  # the term that this connection's session holds
        self._doubt = asyncio.Event()
        self._stopped = False

    def leads(self) -> bool:
        """Whether this process may act now."""
        return self.led is not None and self.led.leads and boot_time() < self._good_until

    @property
    def term(self) -> int:
        """The term in which it leads, or led last."""
        return self.led.term if self.led else 0

    def blocked_by(self) -> str | None:
        """The other release that leads, while it does."""
        led = self.led
        if led is None or led.leads or led.leader_release == self._release:
            return None
        return led.leader_release

    async def run(self) -> None:
        """Leads when it can, until cancelled."""
        while not self._stopped:
            requested_at = boot_time()
            before = self.leads(), self.term
            try:
                await self._ask(requested_at)
            except (WakeboardError, TimeoutError) as error:
                await self._went_wrong(error)
            if (self.leads(), self.term) != before:
                self.changed.set()
            await self._pause()

    def doubt(self) -> None:
        """Checks at once who leads, after a write was refused because the term is over."""
        self._doubt.set()

    async def _pause(self) -> None:
        """Until it is time to ask again."""
        if self.database_away is not None:
            await asyncio.sleep(AFTER_AN_ERROR_S)
        elif self.leads():
            self._doubt.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(self._lease_s / 3):
                    await self._doubt.wait()
        elif self._listens and self._conn is not None:
            try:
                await OperatorStore(self._conn).resigned(STANDBY_LOOKS_EVERY_S)
            except WakeboardError as error:
                await self._went_wrong(error)
        else:
            await asyncio.sleep(STANDBY_LOOKS_EVERY_S)

    async def _ask(self, requested_at: float) -> None:
        async with asyncio.timeout(ANSWER_WITHIN_S):
            if self._conn is None or self._conn.closed:
                self._conn, self._by_session = await connect(self._dsn, name=f"wakeboard leadership {self.holder}"), 0
                self._listens = await OperatorStore(self._conn).listen_for_resignations()
            store = OperatorStore(self._conn)
            stands_by = self.led is None or not self.led.leads
            if stands_by and await store.release_dead_leadership(self._source):
                log.info("the leader of %s has lost its database session", self._source)
            led = await store.acquire_leadership(self._source, self.holder, self._release, self._lease_s)
            if (
                led.leads
                and self._by_session != led.term
                and await store.register_leader_session(self._source, led.term)
            ):
                self._by_session = led.term
        if led.leads:
            self._good_until = requested_at + self._lease_s * 2 / 3
        elif self._by_session:
            await self._close()  # and with it the lock of a term that is over
        if self.led is None or (led.term, led.leads) != (self.led.term, self.led.leads):
            who = "this operator" if led.leads else f"{led.leader} (release {led.leader_release})"
            log.info("term %d of %s: %s leads", led.term, self._source, who)
        blocked_before = self.blocked_by()
        self.led, self.database_away = led, None
        if (release := self.blocked_by()) is not None and release != blocked_before:
            log.warning(BLOCKED, release, self._source)
        outages.back("leadership")

    async def _went_wrong(self, error: Exception) -> None:
        sentence = str(error) or "the database did not answer in time"
        if isinstance(error, DatabaseUnavailable | TimeoutError):
            outages.away("leadership", error)
            await self._close()
        elif self.database_away != sentence:
            log.warning("cannot acquire leadership: %s", sentence)
        self.database_away = sentence

    async def resign(self) -> None:
        """Ends the leadership, so that a standby may lead at once."""
        self._stopped = True
        if self.led is not None and self.led.leads and self._conn is not None and not self._conn.closed:
            with suppress(WakeboardError, TimeoutError):
                async with asyncio.timeout(ANSWER_WITHIN_S):
                    await OperatorStore(self._conn).release_leadership(self._source, self.led.term)
                log.info("term %d of %s: resigned", self.led.term, self._source)
        self.led = None
        await self._close()

    async def _close(self) -> None:
        if self._conn is not None:
            with suppress(Exception):
                await self._conn.close()
            self._conn = None
