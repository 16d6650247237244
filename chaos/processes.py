"""Real worker processes in every mode, one for each slot, restarted when they end, as Kubernetes restarts pods."""

from __future__ import annotations

import os
import signal
import struct
import subprocess
import sys
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from testbed.processes import ROOT, as_variables, inherited_environment

HOOKS: Final = Path(__file__).with_name("hooks")
LEASE_S: Final = 2
MEMORY: Final = 2 << 30  # bytes of address space; a worker maps some 700 MB and touches little of it
SETTINGS: Final = {
    "handlers": "chaos.chaotic_handlers",
    "lease_seconds": LEASE_S,
    "grace_seconds": 1,
    "poll_seconds": 0.1,
    "concurrency": 20,
    "threads": 6,
    "drain_lookahead_seconds": 1,
    "log_format": "json",
}
CHECK_INTERVAL_S: Final = 0.05
KEPT_OUTPUT: Final = 10_000  # characters at the end of a process's output


@dataclass(frozen=True, slots=True)
class Exit:
    """How a process ended. `signalled`: we sent it SIGTERM or SIGKILL."""

    name: str
    command: str
    code: int
    output: str
    signalled: bool


@dataclass
class Slot:
    """One process at a time. `restart_delay_s`: between the end of one and the start of the next."""

    name: str
    command: tuple[str, ...]  # after `python -m`
    dsn: str
    settings: dict[str, str] = field(default_factory=dict[str, str])
    restart_delay_s: float = 0.3
    code: Path = ROOT
    starts: int = 0
    process: ManagedProcess | None = None
    start_at: float = 0.0

    @property
    def is_worker(self) -> bool:
        """Whether its processes are workers."""
        return "wakeboard_worker" in self.command


class ManagedProcess:
    """One process of a slot."""

    def __init__(self, slot: Slot, process: subprocess.Popen[bytes], name: str, log: Path, clock: Path) -> None:
        self.slot, self.name, self.log = slot, name, log
        self._process, self._clock = process, clock
        self.signalled = False

    def code(self) -> int | None:
        """Its exit code, or None while it runs."""
        return self._process.poll()

    def send(self, number: signal.Signals) -> None:
        """Sends a signal to it alone, if it still runs."""
        if number in {signal.SIGKILL, signal.SIGTERM}:
            self.signalled = True
        self._process.send_signal(number)

    def set_clock_error(self, seconds: float) -> None:
        """Makes the wall clock of its slot wrong by so many seconds."""
        with self._clock.open("r+b") as file:
            file.write(struct.pack("d", seconds))

    def wait(self, seconds: float) -> bool:
        """Waits for its end. Returns whether it has ended."""
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(seconds)
            return True
        return False


def _packages(code: Path) -> tuple[Path, ...]:
    return code, code / "worker", code / "operator"


class Supervisor:
    """Keeps a process running in each slot, from a thread of its own. The processes end when that thread ends."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.ledger = folder / "effects"  # those whose commits were acknowledged to handlers
        self._app_dsn = ""
        self.slots: list[Slot] = []
        self.exits: list[Exit] = []
        self._stopping, self._idle = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._supervise, name="supervisor", daemon=True)

    def start(self, slots: list[Slot], app_dsn: str) -> None:
        """Starts the processes. `app_dsn`: for the effects of handlers."""
        self.slots, self._app_dsn = list(slots), app_dsn
        self._thread.start()

    def add(self, slot: Slot) -> None:
        """Adds a slot."""
        self.slots = [*self.slots, slot]

    def remove(self, *slots: Slot) -> None:
        """Removes slots and terminates their processes."""
        self.slots = [other for other in self.slots if other not in slots]
        processes = [slot.process for slot in slots if slot.process is not None]
        for process in processes:
            if process.code() is None:
                process.send(signal.SIGTERM)
        for process in processes:
            if not process.wait(5):
                process.send(signal.SIGKILL)
                process.wait(5)
            self._record_exit(process)

    def workers(self) -> list[ManagedProcess]:
        """The running workers."""
        return [process for process in self.running() if process.slot.is_worker]

    def running(self) -> list[ManagedProcess]:
        """The running processes, in the order of the slots."""
        processes = [slot.process for slot in self.slots]
        return [process for process in processes if process is not None and process.code() is None]

    def stop(self) -> None:
        """Terminates all processes at once, and kills those that do not end in time."""
        self._stopping.set()
        if self.slots:
            self._idle.wait(10)
        for process in self.running():
            process.send(signal.SIGCONT)
            process.send(signal.SIGTERM)
        deadline = time.monotonic() + 8
        for slot in self.slots:
            if (process := slot.process) is None:
                continue
            if not process.wait(max(0.0, deadline - time.monotonic())):
                process.send(signal.SIGKILL)
                process.wait(5)
            self._record_exit(process)
            slot.process = None

    def _supervise(self) -> None:
        while not self._stopping.wait(CHECK_INTERVAL_S):
            for slot in self.slots:
                self._check(slot)
        self._idle.set()
        # The kernel ends the processes with the thread that started them, so it stays until the campaign has ended.
        threading.Event().wait()

    def _check(self, slot: Slot) -> None:
        process = slot.process
        if process is not None and process.code() is not None:
            self._record_exit(process)
            slot.process, slot.start_at = None, time.monotonic() + slot.restart_delay_s
        if slot.process is None and time.monotonic() >= slot.start_at:
            slot.process = self._start(slot)

    def _record_exit(self, process: ManagedProcess) -> None:
        if (code := process.code()) is None:
            return
        output = process.log.read_text(errors="replace")[-KEPT_OUTPUT:]
        self.exits.append(Exit(process.name, " ".join(process.slot.command), code, output, process.signalled))

    def _start(self, slot: Slot) -> ManagedProcess:
        slot.starts += 1
        name = f"{slot.name}-{slot.starts}."
        log, clock = self._folder / f"{name}log", self._folder / f"{slot.name}.clock"
        if not clock.exists():
            clock.write_bytes(struct.pack("d", 0.0))
        settings = {"dsn": slot.dsn, "worker_name": name, **SETTINGS, **slot.settings}
        environment = {
            **inherited_environment(),
            "PYTHONPATH": os.pathsep.join(map(str, (HOOKS, *_packages(slot.code), ROOT))),
            "CHAOS_PARENT": str(os.getpid()),
            "CHAOS_MEMORY": str(MEMORY),
            "CHAOS_CLOCK": str(clock),
            "CHAOS_APP_DSN": self._app_dsn,
            "CHAOS_LEDGER": str(self._folder),
            "MALLOC_ARENA_MAX": "4",  # address space is what is limited
            **as_variables(settings),
        }
        with log.open("wb") as file:
            process = subprocess.Popen(
                [sys.executable, "-m", *slot.command],
                cwd=self._folder,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=file,
                start_new_session=True,
            )
        return ManagedProcess(slot, process, name, log, clock)
