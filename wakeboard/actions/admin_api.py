"""SQL functions for administrators, typed: what `wakeboard cancel`, `retry`, `pause`, `limit` and the like call.

Each method calls the SQL function of its name, except `discard_and_replay` and `change_backfill`;
docs/sql-functions.md says what the function guarantees. The function writes the audit rows in the transaction of the
action.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Literal, LiteralString, NamedTuple, TypeAlias

from psycopg.rows import tuple_row
from psycopg.sql import SQL, Composed

from wakeboard.backfills.rules import DeclaredBackfill
from wakeboard.engine.answers import Answer, Replayed
from wakeboard.engine.maintenance_api import MaintenanceStore
from wakeboard.store.array_texts import moment_array
from wakeboard.store.statements import read
from wakeboard.text.canonical_json import check_payload, parse_payload
from wakeboard.text.humanize import counted

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from datetime import datetime

    import psycopg

    from wakeboard.backfills.rules import BackfillChange, BackfillRange
    from wakeboard.limits.rules.rate import Rate

RunActionName: TypeAlias = Literal[
    "retry", "cancel", "discard", "replay", "release"
]  # a permission of the board has each name
Source: TypeAlias = Literal["cli", "board", "kubectl", "up", "sql"]


# Both functions see what the one before them in the statement has changed. `replay` of no ids does nothing.
_DISCARD_AND_REPLAY: LiteralString = """
select wanted.id, coalesce(made.answer, wanted.answer), made.new_id
  from wakeboard.discard(%(ids)s::bigint[], %(why)s, %(actor)s, %(source)s) as wanted
  left join lateral wakeboard.replay(
         case wanted.answer when 'discarded' then array[wanted.id] else '{}' end::bigint[],
         %(payload)s::pg_catalog.jsonb, %(reason)s, %(actor)s, %(source)s) as made on true
