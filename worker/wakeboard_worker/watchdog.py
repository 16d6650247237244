"""The watchdog: one thread that cuts a connection whose answer does not come in time.

It is started once. A thread for each wait would be one more thing that can fail where threads or memory run out, and a
start that fails there may never return.
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
        self._conn: Any = None  # the one that is waited on now
        self._until = 0.0
        self._thread = threading.Thread(target=self._watch, name="watchdog", daemon=True)

    def start(self) -> None:
        """Starts the thread."""
        self._thread.start()

    @contextmanager
    def waiting(self, conn: Any, seconds: float) -> Generator[None]:
        """Who waits on `conn` within this block waits for no longer: then the connection is cut."""
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
