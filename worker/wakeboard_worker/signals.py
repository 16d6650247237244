"""SIGTERM and SIGINT, from the first moment of the process on.

As PID 1 of a container a process has no default signal actions, so these are there before anything else is imported.
"""

import signal
from collections.abc import Callable

ASKED = 1  # stop claiming, let runs finish
INSISTED = 2  # do not wait for them


class StopSignal:
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
