"""Why a JobSchedule cannot be honoured as it is written."""

from __future__ import annotations

from typing import Final, NamedTuple

INVALID: Final = "InvalidSpec"  # the spec breaks a rule that admission cannot see
NOT_ALLOWED: Final = "NotAllowed"  # the tenancy policy has no place for it
FOREIGN: Final = "OtherInstallation"  # its status was written from another database


class Problem(NamedTuple):
    """A reason for programs, and sentences for people that say what to write instead."""

    reason: str
    message: str
