"""Real worker processes, and what they cost."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from bench.machine import cpu_s_of_tree
from bench.noop_handlers import FIRST, LATENESS

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

PROJECT: Final = Path(__file__).resolve().parents[1]
PATIENCE_S: Final = 300.0
LOOK_EVERY_S: Final = 0.005
STOP_WITHIN_S: Final = 30.0


@dataclass(frozen=True, slots=True)
class Cost:
    """What one process used from its start to its end."""

    wall_s: float
    cpu_s: float
    peak_mb: float
    exit_code: int


class WorkerProcess:
    """`python -m wakeboard_worker` with the no-op handler and every feature on."""

    def __init__(self, dsn: str, folder: Path, *options: str, **settings: object) -> None:
        self._folder = folder
        self._said = (folder / "said").open("ab")
        command = [sys.executable, "-m", "wakeboard_worker", *options]
        self.started_at = time.time()
        self._process = subprocess.Popen(
            command, cwd=PROJECT, env=self._environment(dsn, settings), stdout=self._said, stderr=self._said
        )
        self.pid = self._process.pid

    def _environment(self, dsn: str, settings: dict[str, object]) -> dict[str, str]:
        inherited = {name: value for name, value in os.environ.items() if not name.startswith(("PG", "WAKEBOARD_"))}
        return {
            **inherited,
            "PYTHONPATH": os.pathsep.join([str(PROJECT), str(PROJECT / "worker")]),
            FIRST: str(self._folder / "first"),
            LATENESS: str(self._folder / "lateness"),
            "WAKEBOARD_DSN": dsn,
            "WAKEBOARD_HANDLERS": "bench.noop_handlers",
            "WAKEBOARD_PREPARED_STATEMENTS": "true",
            "WAKEBOARD_LOG_FORMAT": "json",
            **{f"WAKEBOARD_{name.upper()}": str(value) for name, value in settings.items()},
        }

    def cpu_s(self) -> float:
        """CPU seconds so far."""
        return cpu_s_of_tree(self.pid)

    def said(self) -> str:
        """The end of what it wrote to its log."""
        return (self._folder / "said").read_text(encoding="utf-8", errors="replace")[-2000:]

    def stop(self) -> None:
        """Asks it to end, as Kubernetes would."""
        if not self.dead():  # Popen's own way to signal would also take the exit status, and with it the cost
            os.kill(self.pid, signal.SIGTERM)

    def ended(self, within_s: float = STOP_WITHIN_S) -> Cost:
        """Waits for its end; one that does not come is brought about."""
        deadline = time.monotonic() + within_s
        while True:
            pid, status, used = os.wait4(self.pid, os.WNOHANG)
            if pid:
                break
            if time.monotonic() > deadline:
                os.kill(self.pid, signal.SIGKILL)
            time.sleep(LOOK_EVERY_S / 5)
        self._process.returncode = os.waitstatus_to_exitcode(status)
        self._said.close()
        peak_mb = used.ru_maxrss / (1024 if sys.platform == "linux" else 1024 * 1024)
        return Cost(time.time() - self.started_at, used.ru_utime + used.ru_stime, peak_mb, self._process.returncode)

    def awaited(self) -> bool:
        """Whether nobody has asked for its cost yet."""
        return self._process.returncode is None

    def dead(self) -> bool:
        """Whether it has ended, by itself or not."""
        return not self.awaited() or os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


class Workplace:
    """A folder for worker processes of one measurement, and what they leave there."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._started: list[WorkerProcess] = []

    def start(self, dsn: str, *options: str, **settings: object) -> WorkerProcess:
        """One more worker."""
        worker = WorkerProcess(dsn, self._folder, *options, **settings)
        self._started.append(worker)
        return worker

    def stop(self) -> list[Cost]:
        """Ends those that still run; what they cost."""
        awaited = [worker for worker in self._started if worker.awaited()]
        for worker in awaited:
            worker.stop()
        return [worker.ended() for worker in awaited]

    def go_home(self) -> list[Cost]:
        """Waits for the end of draining workers; what they cost."""
        return [worker.ended() for worker in self._started if worker.awaited()]

    def first_call_at(self) -> float:
        """Unix time of the first handler call of any of them."""
        return min(float(path.read_text(encoding="ascii")) for path in self._folder.glob("first.*"))

    def lateness_ms(self) -> list[float]:
        """How late each run began, in order of lateness."""
        texts = (path.read_text(encoding="ascii") for path in self._folder.glob("lateness.*"))
        return sorted(float(line) for text in texts for line in text.split())

    def forget_lateness(self) -> None:
        """What was late until now does not count."""
        for path in self._folder.glob("lateness.*"):
            os.truncate(path, 0)

    def wait_until(self, happened: Callable[[], object]) -> float:
        """Unix time at which `happened()` was seen to be true. Workers that end before it is are an error."""
        deadline = time.monotonic() + PATIENCE_S
        while not happened():
            everybody_left = all(worker.dead() for worker in self._started)
            if time.monotonic() > deadline or (everybody_left and not happened()):
                raise RuntimeError(f"the work was not done; the workers said: {self._started[-1].said()}")
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
