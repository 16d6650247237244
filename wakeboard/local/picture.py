"""What there is to see at one moment; how it looks is the live view's business."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from wakeboard.local.telling import UP, OutputLine

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import datetime

    from wakeboard.store.queries.listings import RunRow, ScheduleRow


@dataclass(frozen=True, slots=True)
class ViewState:
    """The board as it was at `now`, by the database's clock."""

    now: datetime
    schedules: Sequence[ScheduleRow] = ()
    runs: Sequence[RunRow] = ()  # newest first


@dataclass(frozen=True, slots=True)
class Waking:
    """What the waker is doing: the workers that run now, and the next minute boundary in seconds."""

    workers: int
    next_in_s: float


class Concerns:
    """What is not as it should be, by what it is about. Each is told when it comes, and again when it has changed."""

    def __init__(self, tell: Callable[[OutputLine], None]) -> None:
        self._tell = tell
        self._known: dict[str, tuple[str, ...]] = {}

    def now(self, about: str, sentences: Sequence[str], *, over: str = "all is well again.") -> None:
        """From now on these are the concerns about this; none: `over` is told, if there were any."""
        before = self._known.get(about, ())
        for sentence in sentences:
            if sentence not in before:
                self._tell(OutputLine(UP, sentence, "bad"))
        if before and not sentences:
            self._tell(OutputLine(UP, f"{about}: {over}", "good"))
        self._known[about] = tuple(sentences)

    @property
    def all(self) -> list[str]:
        """All of them."""
        return [sentence for sentences in self._known.values() for sentence in sentences]
