"""What `wakeboard up` shows where there is no terminal: a line for each thing that happens, for people and grep."""

from __future__ import annotations

import sys
from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Protocol

from wakeboard.display_zone import in_zone
from wakeboard.output import write_line
from wakeboard.rules.sanitize import one_line

if TYPE_CHECKING:
    from wakeboard.local.picture import ViewState, Waking
    from wakeboard.local.telling import OutputLine

WHO_WIDTH = 8


class Screen(Protocol):
    """Where `up` tells and shows. A screen that has gone away (a closed terminal) is no reason to fail."""

    def tell(self, line: OutputLine) -> None:
        """Something that happened, or that a program said."""
        ...

    def show(self, picture: ViewState, waking: Waking, concerns: list[str]) -> None:
        """The board as it is now."""
        ...

    def close(self) -> None:
        """Back to the terminal as it was."""
        ...


def plain_line(line: OutputLine, now: datetime) -> str:
    """`14:03:00  run 12    shop/weekly-report succeeded in 2.4 s`, in the display zone."""
    return f"{in_zone(line.at or now):%H:%M:%S}  {one_line(line.who):<{WHO_WIDTH}}  {one_line(line.text)}"


class PlainLines:
    """The screen that is only lines on standard output."""

    def tell(self, line: OutputLine) -> None:
        """Prints it."""
        with suppress(OSError, ValueError):
            write_line(plain_line(line, datetime.now(UTC)))
            sys.stdout.flush()

    def show(self, picture: ViewState, waking: Waking, concerns: list[str]) -> None:
        """Nothing: what is new has been told."""

    def close(self) -> None:
        """Nothing."""
