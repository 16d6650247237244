"""Python imports this module at the start of every process of a campaign.

CHAOS_PARENT  the campaign's pid; the kernel kills this process when the campaign ends, however it ends
CHAOS_MEMORY  the limit of its address space, in bytes
CHAOS_CLOCK   a file with a double: the error of the wall clock in seconds; it may change at any time
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
        os._exit(1)  # the parent has ended already
    if os.getppid() == parent:
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, SIGKILL)


def _patch_clock(path: str) -> None:
    import datetime  # noqa: ICN001 - the module that others import
    import time

    with Path(path).open("rb") as file:
        memory = mmap.mmap(file.fileno(), 8, prot=mmap.PROT_READ)
    real_time, real_datetime = time.time, datetime.datetime

    def error_s() -> float:
        return struct.unpack("d", memory)[0]

    class PatchedDatetime(real_datetime):
        __slots__ = ()

        @classmethod
        def now(cls, tz: datetime.tzinfo | None = None) -> datetime.datetime:  # pyright: ignore[reportIncompatibleMethodOverride]
            return real_datetime.fromtimestamp(time.time(), tz)

    def patched_time() -> float:
        return real_time() + error_s()

    def patched_time_ns() -> int:
        return int(patched_time() * 1e9)

    time.time, time.time_ns, datetime.datetime = patched_time, patched_time_ns, PatchedDatetime


if parent := os.environ.get("CHAOS_PARENT"):
    _end_with(int(parent))
if size := os.environ.get("CHAOS_MEMORY"):
    resource.setrlimit(resource.RLIMIT_AS, (int(size), int(size)))
if clock := os.environ.get("CHAOS_CLOCK"):
    _patch_clock(clock)
sys.dont_write_bytecode = True
