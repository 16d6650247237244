"""The options of `wakeboard import`. This module imports nothing heavy, because `--help` reads the bounds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from datetime import datetime

DEFAULT_TIMEOUT_S: Final = 86_400
LONGEST_TIMEOUT_S: Final = 31 * 86_400
POOL_TIMEOUT_S: Final = 3600  # WAKEBOARD_MAX_TIMEOUT_SECONDS of a pool that sets none


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportOptions:
    """What the source does not say.

    `default_zone`: the zone of schedules that name none. `timeout_s`: the timeout of work without a deadline.
    `suspended`: every JobSchedule is written with `suspend: true`. `queue`: their queue, or None for the default one.
    """

    now: datetime
    default_zone: str = "Etc/UTC"
    timeout_s: int = DEFAULT_TIMEOUT_S
    queue: str | None = None
    suspended: bool = False
