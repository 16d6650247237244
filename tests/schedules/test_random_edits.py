"""Random edits around the moments of ticks, beside two schedulers: each tick of what was committed is made once.

RANDOM_EDITS_SECONDS=60 edits for so long, with RANDOM_EDITS_SEED or a random seed that a failure shows.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import time
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

import pytest

import wakeboard
from tests.schedules.schedules import connected, rows
from wakeboard.schedules import calls
from wakeboard.schedules.scheduler import plan_ticks, schedule_due_ticks

if TYPE_CHECKING:
    from wakeboard.engine.maintenance_api import MaintenanceStore

pytestmark = pytest.mark.anyio

SECONDS: Final = float(os.environ.get("RANDOM_EDITS_SECONDS", "4"))
SEED: Final = int(os.environ.get("RANDOM_EDITS_SEED", "0")) or random.getrandbits(32)
SCHEDULES: Final = 60
EDITORS: Final = 6
GRACE: Final = timedelta(minutes=10)
SECOND: Final = timedelta(seconds=1)
LATE: Final = 3 * SECOND  # how long a tick may wait for a scheduler here
BRIEF: Final = timedelta(milliseconds=50)  # the duration of a call, in which its ticks begin
MADE: Final = """
select tick, reason in ('ScheduleRemoved', 'Suspended') is true as is_dropped
  from all_runs cross join lateral generate_series(scheduled_for, coalesce(skipped_until, scheduled_for), '1 s') as tick
 where schedule = %s and coalesce(skipped_count - 1 = extract(epoch from skipped_until - scheduled_for), true)
