"""The clock for the validity of leases. It also counts the time that the machine is suspended."""

from __future__ import annotations

import time
from typing import Final

# On Linux CLOCK_MONOTONIC stops during a suspend. macOS has no CLOCK_BOOTTIME, and its CLOCK_MONOTONIC does not stop.
_CLOCK: Final = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def boottime() -> float:
    """Seconds since an arbitrary moment, including those in which the machine was suspended."""
    return time.clock_gettime(_CLOCK)
