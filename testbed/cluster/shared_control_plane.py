"""One control plane, shared by all processes of a test run.

The first test process that needs it starts a daemon process (`python -m testbed.cluster.shared_control_plane`), under a
lock. Each user of the control plane keeps the write end of a named pipe open, which the daemon reads. When the last
user has ended, even by a kill, the daemon reads end-of-file and stops the control plane. Without a daemon, opening the
pipe fails, and the next user starts a new one.
"""

from __future__ import annotations

import errno
import fcntl
import os
import select
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from testbed.cluster.cluster import Cluster
from testbed.cluster.control_plane import ControlPlane

if TYPE_CHECKING:
    from collections.abc import Generator

ROOT = Path(__file__).resolve().parents[2]
READY = b"ready\n"


class DaemonFailed(Exception):
    """The shared control plane could not be started; the message is the daemon's log."""


@contextmanager
def shared_control_plane(folder: Path) -> Generator[Cluster]:
    """The control plane that is shared by all processes with this folder."""
    folder.mkdir(exist_ok=True)
    with _lock(folder):
        user = _join(folder)
        place = Path((folder / "place").read_text())
    cluster = Cluster(place, (place / "url").read_text())
    try:
        yield cluster
    finally:
        cluster.disconnect()
        os.close(user)


def _join(folder: Path) -> int:
    """Opens the pipe's write end, which marks the control plane as in use. Starts a daemon if there is none."""
    users = folder / "users"
    try:
        return os.open(users, os.O_WRONLY | os.O_NONBLOCK)
    except OSError as no_reader:
        if no_reader.errno not in (errno.ENOENT, errno.ENXIO):
            raise
    users.unlink(missing_ok=True)
    os.mkfifo(users)
    first = os.open(users, os.O_RDWR)  # opened for both, it waits for no reader
    try:
        _start_daemon(folder)
        return os.open(users, os.O_WRONLY)
    finally:
        os.close(first)


def _start_daemon(folder: Path) -> None:
    """Returns when the control plane is ready."""
    log_file = folder / "daemon.log"
    with log_file.open("wb") as log:
        command = [sys.executable, "-m", "testbed.cluster.shared_control_plane", str(folder)]
        daemon = subprocess.Popen(
            command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log, start_new_session=True
        )
    assert daemon.stdout is not None
    with daemon.stdout as answer:
        ready = answer.readline() == READY
    daemon.returncode = 0  # it is left to itself: Popen need not ask for its end
    if not ready:
        raise DaemonFailed(log_file.read_text(errors="replace"))


def keep(folder: Path) -> None:
    """Runs a control plane until its last user has ended."""
    users = os.open(folder / "users", os.O_RDONLY | os.O_NONBLOCK)
    place = folder / f"control-plane-{time.time_ns()}"
    with ControlPlane(place) as control_plane:
        (place / "url").write_text(control_plane.url)
        (folder / "place").write_text(str(place))
        os.write(sys.stdout.fileno(), READY)
        while True:
            _all_have_left(users)
            with _lock(folder):
                if _all_have_left(users, within_ms=0):  # and no one has come meanwhile
                    (folder / "users").unlink()
                    break


def _all_have_left(users: int, within_ms: int | None = None) -> bool:
    """Waits for the end of the pipe; without `within_ms` for as long as it takes."""
    gone = select.poll()
    gone.register(users, 0)  # poll reports the end of the pipe in any case
    return bool(gone.poll(within_ms))


@contextmanager
def _lock(folder: Path) -> Generator[None]:
    with (folder / "lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


if __name__ == "__main__":
    keep(Path(sys.argv[1]))
