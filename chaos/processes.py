"""The cast: real worker processes in every mode, one at each seat, started again when they end, as Kubernetes would."""

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

PROJECT: Final = Path(__file__).resolve().parents[1]
HOOKS: Final = Path(__file__).with_name("hooks")
LEASE_S: Final = 2
MEMORY: Final = 2 << 30  # bytes of address space; a worker has some 700 MB of it, nearly all of it never touched
LOOK_EVERY_S: Final = 0.05
KEPT_LOG: Final = 10_000  # characters of its last words


@dataclass(frozen=True, slots=True)
class Ended:
    """How a process of the cast ended, and what it said last."""

    actor: str
    mode: str
    code: int
    said: str
    asked: bool  # by a signal of ours


@dataclass
class Seat:
    """A place in the cast. `rest_s`: between the end of one process and the start of the next."""

    name: str
    words: tuple[str, ...]
    dsn: str
    settings: dict[str, str] = field(default_factory=dict[str, str])
    rest_s: float = 0.3
    code: Path = PROJECT
    release: str = ""
    starts: int = 0
    actor: Actor | None = None
    start_at: float = 0.0

    @property
    def stays(self) -> bool:
        """Whether its process never ends by itself."""
        return "--forever" in self.words or "chaos.maintenance_process" in self.words


class Actor:
    """One process. Signals go to it alone, and only while it lives."""

    def __init__(self, seat: Seat, process: subprocess.Popen[bytes], name: str, log: Path, clock: Path) -> None:
        self.seat, self.name, self.log = seat, name, log
        self._process, self._clock = process, clock
        self.asked = False
        self.pid = process.pid

    def alive(self) -> bool:
        """Whether it has not ended."""
        return self._process.poll() is None

    def code(self) -> int | None:
        """Its exit code, once it has ended."""
        return self._process.poll()

    def send(self, number: signal.Signals) -> None:
        """Sends it a signal."""
        if number in {signal.SIGKILL, signal.SIGTERM}:
            self.asked = True
        self._process.send_signal(number)

    def move_clock(self, seconds: float) -> None:
        """Its machine's wall clock is wrong by so many seconds from now on."""
        with self._clock.open("r+b") as file:
            file.write(struct.pack("d", seconds))

    def wait(self, seconds: float) -> bool:
        """Waits for its end; whether it came."""
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(seconds)
            return True
        return False


class Cast:
    """All seats, kept taken by a thread of its own, which starts every process: they end when it does."""

    def __init__(self, folder: Path, app_dsn: str) -> None:
        self._folder, self._app_dsn = folder, app_dsn
        self.seats: list[Seat] = []
        self.ended: list[Ended] = []
        self._over, self._rests = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._keep, name="cast", daemon=True)

    def start(self, seats: list[Seat]) -> None:
        """Takes every seat, and keeps them taken."""
        self.seats = list(seats)
        self._thread.start()

    def add(self, seat: Seat) -> None:
        """One more seat."""
        self.seats = [*self.seats, seat]

    def remove(self, seat: Seat) -> None:
        """Its process is asked to go, and nobody takes the seat again."""
        self.seats = [other for other in self.seats if other is not seat]
        actor = seat.actor
        if actor is not None and actor.alive():
            actor.send(signal.SIGTERM)
            if not actor.wait(5):
                actor.send(signal.SIGKILL)
                actor.wait(5)
        if actor is not None:
            self._note_end(actor)

    def workers(self) -> list[Actor]:
        """The living workers."""
        return [actor for actor in self.living() if "wakeboard_worker" in actor.seat.words]

    def living(self) -> list[Actor]:
        """Everyone who lives, in the order of the seats."""
        actors = [seat.actor for seat in self.seats]
        return [actor for actor in actors if actor is not None and actor.alive()]

    def stop(self) -> None:
        """Asks all of them to go; kills who does not. They are not waited for in turn."""
        self._over.set()
        self._rests.wait(10)
        for actor in self.living():
            actor.send(signal.SIGCONT)
            actor.send(signal.SIGTERM)
        deadline = time.monotonic() + 8
        for seat in self.seats:
            if (actor := seat.actor) is None:
                continue
            if not actor.wait(max(0.0, deadline - time.monotonic())):
                actor.send(signal.SIGKILL)
                actor.wait(5)
            self._note_end(actor)
            seat.actor = None

    def _keep(self) -> None:
        while not self._over.wait(LOOK_EVERY_S):
            for seat in self.seats:
                self._look_after(seat)
        self._rests.set()
        # The kernel ends the processes that this thread started when it ends: it stays until the campaign is over.
        threading.Event().wait()

    def _look_after(self, seat: Seat) -> None:
        actor = seat.actor
        if actor is not None and actor.code() is not None:
            self._note_end(actor)
            seat.actor, seat.start_at = None, time.monotonic() + seat.rest_s
        if seat.actor is None and time.monotonic() >= seat.start_at:
            seat.actor = self._start(seat)

    def _note_end(self, actor: Actor) -> None:
        code = actor.code()
        if code is None:
            return
        said = actor.log.read_text(errors="replace")
        self.ended.append(Ended(actor.name, " ".join(actor.seat.words), code, said[-KEPT_LOG:], actor.asked))

    def _start(self, seat: Seat) -> Actor:
        seat.starts += 1
        name = f"{seat.name}-{seat.starts}."
        log, clock = self._folder / f"{name}log", self._folder / f"{seat.name}.clock"
        if not clock.exists():
            clock.write_bytes(struct.pack("d", 0.0))
        inherited = {key: value for key, value in os.environ.items() if not key.startswith(("PG", "WAKEBOARD_"))}
        environment = {
            **inherited,
            "PYTHONPATH": os.pathsep.join([str(HOOKS), str(seat.code), str(seat.code / "worker"), str(PROJECT)]),
            "CHAOS_PARENT": str(os.getpid()),
            "CHAOS_MEMORY": str(MEMORY),
            "CHAOS_CLOCK": str(clock),
            "CHAOS_RELEASE": seat.release,
            "CHAOS_APP_DSN": self._app_dsn,
            "MALLOC_ARENA_MAX": "4",  # address space is what is bounded
            "WAKEBOARD_DSN": seat.dsn,
            "WAKEBOARD_WORKER_NAME": name,
            "WAKEBOARD_HANDLERS": "chaos.chaotic_handlers",
            "WAKEBOARD_LEASE_SECONDS": str(LEASE_S),
            "WAKEBOARD_GRACE_SECONDS": "1",
            "WAKEBOARD_POLL_SECONDS": "0.1",
            "WAKEBOARD_CONCURRENCY": "20",
            "WAKEBOARD_THREADS": "6",
            "WAKEBOARD_DRAIN_LOOKAHEAD_SECONDS": "1",
            "WAKEBOARD_LOG_FORMAT": "json",
            **{f"WAKEBOARD_{key.upper()}": value for key, value in seat.settings.items()},
        }
        with log.open("wb") as file:
            process = subprocess.Popen(
                [sys.executable, "-m", *seat.words],
                cwd=self._folder,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=file,
                start_new_session=True,
            )
        return Actor(seat, process, name, log, clock)
