"""What an SQL function that acts on many runs or schedules answers for each of them."""

from __future__ import annotations

from typing import NamedTuple


class Answer(NamedTuple):
    """The answer for one run or schedule: a word, or 'refused: <why>'."""

    id: int
    answer: str

    @property
    def refused(self) -> bool:
        """Whether nothing was done; `answer` has the reason."""
        return self.answer.startswith("refused")


class Replayed(NamedTuple):
    """The answer of `replay` for one run. `new_id`: the run that it created; None if it refused."""

    id: int
    answer: str
    new_id: int | None
