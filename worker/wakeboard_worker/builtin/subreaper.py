"""Runs a program. When it ends, ends all processes that it started, even those in other sessions.

Run as `python -I -S subreaper.py WORKER_PID FAILURE_FD KILL_AFTER_S PROGRAM ARGUMENT…`. On Linux it is a "child
subreaper" (prctl(2)): a descendant whose parent ends becomes its child, so every process of the program remains a
descendant. When the program ends, on SIGTERM, and when the worker ends, it sends SIGTERM to all of them, and SIGKILL
after KILL_AFTER_S. On other systems it can signal only the program's process group. It exits with the program's exit
code or signal. If the program cannot be started, it writes the errno to FAILURE_FD. It imports nothing from wakeboard.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from contextlib import suppress

TYPE_CHECKING = False  # importing typing is slow
if TYPE_CHECKING:
    from collections.abc import Callable

PR_SET_PDEATHSIG, PR_SET_DUMPABLE, PR_SET_CHILD_SUBREAPER = 1, 4, 36  # linux/prctl.h
POLL_EVERY_S = 0.01
KILL_WITHIN_S = 1.0  # then processes that cannot be signalled (of another user) are left


class _Terminated(BaseException):
    pass


def main() -> None:
    """Run the program to its end and exit as it did."""
    worker, failure, kill_after_s = int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
    signal.signal(signal.SIGTERM, _on_sigterm)
    status: int | None = None
    program = 0
    try:
        _adopt_orphans(worker)
        os.set_inheritable(failure, False)  # noqa: FBT003 - Python's own signature
        program = os.posix_spawnp(
            sys.argv[4], sys.argv[4:], os.environ, setsid=True, setsigdef=(signal.SIGPIPE, signal.SIGXFSZ)
        )
        ended = 0
        while ended != program:
            ended, status = os.wait()
    except OSError as error:
        os.write(failure, str(error.errno).encode())
    except _Terminated:
        pass
    finally:
        _end_all(program, kill_after_s)
    _exit_as(status)


def _on_sigterm(*_: object) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    raise _Terminated


def _adopt_orphans(worker: int) -> None:
    if sys.platform != "linux":
        return
    import ctypes

    prctl = ctypes.CDLL(None).prctl
    prctl(PR_SET_CHILD_SUBREAPER, 1)
    prctl(PR_SET_DUMPABLE, 0)  # no core dump of this process when it ends with the program's signal
    prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != worker:  # the worker ended before the call
        raise _Terminated


def _end_all(program: int, kill_after_s: float) -> None:
    """End all descendants. Returns when none is left, or after the time limit."""
    _signal_all(program, signal.SIGTERM)
    kill_at = time.monotonic() + kill_after_s
    while time.monotonic() < kill_at + KILL_WITHIN_S:
        try:
            if os.waitpid(-1, os.WNOHANG) != (0, 0):
                continue
        except ChildProcessError:
            break
        if time.monotonic() > kill_at:
            _signal_all(program, signal.SIGKILL)
        time.sleep(POLL_EVERY_S)
    _signal_all(program, signal.SIGKILL)


def _signal_all(program: int, number: signal.Signals) -> None:
    if program:
        _signal(os.killpg, program, number)
    for process in _descendants():
        _signal(os.kill, process, number)


def _signal(send: Callable[[int, int], None], target: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError, PermissionError):
        send(target, number)


def _descendants() -> list[int]:
    """Return the process ids of all descendants."""
    children: dict[int, list[int]] = {}
    for process in os.listdir("/proc") if sys.platform == "linux" else ():  # noqa: PTH208 - importing pathlib is slow
        if process.isdigit():
            children.setdefault(_parent_of(process), []).append(int(process))
    found: list[int] = []
    below = children.get(os.getpid(), [])
    while below:
        found += below
        below = [child for process in below for child in children.get(process, [])]
    return found


def _parent_of(process: str) -> int:
    try:
        with open(f"/proc/{process}/stat", "rb") as stat:  # noqa: PTH123 - importing pathlib is slow
            return int(stat.read().rpartition(b")")[2].split()[1])
    except OSError:  # it has ended
        return 0


def _exit_as(status: int | None) -> None:
    if status is not None and os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        if number != signal.SIGKILL:
            signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
    os._exit(os.WEXITSTATUS(status) if status is not None else 1)


if __name__ == "__main__":
    main()
