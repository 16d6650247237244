"""The scheduler: enqueues a run for each due tick of a schedule, or records why there is none.

It works in three steps, and holds no lock while it plans: read the due schedules (`due_definitions`), plan their ticks
(`plan_ticks`, pure), and write the plans in one statement (`enqueue_due_ticks`). That statement ignores a plan whose
schedule has changed since it was read, because another process has already written it.

The due ticks fall into two ranges, from the oldest to now. Each may be empty.

    cursor ──── too late ────┬──── catchUp decides, or all run ──── now
              startingDeadlineSeconds

If the oldest due tick is within the misfire grace, a worker was merely late, and all ticks of the second range run. If
it is older, there was an outage or a pause: then `catchUp` decides about the whole range (`wakeboard.ticks.catch_up`).

The history row of skipped ticks has one of these reasons:

    TooLate          older than startingDeadlineSeconds when planned, or the run did not start in time
    CatchUpSkip      due after an outage, and catchUp.policy is Skip
    CatchUpLatest    due after an outage, and a newer tick runs
    CatchUpAll       due after an outage, and catchUp.limit newer ticks run
    Forbidden        an earlier run was unfinished, and concurrencyPolicy is Forbid (decided by the store)
    Replaced         a newer tick came in the same pass, and concurrencyPolicy is Replace (decided by the store)
    CircuitOpen      the runs before died one after another, and suspendAfterDead is set (decided by the store)
    Suspended        due when a user suspended the schedule
    ScheduleRemoved  due when the schedule was removed (`prune.py`, `unschedule`)
"""

from __future__ import annotations

import asyncio
import sys
from collections import deque
from dataclasses import replace
from datetime import timedelta
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Final, TypeAlias

from wakeboard.engine.partitions import with_partition
from wakeboard.errors import WakeboardError
from wakeboard.schedules import calls
from wakeboard.schedules.calls import EnqueuedTicks, Skipped, TickPlan
from wakeboard.ticks.catch_up import due_ticks_to_run, skip_reason

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from datetime import datetime

    from wakeboard.engine.maintenance_api import MaintenanceStore
    from wakeboard.schedules.calls import DueDefinition
    from wakeboard.schedules.edited_ticks import EditedTicks
    from wakeboard.ticks.ticks import Missed, Ticks

    TickSource = Ticks | EditedTicks

TOO_LATE: Final = "TooLate"
SUSPENDED: Final = "Suspended"
SCHEDULE_REMOVED: Final = "ScheduleRemoved"

NO_TICKS: Final = EnqueuedTicks(0, 0, 0, 0)

SCHEDULES_PER_BATCH: Final = 2_000  # one statement, which locks them for some 60 ms
TICKS_PER_BATCH: Final = 10_000  # one statement; one schedule that catches up may exceed it

Planner: TypeAlias = "Callable[[DueDefinition], TickPlan]"
ScanPosition: TypeAlias = "tuple[datetime, int]"  # next_run_at and id of the last schedule read

_EVERY_TICK: Final = sys.maxsize
_JUST_BEFORE: Final = timedelta(microseconds=1)
_MAX_ERROR_LENGTH: Final = 500


# -- planning ----------------------------------------------------------------------------------------------------------


def plan_ticks(due: DueDefinition, misfire_grace: timedelta) -> TickPlan:
    """Plans the due ticks of one schedule according to its policies.

    If its ticks cannot be computed, the plan has an `error`, and only that schedule stops.
    """
    return _planned(due, lambda due, tick_schedule: _plan(due, tick_schedule, misfire_grace))


def plan_skip(due: DueDefinition, reason: str) -> TickPlan:
    """Plans to skip every due tick of one schedule, as one range."""

    def plan(due: DueDefinition, tick_schedule: TickSource) -> TickPlan:
        return _plan_ranges(due, tick_schedule, _first_tick(due, tick_schedule), [(due.now, 0, reason)])

    return _planned(due, plan)


