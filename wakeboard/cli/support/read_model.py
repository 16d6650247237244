"""What the commands that `kubectl wakeboard` has too read, whichever way they reach the installation.

The command line reads the database (database_reads.py). `kubectl wakeboard` asks the board's API (cli/kubectl). Both
answer with the same row types, so commands, their output and their JSON are the same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence
    from datetime import datetime, timedelta
    from uuid import UUID

    from wakeboard.backfills.rules import BackfillPlan, BackfillRow
    from wakeboard.logs.rules import AttemptLog, LogRow
    from wakeboard.text.facts import Fact
    from wakeboard.views.rules.run_detail_rows import RunDetails
    from wakeboard.views.rules.run_rows import RunRow, StoredRun
    from wakeboard.views.rules.run_search import RunSearch, Term
    from wakeboard.views.rules.schedule_rows import NextTicks, ScheduleDetails, ScheduleName, ScheduleRow


class Explanation(NamedTuple):
    """Why a run or a schedule does not run now. `name`: of the schedule; None: the run has none, but its `job_type`."""

    kind: str
    id: int
    name: str | None
    job_type: str
    state: str
    facts: Sequence[Fact]


class ReadModel(Protocol):
    """The reads. What is not there is None or left out. Each raises WakeboardError."""

    @property
    def poll_s(self) -> float:
        """How long a command that follows something waits between two reads."""
        ...

    @property
    def scope(self) -> tuple[Term, ...]:
        """Terms that each search for runs has."""
        ...

    async def now(self) -> datetime:
        """The time of the installation's clock."""
        ...

    async def schedule_names(self, text: str, most: int = ..., *, whole: bool = False) -> list[ScheduleName]:
        """At most `most` schedules, removed ones too, whose NAME or NAMESPACE/NAME begins with, or is, the text."""
        ...

    async def queues(self) -> list[str]:
        """The queues that are in use."""
        ...

    async def ids_of(self, uuids: Sequence[UUID]) -> dict[UUID, int]:
        """The ids of runs known by uuid."""
        ...

    async def ids_between(self, first: UUID, last: UUID) -> list[tuple[UUID, int]]:
        """Some runs whose uuids are between these two."""
        ...

    async def has_run(self, run_id: int) -> bool:
        """Whether a run has this id."""
        ...

    async def runs(self, ids: Sequence[int]) -> list[RunRow]:
        """The runs with these ids, newest first."""
        ...

    async def newest_runs(self, search: RunSearch, count: int) -> Sequence[RunRow]:
        """The newest runs that fit."""
        ...

    async def selected_ids(self, search: RunSearch, statuses: Sequence[str]) -> list[int]:
        """The ids of all runs that fit and have one of these statuses."""
        ...

    async def payloads(self, ids: Sequence[int]) -> dict[int, str]:
        """The payloads of these runs as JSON texts."""
        ...

    async def stored_run(self, run_id: int) -> StoredRun | None:
        """The run with this id."""
        ...

    async def run_details(self, run_id: int) -> RunDetails | None:
        """The run with this id and what happened to it."""
        ...

    async def explained_run(self, run_id: int) -> Explanation | None:
        """Why the run with this id does not run now."""
        ...

    async def explained_schedule(self, definition_id: int) -> Explanation | None:
        """Why the schedule with this id creates no runs now, or when it will."""
        ...

    def schedule_pages(self, namespace: str | None, most: int) -> AsyncIterator[tuple[list[ScheduleRow], bool]]:
        """At most `most` schedules by name, with what blocks them, page by page, and whether there are more of them."""
        ...

    async def schedule_details(self, definition_id: int) -> ScheduleDetails | None:
        """The schedule with this id, what is wrong, its runs and its next ticks."""
        ...

    async def next_ticks(self, definition_id: int, count: int) -> NextTicks | None:
        """The next ticks of the schedule with this id."""
        ...

    async def backfill_plan(self, definition_id: int, first: str, last: str) -> BackfillPlan | None:
        """What is known about the ticks of this range of a schedule. Raises InvalidValue for a range that is none."""
        ...

    async def backfill(self, backfill_id: int) -> BackfillRow | None:
        """The backfill with this number."""
        ...

    async def backfills(self, count: int, definition_id: int | None) -> list[BackfillRow]:
        """The newest backfills, of one schedule or of all."""
        ...

    async def newest_started_run(self, definition_id: int, after: int) -> int | None:
        """The id of the newest run of a schedule that has started, above `after`."""
        ...

    async def attempt_logs(self, run: StoredRun) -> Sequence[AttemptLog]:
        """The attempts of a run that have a log, oldest first."""
        ...

    async def log_after(self, run: StoredRun, attempt: AttemptLog, number: int) -> list[LogRow]:
        """Some lines of an attempt behind the one with this number, in their order; []: there are no more yet."""
        ...

    async def log_retention(self) -> timedelta | None:
        """How long the installation keeps logs; None: it does not say."""
        ...
