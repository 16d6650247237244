"""What the handlers of measured workers report, in files that the environment names."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Final

FIRST: Final = "BENCH_FIRST"  # a path: the Unix time of the first handler call goes to PATH.<pid>
LATENESS: Final = "BENCH_LATENESS"  # a path: ms between payload["due"] and the handler's start go to PATH.<pid>
WAITS_S: Final = 0.010  # of the handler that waits

_unreported = [Path(f"{os.environ[FIRST]}.{os.getpid()}")] if FIRST in os.environ else []


def report_first() -> None:
    """Called by every handler; without effect but for the first time."""
    if _unreported:
        now = str(time.time())
        _unreported.pop().write_text(now, encoding="ascii")
