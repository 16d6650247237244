"""Dependencies: creates the runs of schedules that run after others, and lets runs start that waited for others.

The end of a run that others may wait for appends a row to `ended_runs`, in its own transaction. `enqueue_dependents`
consumes these rows. A schedule may need all ticks of another one since its own tick before (`ticks: All`); which ticks
these are follows from the cron expressions, so they are computed here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, cast

from wakeboard.dependencies import calls
from wakeboard.dependencies.calls import EnqueuedDependents, JoinedTick
from wakeboard.engine.partitions import with_partition
from wakeboard.errors import WakeboardError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from wakeboard.dependencies.calls import JoinToCheck
    from wakeboard.engine.maintenance_api import MaintenanceStore
    from wakeboard.ticks.ticks import Ticks

BATCH: Final = 250  # ends, and runs that they create; workers execute those of one batch while the next one is created
JOINS_PER_CALL: Final = 100
NOTHING: Final = EnqueuedDependents(0, 0, 0, 0, has_joins=False)


async def enqueue_dependents(store: MaintenanceStore, *, one_batch: bool = False) -> EnqueuedDependents:
    """Consumes the ends of runs until none is left, or other processes work on the others. Returns the counts.

    `one_batch`: only one batch of them. `may_have_more` says whether there may be others.
    """
    total = NOTHING
    while True:
        done = await with_partition(store, lambda: calls.enqueue_dependents(store, BATCH))
        runs = done.runs + (await _join(store) if done.has_joins else 0)
        total = EnqueuedDependents(
            total.ended + done.ended,
            total.runs + runs,
            total.skipped + done.skipped,
            total.started + done.started,
            has_joins=False,
        )
        if one_batch or not may_have_more(done):
            return total


def may_have_more(done: EnqueuedDependents) -> bool:
    """Whether a batch was full. The end of one run may create many."""
    return done.ended >= BATCH or done.runs + done.skipped >= BATCH


async def _join(store: MaintenanceStore) -> int:
    runs = 0
    joined: list[JoinedTick] = []
    while joins := await calls.joins_to_check(store, JOINS_PER_CALL):
        before, joined = joined, joined_ticks(joins)
        if joined == before:  # another transaction has locked their schedules meanwhile
            break
        runs += await with_partition(store, lambda joined=joined: calls.enqueue_joined_ticks(store, joined))
        if len(joined) < JOINS_PER_CALL:
            break
    return runs


def joined_ticks(joins: Sequence[JoinToCheck]) -> list[JoinedTick]:
    """What each tick needs. A tick whose own or parents' ticks cannot be computed has `since` None."""
    by_tick: dict[tuple[int, datetime], list[JoinToCheck]] = {}
    for join in joins:
        by_tick.setdefault((join.definition_id, join.scheduled_for), []).append(join)
    return [_joined(definition_id, tick, parents) for (definition_id, tick), parents in by_tick.items()]


def _joined(definition_id: int, tick: datetime, parents: Sequence[JoinToCheck]) -> JoinedTick:
    from wakeboard.dependencies.rules.joined_ticks import (  # imported late: few schedules need them
        tick_before,
        ticks_between,
    )

    unknown = JoinedTick(definition_id, tick, None, ())
    try:
        own = parents[0].own and _ticks(parents[0].own)
        since = own and tick_before(own, tick)
        if since is None:
            return unknown
        needs: list[tuple[int, datetime]] = []
        for join in parents:
            found = join.parent and ticks_between(_ticks(join.parent), since, tick)
            if found is None:
                return unknown
            needs += [(join.parent_id, each) for each in found]
    except WakeboardError:  # an unknown zone, which the schedule's own status shows
        return unknown
    return JoinedTick(definition_id, tick, since, needs)


def _ticks(cadence: tuple[str, str, str, str]) -> Ticks:
    from wakeboard.ticks.compiled_ticks import ticks_for

    return ticks_for(*cast("Any", cadence))
