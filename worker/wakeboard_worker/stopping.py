"""SIGTERM and SIGINT, from the first moment of the process on.

As PID 1 of a container a process has no default signal actions, and it inherits orphans: both are seen to here.
"""

import os
import signal
from collections.abc import Callable

ASKED = 1  # stop claiming, let runs finish
INSISTED = 2  # do not wait for them


class Stopping:
    """How often somebody has asked this process to stop. A second signal means: now."""

    def __init__(self) -> None:
        self.asked = 0
        self._listeners: list[Callable[[], object]] = []
        signal.signal(signal.SIGTERM, self._on_signal)
        signal.signal(signal.SIGINT, self._on_signal)

    def tell(self, listener: Callable[[], object]) -> None:
        """Calls `listener` at each signal from now on, and at once if one came already. It must be quick."""
        self._listeners.append(listener)
        if self.asked:
            listener()

    def _on_signal(self, *_: object) -> None:
        self.asked += 1
        for listener in self._listeners:
            listener()


class Orphans:
    """As PID 1, ends the zombies that others left to us: those that nobody has waited for between two looks."""

    def __init__(self) -> None:
        self._seen = 0

    def reap(self) -> None:
        """One look; to be repeated every second or so."""
        if os.getpid() != 1:
            return
        try:
            found = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            if found is not None and found.si_pid == self._seen:
                os.waitpid(found.si_pid, 0)
            self._seen = found.si_pid if found else 0
        except ChildProcessError:
            self._seen = 0