def _planned(due: DueDefinition, plan: Callable[[DueDefinition, TickSource], TickPlan]) -> TickPlan:
    from wakeboard.ticks.compiled_ticks import ticks_for  # imported late: most wakes have no due tick

    try:
        if due.cron_fields is None:
            return _plan_compiled(due, plan)
        return plan(due, ticks_for(due.cron_fields, due.time_zone, due.dst_gap, due.dst_overlap))  # pyright: ignore[reportArgumentType]  the table's CHECK guarantees it
    except Exception as error:  # noqa: BLE001 - it must not stop the other schedules
        compiled = None if due.cron_fields else ""
        return TickPlan(
            due.id, due.generation, due.next_run_at, due.next_run_at, None, error=error_text(error), compiled=compiled
        )


def _plan_compiled(due: DueDefinition, plan: Callable[[DueDefinition, TickSource], TickPlan]) -> TickPlan:
    """Plans the due ticks of a schedule that SQL stored or edited: its cursor is a moment before them, not a tick.

    A single moment may be before the cursor: it is due, unless it is not after the newest tick.
    """
    from wakeboard.schedules.edited_ticks import compiled_times  # imported late, as above: it may need a parser

    compiled, tick_schedule = compiled_times(due)
    first = tick_schedule.next_tick(due.last_tick_at)
    if first is None or first > due.now:
        return TickPlan(due.id, due.generation, due.next_run_at, first, None, compiled=compiled)
    planned = plan(due._replace(next_run_at=first), tick_schedule)
    return replace(planned, cursor=due.next_run_at, compiled=compiled)


def error_text(error: Exception) -> str:
    """Returns what users read about a schedule that failed."""
    text = str(error) if isinstance(error, WakeboardError) else f"{type(error).__name__}: {error}"
    return text[:_MAX_ERROR_LENGTH]


def _plan(due: DueDefinition, tick_schedule: TickSource, misfire_grace: timedelta) -> TickPlan:
    now, cursor = due.now, due.next_run_at
    late = now - cursor
    in_time = late <= misfire_grace and (
        due.starting_deadline_s is None or late.total_seconds() <= due.starting_deadline_s
    )
    if in_time and cursor > due.last_tick_at:
        following = _following(tick_schedule, cursor)
        if following is None or following > now:  # one tick, in time: the common case
            return TickPlan(due.id, due.generation, cursor, following, cursor, (cursor,))
    first = _first_tick(due, tick_schedule)
    return _plan_ranges(due, tick_schedule, first, list(_ranges(due, tick_schedule, first, misfire_grace)))


@lru_cache(maxsize=4096)
def _following(tick_schedule: TickSource, cursor: datetime) -> datetime | None:
    """Returns the tick after `cursor`. Cached, because many schedules share an expression, a zone and a cursor."""
    return tick_schedule.next_tick(cursor)


def _ranges(
    due: DueDefinition, tick_schedule: TickSource, first: datetime | None, misfire_grace: timedelta
) -> Iterator[tuple[datetime, int, str]]:
    """The ranges up to now, oldest first: the last moment, how many of the newest ticks run, why the others do not."""
    if due.starting_deadline_s is not None:
        yield due.now - timedelta(seconds=due.starting_deadline_s) - _JUST_BEFORE, 0, TOO_LATE
    if first is None or due.now - first <= misfire_grace:
        yield due.now, _EVERY_TICK, ""
    else:
        on_time = _newest_is_on_time(due.now, tick_schedule, misfire_grace)
        newest = due_ticks_to_run(due.catch_up, due.catch_up_limit, newest_is_on_time=on_time)
        yield due.now, newest, skip_reason(due.catch_up)


def _newest_is_on_time(now: datetime, tick_schedule: TickSource, misfire_grace: timedelta) -> bool:
    """Whether the newest tick is within the grace, and is not one of many: the next one comes later than the grace."""
    tick = tick_schedule.next_tick(now - misfire_grace - _JUST_BEFORE)
    if tick is None or tick > now:
        return False
    following = tick_schedule.next_tick(tick)
    return following is None or following - tick > misfire_grace


