"""Becomes another program that is told to stop (SIGINT) when the process that started it ends, however it ends.

Run as `python -I -S pdeathsig.py PARENT_PID UID GID PROGRAM ARGUMENT…` on Linux; UID -1 keeps the user.
It is a program of its own because the kernel forgets the wish when the user changes, and because running Python
between fork and exec is not safe in a process with threads. It imports nothing of wakeboard.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1  # linux/prctl.h


def main() -> None:
    """Takes the user's identity, asks for the signal, and becomes the program."""
    parent, uid, gid = (int(word) for word in sys.argv[1:4])
    if uid >= 0:
        os.setgroups([])
        os.setgid(gid)
        os.setuid(uid)
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGINT)
    if os.getppid() != parent:  # it ended before we asked
        sys.exit(1)
    os.execv(sys.argv[4], sys.argv[4:])  # noqa: S606 - no shell wanted


if __name__ == "__main__":
    main()
