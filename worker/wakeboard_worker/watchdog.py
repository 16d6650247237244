"""Aborts a connection whose reply does not arrive in time, from a thread of its own.

The thread is started once. To start one for each wait could fail, or never return, when threads or memory run out.
"""

from __future__ import annotations

import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Generator


class Watchdog:
    """Watches one connection at a time."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._conn: Any = None  # the connection on which a thread waits now
        self._until = 0.0
        self._thread = threading.Thread(target=self._watch, name="watchdog", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    @contextmanager
    def waiting(self, conn: Any, seconds: float) -> Generator[None]:
        """Abort `conn` if the block takes longer than `seconds`. A statement in the block then raises."""
        self._set(conn, time.monotonic() + seconds)
        try:
            yield
        finally:
            self._set(None, 0.0)

    def _set(self, conn: Any, until: float) -> None:
        with self._changed:
            self._conn, self._until = conn, until
            self._changed.notify()

    def _watch(self) -> None:
        from wakeboard.store.connection import abort

        while True:
            with self._changed:
                conn, left_s = self._conn, self._until - time.monotonic()
                if conn is None:
                    self._changed.wait()
                elif left_s > 0:
                    self._changed.wait(left_s)
                else:
                    abort(conn)
                    self._conn = None
