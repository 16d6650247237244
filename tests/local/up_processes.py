"""`wakeboard up` as a real process in a folder of its own, and what it says."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import psycopg

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT = Path(__file__).parents[2]
PATIENCE_S = 30.0  # until an event that does not come is a failure
LOOK_EVERY_S = 0.02

START = """
import sys
from pathlib import Path
from wakeboard.errors import WakeboardError
from wakeboard.local.up import UpOptions, run_up
try:
    options = UpOptions(folder=Path("jobs"), program="wakeboard", dsn=sys.argv[1], wake_every_s=float(sys.argv[2]))
    sys.exit(run_up(options))
except WakeboardError as error:
    sys.exit(f"wakeboard: {error}")
"""

NEVER = 10_000_000.0  # seconds between two boundaries: only what is due wakes a worker

SCHEDULE = """
apiVersion: wakeboard.dev/v1alpha1
kind: JobSchedule
metadata: {{name: {name}, annotations: {{wakeboard.dev/run-on-up: "{run_on_up}"}}}}
spec:
  jobType: {job_type}
  schedule: "{cron}"
  maxAttempts: {max_attempts}
  backoff: {{baseSeconds: 1, maxSeconds: 1}}
"""

HANDLERS = """
import asyncio, os
from pathlib import Path
import wakeboard

@wakeboard.handler("greet")
def greet(run):
    return "hello"

@wakeboard.handler("needs_a_file")
def needs_a_file(run):
    if not Path("wanted").exists():
        raise FileNotFoundError("there is no file `wanted`")

@wakeboard.handler("hang")
async def hang(run):
    Path("hanging").write_text(str(os.getpid()))
    await asyncio.sleep(600)
"""


class Up:
    """One `wakeboard up jobs`, started in `place`, which has a folder jobs/ with handlers in it."""

    def __init__(self, place: Path, *, dsn: str = "", wake_every_s: float = NEVER, **environment: str) -> None:
        self.place = place
        self._dsn, self._wake_every_s = dsn, wake_every_s
        self._environment = environment
        self._process: subprocess.Popen[bytes] | None = None
        (place / "jobs").mkdir(exist_ok=True)
        if not (place / "jobs" / "handlers.py").exists():
            self.write("handlers.py", HANDLERS)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
            self.process.wait(PATIENCE_S)

    @property
    def process(self) -> subprocess.Popen[bytes]:
        assert self._process is not None
        return self._process

    @property
    def log(self) -> Path:
        return self.place / "up.log"

    @property
    def said(self) -> str:
        return self.log.read_text(encoding="utf-8", errors="replace")

    def start(self) -> None:
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "worker")]),
            **self._environment,
        }
        command = [sys.executable, "-c", START, self._dsn, str(self._wake_every_s)]
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(command, cwd=self.place, env=environment, stdout=log, stderr=log)

    # -- the folder ----------------------------------------------------------------------------------------------------

    def write(self, name: str, text: str) -> None:
        (self.place / "jobs" / name).write_text(text, encoding="utf-8")

    def declare(
        self, name: str, job_type: str, *, run_on_up: bool = False, cron: str = "0 3 1 1 *", max_attempts: int = 1
    ) -> None:
        text = SCHEDULE.format(
            name=name, job_type=job_type, run_on_up=str(run_on_up).lower(), cron=cron, max_attempts=max_attempts
        )
        self.write(f"{name}.yaml", text)

    # -- waiting and asking --------------------------------------------------------------------------------------------

    def wait_for(self, words: str) -> str:
        """The first line that it says with these words in it."""
        return self.wait_until(lambda: next((line for line in self.said.splitlines() if words in line), ""), words)

    def wait_until(self, happened: Callable[[], Any], what: str) -> Any:
        end = time.monotonic() + PATIENCE_S
        while time.monotonic() < end:
            if answer := happened():
                return answer
            time.sleep(LOOK_EVERY_S)
        raise AssertionError(f"never came: {what}; it said:\n{self.said}")

    @property
    def found(self) -> dict[str, Any]:
        """What other commands find in .wakeboard/up.json."""
        return json.loads((self.place / ".wakeboard" / "up.json").read_text())

    def ask(self, query: str, *values: object) -> Any:
        with psycopg.connect(self.found["dsn"], autocommit=True) as conn:
            row = conn.execute(query.encode(), values or None).fetchone()
            return row[0] if row else None

    def enqueue(self, job_type: str, delay_s: float = 0) -> int:
        columns, values = "(job_type, run_at)", "(%s, now() + make_interval(secs => %s))"
        return self.ask(f"insert into wakeboard.job_runs {columns} values {values} returning id", job_type, delay_s)

    def started(self) -> list[int]:
        """Processes that run in this place or work for it, without `up` itself."""
        return self.started_by(self.process.pid)

    def started_by(self, up_pid: int) -> list[int]:
        """The same, for an `up` that somebody else has started here."""
        return [pid for pid in _pids() if pid != up_pid and _belongs(pid, self.place)]

    # -- the end -------------------------------------------------------------------------------------------------------

    def send(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def exit_code(self) -> int:
        return self.process.wait(PATIENCE_S)

    def nobody_left(self) -> bool:
        return bool(self.wait_until(lambda: not self.started(), f"an end of {self.started()}"))


def _pids() -> list[int]:
    return [int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit()]


def _belongs(pid: int, place: Path) -> bool:
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace")
        return bool(words) and (str(place) in words or Path(f"/proc/{pid}/cwd").readlink().is_relative_to(place))
    except OSError:
        return False
