"""Random edits around the moments of ticks, beside two schedulers: each tick of what was committed is made once.

Its run has the payload of the definition at the tick, or of a later one if it waited. Only a removal and a suspension
skip a tick, with their reason.

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
EDITORS: Final = 12
GRACE: Final = timedelta(minutes=10)
SECOND: Final = timedelta(seconds=1)
PAST: Final = 3 * SECOND  # how long ago a single moment may be
LATE: Final = 3 * SECOND  # how long a tick may wait for a scheduler here
BRIEF: Final = timedelta(milliseconds=50)  # the duration of a call, in which its ticks begin
FAR: Final = datetime(9999, 1, 1, tzinfo=UTC)
MADE: Final = """
select tick, created_at, case when status = 'skipped' then reason end as skipped, payload -> 'n' as payload,
       status = 'skipped' or reason is null or status = 'cancelled' and reason = 'ScheduleRemoved' as has_reason
  from all_runs cross join lateral generate_series(scheduled_for, coalesce(skipped_until, scheduled_for), '1 s') as tick
 where schedule = %s and coalesce(skipped_count - 1 = extract(epoch from skipped_until - scheduled_for), true)
"""


@dataclass
class Times:
    """What a committed transaction left: the ticks after `since`. `line` None: none."""

    since: datetime
    line: str | None
    answer: str
    drops: frozenset[str] = frozenset()  # why what was due then is dropped: ScheduleRemoved, Suspended
    payload: float | None = None
    first: datetime | None = None  # of the edits of the transaction: a schedule that is over begins with that one
    last: datetime | None = None  # and the last one: one that is removed in between ends with that one or the first


@dataclass
class Editor:
    """Edits schedules of its own, one after the other."""

    store: MaintenanceStore
    choices: random.Random
    names: list[str]
    histories: dict[str, list[Times]] = field(default_factory=dict[str, list[Times]])
    transactions: dict[str, list[list[Times]]] = field(default_factory=dict[str, list[list[Times]]])  # each edit
    pauses: dict[str, list[list[datetime]]] = field(default_factory=dict[str, list[list[datetime]]])  # from, until

    async def edit_until(self, end: float) -> None:
        name = self.names[0]
        while time.monotonic() < end:
            if self.choices.random() < 0.7:  # near a whole second
                await asyncio.sleep((self.choices.gauss(0, 0.12) - time.time()) % 1)
            if self.choices.random() < 0.4:  # else the same one again
                name = self.choices.choice(self.names)
            if self.choices.random() < 0.1:
                await self._pause(name, is_end=self.choices.random() < 0.7)
            history = self.histories.setdefault(name, [])
            scratch = history[-1:]
            known = len(scratch)
            rolls_back = False
            if self.choices.random() < 0.6:
                await self._edit(name, scratch)
                history += scratch[known:]
            else:
                rolls_back = self.choices.random() < 0.15
                async with self.store.conn.transaction(force_rollback=rolls_back):
                    for _ in range(self.choices.randrange(1, 4)):
                        await self._edit(name, scratch)
                        await asyncio.sleep(self.choices.choice([0, 0, 0.4, 1.2]))
                if not rolls_back:
                    self._commit(history, scratch[known:])
            if scratch[known:] and not rolls_back:
                self.transactions.setdefault(name, []).append(scratch[known:])

    async def _pause(self, name: str, *, is_end: bool) -> None:
        pauses = self.pauses.setdefault(name, [])
        if is_end:
            await wakeboard.resume_schedules(self.store.conn, f"t/{name}")
            if pauses:
                pauses[-1][1] = min(pauses[-1][1], datetime.now(UTC))
        else:
            if not pauses or pauses[-1][1] < FAR:
                pauses.append([datetime.now(UTC), FAR])
            await wakeboard.pause_schedules(self.store.conn, f"t/{name}")

    def _commit(self, history: list[Times], made: list[Times]) -> None:
        """Of several edits of when in one transaction, the last one counts, from the moment of the first one."""
        before = history[-1].line if history else None
        changes = [each for each in made if each.line != before]
        if changes:
            since = changes[0].since
            drops = frozenset[str]().union(*(each.drops for each in made))
            history.append(
                Times(since, made[-1].line, made[-1].answer, drops, first=made[0].since, last=made[-1].since)
            )

    async def _edit(self, name: str, history: list[Times]) -> None:
        line = self._line()
        if history and self.choices.random() < 0.2:
            line = history[-1].line  # its times stay
        if line is None and history and self.choices.random() < 0.3:
            await wakeboard.unschedule(self.store.conn, f"t/{name}")
            ((moment,),) = await rows(self.store, "select max(removed_at) from job_definitions where name = %s", name)
            history.append(Times(moment, None, "removed", frozenset({"ScheduleRemoved"})))
            return
        suspended = line is None and self.choices.random() < 0.5
        payload = self.choices.random()
        given = {"suspended": suspended, "payload": {"n": payload}, "catch_up": "All", "catch_up_limit": 10000}
        when: dict[str, Any] = {}
        if line and line.startswith("at "):
            when["at"] = datetime.fromisoformat(line[3:])
        elif line or suspended:
            when["every"] = timedelta(seconds=int((line or "every 1s")[6:-1]))
        made = await wakeboard.schedule(self.store.conn, f"t/{name}", "ping", **given, **when)
        ((moment,),) = await rows(self.store, "select updated_at from job_definitions where id = %s", made.id)
        if made.answer != "unchanged":
            history.append(Times(moment, line, made.answer, frozenset({"Suspended"} if suspended else ()), payload))

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
            may |= set(ticks_of(each, following.last or following.since))
        may |= unsure | set(ticks_of(replace(each, since=each.first or each.since), following.since))
        must |= ticks - unsure
        if following.drops:  # those that still wait, of whichever times
            late = {tick for tick in must if was_paused or tick > following.since - LATE - PAST}
            may |= late
            must -= late
    return must, may | must


def waits_until(tick: datetime, pauses: list[list[datetime]]) -> datetime:
    """Until when this tick may wait for its run: for the edit that sets a past moment, a scheduler, ends of pauses."""
    end = tick + PAST + LATE
    for began, ended in pauses:
        if began <= end and tick <= ended + PAST + LATE:
            end = max(end, ended + LATE)
    return end


def drops_of(transactions: list[list[Times]], pauses: list[list[datetime]], tick: datetime) -> set[str]:
    """The reasons for which this tick may be skipped: of the edits that found it due."""
    reasons = set[str]()
    for edits in transactions:
        for each in edits:
            if tick <= each.since and edits[0].since <= waits_until(tick, pauses):
                reasons |= each.drops
    return reasons


def payloads_of(
    transactions: list[list[Times]], pauses: list[list[datetime]], handled: dict[datetime, datetime], tick: datetime
) -> set[float | None]:
    """The payloads that the run of this tick may have. `handled`: until when each tick may have been due.

    An edit leaves the oldest due tick to the definition of before. It has those that wait behind it, or for the end of
    a pause, and an edit may follow before a scheduler has made them.
    """
    edits = [(edits[0].since, place, each) for place, edits in enumerate(transactions) for each in edits]
    found = set[float | None]()
    for number, (_, place, each) in enumerate(edits):
        due = max(tick, each.since)
        if not has_tick(each, edits[number - 1][2] if number else None, edits[number + 1 :], tick):
            continue
        end = waits_until(due, pauses)
        if each.answer == "removed":  # in a transaction that creates it again: the definition before is committed
            found |= set([former.payload for _, _, former in edits[:number] if former.payload is not None][-1:])
        waits = any(other <= due <= until and other != tick for other, until in handled.items()) or any(
            paused <= end and due <= resumed for paused, resumed in pauses
        )
        for began, later_place, later in edits[number:]:
            if later_place == place or (waits and began <= end):
                found.add(later.payload)
    return found


def has_tick(each: Times, former: Times | None, later: list[tuple[datetime, int, Times]], tick: datetime) -> bool:
    """Whether the tick is one of this definition: it is the one at that moment, or the first with a moment before."""
    if each.since > tick:
        is_new = former is None or former.line != each.line
        is_its_moment = is_moment(each) and datetime.fromisoformat((each.line or "")[3:]) == tick
        return (is_its_moment and is_new) or (each.answer == "created" and each.since - tick < BRIEF)
    return not later or later[0][2].since > tick


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


def judged(editor: Editor, name: str, found: list[tuple[Any, ...]], end: datetime) -> dict[str, Any]:
    """What is wrong with the ticks that were found, by kind of fault."""
    transactions, pauses = editor.transactions.get(name, []), editor.pauses.get(name, [])
    must, may = owed(editor.histories[name], end, was_paused=bool(pauses))
    made = [tick for tick, _, skipped, *_ in found if not skipped]
    dropped = [(tick, skipped) for tick, _, skipped, *_ in found if skipped]
    handled = {tick: waits_until(tick, pauses) for tick in may} | {tick: at for tick, at, *_ in found}
    payloads = {tick: payloads_of(transactions, pauses, handled, tick) for tick in made}
    return {
        "lost": must - set(made) - {tick for tick, _ in dropped},
        "made without a reason": {tick for tick in set(made) - may if tick <= end},
        "twice": {tick for tick in made if made.count(tick) > 1},
        "of another status": [row for row in found if not row[-1]],
        "skipped for another reason": [
            (tick, why) for tick, why in dropped if why not in drops_of(transactions, pauses, tick)
        ],
        "of another payload": [
            (tick, payload, payloads[tick])
            for tick, _, skipped, payload, _ in found
            if not skipped and tick <= end and payload not in payloads[tick]
        ],
    }


async def schedule_until(store: MaintenanceStore, end: float, choices: random.Random) -> None:
    """A scheduler which writes each second plan late, or twice."""
    while time.monotonic() < end:
        plans = [plan_ticks(due, GRACE) for due in await calls.due_definitions(store)]
        await asyncio.sleep(choices.choice([0, 0, 0.01, 0.3]))
        for _ in range(choices.choice([1, 2])):
            await calls.enqueue_due_ticks(store, plans) if plans else None
        await asyncio.sleep(choices.choice([0.005, 0.02, 0.1, 0.4]))


@pytest.mark.timeout(120 + SECONDS)
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
        for name in editor.histories:
            found = judged(editor, name, await rows(store, MADE, f"t/{name}"), now - SECOND)
            if any(found.values()):
                faults = {kind: each for kind, each in found.items() if each}
                pauses, edits = editor.pauses.get(name), editor.transactions.get(name)
                wrong[name] = {**faults, "pauses": pauses, "edits": edits}
    assert not wrong, f"RANDOM_EDITS_SEED={SEED}: {json.dumps(wrong, default=str, indent=1)[:6000]}"
