"""Counts SIGTERM and SIGINT from the start of the process, and calls listeners at each.

PID 1 of a container has no default signal actions, so the handlers are installed before anything else is imported.
"""

import signal
from collections.abc import Callable

STOP_NOW = 2  # signals; after the first one, running handlers have the grace period


class StopSignal:
    """How often this process was asked to stop. The second signal ends the grace period."""

    def __init__(self) -> None:
        self.count = 0
        self._listeners: list[Callable[[], object]] = []
        signal.signal(signal.SIGTERM, self._on_signal)
        signal.signal(signal.SIGINT, self._on_signal)

    def add_listener(self, listener: Callable[[], object]) -> None:
        """Call `listener` at each signal from now on, and at once if one has arrived already. It must be fast."""
        self._listeners.append(listener)
        if self.count:
            listener()

    def _on_signal(self, *_: object) -> None:
        self.count += 1
        for listener in self._listeners:
            listener()
