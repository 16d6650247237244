"""Runs `wakeboard up` as a real process in a folder of its own, and waits for its output."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import psycopg

from testbed.processes import wait_for

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT = Path(__file__).parents[2]
TIMEOUT_S = 60.0  # for each awaited event

START = """
import sys
from pathlib import Path
from wakeboard.errors import WakeboardError
from wakeboard.local.up import UpOptions, run_up
try:
    port = int(sys.argv[3]) if sys.argv[3] else None
    options = UpOptions(
        folder=Path("jobs"), program="wakeboard", dsn=sys.argv[1], wake_interval_s=float(sys.argv[2]), board_port=port
    )
    sys.exit(run_up(options))
except WakeboardError as error:
    sys.exit(f"wakeboard: {error}")
"""

NEVER = 10_000_000.0  # seconds between two wakes, so that only due runs start a worker

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

@wakeboard.handler("board_url")
def board_url(run):
    return os.environ["WAKEBOARD_BOARD_URL"]

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
    """`wakeboard up jobs` in `folder`, which has handlers in jobs/."""

    def __init__(
        self,
        folder: Path,
        *,
        dsn: str = "",
        wake_interval_s: float = NEVER,
        board_port: int | None = None,
        **environment: str,
    ) -> None:
        self.folder = folder
        self._dsn, self._wake_interval_s, self._board_port = dsn, wake_interval_s, board_port
        self._environment = environment
        self._process: subprocess.Popen[bytes] | None = None
        (folder / "jobs").mkdir(exist_ok=True)
        if not (folder / "jobs" / "handlers.py").exists():
            self.write("handlers.py", HANDLERS)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
            self.process.wait(TIMEOUT_S)

    @property
    def process(self) -> subprocess.Popen[bytes]:
        assert self._process is not None
        return self._process

    @property
    def log(self) -> Path:
        return self.folder / "up.log"

    @property
    def output(self) -> str:
        return self.log.read_text(encoding="utf-8", errors="replace")

    def start(self) -> None:
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "worker")]),
            **self._environment,
        }
        port = "" if self._board_port is None else str(self._board_port)
        command = [sys.executable, "-c", START, self._dsn, str(self._wake_interval_s), port]
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(command, cwd=self.folder, env=environment, stdout=log, stderr=log)

    # -- the folder ----------------------------------------------------------------------------------------------------

    def write(self, name: str, text: str) -> None:
        (self.folder / "jobs" / name).write_text(text, encoding="utf-8")

    def declare(
        self, name: str, job_type: str, *, run_on_up: bool = False, cron: str = "0 3 1 1 *", max_attempts: int = 1
    ) -> None:
        text = SCHEDULE.format(
            name=name, job_type=job_type, run_on_up=str(run_on_up).lower(), cron=cron, max_attempts=max_attempts
        )
        self.write(f"{name}.yaml", text)

    # -- waiting and queries -------------------------------------------------------------------------------------------

    def wait_for(self, words: str) -> str:
        """The first line of output that contains the words."""
        return self.wait_until(lambda: next((line for line in self.output.splitlines() if words in line), ""), words)

    def wait_for_success(self, run_id: int, job_type: str = "greet") -> None:
        self.wait_for(f"{f'run {run_id}':<8}  {job_type} succeeded")

    def wait_until(self, condition: Callable[[], Any], what: str) -> Any:
        return wait_for(condition, within_s=TIMEOUT_S, why=lambda: f"{what}; output:\n{self.output}")

    @property
    def up_file(self) -> dict[str, Any]:
        """The content of .wakeboard/up.json."""
        return json.loads((self.folder / ".wakeboard" / "up.json").read_text())

    def query(self, statement: str, *values: object) -> Any:
        with psycopg.connect(self.up_file["dsn"], autocommit=True) as conn:
            row = conn.execute(statement.encode(), values or None).fetchone()
            return row[0] if row else None

    def enqueue(self, job_type: str, delay_s: float = 0) -> int:
        columns, values = "(job_type, run_at)", "(%s, now() + make_interval(secs => %s))"
        return self.query(f"insert into wakeboard.job_runs {columns} values {values} returning id", job_type, delay_s)

    def children(self, up_pid: int | None = None) -> list[int]:
        """The pids of the processes that run in or for the folder, except `up` itself."""
        up_pid = up_pid or self.process.pid
        return [pid for pid in _pids() if pid != up_pid and _belongs(pid, self.folder)]

    # -- the end -------------------------------------------------------------------------------------------------------

    def send(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def exit_code(self) -> int:
        return self.process.wait(TIMEOUT_S)

    def stop(self, number: signal.Signals = signal.SIGINT) -> None:
        """Stops `up` with a signal, and checks that it exits with 0 and leaves no process."""
        self.send(number)
        assert self.exit_code() == 0
        assert self.children() == []

    def wait_for_no_children(self, up_pid: int | None = None) -> None:
        self.wait_until(lambda: not self.children(up_pid), "the end of all child processes")


def _pids() -> list[int]:
    return [int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit()]


def _belongs(pid: int, folder: Path) -> bool:
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace")
        return bool(words) and (str(folder) in words or Path(f"/proc/{pid}/cwd").readlink().is_relative_to(folder))
    except OSError:
        return False
