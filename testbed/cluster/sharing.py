"""One control plane for all processes of a test run, kept by a process of its own: `python -m testbed.cluster.sharing`.

The first test process that needs it starts the keeper, under a lock. Who uses the control plane holds the write end of
a named pipe, whose only reader is the keeper. So the kernel does the counting: when the last user has ended, in
whatever way, the keeper reads the end of the pipe and ends the control plane. And where no keeper reads, opening the
pipe fails, and the next user starts one anew.
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


class NotShared(Exception):
    """The shared control plane could not be started; the message is what its keeper said."""


@contextmanager
def shared_control_plane(folder: Path) -> Generator[Cluster]:
    """The one of everyone who names this folder."""
    folder.mkdir(exist_ok=True)
    with _lock(folder):
        user = _join(folder)
        place = Path((folder / "place").read_text())
    try:
        yield Cluster(place, (place / "url").read_text())
    finally:
        os.close(user)


def _join(folder: Path) -> int:
    """A file that says, while it is open, that the control plane is in use."""
    users = folder / "users"
    try:
        return os.open(users, os.O_WRONLY | os.O_NONBLOCK)
    except OSError as nobody_reads:
        if nobody_reads.errno not in (errno.ENOENT, errno.ENXIO):
            raise
    users.unlink(missing_ok=True)
    os.mkfifo(users)
    first = os.open(users, os.O_RDWR)  # opened for both, it waits for no reader
    try:
        _start_keeper(folder)
        return os.open(users, os.O_WRONLY)
    finally:
        os.close(first)


def _start_keeper(folder: Path) -> None:
    """Returns when the control plane is ready."""
    said = folder / "keeper.log"
    with said.open("wb") as log:
        command = [sys.executable, "-m", "testbed.cluster.sharing", str(folder)]
        keeper = subprocess.Popen(
            command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log, start_new_session=True
        )
    assert keeper.stdout is not None
    with keeper.stdout as answer:
        ready = answer.readline() == READY
    keeper.returncode = 0  # it is left to itself: Popen need not ask for its end
    if not ready:
        raise NotShared(said.read_text(errors="replace"))


def keep(folder: Path) -> None:
    """Runs a control plane until nobody uses it any more."""
    users = os.open(folder / "users", os.O_RDONLY | os.O_NONBLOCK)
    place = folder / f"control-plane-{time.time_ns()}"
    with ControlPlane(place) as control_plane:
        (place / "url").write_text(control_plane.url)
        (folder / "place").write_text(str(place))
        os.write(sys.stdout.fileno(), READY)
        while True:
            _wait_until_all_have_left(users)
            with _lock(folder):
                if not _someone_came(users):
                    (folder / "users").unlink()
                    break


def _wait_until_all_have_left(users: int) -> None:
    gone = select.poll()
    gone.register(users, 0)  # the end of the pipe is told in any case
    gone.poll()


def _someone_came(users: int) -> bool:
    gone = select.poll()
    gone.register(users, 0)
    return not gone.poll(0)


@contextmanager
def _lock(folder: Path) -> Generator[None]:
    with (folder / "lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


if __name__ == "__main__":
    keep(Path(sys.argv[1]))
