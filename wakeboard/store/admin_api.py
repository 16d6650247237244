"""SQL functions for administrators, typed: what `wakeboard cancel`, `retry`, `pause`, `limit` and the like call.

Each method calls the SQL function of its name; docs/sql-functions.md says what the function guarantees.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from wakeboard.store.maintenance_api import Answer, Store

if TYPE_CHECKING:
    from collections.abc import Iterable


class Replayed(NamedTuple):
    """The answer of `replay` for one run. `new_id`: the run that it created; None if it refused."""

    id: int
    answer: str
    new_id: int | None


class AdminStore(Store):
    """The SQL functions for administrators, and those for maintenance."""

    async def cancel(self, ids: Iterable[int], reason: str = "Cancelled") -> list[Answer]:
        """Cancels runs: 'cancelled', 'requested' (it is running) or 'refused: …'."""
        return await self._answers("select id, answer from wakeboard.cancel(%s::bigint[], %s)", list(ids), reason)

    async def retry(self, ids: Iterable[int]) -> list[Answer]:
        """Queues dead or failed runs again: 'queued' or 'refused: …'."""
        return await self._answers("select id, answer from wakeboard.retry(%s::bigint[])", list(ids))

    async def discard(self, ids: Iterable[int], reason: str = "Discarded") -> list[Answer]:
        """Moves dead runs to history: 'discarded' or 'refused: …'."""
        return await self._answers("select id, answer from wakeboard.discard(%s::bigint[], %s)", list(ids), reason)

    async def replay(self, ids: Iterable[int]) -> list[Replayed]:
        """Creates new runs from finished ones: 'queued' with the new id, or 'refused: …'."""
        query = "select id, answer, new_id from wakeboard.replay(%s::bigint[])"
        return [Replayed(*row) for row in await self._rows(query, list(ids))]

    async def run_now(self, definition_id: int) -> tuple[int | None, str]:
        """Creates a run of a schedule, due now: (its id, 'queued') or (None, 'refused: …')."""
        run_id, answer = (await self._rows("select id, answer from wakeboard.run_now(%s)", definition_id))[0]
        return run_id, answer

    async def pause(self, what: str, reason: str = "") -> bool:
        """Pauses 'all', 'queue:NAME' or 'schedule:ID'. False: it was paused already."""
        return await self._value("select wakeboard.pause(%s, %s)", what, reason)

    async def resume(self, what: str) -> bool:
        """Ends a pause. False: it was not paused."""
        return await self._value("select wakeboard.resume(%s)", what)

    async def set_limit(self, key: str, max_running: int | None) -> None:
        """At most `max_running` runs of this limit key at once; None: the default again."""
        await self._rows("select wakeboard.set_limit(%s, %s)", key, max_running)

    async def confirm_removal(self, source: str) -> int | None:
        """Confirms the pending removal of a source. Returns how many schedules it removes; None: none is pending."""
        return await self._value("select wakeboard.confirm_removal(%s)", source)

    async def _answers(self, query: str, *values: Any) -> list[Answer]:
        return [Answer(*row) for row in await self._rows(query, *values)]
