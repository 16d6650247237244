"""Ticks: the moments at which definitions are due, made into runs.

Three steps, none of which holds a lock while it thinks: read what is due (`due_definitions`), decide what becomes of
each due tick (`plan_ticks`, pure), and write it down in one statement (`enqueue_due_ticks`), which does nothing for a
definition whose cursor or generation has changed meanwhile: somebody else was quicker.

From the oldest due tick to now there are three stretches, each of which may be empty:

    cursor ──── too late ────┬──── missed ────┬──── in time ──── now
              startingDeadlineSeconds     missed_after
              not run             catchUp decides      always run

Why a tick was not run stands in the history row of its stretch (`reason`, with status skipped):

    TooLate          it was older than startingDeadlineSeconds when it was to be made, or its run never started in time
    CatchUpSkip      it was missed, and catchUp.policy is Skip
    CatchUpLatest    it was missed, and a newer missed one runs in its place
    CatchUpAll       it was missed, and so were catchUp.limit newer ones, which run
    Forbidden        an earlier run was unfinished, and concurrencyPolicy is Forbid (the board decides)
    Replaced         a newer tick came in the same pass, and concurrencyPolicy is Replace (the board decides)
    Suspended        it was due, not yet made, and somebody suspended the schedule
    Paused           it was due during a pause, and somebody edited the schedule before the pause ended
    ScheduleRemoved  it was due, not yet made, and somebody removed the schedule
"""

from __future__ import annotations

import asyncio
import sys
from collections import deque
from dataclasses import replace
from datetime import timedelta
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Final, TypeAlias

from wakeboard.errors import WakeboardError
from wakeboard.maintenance.partitions import with_partition
from wakeboard.store.maintenance_api import EnqueuedTicks, Skipped, TickPlan

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from datetime import datetime

    from wakeboard.rules.dst_ticks import Missed, TickSchedule
    from wakeboard.store.maintenance_api import DueDefinition, Store

TOO_LATE: Final = "TooLate"
SUSPENDED: Final = "Suspended"
PAUSED: Final = "Paused"
SCHEDULE_REMOVED: Final = "ScheduleRemoved"

NOTHING: Final = EnqueuedTicks(0, 0, 0, 0)

MISFIRE_GRACE: Final = timedelta(minutes=5)  # unless a setting says otherwise
DEFINITIONS_AT_ONCE: Final = 2_000  # in one statement: their locks are held for some 60 ms
TICKS_AT_ONCE: Final = 10_000  # in one statement, give or take one definition that catches up

Planner: TypeAlias = "Callable[[DueDefinition], TickPlan]"

_EVERY_TICK: Final = sys.maxsize
_JUST_BEFORE: Final = timedelta(microseconds=1)
_LONGEST_ERROR: Final = 500  # characters


# -- deciding ----------------------------------------------------------------------------------------------------------


def plan_ticks(due: DueDefinition, misfire_grace: timedelta) -> TickPlan:
    """What becomes of the due ticks of one definition, as its policies say.

    A definition whose ticks cannot be computed gets a plan with `error`, whatever went wrong: it stands still alone.
    """
    return _planned(due, lambda tick_schedule: _plan(due, tick_schedule, misfire_grace))


def plan_skip(due: DueDefinition, reason: str) -> TickPlan:
    """Records every due tick of one definition as skipped, as one stretch."""
    return _planned(due, lambda tick_schedule: _plan_stretches(due, tick_schedule, [(due.now, 0, reason)]))


def _planned(due: DueDefinition, plan: Callable[[TickSchedule], TickPlan]) -> TickPlan:
    from wakeboard.rules.dst_ticks import tick_schedule_for  # here, so that a wake with nothing due starts without it

    try:
        return plan(tick_schedule_for(due.cron_fields, due.time_zone, due.dst_gap, due.dst_overlap))  # pyright: ignore[reportArgumentType]  the table's CHECK says so
    except Exception as error:  # noqa: BLE001 - whatever it is, it must not stop the definitions beside it
        return TickPlan(due.id, due.generation, due.next_run_at, due.next_run_at, due.last_tick_at, error=said(error))


def said(error: Exception) -> str:
    """What went wrong with one definition, for people."""
    text = str(error) if isinstance(error, WakeboardError) else f"{type(error).__name__}: {error}"
    return text[:_LONGEST_ERROR]


def _plan(due: DueDefinition, tick_schedule: TickSchedule, misfire_grace: timedelta) -> TickPlan:
    now, cursor = due.now, due.next_run_at
    late = now - cursor
    in_time = late <= misfire_grace and (
        due.starting_deadline_s is None or late.total_seconds() <= due.starting_deadline_s
    )
    if in_time and cursor > due.last_tick_at:
        following = _following(tick_schedule, cursor)
        if following is None or following > now:  # one tick, in time: nearly always
            return TickPlan(due.id, due.generation, cursor, following, cursor, (cursor,))
    return _plan_stretches(due, tick_schedule, list(_stretches(due, misfire_grace)))


