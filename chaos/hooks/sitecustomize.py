"""Read by every process of the cast as Python starts: its memory is bounded, its clock can be moved, it ends with us.

CHAOS_PARENT   the campaign's pid: the kernel kills this process when the campaign ends, however it ends
CHAOS_MEMORY   bytes of address space
CHAOS_CLOCK    a file of eight bytes: seconds by which this machine's wall clock is wrong; it may change at any time
CHAOS_RELEASE  the release number that the code reports instead of its own
"""

from __future__ import annotations

import ctypes
import mmap
import os
import resource
import struct
import sys
from pathlib import Path

PR_SET_PDEATHSIG, SIGKILL = 1, 9


def _end_with(parent: int) -> None:
    if os.getppid() == 1:
        os._exit(1)  # it ended before we asked
    if os.getppid() == parent:
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, SIGKILL)


def _move_clock(path: str) -> None:
    import datetime  # noqa: ICN001 - what others will import
    import time

    with Path(path).open("rb") as file:
        memory = mmap.mmap(file.fileno(), 8, prot=mmap.PROT_READ)
    real_time, real_datetime = time.time, datetime.datetime

    def wrong_by() -> float:
        return struct.unpack("d", memory)[0]

    class Moved(real_datetime):
        __slots__ = ()

        @classmethod
        def now(cls, tz: datetime.tzinfo | None = None) -> datetime.datetime:  # pyright: ignore[reportIncompatibleMethodOverride]
            return real_datetime.fromtimestamp(time.time(), tz)

    def moved_time() -> float:
        return real_time() + wrong_by()

    def moved_time_ns() -> int:
        return int(moved_time() * 1e9)

    time.time, time.time_ns, datetime.datetime = moved_time, moved_time_ns, Moved


def _report_release(number: str) -> None:
    import wakeboard

    wakeboard.__version__ = number


if parent := os.environ.get("CHAOS_PARENT"):
    _end_with(int(parent))
if size := os.environ.get("CHAOS_MEMORY"):
    resource.setrlimit(resource.RLIMIT_AS, (int(size), int(size)))
if clock := os.environ.get("CHAOS_CLOCK"):
    _move_clock(clock)
if release := os.environ.get("CHAOS_RELEASE"):
    _report_release(release)
sys.dont_write_bytecode = True
