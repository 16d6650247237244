"""The actions of commands, through the API of the board, one run after the other, with the user's permissions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from wakeboard.backfills.rules import DeclaredBackfill
from wakeboard.cli.kubectl.board_api import CONFLICT, FORBIDDEN, NOT_FOUND, BoardRefused
from wakeboard.engine.answers import Answer, Replayed

if TYPE_CHECKING:
    from collections.abc import Iterable

    from wakeboard.backfills.rules import BackfillChange, BackfillRange
    from wakeboard.cli.kubectl.board_api import BoardApi

_OF_ONE_RUN: Final = frozenset({CONFLICT, FORBIDDEN, NOT_FOUND})  # others concern all runs


class BoardActions:
    """Implements RunActor. The board names the user in the audit row."""

    def __init__(self, api: BoardApi) -> None:
        self._api = api

    async def cancel(self, ids: Iterable[int], reason: str = "") -> list[Answer]:
        """Cancels runs."""
        return self._each(ids, "cancel", reason)

    async def retry(self, ids: Iterable[int], reason: str = "") -> list[Answer]:
        """Queues dead or failed runs again."""
        return self._each(ids, "retry", reason)

    async def revoke(self, ids: Iterable[int], reason: str = "") -> list[Answer]:
        """Takes running runs from their workers."""
        return self._each(ids, "release", reason)

    async def discard(self, ids: Iterable[int], reason: str = "") -> list[Answer]:
        """Moves dead runs to history."""
        return self._each(ids, "discard", reason)

    async def replay(self, ids: Iterable[int], payload: Any = None, reason: str = "") -> list[Replayed]:
        """Enqueues copies of finished runs."""
        return [Replayed(run_id, *self._act(f"/runs/{run_id}/replay", reason, payload)) for run_id in ids]

    async def discard_and_replay(self, ids: Iterable[int], payload: Any = None, reason: str = "") -> list[Replayed]:
        """Moves dead runs to history, and enqueues copies of them."""
        path = "/runs/{}/discard-and-replay"
        return [Replayed(run_id, *self._act(path.format(run_id), reason, payload)) for run_id in ids]

    async def run_now(self, definition_id: int, payload: Any = None, reason: str = "") -> tuple[int | None, str]:
        """Enqueues a run of a schedule: its id, or None and why not."""
        answer, run_id = self._act(f"/schedules/{definition_id}/run", reason, payload)
        return run_id, answer

    async def create_backfill(
        self, definition_id: int, wanted: BackfillRange, *, at_once: int = 1, again: bool = False, reason: str = ""
    ) -> DeclaredBackfill:
        """Declares that these ticks run, each once. `found` is empty: the API does not say it."""
        made = self._api.post(
            f"/schedules/{definition_id}/backfill",
            first=wanted.begin.isoformat(),
            last=wanted.end.isoformat(),
            at_once=at_once,
            again=again,
            confirmed=len(wanted.ticks),
            reason=reason,
        )
        number = int(made["link"].rpartition("/")[2])
        return DeclaredBackfill(number, self._api.get(f"/backfills/{number}")["total"], {})

    async def change_backfill(self, backfill_id: int, change: BackfillChange, reason: str = "") -> str | None:
        """Pauses, resumes or cancels a backfill: what it is now, in words; None: nothing changed."""
        try:
            return self._api.post(f"/backfills/{backfill_id}/{change}", reason=reason)["answer"]
        except BoardRefused as refused:
            if refused.status != CONFLICT:
                raise
            return None

    def _each(self, ids: Iterable[int], action: str, reason: str) -> list[Answer]:
        return [Answer(run_id, self._act(f"/runs/{run_id}/{action}", reason, None)[0]) for run_id in ids]

    def _act(self, path: str, reason: str, payload: Any) -> tuple[str, int | None]:
        """The answer for a run or schedule, and the id of the run that was created. Raises if all would be refused."""
        try:
            done = self._api.post(path, reason=reason, payload=payload)
        except BoardRefused as refused:
            if refused.status not in _OF_ONE_RUN:
                raise
            return refused.answer, None
        created = (done["link"] or "").rpartition("/")[2]
        return done["answer"], int(created) if created else None
