"""Processes that are measured, and what they cost."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from bench.machine import cpu_s_of_tree, peak_mb
from testbed.processes import ROOT, inherited_environment

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

STOP_WITHIN_S: Final = 30.0
POLL_S: Final = 0.001


@dataclass(frozen=True, slots=True)
class Cost:
    """What one process used from its start to its end."""

    wall_s: float
    cpu_s: float
    peak_mb: float
    exit_code: int


class MeasuredProcess:
    """A running command; its output goes to FOLDER/output."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str], folder: Path) -> None:
        self._folder = folder
        self._output = (folder / "output").open("ab")
        self.started_at = time.time()
        self._process = subprocess.Popen(
            command,
            cwd=ROOT,
            env={**inherited_environment(), **environment},
            stdin=subprocess.DEVNULL,
            stdout=self._output,
            stderr=self._output,
        )
        self.pid = self._process.pid
        self._peak_mb = 0.0

    def sample_memory(self) -> None:
        """Records its memory. The peak that wait4 reports includes the size of this process."""
        self._peak_mb = max(self._peak_mb, peak_mb(self.pid))

    def cpu_s(self) -> float:
        """CPU seconds so far."""
        return cpu_s_of_tree(self.pid)

    def output(self) -> str:
        """The end of what it wrote to its log."""
        return (self._folder / "output").read_text(encoding="utf-8", errors="replace")[-2000:]

    def stop(self) -> None:
        """Asks it to end, as Kubernetes would."""
        if not self.dead():  # Popen's own way to signal would also take the exit status, and with it the cost
            os.kill(self.pid, signal.SIGTERM)

    def ended(self, within_s: float = STOP_WITHIN_S) -> Cost:
        """Waits for its end, and kills it if it does not end in time."""
        deadline = time.monotonic() + within_s
        while True:
            self.sample_memory()
            pid, status, used = os.wait4(self.pid, os.WNOHANG)
            if pid:
                break
            if time.monotonic() > deadline:
                os.kill(self.pid, signal.SIGKILL)
            time.sleep(POLL_S)
        self._process.returncode = os.waitstatus_to_exitcode(status)
        self._output.close()
        wall_s = time.time() - self.started_at
        return Cost(wall_s, used.ru_utime + used.ru_stime, self._peak_mb, self._process.returncode)

    def awaited(self) -> bool:
        """Whether `ended` has not been called yet."""
        return self._process.returncode is None

    def dead(self) -> bool:
        """Whether it has ended, by itself or not."""
        return not self.awaited() or os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