@lru_cache(maxsize=4096)
def _following(tick_schedule: TickSchedule, cursor: datetime) -> datetime | None:
    """The tick after `cursor`; remembered, as many schedules share a line, a zone and a moment."""
    return tick_schedule.next_tick(cursor)


def _stretches(due: DueDefinition, misfire_grace: timedelta) -> Iterator[tuple[datetime, int, str]]:
    """The stretches up to now, oldest first: last moment, how many of the newest ticks run, why the others do not."""
    if due.starting_deadline_s is not None:
        yield due.now - timedelta(seconds=due.starting_deadline_s) - _JUST_BEFORE, 0, TOO_LATE
    newest = {"Skip": 0, "Latest": 1, "All": due.catch_up_limit}[due.catch_up]
    yield due.now - misfire_grace - _JUST_BEFORE, newest, f"CatchUp{due.catch_up}"
    yield due.now, _EVERY_TICK, ""


def _plan_stretches(
    due: DueDefinition, tick_schedule: TickSchedule, stretches: Sequence[tuple[datetime, int, str]]
) -> TickPlan:
    position = _first_to_make(due, tick_schedule)
    up_to = due.last_tick_at
    ticks: list[datetime] = []
    skipped: list[Skipped] = []
    for until, newest, reason in stretches:
        if position is None or position > until:
            continue
        found = _ticks_from(tick_schedule, position, until, newest)
        if found.skipped_first is not None and found.skipped_last is not None:
            skipped.append(Skipped(found.skipped_first, found.skipped_last, found.skipped, reason))
        ticks += found.ticks
        up_to = found.ticks[-1] if found.ticks else skipped[-1].until
        position = tick_schedule.next_tick(until)
    return TickPlan(due.id, due.generation, due.next_run_at, position, up_to, ticks, skipped)


def _first_to_make(due: DueDefinition, tick_schedule: TickSchedule) -> datetime | None:
    """The cursor; the tick after the last one, if somebody moved the cursor back by hand."""
    if due.next_run_at > due.last_tick_at:
        return due.next_run_at
    return tick_schedule.next_tick(due.last_tick_at)


def _ticks_from(tick_schedule: TickSchedule, first: datetime, until: datetime, newest: int) -> Missed:
    """The ticks from `first` up to `until`. `first` is one, whatever zone data say now: it was announced."""
    later = tick_schedule.missed(first, until, newest)
    if later.skipped or len(later.ticks) >= newest:
        return replace(later, skipped=later.skipped + 1, skipped_first=first, skipped_last=later.skipped_last or first)
    return replace(later, ticks=(first, *later.ticks))


# -- doing -------------------------------------------------------------------------------------------------------------


async def schedule_due_ticks(store: Store, *, misfire_grace: timedelta) -> EnqueuedTicks:
    """Makes every tick that is due by now into a run, or records why it is not one; answers with what was made.

    Safe at any time and beside others doing the same: each tick is made once. What somebody else has locked is left to
    them. Raises WakeboardError when the board cannot be written.
    """
    total = NOTHING
    waiting = deque(await store.due_definitions(DEFINITIONS_AT_ONCE))
    plan = partial(plan_ticks, misfire_grace=misfire_grace)
    plans = plan_some(waiting, plan)
    while plans:
        if not waiting:
            waiting.extend(await store.due_definitions(DEFINITIONS_AT_ONCE, (plans[-1].cursor, plans[-1].id)))
        made, plans = await asyncio.gather(write(store, plans), _plan_meanwhile(waiting, plan))
        total = both(total, made)
    return total


async def write(store: Store, plans: Sequence[TickPlan]) -> EnqueuedTicks:
    """Writes plans down in one statement."""
    return await with_partition(store, lambda: store.enqueue_due_ticks(plans))


async def _plan_meanwhile(waiting: deque[DueDefinition], plan: Planner) -> list[TickPlan]:
    """In a thread, so that Postgres writes one batch while the next one is planned."""
    return await asyncio.to_thread(plan_some, waiting, plan) if waiting else []


def plan_some(waiting: deque[DueDefinition], plan: Planner) -> list[TickPlan]:
    """Plans for as many as fit into one statement, taken from the left of `waiting`."""
    plans: list[TickPlan] = []
    ticks = 0
    while waiting and ticks < TICKS_AT_ONCE:
        planned = plan(waiting.popleft())
        plans.append(planned)
        ticks += len(planned.ticks)
    return plans


def both(total: EnqueuedTicks, more: EnqueuedTicks) -> EnqueuedTicks:
    """Two counts as one."""
    return EnqueuedTicks(*(a + b for a, b in zip(total, more, strict=True)))
