"""A file that exists while this worker is ready: its handlers are loaded, and the database has registered it.

A readiness probe looks for it, so that a rollout replaces no worker by one that cannot work. It is removed when the
worker claims no more runs. A container that was killed may leave it behind in a volume, so the next process begins by
removing it.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from wakeboard_worker.logs import log


class ReadyFile:
    """The file at `path`, removed at first. An empty path: there is none."""

    def __init__(self, path: str) -> None:
        self._path = Path(path) if path else None
        self.remove()

    def create(self) -> None:
        """This worker is ready. If the file cannot be made, the log says why."""
        if self._path is None:
            return
        try:
            self._path.touch()
        except OSError as error:
            log.error("WAKEBOARD_READY_FILE cannot be made, so no probe finds this worker ready: %s", error)

    def remove(self) -> None:
        """This worker claims no more runs."""
        if self._path is not None:
            with suppress(OSError):
                self._path.unlink(missing_ok=True)
