"""Catch-up: which of the due ticks of a schedule run after an outage or a pause.

The data say what an outage is: the oldest tick that no process has handled is older than the misfire grace. Without
one, a worker was merely late, and every due tick runs. After one, the policy decides about all of them at once, also
about those within the grace.

This is the one place for the policies. The resource, the table and the scheduler take them from here; a test compares
the table's constraint (0004_schedules.sql) with `CatchUpPolicy`.
"""

from __future__ import annotations

from typing import Final, Literal

CatchUpPolicy = Literal["Skip", "Latest", "All"]
DEFAULT_LIMIT: Final = 100  # due ticks that run with All after an outage, unless the schedule has a limit


def due_ticks_to_run(policy: str, limit: int, *, newest_is_on_time: bool) -> int:
    """Returns how many of the ticks that are due after an outage run, counted from the newest.

    With Skip, the newest one still runs if it is on time: no outage before a daily tick may cost that tick.
    """
    return {"Skip": int(newest_is_on_time), "Latest": 1, "All": limit}[policy]


def skip_reason(policy: str) -> str:
    """Returns the reason that the history records for the due ticks that do not run."""
    return f"CatchUp{policy}"
