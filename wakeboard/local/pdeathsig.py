"""Executes a program that receives SIGINT when its parent process ends, even if the parent is killed (Linux only).

Usage: `python -I -S pdeathsig.py PARENT_PID UID GID PROGRAM ARGUMENT…`. UID -1 keeps the current user.

It is a separate program for two reasons: the kernel clears the parent-death signal when the user changes, and running
Python between fork and exec is unsafe in a process with threads. It must not import wakeboard.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1  # linux/prctl.h


def main() -> None:
    """Changes the user, requests the signal, and executes the program."""
    parent, uid, gid = (int(word) for word in sys.argv[1:4])
    if uid >= 0:
        os.setgroups([])
        os.setgid(gid)
        os.setuid(uid)
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGINT)
    if os.getppid() != parent:  # the parent ended before the request
        sys.exit(1)
    os.execv(sys.argv[4], sys.argv[4:])  # noqa: S606 - no shell wanted


if __name__ == "__main__":
    main()
