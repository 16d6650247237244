"""`python -m chaos --upgrade`: from the first published release to this code and back, at full load.

Workers, maintenance and applications of the first release run. Another transaction, which uses the tables, stays open
while `wakeboard migrate` of a later release begins; it ends, and the migration is done. Then processes of both releases
run, then those of the later one alone, then those of the first one again, on the newer schema. The later release is
this code and one more migration, so that there is always one that changes the busiest tables.

Nothing is killed, so each run whose creation an application saw confirmed is executed exactly once: the ledger on
the disk says so.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

import psycopg
from psycopg.conninfo import make_conninfo

import wakeboard
from chaos.exit_checks import check_exits
from chaos.ledger import Ledger
from chaos.lock_waits import LockWaits, TableWaits
from chaos.other_release import extract_first_release, make_later_release
from chaos.postgres_server import ROLES
from chaos.processes import Slot, Supervisor
from chaos.results import Result
from testbed.processes import as_variables, inherited_environment, wait_for
from wakeboard.local.postgres import EmbeddedPostgres

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping
    from pathlib import Path

LONGEST_WAIT_S: Final = 0.2
EACH_PART_S: Final = 3.0  # of the way: with both releases, with the later one, back with the first one
WARM: Final = 100  # runs of each application, before the next step
EVERY_S: Final = 1  # between two ticks
SETTINGS: Final = {  # of a worker in production, but that it looks for runs more often
    "handlers": "chaos.recording_handlers",
    "lease_seconds": 60,
    "grace_seconds": 25,
    "poll_seconds": 0.2,
    "concurrency": 100,
    "threads": 8,
}
MIGRATE: Final = "import sys; from wakeboard.cli import main; sys.exit(main(sys.argv[1:]))"


@dataclass(slots=True)
class Upgrade:
    """What was seen. `waits`: of statements for a lock of the migration, by table. `violations`: sentences.

    `waits_during`: for how many seconds statements waited while each part of the migration was executed.
    `held_up_s`: what the migration itself says about the longest wait.
    """

    open_s: float = 0.0
    migrated_s: float = 0.0
    applied: list[str] = field(default_factory=list[str])
    plan: list[str] = field(default_factory=list[str])
    built: list[str] = field(default_factory=list[str])
    waits: dict[str, TableWaits] = field(default_factory=dict[str, TableWaits])
    waits_during: dict[str, float] = field(default_factory=dict[str, float])
    longest_wait_s: float = 0.0
    held_up_s: float = 0.0
    enqueued: int = 0
    executed: int = 0
    ticks: int = 0
    lost: int = 0
    doubled: int = 0
    failed_calls: int = 0
    violations: list[str] = field(default_factory=list[str])

    def as_json(self) -> dict[str, Any]:
        """All of it."""
        return asdict(self)

    def __str__(self) -> str:
        lines = [
            f"after {self.open_s:.0f} s the other transaction ended; {self.migrated_s:.1f} s later these were applied,",
            f"and the migration says that no statement waited for longer than {1000 * self.held_up_s:.0f} ms:",
            f"  {', '.join(self.applied)}.",
            *self.built,
            *(
                f"  {table:<18} {waits.count:>5} statements waited, the longest {1000 * waits.longest_s:.0f} ms"
                for table, waits in sorted(self.waits.items())
            ),
            *(
                f"  while {part} was executed, statements waited for {1000 * seconds:.0f} ms"
                for part, seconds in self.waits_during.items()
            ),
            f"{self.enqueued} runs enqueued, {self.executed} executed, and {self.ticks} ticks:",
            f"  lost {self.lost}, doubled {self.doubled}, calls that failed {self.failed_calls}.",
        ]
        return "\n".join([*lines, *(f"VIOLATION {each}" for each in self.violations)])


class UpgradeCampaign:
    """The way there and back, in `folder`. The other transaction is open for `open_s` seconds."""

    def __init__(self, folder: Path, open_s: float) -> None:
        self._folder, self._logs, self._open_s = folder, folder / "logs", open_s
        self._logs.mkdir()
        self._first = extract_first_release(folder / "first")
        self._later = make_later_release(folder / "later")
        self._server = EmbeddedPostgres(folder / "server", settings={"max_connections": "150"}, trusting=True)
        self._supervisor = Supervisor(self._logs)
        self._applications: list[str] = []
        self._roles = as_variables({f"{part}_role": name for part, name in ROLES.named().items()})
        self.result = Upgrade()

    def run(self) -> Upgrade:
        """Goes the whole way, in the main thread."""
        with ExitStack() as stack:
            stack.enter_context(self._server)
            stack.callback(self._supervisor.stop)
            self._set_up()
            self._supervisor.start(self._slots("first", self._first), "")
            self._warm("first")
            self._migrate_beside_an_open_transaction()
            self._start("both", self._later)
            time.sleep(EACH_PART_S)
            self._stop("first")
            time.sleep(EACH_PART_S)
            self._start("back", self._first)
            self._stop("both")
            self._migrate(self._first)  # as the init container of a rolled-back operator does
            time.sleep(EACH_PART_S)
            self._drain()
        self._check()
        return self.result

    # -- the way -------------------------------------------------------------------------------------------------------

    def _set_up(self) -> None:
        with self._connect() as conn:
            for role in set(ROLES.named().values()):
                conn.execute(f"create role {role} login".encode())
        self._migrate(self._first)
        with self._connect() as conn:
            wakeboard.schedule(conn, "chaos/ticks", "recorded-tick", every=timedelta(seconds=EVERY_S), catch_up="All")

    def _migrate_beside_an_open_transaction(self) -> None:
        began = time.monotonic()
        with LockWaits(self._server.dsn) as waits:
            with self._open_transaction():
                migrating = self._popen(self._later, "migrate", "--wait", str(int(self._open_s) + 60))
                time.sleep(self._open_s)
                assert migrating.poll() is None, self._output(migrating)
                self.result.open_s = time.monotonic() - began
            released = time.monotonic()
            output = self._output(migrating)
        self.result.migrated_s = time.monotonic() - released
        place = next((place for place, line in enumerate(output) if line.startswith("applied ")), None)
        if place is None:
            raise RuntimeError("\n".join(output))
        self.result.plan, last, self.result.built = output[:place], output[place], output[place + 1 :]
        waited = re.search(r"longer than (\S+) s\.$", last)
        self.result.held_up_s = float(waited[1]) if waited else 0.0
        self.result.applied = last.removeprefix("applied ").partition(";")[0].split(", ")
        self.result.waits, self.result.longest_wait_s = waits.tables, waits.longest_s
        self._name_parts(waits.during)

    def _name_parts(self, during: Mapping[str, float]) -> None:
        """Adds the waits during each migration, and during all else: the locks of each try, functions, the commit."""
        files = (self._later / "wakeboard" / "store" / "migrations").glob("*.sql")
        names = {
            line: file.stem.partition("_")[2]
            for file in files
            for place, line in enumerate(file.read_text().splitlines())
            if not place or line.startswith("create index concurrently ")
        }
        result = self.result.waits_during = dict.fromkeys(self.result.applied, 0.0)
        for line, seconds in during.items():
            name = names.get(line, "the locks and all else")
            result[name] = result.get(name, 0.0) + seconds

    @contextmanager
    def _open_transaction(self) -> Generator[None]:
        with psycopg.connect(self._server.dsn, application_name="a long transaction") as conn:
            wakeboard.enqueue(conn, "recorded", {"of": "other", "number": 1})
            Ledger("other.asked", self._logs).append(1)
            self._applications.append("other")
            yield

    def _drain(self) -> None:
        applications = (slot for slot in self._supervisor.slots if "recording_application" in slot.command[0])
        self._supervisor.remove(*applications)
        with self._connect() as conn:
            wakeboard.unschedule(conn, "chaos/ticks")
            wait_for(lambda: conn.execute("select not exists (select from wakeboard.job_runs)").fetchone() == (True,))

    # -- processes -----------------------------------------------------------------------------------------------------

    def _slots(self, name: str, code: Path) -> list[Slot]:
        app = f"{name}-application"
        self._applications.append(app)
        worker = ("wakeboard_worker", "--forever")
        maintenance = "chaos.maintenance_process" if code == self._later else "maintenance_process"
        slots = [
            Slot(f"{name}-worker", worker, self._dsn("chaos_worker"), code=code),
            Slot(f"{name}-other-worker", worker, self._dsn("chaos_worker"), code=code),
            Slot(f"{name}-maintenance", (maintenance,), self._dsn("chaos_operator"), code=code),
            Slot(app, ("chaos.recording_application", app), self._dsn("chaos_app"), code=code),
        ]
        for slot in slots:
            slot.settings = {name: str(value) for name, value in SETTINGS.items()}
        return slots

    def _start(self, name: str, code: Path) -> None:
        for slot in self._slots(name, code):
            self._supervisor.add(slot)
        self._warm(name)

    def _warm(self, name: str) -> None:
        done = Ledger(f"{name}-application.done", self._logs)
        wait_for(lambda: len(done) >= WARM, why=lambda: f"{len(done)} runs of {name} executed: {self._logs}")

    def _stop(self, name: str) -> None:
        self._supervisor.remove(*(slot for slot in self._supervisor.slots if slot.name.startswith(f"{name}-")))

    def _migrate(self, code: Path) -> list[str]:
        return self._output(self._popen(code, "migrate"))

    def _popen(self, code: Path, *words: str) -> subprocess.Popen[str]:
        environment: Mapping[str, str] = {
            **inherited_environment(),
            **self._roles,
            "PYTHONPATH": os.pathsep.join(map(str, (code, code / "worker", code / "operator"))),
            "WAKEBOARD_DSN": self._server.dsn,
        }
        command = [sys.executable, "-c", MIGRATE, *words]
        pipe = subprocess.PIPE
        return subprocess.Popen(command, cwd=self._folder, env=environment, stdout=pipe, stderr=pipe, text=True)

    @staticmethod
    def _output(process: subprocess.Popen[str]) -> list[str]:
        printed, errors = process.communicate(timeout=120)
        if process.returncode:
            raise RuntimeError(f"migrate ended with {process.returncode}: {printed}{errors}")
        return printed.splitlines()

    def _dsn(self, role: str) -> str:
        return make_conninfo(self._server.dsn, user=role)

    def _connect(self) -> psycopg.Connection[Any]:
        return psycopg.connect(self._server.dsn, autocommit=True)

    # -- the verdict ---------------------------------------------------------------------------------------------------

    def _check(self) -> None:
        result = self.result
        for name in self._applications:
            asked, done = (Ledger(f"{name}.{kind}", self._logs).numbers() for kind in ("asked", "done"))
            result.enqueued += len(asked)
            result.executed += len(done)
            result.lost += len(set(asked) - set(done))
            result.doubled += len(done) - len(set(done))
            result.failed_calls += len(Ledger(f"{name}.failed", self._logs))
        ticks = Ledger("ticks.done", self._logs).numbers()
        expected = range(min(ticks), max(ticks) + 1, EVERY_S)
        result.ticks = len(ticks)
        result.lost += len(set(expected) - set(ticks))
        result.doubled += len(ticks) - len(set(ticks))
        result.violations += [f"{count} {what}" for what, count in self._counts().items() if count]
        if result.longest_wait_s > LONGEST_WAIT_S:
            result.violations.append(f"a statement waited {1000 * result.longest_wait_s:.0f} ms behind the migration")
        if result.longest_wait_s > result.held_up_s:
            result.violations.append(
                f"the migration says that no statement waited for longer than {result.held_up_s} s"
            )
        exits = check_exits(self._supervisor.exits, Result())
        result.violations += [f"{one.invariant}: {one.detail}" for one in exits]

    def _counts(self) -> dict[str, int]:
        result = self.result
        return {"runs lost": result.lost, "runs doubled": result.doubled, "calls failed": result.failed_calls}
