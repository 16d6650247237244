"""Catch-up: which missed ticks of a schedule still run.

This is the one place for the policies. The resource, the table and the scheduler take them from here; a test compares
the table's constraint (0002_schedules.sql) with `CatchUpPolicy`.
"""

from __future__ import annotations

from typing import Final, Literal

CatchUpPolicy = Literal["Skip", "Latest", "All"]
DEFAULT_LIMIT: Final = 100  # missed ticks that run with All, unless the schedule has a limit


def missed_ticks_to_run(policy: str, limit: int) -> int:
    """Returns how many of the missed ticks run, counted from the newest."""
    return {"Skip": 0, "Latest": 1, "All": limit}[policy]


def skip_reason(policy: str) -> str:
    """Returns the reason that the history records for the missed ticks that do not run."""
    return f"CatchUp{policy}"
