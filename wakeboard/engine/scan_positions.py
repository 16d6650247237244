"""Where the claims of a worker continue: a position in the due runs of each queue and priority."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final, TypeAlias

from wakeboard.store.array_texts import number_array, text_array
from wakeboard.store.pg_timestamp import from_pg_timestamp

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

PRIORITIES: Final = (5, 4, 3, 2, 1)  # the order in which they are served
SCAN_START: Final = "-infinity"

Pair: TypeAlias = tuple[str, int]  # (queue, priority)
Further: TypeAlias = tuple[str, int, str, int]  # (queue, priority, run_at, id)


@dataclass(slots=True)
class ScanPositions:
    """The scan position of each (queue, priority) pair. Kept in memory only."""

    queues: Sequence[str]
    pairs: list[Pair] = field(init=False)
    _seen: dict[Pair, tuple[str, int]] = field(init=False)

    def __post_init__(self) -> None:
        self.pairs = [(queue, priority) for priority in PRIORITIES for queue in self.queues]
        self.rewind()

    def rewind(self) -> None:
        """Starts the next claim at the beginning of every pair."""
        self._seen = dict.fromkeys(self.pairs, (SCAN_START, 0))

    def move(self, pair: Pair, run_at: int, run_id: int) -> None:
        """Moves the position of a pair to this run (`run_at` in binary form)."""
        self._seen[pair] = (str(from_pg_timestamp(run_at)), run_id)

    def follow(self, further: Iterable[Further]) -> None:
        """Moves positions to where `fetch_runs` or `advance_scan` says that the next claim continues."""
        for queue, priority, run_at, run_id in further:
            self._seen[queue, priority] = (str(datetime.fromisoformat(run_at).astimezone(UTC)), run_id)

    def catch_up(self, other: ScanPositions) -> None:
        """Takes the later position of each pair. The texts sort as their timestamps do."""
        for pair in self.pairs:
            self._seen[pair] = max(self._seen[pair], other._seen[pair])

    def rotate(self) -> None:
        """Puts another queue first, so that no queue starves the others of the same priority."""
        if len(self.queues) > 1:
            self.queues = [*self.queues[1:], self.queues[0]]
            self.pairs = [(queue, priority) for priority in PRIORITIES for queue in self.queues]

    def columns(self, pairs: Sequence[Pair] | None = None) -> tuple[str, str, str, str]:
        """Queues, priorities and positions of these pairs (None: all), as four array literals."""
        wanted = self.pairs if pairs is None else pairs
        seen = [self._seen[pair] for pair in wanted]
        return (
            text_array(queue for queue, _ in wanted),
            number_array([priority for _, priority in wanted]),
            text_array(run_at for run_at, _ in seen),
            number_array([run_id for _, run_id in seen]),
        )