"""


class PayloadText(str):
    """A payload as JSON text. It is sent as it is, so that no number loses digits."""

    __slots__ = ()


class CreatedBulkAction(NamedTuple):
    """A new bulk action and the number of its runs."""

    id: int
    total: int


class BulkActionProgress(NamedTuple):
    """A bulk action after a batch. `done`: runs with an answer, of which `refused` were refused.

    `answered`: the size of this batch. 0 without `finished`: another process executes a batch at this moment.
    `cancelled`: it ended before all runs were done.
    """

    total: int
    done: int
    refused: int
    answered: int
    finished: bool
    cancelled: bool


class AdminStore(MaintenanceStore):
    """The SQL functions for administrators, and those for maintenance.

    `actor` and `source` are written into the audit rows: who acts (1 to 256 characters; None: the database user), and
    through which program. They are the same for all calls of one AdminStore, which is cheap to make.
    """

    def __init__(self, conn: psycopg.AsyncConnection[Any], *, actor: str | None = None, source: Source = "sql") -> None:
        super().__init__(conn)
        self._by = (actor, source)

    async def cancel(self, ids: Iterable[int], reason: str = "Cancelled") -> list[Answer]:
        """Cancels runs: 'cancelled', 'requested' (it is running) or 'refused: …'."""
        query = "select id, answer from wakeboard.cancel(%s::bigint[], %s, %s, %s)"
        return await self._answers(query, list(ids), reason, *self._by)

    async def retry(self, ids: Iterable[int], reason: str = "") -> list[Answer]:
        """Queues dead or failed runs again: 'queued' or 'refused: …'."""
        query = "select id, answer from wakeboard.retry(%s::bigint[], %s, %s, %s)"
        return await self._answers(query, list(ids), reason, *self._by)

    async def revoke(self, ids: Iterable[int], reason: str = "") -> list[Answer]:
        """Takes running runs from their workers: 'queued', 'cancelled' or 'refused: …'."""
        query = "select id, answer from wakeboard.revoke(%s::bigint[], %s, %s, %s)"
        return await self._answers(query, list(ids), reason, *self._by)

    async def discard(self, ids: Iterable[int], reason: str = "Discarded") -> list[Answer]:
        """Moves dead runs to history: 'discarded' or 'refused: …'."""
        query = "select id, answer from wakeboard.discard(%s::bigint[], %s, %s, %s)"
        return await self._answers(query, list(ids), reason, *self._by)

    async def replay(self, ids: Iterable[int], payload: Any = None, reason: str = "") -> list[Replayed]:
        """Creates new runs from finished ones: 'queued' with the new id, or 'refused: …'.

        `payload`: of the new runs; None: that of the finished run. Raises InvalidValue for a payload that no run may
        have.
        """
        query = "select id, answer, new_id from wakeboard.replay(%s::bigint[], %s::pg_catalog.jsonb, %s, %s, %s)"
        rows = await self.rows(query, list(ids), _json(payload), reason, *self._by)
        return [Replayed(*row) for row in rows]

    async def discard_and_replay(self, ids: Iterable[int], payload: Any = None, reason: str = "") -> list[Replayed]:
        """Discards dead runs and replays them, or does neither: 'queued' with the new id, or 'refused: …'.

        `payload`: as of `replay`.
        """
        actor, source = self._by
        values = {"ids": list(ids), "payload": _json(payload), "reason": reason, "actor": actor, "source": source}
        rows = await read(self.conn, tuple_row, _DISCARD_AND_REPLAY, {**values, "why": reason or "Discarded"})
        return [Replayed(*row) for row in rows]

    async def reveal(self, what: str, *, run_id: int | None = None, definition_id: int | None = None) -> bool:
        """Records that the actor is shown values of a run or of a schedule's payload that are masked.

        `what`: payload, result or the like. False: there is no such run or schedule.
        """
        query = "select wakeboard.reveal(%s, %s, %s, %s, %s, %s)"
        return await self.value(query, run_id, definition_id, what, "", *self._by)

    async def send_test_notification(self, receiver: str, queue: str) -> int:
        """Enqueues a run that sends a test message to a receiver, or calls a heartbeat, and returns its id."""
        query = "select wakeboard.send_test_notification(%s, %s, %s, %s, %s)"
        return await self.value(query, receiver, queue, "", *self._by)

    async def silence_alert(self, rule: str, until: datetime | Literal["infinity"] | None, reason: str = "") -> bool:
        """Holds back openings and repeats of a rule's alert. "infinity": until it is resolved. None ends that.

        False: nothing changed. Raises InvalidValue for an unknown rule and for a time that is over.
        """
        query = "select wakeboard.silence_alert(%s, %s::pg_catalog.timestamptz, %s, %s, %s)"
        return await self.value(query, rule, until, reason, *self._by)

    async def run_now(self, definition_id: int, payload: Any = None, reason: str = "") -> tuple[int | None, str]:
        """Creates a run of a schedule, due now: (its id, 'queued') or (None, 'refused: …').

        `payload`: of the run; None: that of the schedule. Raises InvalidValue for a payload that no run may have.
        """
        query = "select id, answer from wakeboard.run_now(%s, %s::pg_catalog.jsonb, %s, %s, %s)"
        run_id, answer = (await self.rows(query, definition_id, _json(payload), reason, *self._by))[0]
        return run_id, answer

    async def pause(self, what: str, reason: str = "", until: datetime | None = None) -> bool:
        """Pauses 'all', 'queue:NAME', 'schedule:ID' or 'backfill:ID'. False: it was paused already.

        `until`: when it ends by itself; None: it does not.
        """
        query = "select wakeboard.pause(%s, %s, %s, %s, %s::pg_catalog.timestamptz)"
        return await self.value(query, what, reason, *self._by, until)

    async def resume(self, what: str, reason: str = "") -> bool:
        """Ends a pause, and closes the circuit of 'schedule:ID'. False: there was neither."""
        return await self.value("select wakeboard.resume(%s, %s, %s, %s)", what, reason, *self._by)

    async def release_effect(self, key: str, reason: str) -> str:
        """Lets an effect that happens once for ever happen again. Returns 'released', or 'refused: …'.

        Raises InvalidValue without a reason.
        """
        return await self.value("select wakeboard.release_effect(%s, %s, %s, %s)", key, reason, *self._by)

    async def set_limit(self, key: str, max_running: int | None, reason: str = "") -> None:
        """At most `max_running` runs of this limit key at once; None: the default again."""
        await self.rows("select wakeboard.set_limit(%s, %s, %s, %s, %s)", key, max_running, reason, *self._by)

    async def set_rate_limit(self, key: str, rate: Rate | None, burst: int = 1, reason: str = "") -> None:
        """Runs of this limit key start at most at this rate, and `burst` of them at once; None: no rate limit."""
        count, period_s = (rate.count, rate.period_s) if rate else (None, 1)
        query = "select wakeboard.set_rate_limit(%s, %s, %s, %s, %s, %s, %s)"
        await self.rows(query, key, count, period_s, burst, reason, *self._by)

    async def acknowledge_server_changes(self, newest: int, reason: str = "") -> int:
        """Acknowledges the changes of the server up to the id `newest`. Returns how many."""
        query = "select wakeboard.acknowledge_server_changes(%s, %s, %s, %s)"
        return await self.value(query, newest, reason, *self._by)

    async def confirm_removal(self, source: str, reason: str = "") -> int | None:
        """Confirms the pending removal of a source. Returns how many schedules it removes; None: none is pending."""
        return await self.value("select wakeboard.confirm_removal(%s, %s, %s, %s)", source, reason, *self._by)

    # -- backfills

    async def plan_backfill(self, definition_id: int, ticks: Iterable[datetime]) -> dict[datetime, str]:
        """What is known about each of these ticks: see `plan_backfill` in docs/sql-functions.md. Changes nothing."""
        query = "select tick, found from wakeboard.plan_backfill(%s, %s::pg_catalog.timestamptz[])"
        return dict(await self.rows(query, definition_id, moment_array(ticks)))

    async def create_backfill(
        self, definition_id: int, wanted: BackfillRange, *, at_once: int = 1, again: bool = False, reason: str = ""
    ) -> DeclaredBackfill:
        """Declares that these ticks run, each once. `again`: also those that have run. Raises InvalidValue."""
        query = (
            "select id, total, found from wakeboard.create_backfill("
            "%s, %s::pg_catalog.timestamptz[], %s, %s, %s, %s, %s, %s, %s)"
        )
        values = (moment_array(wanted.ticks), wanted.begin, wanted.end, at_once, again, reason)
        return DeclaredBackfill(*(await self.rows(query, definition_id, *values, *self._by))[0])

    async def change_backfill(self, backfill_id: int, change: BackfillChange, reason: str = "") -> str | None:
        """Pauses, resumes, or cancels a backfill and its unfinished runs.

        Returns what it is now and what became of its runs, in words; None: nothing changed.
        """
        if change != "cancel":
            act = self.pause if change == "pause" else self.resume
            return f"{change}d" if await act(f"backfill:{backfill_id}", reason) else None
        query = "select changed, cancelled, requested from wakeboard.cancel_backfill(%s, %s, %s, %s)"
        changed, cancelled, requested = (await self.rows(query, backfill_id, reason, *self._by))[0]
        stopping = f", {counted(requested, 'running run')} asked to stop" if requested else ""
        return f"cancelled: {counted(cancelled, 'run')} cancelled{stopping}" if changed else None

    # -- bulk actions

    async def create_bulk_action(
        self,
        action: RunActionName,
        ids_query: LiteralString | Composed,
        values: Mapping[str, Any],
        *,
        shown_filter: str = "",
        reason: str = "",
    ) -> CreatedBulkAction:
        """Stores an action on up to 1,000,000 runs, whose ids the query returns and which do not leave the database.

        `ids_query`: a select of one bigint column, with named parameters, whose `values` have no names that begin with
        "bulk_". The query and the creation are one statement, so they see the same runs. `shown_filter`: which runs
        these are, for users; the first 2,000 characters are stored.
        """
        query = SQL(
            "select id, total from wakeboard.create_bulk_action("
            "%(bulk_action)s, array({}), %(bulk_filter)s, %(bulk_reason)s, %(bulk_actor)s, %(bulk_source)s)"
        ).format(ids_query if isinstance(ids_query, Composed) else SQL(ids_query))
        actor, source = self._by
        named = {"action": action, "filter": shown_filter, "reason": reason, "actor": actor, "source": source}
        rows = await read(
            self.conn, tuple_row, query, {**values, **{f"bulk_{name}": value for name, value in named.items()}}
        )
        return CreatedBulkAction(*rows[0])

    async def run_bulk_action_batch(self, bulk_action_id: int, count: int = 1000) -> BulkActionProgress:
        """Executes a bulk action on its next `count` (1 to 10,000) runs.

        Raises InvalidValue if there is no such bulk action, and Locked if it should be called again.
        """
        query = (
            "select total, done, refused, answered, finished, cancelled from wakeboard.run_bulk_action_batch(%s, %s)"
        )
        return BulkActionProgress(*(await self.rows(query, bulk_action_id, count))[0])

    async def cancel_bulk_action(self, bulk_action_id: int, reason: str = "") -> bool:
        """Ends a bulk action after the batch that is being executed. False: it had ended, or there is none."""
        query = "select wakeboard.cancel_bulk_action(%s, %s, %s, %s)"
        return await self.value(query, bulk_action_id, reason, *self._by)

    async def _answers(self, query: str, *values: Any) -> list[Answer]:
        return [Answer(*row) for row in await self.rows(query, *values)]


def _json(payload: Any) -> str | None:
    if payload is None:
        return None
    if isinstance(payload, PayloadText):
        parse_payload(payload)
        return str(payload)
    check_payload(payload)
    return json.dumps(payload, ensure_ascii=False, allow_nan=False)
