"""The read model of commands, from the API of the board: the same rows, of what the user may see."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, TypeVar

from wakeboard.backfills.rules import BackfillPlan, BackfillRow
from wakeboard.cli.kubectl.board_api import MOST_ITEMS
from wakeboard.cli.support.read_model import Explanation
from wakeboard.errors import InvalidValue
from wakeboard.health.findings import Finding
from wakeboard.logs.rules import AttemptLog, LogRow
from wakeboard.process.display_zone import in_zone
from wakeboard.text.facts import Fact
from wakeboard.views.rules.json_rows import row_of
from wakeboard.views.rules.run_detail_rows import RunDetails
from wakeboard.views.rules.run_rows import RunRow
from wakeboard.views.rules.run_search import RunSearch, exact_term, parse_run_search, quoted
from wakeboard.views.rules.schedule_rows import NextTicks, ScheduleDetails, ScheduleName, ScheduleRow

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence
    from datetime import datetime, timedelta
    from uuid import UUID

    from wakeboard.cli.kubectl.board_api import BoardApi
    from wakeboard.views.rules.run_rows import StoredRun

MOST_TICKS: Final = 1_000
MOST_NAMES: Final = 1_000
MOST_SELECTED: Final = 1_000  # runs of one action
IDS_AT_ONCE: Final = 50
LINES_AT_ONCE: Final = 1_000
UUIDS_SHOWN: Final = 10

_Row = TypeVar("_Row")


class BoardReads:
    """Implements ReadModel. `namespace`: what lists show, and where a name without a namespace is; None: all."""

    poll_s: float = 1.0  # each read goes through the API server

    def __init__(self, api: BoardApi, namespace: str | None) -> None:
        self._api, self._namespace = api, namespace
        self.scope = parse_run_search(f"schedule:{quoted(namespace)}/*").terms if namespace else ()

    async def now(self) -> datetime:
        """The time of the cluster's clock, by its last answer."""
        return in_zone(self._api.now)

    async def schedule_names(self, text: str, most: int = MOST_NAMES, *, whole: bool = False) -> list[ScheduleName]:
        """At most `most` schedules whose NAME or NAMESPACE/NAME begins with, or is, the text."""
        given = {"name": text} if whole else {"q": text}
        namespace = None if "/" in text else self._namespace
        rows = self._api.get_list("/schedules/names", limit=min(most, MOST_NAMES), namespace=namespace, **given)
        return [row_of(ScheduleName, row) for row in rows]

    async def queues(self) -> list[str]:
        """None: the API does not list them."""
        return []

    async def ids_of(self, uuids: Sequence[UUID]) -> dict[UUID, int]:
        """The ids of runs known by uuid."""
        rows = [row for uuid in uuids for row in self._found(exact_term("uuid", str(uuid)).text, 1)]
        return {row.uuid: row.id for row in rows}

    async def ids_between(self, first: UUID, last: UUID) -> list[tuple[UUID, int]]:
        """Up to ten runs whose uuids begin as both of these do."""
        digits = zip(str(first), str(last), strict=True)
        same = next((at for at, (one, other) in enumerate(digits) if one != other), len(str(first)))
        return [(row.uuid, row.id) for row in self._found(exact_term("uuid", str(first)[:same]).text, UUIDS_SHOWN)]

    async def has_run(self, run_id: int) -> bool:
        """Whether a run that the user may see has this id."""
        return bool(self._found(f"id:{run_id}", 1))

    async def runs(self, ids: Sequence[int]) -> list[RunRow]:
        """The runs with these ids, newest first."""
        parts = [ids[at : at + IDS_AT_ONCE] for at in range(0, len(ids), IDS_AT_ONCE)]
        rows = [row for part in parts for row in self._found(f"id:{','.join(map(str, part))}", IDS_AT_ONCE)]
        return sorted(rows, key=lambda row: -row.id)

    async def newest_runs(self, search: RunSearch, count: int) -> list[RunRow]:
        """The newest runs that fit."""
        return self._found(search.text, count)

    async def selected_ids(self, search: RunSearch, statuses: Sequence[str]) -> list[int]:
        """The ids of all runs that fit. Raises InvalidValue for more than 1,000."""
        wanted = RunSearch(terms=(*search.terms, exact_term("status", *statuses)))
        found = await self.newest_runs(wanted, MOST_SELECTED + 1)
        if len(found) > MOST_SELECTED:
            raise InvalidValue(
                f"more than {MOST_SELECTED:,} runs match: narrow the search, or use the bulk actions of the board."
            )
        return [row.id for row in found]

    async def payloads(self, ids: Sequence[int]) -> dict[int, str]:
        """The payloads of these runs as JSON texts."""
        runs = [await self.run_details(run_id) for run_id in ids]
        return {run.id: run.payload for run in runs if run is not None}

    async def stored_run(self, run_id: int) -> StoredRun | None:
        """The run with this id."""
        return await self.run_details(run_id)

    async def run_details(self, run_id: int) -> RunDetails | None:
        """The run with this id and what happened to it. Values of keys such as `password` are masked."""
        value = self._api.found(f"/runs/{run_id}")
        return None if value is None else _with_texts(row_of(RunDetails, value))

    async def explained_run(self, run_id: int) -> Explanation | None:
        """Why the run with this id does not run now."""
        value = self._api.found(f"/runs/{run_id}")
        if value is None:
            return None
        run, facts = row_of(RunRow, value), [row_of(Fact, each) for each in self._api.listed(f"/runs/{run_id}/facts")]
        return Explanation("run", run.id, run.schedule, run.job_type, run.status, facts)

    async def explained_schedule(self, definition_id: int) -> Explanation | None:
        """Why the schedule with this id creates no runs now, or when it will."""
        found = await self.schedule_details(definition_id)
        if found is None:
            return None
        return Explanation("schedule", found.id, found.name, found.job_type, found.state, found.facts)

    async def schedule_details(self, definition_id: int) -> ScheduleDetails | None:
        """The schedule with this id, what is wrong, its runs and its next ticks."""
        value = self._api.found(f"/schedules/{definition_id}")
        return None if value is None else row_of(ScheduleDetails, value)

    async def schedule_pages(self, namespace: str | None, most: int) -> AsyncIterator[tuple[list[ScheduleRow], bool]]:
        """At most `most` schedules by name, page by page, and whether there are more of them."""
        after: str | None = None
        while most > 0:
            wanted = namespace or self._namespace
            items, after = self._api.page("/schedules", namespace=wanted, limit=min(most, MOST_ITEMS), after=after)
            rows = [row_of(ScheduleRow, value) for value in items]
            if rows:
                yield rows, after is not None
            if after is None:
                return
            most -= len(rows)

    async def next_ticks(self, definition_id: int, count: int) -> NextTicks | None:
        """The next ticks of the schedule with this id, at most 1,000."""
        value = self._api.found(f"/schedules/{definition_id}/ticks", count=min(count, MOST_TICKS))
        return None if value is None else row_of(NextTicks, value)

    async def backfill_plan(self, definition_id: int, first: str, last: str) -> BackfillPlan | None:
        """What is known about the ticks of this range of a schedule. Raises BoardRefused for a range that is none."""
        value = self._api.found(f"/schedules/{definition_id}/backfill", first=first, last=last)
        return None if value is None else row_of(BackfillPlan, value)

    async def backfill(self, backfill_id: int) -> BackfillRow | None:
        """The backfill with this number."""
        value = self._api.found(f"/backfills/{backfill_id}")
        return None if value is None else row_of(BackfillRow, value)

    async def backfills(self, count: int, definition_id: int | None) -> list[BackfillRow]:
        """The newest backfills, of one schedule, or of all in the namespace."""
        namespace = self._namespace if definition_id is None else None
        return self._rows(BackfillRow, "/backfills", count, namespace=namespace, schedule=definition_id)

    async def newest_started_run(self, definition_id: int, after: int) -> int | None:
        """The id of the newest run of a schedule that has started, above `after`."""
        rows = self._api.listed(f"/schedules/{definition_id}/started-run", behind=after)
        return next((row_of(RunRow, row).id for row in rows), None)

    async def attempt_logs(self, run: StoredRun) -> list[AttemptLog]:
        """The attempts of a run that have a log, oldest first."""
        return [row_of(AttemptLog, value) for value in self._api.listed(f"/runs/{run.id}/log/attempts")]

    async def log_after(self, run: StoredRun, attempt: AttemptLog, number: int) -> list[LogRow]:
        """Some lines of an attempt behind the one with this number, in their order; []: there are no more yet."""
        epoch = attempt.lease_epoch
        rows = self._api.listed(f"/runs/{run.id}/log", lease_epoch=epoch, behind=number, limit=LINES_AT_ONCE)
        return [row_of(LogRow, value) for value in rows]

    async def findings(self) -> list[Finding]:
        """What is wrong, worst first."""
        return [row_of(Finding, value) for value in self._api.get_list("/health")]

    async def log_retention(self) -> timedelta | None:
        """None: the API does not say it."""
        return None

    def _found(self, text: str, most: int) -> list[RunRow]:
        return self._rows(RunRow, "/runs", most, q=text)

    def _rows(self, kind: type[_Row], path: str, most: int, **query: Any) -> list[_Row]:
        return [row_of(kind, value) for value in self._api.items(path, most, **query)]


def _with_texts(run: RunDetails) -> RunDetails:
    """The run with its JSON values as texts again, as the database has them."""
    steps = [
        replace(step, result=(text := _text(step.result)), length=len(text) if text is not None else step.length)
        for step in run.steps
    ]
    return replace(run, payload=_text(run.payload) or "null", result=_text(run.result), steps=steps)


def _text(value: Any) -> str | None:
    return None if value is None else json.dumps(value, ensure_ascii=False)
