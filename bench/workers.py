"""Starts real worker processes, and reads what their handlers reported."""

from __future__ import annotations

import os
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from bench.handler_reports import FIRST, LATENESS
from bench.processes import STOP_WITHIN_S, MeasuredProcess
from testbed.processes import OUR_PACKAGES, as_variables

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping, Sequence

    from bench.processes import Cost

TIMEOUT_S: Final = 300.0
POLL_S: Final = 0.005
MEMORY_EVERY_S: Final = 0.1


class NotDone(RuntimeError):
    """The work was not done in time, or its workers left before it was."""

    def __init__(self, message: str, *, all_exited: bool = False) -> None:
        super().__init__(message)
        self.all_exited = all_exited


def worker_environment(dsn: str, **settings: object) -> dict[str, str]:
    """Of `python -m wakeboard_worker` with the coroutine handlers and every feature on."""
    defaults = {"dsn": dsn, "handlers": "bench.handlers", "prepared_statements": "true", "log_format": "json"}
    bytecode = {"PYTHONDONTWRITEBYTECODE": ""}  # or, if it is set here, each process compiles our modules again
    return {"PYTHONPATH": OUR_PACKAGES, **bytecode, **as_variables({**defaults, **settings})}


class WorkerGroup:
    """The worker processes of one measurement, and the folder that they write to."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._started: list[MeasuredProcess] = []

    def start(self, dsn: str, *options: str, **settings: object) -> MeasuredProcess:
        """Starts one of our workers."""
        command = [sys.executable, "-m", "wakeboard_worker", *options]
        return self.start_command(command, worker_environment(dsn, **settings))

    def start_command(self, command: Sequence[str], environment: Mapping[str, str]) -> MeasuredProcess:
        """Starts another queue's worker or ours."""
        reports = {FIRST: str(self._folder / "first"), LATENESS: str(self._folder / "lateness")}
        worker = MeasuredProcess(command, {**environment, **reports}, self._folder)
        self._started.append(worker)
        return worker

    def stop(self, within_s: float = STOP_WITHIN_S) -> list[Cost]:
        """Ends those that still run; what they cost."""
        awaited = [worker for worker in self._started if worker.awaited()]
        for worker in awaited:
            worker.stop()
        return [worker.ended(within_s) for worker in awaited]

    def wait_for_exit(self) -> list[Cost]:
        """Waits for the end of draining workers; what they cost."""
        return [worker.ended() for worker in self._started if worker.awaited()]

    def first_call_at(self) -> float | None:
        """Unix time of the first handler call of any of them; None: there was none."""
        reports = (path.read_text(encoding="ascii") for path in self._folder.glob("first.*"))
        return min((float(text) for text in reports if text), default=None)

    def lateness_ms(self) -> list[float]:
        """How late each run began, in order of lateness."""
        texts = (path.read_text(encoding="ascii") for path in self._folder.glob("lateness.*"))
        return sorted(float(line) for text in texts for line in text.split())

    def forget_lateness(self) -> None:
        """Deletes the lateness that was recorded until now."""
        for path in self._folder.glob("lateness.*"):
            os.truncate(path, 0)

    def wait_until(self, happened: Callable[[], object], within_s: float = TIMEOUT_S, poll_s: float = POLL_S) -> float:
        """Unix time at which `happened()` was seen to be true.

        Raises:
            NotDone: it did not happen in time, or all workers ended before it did.
        """
        deadline = time.monotonic() + within_s
        check_at = 0.0
        while not happened():
            if time.monotonic() > check_at:
                check_at = time.monotonic() + MEMORY_EVERY_S
                for worker in self._started:
                    worker.sample_memory()
            all_exited = all(worker.dead() for worker in self._started)
            if time.monotonic() > deadline or (all_exited and not happened()):
                why = "the workers left" if all_exited else f"not within {within_s:.0f} s"
                output = self._started[-1].output()
                raise NotDone(f"not done: {why}, and wrote: {output}", all_exited=all_exited)
            time.sleep(poll_s)
        return time.time()


@contextmanager
def worker_group() -> Generator[WorkerGroup]:
    """A group of workers. All are stopped at its end."""
    with tempfile.TemporaryDirectory(prefix="wakeboard-bench-") as folder:
        workers = WorkerGroup(Path(folder))
        try:
            yield workers
        finally:
            workers.stop()
