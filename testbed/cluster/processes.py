"""The processes of a test cluster. Each has a log, and ends with the process that started it."""

from __future__ import annotations

import ctypes
import os
import random
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING

from testbed.cluster.binaries import find_program

if TYPE_CHECKING:
    from collections.abc import Sequence

    from testbed.cluster.machine import Machine

TIMEOUT_S = 10.0  # seconds until a process that ignores SIGTERM is killed
LOG_TAIL = 3000  # characters of a log
# Below the ports of outgoing connections, so that no other process takes the port of a component during its restart.
PORTS = range(20_000, 30_000)
PR_SET_PDEATHSIG = 1  # prctl(2)


class ProcessDied(Exception):
    """A process of the test cluster ended unexpectedly. The message has the end of its log."""


class ManagedProcess:
    """A program that can be started, stopped and killed any number of times, with the same arguments.

    It runs in the machine, if one is given. `path` is for programs that are not built by testbed/cluster/binaries.py.
    """

    def __init__(
        self, program: str, words: Sequence[str], logs: Path, machine: Machine | None = None, path: str | None = None
    ) -> None:
        self.name = program
        self._command = [path or str(find_program(program)), *words]
        self._machine = machine
        self._log = logs / f"{program}.log"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Call it from the main thread: the process ends with the thread that started it, whatever ends that one."""
        assert threading.current_thread() is threading.main_thread()
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                self._machine.command(self._command) if self._machine else self._command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,  # Ctrl-C is for the tests, which then stop it in order
                preexec_fn=pdeathsig if sys.platform == "linux" else None,  # noqa: PLW1509
            )

    def stop(self) -> None:
        """Sends SIGTERM, and SIGKILL if it does not end in time."""
        if self._process is None:
            return
        self.send(signal.SIGTERM)
        try:
            self._process.wait(TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self.kill()

    def kill(self) -> None:
        """Sends SIGKILL."""
        if self._process is not None:
            self.send(signal.SIGKILL)
            self._process.wait()

    def send(self, number: signal.Signals) -> None:
        """Sends it a signal, e.g. SIGSTOP to freeze it and SIGCONT to continue it."""
        assert self._process is not None
        if self._process.poll() is not None:
            return
        inside = children(self._process.pid) if self._machine else []
        for pid in inside:
            os.kill(pid, number)
        if not inside or number == signal.SIGCONT:  # who waits for one inside stops and ends with it, but stays stopped
            self._process.send_signal(number)

    def check(self) -> None:
        """Raises ProcessDied if it has ended by itself."""
        if self._process is not None and self._process.poll() is not None:
            raise ProcessDied(f"{self.name} ended with {self._process.returncode}:\n{self.log_tail()}")

    def log_tail(self) -> str:
        """The end of its log."""
        return self._log.read_text(errors="replace")[-LOG_TAIL:]


def children(pid: int) -> list[int]:
    """The processes that this one has started and that run."""
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def free_port() -> int:
    """An unused port of the loopback interface."""
    while True:
        port = random.choice(PORTS)
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port


def _libc() -> ctypes.CDLL | None:
    return ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None


_LIBC = _libc()  # loaded before any fork: there is little that one may do after it


def pdeathsig() -> None:
    """For the new process, before it becomes a program: it is killed when the thread that started it has ended."""
    assert _LIBC is not None
    _LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
