"""Why the operator does not run a JobSchedule."""

from __future__ import annotations

from typing import Final, NamedTuple

INVALID: Final = "InvalidSpec"  # the spec breaks a rule that admission cannot see
NOT_ALLOWED: Final = "NotAllowed"  # the tenancy policy does not allow it
FOREIGN: Final = "OtherInstallation"  # another database runs it


class ScheduleProblem(NamedTuple):
    """The reason and message of a condition. The message says what to write instead."""

    reason: str
    message: str