def _plan_ranges(
    due: DueDefinition,
    tick_schedule: TickSource,
    position: datetime | None,
    ranges: Sequence[tuple[datetime, int, str]],
) -> TickPlan:
    up_to: datetime | None = None
    ticks: list[datetime] = []
    skipped: list[Skipped] = []
    for until, newest, reason in ranges:
        if position is None or position > until:
            continue
        found = _ticks_from(tick_schedule, position, until, newest)
        if found.skipped_first is not None and found.skipped_last is not None:
            skipped.append(Skipped(found.skipped_first, found.skipped_last, found.skipped, reason))
        ticks += found.ticks
        up_to = found.ticks[-1] if found.ticks else skipped[-1].until
        position = tick_schedule.next_tick(until)
    return TickPlan(due.id, due.generation, due.next_run_at, position, up_to, ticks, skipped)


def _first_tick(due: DueDefinition, tick_schedule: TickSource) -> datetime | None:
    """The cursor, or the tick after the last one if an administrator has moved the cursor back."""
    if due.next_run_at > due.last_tick_at:
        return due.next_run_at
    return tick_schedule.next_tick(due.last_tick_at)


def _ticks_from(tick_schedule: TickSource, first: datetime, until: datetime, newest: int) -> Missed:
    """The ticks from `first` up to `until`. `first` counts even if newer zone data disagree: users have seen it."""
    later = tick_schedule.missed(first, until, newest)
    if later.skipped or len(later.ticks) >= newest:
        return replace(later, skipped=later.skipped + 1, skipped_first=first, skipped_last=later.skipped_last or first)
    return replace(later, ticks=(first, *later.ticks))


# -- writing -----------------------------------------------------------------------------------------------------------


async def schedule_due_ticks(store: MaintenanceStore, *, misfire_grace: timedelta) -> EnqueuedTicks:
    """Enqueues a run for every tick that is due, or records why it was skipped. Returns the counts.

    Safe to call at any time and from several processes: each tick is enqueued once, and a schedule that another process
    has locked is left to that process. Raises WakeboardError when the store cannot be written.
    """
    total, _ = await schedule_slice(store, misfire_grace=misfire_grace, batches=sys.maxsize, after=None)
    return total


async def schedule_slice(
    store: MaintenanceStore, *, misfire_grace: timedelta, batches: int, after: ScanPosition | None
) -> tuple[EnqueuedTicks, ScanPosition | None]:
    """As `schedule_due_ticks`, from `after` on and for `batches` statements.

    Returns the position from which the next slice continues: None if this one has reached the end.
    """
    total = NO_TICKS
    waiting = deque(await calls.due_definitions(store, SCHEDULES_PER_BATCH, after))
    plan = partial(plan_ticks, misfire_grace=misfire_grace)
    plans = plan_batch(waiting, plan)
    while plans:
        after = plans[-1].cursor, plans[-1].id
        batches -= 1
        is_over = batches <= 0
        if not waiting:
            waiting.extend(await calls.due_definitions(store, 1 if is_over else SCHEDULES_PER_BATCH, after))
        planned: deque[DueDefinition] = deque() if is_over else waiting
        enqueued, plans = await asyncio.gather(enqueue_ticks(store, plans), _plan_in_thread(planned, plan))
        total = EnqueuedTicks(*map(sum, zip(total, enqueued, strict=True)))
    return total, after if waiting else None


async def enqueue_ticks(store: MaintenanceStore, plans: Sequence[TickPlan]) -> EnqueuedTicks:
    """Writes the plans in one statement."""
    return await with_partition(store, lambda: calls.enqueue_due_ticks(store, plans))


def plan_batch(waiting: deque[DueDefinition], plan: Planner) -> list[TickPlan]:
    """Plans as many schedules as fit into one statement, and removes them from the left of `waiting`."""
    plans: list[TickPlan] = []
    ticks = 0
    while waiting and ticks < TICKS_PER_BATCH:
        planned = plan(waiting.popleft())
        plans.append(planned)
        ticks += len(planned.ticks)
    return plans


async def _plan_in_thread(waiting: deque[DueDefinition], plan: Planner) -> list[TickPlan]:
    """Plans the next batch while Postgres writes the previous one."""
    return await asyncio.to_thread(plan_batch, waiting, plan) if waiting else []
