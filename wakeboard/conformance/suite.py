"""Executes scenarios side by side, each in a database of its own, and reports what held.

The databases are copies of one template on a server that the caller starts. The tested worker logs in as a role that
has the rights of a worker and of an application that creates schedules only, so a worker that writes to other tables
itself is refused.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import shutil
import signal
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit, urlunsplit

from wakeboard.conformance.harness import NOTES, Harness, TestedWorker, Violated
from wakeboard.conformance.scenarios import SCENARIOS
from wakeboard.errors import InvalidValue, WakeboardError
from wakeboard.local.postgres import NOT_DURABLE, EmbeddedPostgres
from wakeboard.store.connection import connect_blocking
from wakeboard.store.migrate import migrate
from wakeboard.store.roles import Roles

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping, Sequence

    from wakeboard.conformance.scenario import Scenario

PARALLEL: Final = 6  # scenarios at once: they wait most of their time
PATIENCE_S: Final = 30.0


@dataclass(frozen=True, slots=True)
class ScenarioResult:
    """What one scenario found. `found`: what the worker did in place of the promise; "" if it held.

    `output`: the last lines of the worker, if the promise was not kept.
    """

    scenario: str
    held: bool
    seconds: float
    promise: str
    found: str
    why: str
    output: Sequence[str]


class Suite:
    """The scenarios on one server. `dsn`: its superuser's. `prefix` distinguishes suites that share a server."""

    def __init__(self, dsn: str, prefix: str = "conformance") -> None:
        self._dsn, self._prefix = dsn, prefix
        self._password = secrets.token_hex(16)
        self._made = 0
        self._prepare()

    def run(
        self,
        command: Sequence[str],
        chosen: Sequence[Scenario],
        *,
        environment: Mapping[str, str] | None = None,
        parallel: int = PARALLEL,
        patience_s: float = PATIENCE_S,
        report: Callable[[ScenarioResult], None] = lambda _: None,
    ) -> list[ScenarioResult]:
        """Test the command. Calls `report` when a scenario has ended, and returns the results in order.

        Raises WakeboardError if the command cannot be started.
        """
        check_command(command)
        tested = TestedWorker(command, environment or {}, patience_s)

        def checked(scenario: Scenario) -> ScenarioResult:
            result = self.run_scenario(tested, scenario)
            if not tested.interrupted.is_set():
                report(result)
            return result

        with ThreadPoolExecutor(parallel) as pool:
            try:
                return list(pool.map(checked, chosen))
            except BaseException:  # Ctrl-C
                tested.interrupted.set()
                raise

    def run_scenario(self, tested: TestedWorker, scenario: Scenario) -> ScenarioResult:
        """Execute one scenario."""
        began = time.monotonic()
        found, output = "", list[str]()
        with (
            self._database(scenario.name) as owner,
            Harness(tested, scenario.name, owner, self._role, self._password) as harness,
        ):
            try:
                scenario.test(harness)
            except Violated as broken:
                found, output = str(broken), harness.last_lines()
            except Exception as error:  # noqa: BLE001 - the worker has changed the database in a way that no scenario expects
                found, output = f"{type(error).__name__}: {error}", harness.last_lines()
        seconds = time.monotonic() - began
        return ScenarioResult(scenario.name, not found, seconds, scenario.promise, found, scenario.why, output)

    @property
    def _role(self) -> str:
        return f"{self._prefix}_worker"

    def _prepare(self) -> None:
        template = f"{self._prefix}_template"
        with self._server() as execute:
            execute(f"create role {self._role} login password '{self._password}'")
            execute(f"create database {template}")
        asyncio.run(migrate(self._dsn_of(template), roles=Roles(worker=self._role, scheduler=self._role)))
        conn = connect_blocking(self._dsn_of(template), name="conformance")
        conn.execute(NOTES)
        conn.execute(f"grant usage on schema conformance to {self._role}".encode())
        conn.close()

    @contextmanager
    def _database(self, scenario: str) -> Generator[str]:
        self._made += 1
        name = f"{self._prefix}_{scenario.replace('-', '_')}_{self._made}_{secrets.token_hex(4)}"
        with self._server() as execute:
            execute(f"create database {name} template {self._prefix}_template strategy file_copy")
        try:
            yield self._dsn_of(name)
        finally:
            with self._server() as execute:
                execute(f"drop database {name} with (force)")

    @contextmanager
    def _server(self) -> Generator[Callable[[str], object]]:
        conn = connect_blocking(self._dsn_of("postgres"), name="conformance")
        try:
            yield lambda statement: conn.execute(statement.encode())
        finally:
            conn.close()

    def _dsn_of(self, database: str) -> str:
        return urlunsplit(urlsplit(self._dsn)._replace(path=f"/{database}"))


@contextmanager
def embedded_suite() -> Generator[Suite]:
    """A suite with an embedded Postgres of its own, in a temporary folder. Call it in the main thread.

    SIGTERM and SIGHUP end it as Ctrl-C does: no worker, server or folder is left.
    """
    with _ended_by_signals(), tempfile.TemporaryDirectory(prefix="wakeboard-conformance-") as name:
        folder = Path(name)
        folder.chmod(0o755)  # for the account that runs the server for root
        with EmbeddedPostgres(folder / "postgres", settings={**NOT_DURABLE, "max_connections": "300"}) as server:
            yield Suite(server.dsn)


@contextmanager
def _ended_by_signals() -> Generator[None]:
    former = {number: signal.signal(number, _end) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in former.items():
            signal.signal(number, handler)


def _end(number: int, _: object) -> None:
    for ignored in (signal.SIGTERM, signal.SIGHUP):  # the end takes seconds; another signal must not interrupt it
        signal.signal(ignored, signal.SIG_IGN)
    raise SystemExit(128 + number)


def check_command(command: Sequence[str]) -> None:
    """Raise WakeboardError if the program of the command does not exist."""
    if shutil.which(command[0]) is None:
        raise WakeboardError(f"there is no program {command[0]}; write the worker's command after --.")


def chosen_scenarios(names: Sequence[str]) -> list[Scenario]:
    """The scenarios of these names, in their order; all if none is named. Raises InvalidValue for an unknown name."""
    known = {scenario.name: scenario for scenario in SCENARIOS}
    for name in names:
        if name not in known:
            raise InvalidValue(f"there is no scenario {name!r}; there are {', '.join(known)}.")
    return [scenario for scenario in SCENARIOS if not names or scenario.name in names]


def inherited_settings() -> dict[str, str]:
    """The settings of this process that the worker gets too, such as WAKEBOARD_HANDLERS; the suite's go first."""
    return {
        name: value
        for name, value in os.environ.items()
        if name.startswith("WAKEBOARD_") and name not in {"WAKEBOARD_DSN", "WAKEBOARD_ZONE", "WAKEBOARD_DEBUG"}
    }
