"""Runs a pattern, kills its workers while they work, and reports whether an effect was lost or doubled.

    python examples/patterns/check.py email-batch --kills 2

Everything happens in a temporary folder: `wakeboard up` with a database, files of the pattern's servers, free ports.
Each pattern has a check.py, which compares the database with what the servers counted. It exits with 0 if all work is
done and every effect happened once, with 75 if work is left, and otherwise with 1. Settings of a pattern, such as
EMAIL_RECIPIENTS, are read from the environment.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg

if TYPE_CHECKING:
    from collections.abc import Generator

PATTERNS = Path(__file__).parent
UNFINISHED = 75  # exit code of a pattern's check.py
POLL_S = 0.1
QUIET_S = 2.0  # without an end of a run, before the check
AGAIN_S = 1.0  # between two checks: each starts a process
SETTINGS = {"WAKEBOARD_LEASE_SECONDS": "2"}  # runs of a killed worker are queued again after two seconds
WORK = """
select (select count(*) from wakeboard.job_runs where status = 'running'),
       (select count(*) from wakeboard.job_run_history)
"""
WORKERS = "select substring(name from '[0-9]+$')::int from wakeboard.workers where last_seen > now() - interval '3 s'"


def main() -> None:
    """Exits with 0 if nothing was lost or doubled, else with 1."""
    names = sorted(path.parent.name for path in PATTERNS.glob("*/check.py"))
    parser = argparse.ArgumentParser(description="Run a pattern, kill its workers, count its effects.")
    parser.add_argument("pattern", choices=names)
    parser.add_argument("--kills", type=int, default=2, help="how often to kill the workers, at most (default: 2)")
    parser.add_argument("--dsn", help="an empty database; without it, an embedded Postgres")
    parser.add_argument("--timeout", type=float, default=600.0, metavar="SECONDS", help="give up then (default: 600)")
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="wakeboard-"))
    folder.chmod(0o755)  # root's Postgres runs as another user
    try:
        pattern = folder / options.pattern
        ignored = shutil.ignore_patterns(".wakeboard", "out", "__pycache__")
        shutil.copy(PATTERNS / "demonstration.py", folder)
        shutil.copytree(PATTERNS / options.pattern, pattern, ignore=ignored)
        sys.exit(run(pattern, folder, options.dsn, options.kills, options.timeout))
    except KeyboardInterrupt:
        sys.exit(130)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def run(pattern: Path, folder: Path, dsn: str | None, kills: int, timeout_s: float) -> int:
    """Returns the exit code of the pattern's check once it has finished and the workers have been killed."""
    give_up_at = time.monotonic() + timeout_s
    environment = {**os.environ, **SETTINGS, **free_ports(pattern), "PATTERN_OUT": str(folder)}
    with ExitStack() as stack:
        process, log = stack.enter_context(up(pattern, folder, environment, dsn))
        environment["WAKEBOARD_DSN"] = dsn = dsn or wait_for_dsn(process, folder, give_up_at)
        conn = stack.enter_context(psycopg.connect(dsn, autocommit=True))
        killed = seen = last_ended = 0
        check_at = time.monotonic() + QUIET_S
        while process.poll() is None and time.monotonic() < give_up_at:
            time.sleep(POLL_S)
            running, ended = work(conn)
            if running:
                if killed < kills and ended > seen and kill_the_workers(conn):  # since the last kill work has gone on
                    killed, seen = killed + 1, ended
                    print(f"killed the workers in mid-work ({killed} of {kills})", flush=True)
                continue
            if ended != last_ended:
                last_ended, check_at = ended, time.monotonic() + QUIET_S
            if time.monotonic() < check_at:  # a check takes so long that work could begin and end meanwhile
                continue
            found = check(pattern, environment)
            if found.returncode != UNFINISHED:
                print(found.stdout, end="", flush=True)
                unharmed = kills > 0 and not killed
                if unharmed:
                    print("All work was done before a worker could be killed: give it more work.")
                if found.returncode or unharmed:
                    print(end_of(log))
                return found.returncode or int(unharmed)
            check_at = time.monotonic() + AGAIN_S
        print(end_of(log), f"not finished: {check(pattern, environment).stdout}", sep="\n")
        return 1


def check(pattern: Path, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """What the pattern's check.py says."""
    command = [sys.executable, str(pattern / "check.py")]
    return subprocess.run(
        command, env=environment, check=False, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )


def end_of(log: Path) -> str:
    """The last lines that `up` printed."""
    return log.read_text(encoding="utf-8", errors="replace")[-8000:]


@contextmanager
def up(
    pattern: Path, folder: Path, environment: dict[str, str], dsn: str | None
) -> Generator[tuple[subprocess.Popen[bytes], Path]]:
    """`wakeboard up PATTERN` in `folder` while the block runs; with the file that has its output."""
    log = folder / "up.log"
    program = Path(sys.executable).with_name("wakeboard")
    command = [str(program), *(["--dsn", dsn] if dsn else []), "up", str(pattern), "--no-board"]
    with log.open("wb") as output:
        process = subprocess.Popen(command, cwd=folder, env=environment, stdout=output, stderr=output)
    try:
        yield process, log
    finally:
        with suppress(ProcessLookupError):
            process.send_signal(signal.SIGINT)
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def wait_for_dsn(process: subprocess.Popen[bytes], folder: Path, give_up_at: float) -> str:
    """The connection string of the embedded Postgres, once `up` has started it."""
    file = folder / ".wakeboard" / "up.json"
    while not file.exists():
        if process.poll() is not None or time.monotonic() > give_up_at:
            sys.exit((folder / "up.log").read_text(encoding="utf-8", errors="replace"))
        time.sleep(0.1)
    return json.loads(file.read_text(encoding="utf-8"))["dsn"]


def work(conn: psycopg.Connection) -> tuple[int, int]:
    """How many runs are running, and how many have ended."""
    with suppress(psycopg.Error):  # it is not migrated yet
        return conn.execute(WORK).fetchone() or (0, 0)
    return 0, 0


def kill_the_workers(conn: psycopg.Connection) -> bool:
    """Kills the workers (SIGKILL). Returns whether there was one."""
    killed = False
    for (pid,) in conn.execute(WORKERS).fetchall():
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
            killed = True
    return killed


def free_ports(pattern: Path) -> dict[str, str]:
    """A free port for each NAME_PORT of the pattern's wakeboard.env."""
    names = re.findall(r"^(\w+_PORT)=", (pattern / "wakeboard.env").read_text(encoding="utf-8"), re.MULTILINE)
    probes = [socket.create_server(("127.0.0.1", 0)) for _ in names]
    ports = {name: str(probe.getsockname()[1]) for name, probe in zip(names, probes, strict=True)}
    for probe in probes:
        probe.close()
    return ports


if __name__ == "__main__":
    main()