"""


@dataclass
class Times:
    """What a committed transaction left: the ticks after `since`. `line` None: none."""

    since: datetime
    line: str | None
    answer: str
    drops: bool = False  # removed or suspended: what was due then is dropped
    first: datetime | None = None  # of the edits of the transaction: a schedule that is over begins with that one
    last: datetime | None = None  # and the last one: one that is removed in between ends with that one or the first


@dataclass
class Editor:
    """Edits schedules of its own, one after the other."""

    store: MaintenanceStore
    choices: random.Random
    names: list[str]
    histories: dict[str, list[Times]] = field(default_factory=dict[str, list[Times]])
    paused: set[str] = field(default_factory=set[str])

    async def edit_until(self, end: float) -> None:
        while time.monotonic() < end:
            if self.choices.random() < 0.7:  # near a whole second
                await asyncio.sleep((self.choices.gauss(0, 0.12) - time.time()) % 1)
            name = self.choices.choice(self.names)
            if self.choices.random() < 0.1:
                pause = self.choices.choice([wakeboard.pause_schedules, wakeboard.resume_schedules])
                await pause(self.store.conn, f"t/{name}")
                self.paused.add(name)
            history = self.histories.setdefault(name, [])
            if self.choices.random() < 0.6:
                await self._edit(name, history)
                continue
            scratch = history[-1:]
            known = len(scratch)
            rolls_back = self.choices.random() < 0.15
            async with self.store.conn.transaction(force_rollback=rolls_back):
                for _ in range(self.choices.randrange(1, 4)):
                    await self._edit(name, scratch)
                    await asyncio.sleep(self.choices.choice([0, 0, 0.4, 1.2]))
            if not rolls_back:
                self._commit(history, scratch[known:])

    def _commit(self, history: list[Times], made: list[Times]) -> None:
        """Of several edits of when in one transaction, the last one counts, from the moment of the first one."""
        before = history[-1].line if history else "none yet"
        changes = [each for each in made if each.line != before]
        if changes:
            since = changes[0].since
            drops = any(each.drops for each in made)
            history.append(
                Times(since, made[-1].line, made[-1].answer, drops=drops, first=made[0].since, last=made[-1].since)
            )

    async def _edit(self, name: str, history: list[Times]) -> None:
        line = self._line()
        if history and self.choices.random() < 0.2:
            line = history[-1].line  # its times stay
        if line is None and history and self.choices.random() < 0.3:
            await wakeboard.unschedule(self.store.conn, f"t/{name}")
            ((moment,),) = await rows(self.store, "select max(removed_at) from job_definitions where name = %s", name)
            history.append(Times(moment, None, "removed", drops=True))
            return
        suspended = line is None and self.choices.random() < 0.5
        given = {"suspended": suspended, "payload": {"n": self.choices.random()}, "catch_up": "All"}
        when: dict[str, Any] = {}
        if line and line.startswith("at "):
            when["at"] = datetime.fromisoformat(line[3:])
        elif line or suspended:
            when["every"] = timedelta(seconds=int((line or "every 1s")[6:-1]))
        made = await wakeboard.schedule(self.store.conn, f"t/{name}", "ping", **given, **when)
        ((moment,),) = await rows(self.store, "select updated_at from job_definitions where id = %s", made.id)
        if made.answer != "unchanged":
            history.append(Times(moment, line, made.answer, drops=suspended))

    def _line(self) -> str | None:
        second = datetime.now(UTC).replace(microsecond=0)
        seconds = self.choices.choice([1, 1, 1, 2, 60, 0, -1, -3])
        at = f"at {second + seconds * SECOND:%Y-%m-%dT%H:%M:%SZ}"
        return self.choices.choice([at, at, at, "every 1s", "every 2s", "every 31536000s", None])


def owed(history: list[Times], end: datetime, *, was_paused: bool) -> tuple[set[datetime], set[datetime]]:
    """The ticks that must have been made until `end`, and those that may. A pause holds them until they are dropped."""
    must, may = set[datetime](), set[datetime]()
    for place, each in enumerate(history):
        following = history[place + 1] if place + 1 < len(history) else Times(end, None, "")
        ticks = set(ticks_of(each, following.since))
        unsure = {tick for tick in ticks if tick < each.since + BRIEF and not is_moment(each)}
        if each.answer == "ended":
            unsure |= ticks
        if each.drops and each.last:
            unsure |= {tick for tick in ticks if tick <= each.last}
        if following.drops:
            unsure |= {tick for tick in ticks if tick > following.since - LATE}
            may |= set(ticks_of(each, following.last or following.since)) | (must if was_paused else set())
            unsure |= ticks if was_paused else set()
        may |= unsure | set(ticks_of(replace(each, since=each.first or each.since), following.since))
        if following.drops and was_paused:
            must.clear()
        must |= ticks - unsure
    return must, may | must


def is_moment(times: Times) -> bool:
    return (times.line or "").startswith("at ")


def ticks_of(times: Times, until: datetime) -> list[datetime]:
    match (times.line or "").split(" "):
        case ["at", moment]:
            at = datetime.fromisoformat(moment)
            return [at] if at <= until else []
        case ["every", every]:
            first = times.since.replace(microsecond=0) + SECOND
            ticks = (
                [first + n * SECOND for n in range(int((until - first).total_seconds()) + 1)] if first <= until else []
            )
            return [tick for tick in ticks if tick.timestamp() % int(every[:-1]) == 0]
        case _:
            return []


async def schedule_until(store: MaintenanceStore, end: float, choices: random.Random) -> None:
    """A scheduler which writes each second plan late, or twice."""
    while time.monotonic() < end:
        plans = [plan_ticks(due, GRACE) for due in await calls.due_definitions(store)]
        await asyncio.sleep(choices.choice([0, 0, 0.01, 0.3]))
        for _ in range(choices.choice([1, 2])):
            await calls.enqueue_due_ticks(store, plans) if plans else None
        await asyncio.sleep(choices.choice([0.005, 0.02, 0.1, 0.4]))


async def test_random_edits_lose_and_double_no_tick(database: str, store: MaintenanceStore):
    choices = random.Random(SEED)
    end = time.monotonic() + SECONDS
    async with AsyncExitStack() as stack, asyncio.TaskGroup() as tasks:
        stores = [await stack.enter_async_context(connected(database)) for _ in range(EDITORS + 2)]
        editors = [
            Editor(each, random.Random(choices.random()), [f"s{n}" for n in range(place, SCHEDULES, EDITORS)])
            for place, each in enumerate(stores[2:])
        ]
        for editor in editors:
            tasks.create_task(editor.edit_until(end))
        for scheduler in stores[:2]:
            tasks.create_task(schedule_until(scheduler, end + 0.5, choices))
    await wakeboard.resume_schedules(store.conn, "t/*")
    ((now,),) = await rows(store, "select clock_timestamp()")
    while any(await schedule_due_ticks(store, misfire_grace=GRACE)):
        pass
    wrong: dict[str, Any] = {}
    for editor in editors:
        for name, history in editor.histories.items():
            made, dropped = list[datetime](), set[datetime]()
            for tick, is_dropped in await rows(store, MADE, f"t/{name}"):
                dropped.add(tick) if is_dropped else made.append(tick)
            must, may = owed(history, now - SECOND, was_paused=name in editor.paused)
            found: dict[str, set[datetime]] = {
                "lost": must - set(made) - dropped,
                "made without a reason": {tick for tick in set(made) - may if tick <= now - SECOND},
                "twice": {tick for tick in made if made.count(tick) > 1},
            }
            if any(found.values()):
                wrong[name] = {**found, "history": history, "made": made}
    assert not wrong, f"RANDOM_EDITS_SEED={SEED}: {json.dumps(wrong, default=str, indent=1)[:6000]}"
