"""What handlers of `odd_handlers` raise or return: outcomes and results that a worker cannot foresee."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, Any

import wakeboard

if TYPE_CHECKING:
    from collections.abc import Callable


class OddSnooze(wakeboard.Snooze):
    """Its constructor calls another one than that of its class."""

    def __init__(self) -> None:
        Exception.__init__(self, "later")


class OddRetry(wakeboard.RetryAfter):
    def __init__(self) -> None:
        Exception.__init__(self, "later")


class SnoozeSoon(OddSnooze):
    seconds: Any = "soon"


class RetrySoon(OddRetry):
    seconds: Any = "soon"


class NoSeconds(OddSnooze):
    seconds: Any = None


class ObjectAsSeconds(OddRetry):
    seconds: Any = object()


class Raises(OddSnooze):
    @property
    def seconds(self) -> Any:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Ends the process that reads it."""
        raise SystemExit(3)


class NotANumber(OddSnooze):
    seconds = float("nan")


class Unreadable(RetrySoon):
    def __str__(self) -> str:
        raise SystemExit(3)


class OddDate(dt.date):
    def isoformat(self) -> str:
        """Ends the process that converts it."""
        raise SystemExit(3)


ODD: dict[str, Callable[[], BaseException]] = {
    "snooze": OddSnooze,
    "retry": OddRetry,
    "snooze soon": SnoozeSoon,
    "retry soon": RetrySoon,
    "no seconds": NoSeconds,
    "object": ObjectAsSeconds,
    "raises": Raises,
    "not a number": NotANumber,
    "unreadable": Unreadable,
    "tiny": lambda: wakeboard.RetryAfter(1e-320),
}
