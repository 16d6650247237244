"""A worker that is PID 1 of a container. Needs the right to make a PID namespace."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from testbed.cluster.processes import children
from testbed.processes import OUR_PACKAGES
from tests.chaos.processes import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.worker.conftest import Store

UNSHARE = ["unshare", "--fork", "--kill-child", "--pid", "--mount-proc"]
PROGRAM = """
import os, subprocess, sys, time, wakeboard
@wakeboard.handler("starts-a-program")
def starts_a_program(run):
    program = subprocess.Popen([sys.executable, "-c", "raise SystemExit(3)"])
    time.sleep(2)      # it has ended, and its exit code was not collected
    return program.wait()
@wakeboard.handler("leaves-an-orphan")
def leaves_an_orphan(run):
    subprocess.run(["sh", "-c", "sleep 0.1 & exit"], check=True)
    time.sleep(1)
    states = [open(f"/proc/{pid}/stat").read().rsplit(") ", 1)[1][0] for pid in os.listdir("/proc") if pid.isdigit()]
    return states.count("Z")
@wakeboard.handler("waits")
def waits(run):
    while not run.cancelled:
        time.sleep(0.01)
    raise RuntimeError
"""


@pytest.fixture
def container(store: Store, tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A worker that stays, as the first process of a namespace of its own."""
    if subprocess.run([*UNSHARE, "true"], check=False, capture_output=True).returncode:
        pytest.skip("no right to make a PID namespace")
    (tmp_path / "programs_of_mine.py").write_text(PROGRAM)
    environment = {
        **os.environ,
        "PYTHONPATH": f"{OUR_PACKAGES}:{tmp_path}",
        "WAKEBOARD_DSN": store.dsn,
        "WAKEBOARD_HANDLERS": "programs_of_mine",
        "WAKEBOARD_GRACE_SECONDS": "0",
    }
    command = [*UNSHARE, sys.executable, "-m", "wakeboard_worker", "--forever"]
    with subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL) as process:
        yield process
        process.kill()


def test_a_handlers_program_keeps_its_exit_code(store: Store, container: subprocess.Popen[bytes]) -> None:
    (run,) = store.enqueue("starts-a-program")
    store.watcher.wait("select true from wakeboard.job_run_history where id = %s", run)
    assert store.run(run)["result"] == 3


def test_orphans_are_ended(store: Store, container: subprocess.Popen[bytes]) -> None:
    (run,) = store.enqueue("leaves-an-orphan")
    store.watcher.wait("select true from wakeboard.job_run_history where id = %s", run)
    assert store.run(run)["result"] == 0


def test_sigterm_to_the_first_process_reaches_the_worker(store: Store, container: subprocess.Popen[bytes]) -> None:
    (run,) = store.enqueue("waits")
    store.watcher.wait("select true from wakeboard.job_runs where status = 'running'")
    first = wait_until(lambda: children(container.pid), "the namespace has a first process")
    os.kill(first[0], signal.SIGTERM)
    assert container.wait(30) == 0
    assert store.run(run)["status"] == "queued"
