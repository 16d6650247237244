"""Real worker processes, and what they leave behind for the measurement."""

from __future__ import annotations

import os
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from bench.processes import OURS, STOP_WITHIN_S, MeasuredProcess
from bench.progress import FIRST, LATENESS

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping, Sequence

    from bench.processes import Cost

PATIENCE_S: Final = 300.0
LOOK_EVERY_S: Final = 0.005
MEMORY_EVERY_S: Final = 0.1


class NotDone(RuntimeError):
    """The work was not done in time, or its workers left before it was."""

    def __init__(self, message: str, *, everybody_left: bool = False) -> None:
        super().__init__(message)
        self.everybody_left = everybody_left


def worker_environment(dsn: str, **settings: object) -> dict[str, str]:
    """Of `python -m wakeboard_worker` with the no-op handlers and every feature on."""
    return {
        **OURS,
        "WAKEBOARD_DSN": dsn,
        "WAKEBOARD_HANDLERS": "bench.noop_handlers",
        "WAKEBOARD_PREPARED_STATEMENTS": "true",
        "WAKEBOARD_LOG_FORMAT": "json",
        **{f"WAKEBOARD_{name.upper()}": str(value) for name, value in settings.items()},
    }


class Workplace:
    """A folder for worker processes of one measurement, and what they leave there."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._started: list[MeasuredProcess] = []

    def start(self, dsn: str, *options: str, **settings: object) -> MeasuredProcess:
        """One more of our workers."""
        command = [sys.executable, "-m", "wakeboard_worker", *options]
        return self.start_command(command, worker_environment(dsn, **settings))

    def start_command(self, command: Sequence[str], environment: Mapping[str, str]) -> MeasuredProcess:
        """One more worker, whoever's it is."""
        told = {FIRST: str(self._folder / "first"), LATENESS: str(self._folder / "lateness")}
        worker = MeasuredProcess(command, {**environment, **told}, self._folder)
        self._started.append(worker)
        return worker

    def stop(self, within_s: float = STOP_WITHIN_S) -> list[Cost]:
        """Ends those that still run; what they cost."""
        awaited = [worker for worker in self._started if worker.awaited()]
        for worker in awaited:
            worker.stop()
        return [worker.ended(within_s) for worker in awaited]

    def go_home(self) -> list[Cost]:
        """Waits for the end of draining workers; what they cost."""
        return [worker.ended() for worker in self._started if worker.awaited()]

    def first_call_at(self) -> float | None:
        """Unix time of the first handler call of any of them; None: there was none."""
        told = (path.read_text(encoding="ascii") for path in self._folder.glob("first.*"))
        return min((float(text) for text in told if text), default=None)

    def lateness_ms(self) -> list[float]:
        """How late each run began, in order of lateness."""
        texts = (path.read_text(encoding="ascii") for path in self._folder.glob("lateness.*"))
        return sorted(float(line) for text in texts for line in text.split())

    def forget_lateness(self) -> None:
        """What was late until now does not count."""
        for path in self._folder.glob("lateness.*"):
            os.truncate(path, 0)

    def wait_until(self, happened: Callable[[], object], within_s: float = PATIENCE_S) -> float:
        """Unix time at which `happened()` was seen to be true.

        Raises:
            NotDone: it did not happen in time, or all workers ended before it did.
        """
        deadline = time.monotonic() + within_s
        looks_at = 0.0
        while not happened():
            if time.monotonic() > looks_at:
                looks_at = time.monotonic() + MEMORY_EVERY_S
                for worker in self._started:
                    worker.look()
            everybody_left = all(worker.dead() for worker in self._started)
            if time.monotonic() > deadline or (everybody_left and not happened()):
                why = "the workers left" if everybody_left else f"not within {within_s:.0f} s"
                said = self._started[-1].said()
                raise NotDone(f"not done: {why}, and said: {said}", everybody_left=everybody_left)
            time.sleep(LOOK_EVERY_S)
        return time.time()


@contextmanager
def workplace() -> Generator[Workplace]:
    """A place for workers; none of them survives it."""
    with tempfile.TemporaryDirectory(prefix="wakeboard-bench-") as folder:
        place = Workplace(Path(folder))
        try:
            yield place
        finally:
            place.stop()
