"""Schedules of applications in random histories: each tick becomes a run or a skipped one, once.

STATE_MACHINE_STEPS=100000 takes so many steps, from STATE_MACHINE_SEED or a random seed that a failure shows.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
from collections import Counter
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

import pytest

import wakeboard
from tests.schedules.schedules import connected, hourly, rows
from wakeboard.schedules.scheduler import schedule_due_ticks

if TYPE_CHECKING:
    from wakeboard.engine.maintenance_api import MaintenanceStore

pytestmark = pytest.mark.anyio

STEPS: Final = int(os.environ.get("STATE_MACHINE_STEPS", "100"))
SEED: Final = int(os.environ.get("STATE_MACHINE_SEED", "0")) or random.getrandbits(32) * (
    "STATE_MACHINE_STEPS" in os.environ
)
STEPS_OF_A_HISTORY: Final = 25

# Via another millennium, as in the state machine of the store.
HOURS_PASS: Final = """
update job_definitions
   set next_run_at = next_run_at - {h}, last_tick_at = greatest(last_tick_at - {h}, 'epoch'),
       former_timings = (select jsonb_agg(former || jsonb_build_object(
                           'until', (former ->> 'until')::timestamptz - {h},
                           'since', (former ->> 'since')::timestamptz - {h}) order by place)
                           from jsonb_array_elements(former_timings) with ordinality as each (former, place));
update job_runs set scheduled_for = scheduled_for - {h} - interval '999 years';
update job_runs set scheduled_for = scheduled_for + interval '999 years';
update job_run_history set scheduled_for = scheduled_for - {h}, skipped_until = skipped_until - {h}
"""
RECORDED: Final = """
select round(extract(epoch from tick - %s) / 3600)::integer + %s
  from all_runs cross join lateral generate_series(scheduled_for, coalesce(skipped_until, scheduled_for), '1 h') as tick
"""


class History:
    """One schedule, which ticks each hour, half an hour from now. Tick n is due when more than n hours have passed.

    `owed`: the ticks that must be recorded in the end; `free`: those that were due when it was removed or suspended.
    """

    def __init__(self, store: MaintenanceStore, other: MaintenanceStore, choices: random.Random) -> None:
        self.store, self.other, self.choices = store, other, choices
        self.hours, self.ticks, self.cron = 0, False, hourly()
        self.owed, self.free = set[int](), set[int]()

    def definition(self) -> dict[str, Any]:
        """A definition: its zone changes the times that are stored, and not when it is due."""
        return {
            "cron": self.cron,
            "payload": {"n": self.choices.randrange(3)},
            "time_zone": self.choices.choice(["Etc/UTC", "Etc/GMT+1", "Etc/GMT+2"]),
            "catch_up": self.choices.choice(["All", "Latest", "Skip"]),
            "concurrency_policy": self.choices.choice(["Allow", "Allow", "Forbid", "Replace"]),
            "suspended": self.choices.random() < 0.1,
        }

    async def schedule(self) -> None:
        await self._schedule(self.store, self.definition())

    async def schedule_again(self) -> None:
        """The same call again changes nothing."""
        given = self.definition()
        await self._schedule(self.store, given)
        assert (await wakeboard.schedule(self.store.conn, "team/a", "ping", **given)).answer == "unchanged"

    async def _schedule(self, store: MaintenanceStore, given: dict[str, Any]) -> None:
        if given["suspended"]:
            await self._drops_due_ticks()
        await self._write(store, "ping", given)
        self.ticks = not given["suspended"]

    async def _write(self, store: MaintenanceStore, job_type: str, given: dict[str, Any]) -> None:
        """By a call or by a plain statement."""
        if self.choices.random() < 0.5:
            await wakeboard.schedule(store.conn, "team/a", job_type, **given)
            return
        columns = {**given, "schedule": given["cron"], "job_type": job_type, "payload": json.dumps(given["payload"])}
        del columns["cron"]
        await rows(
            store,
            f"insert into job_definitions (namespace, name, {', '.join(columns)})"
            f" values ('team', 'a', {', '.join(['%s'] * len(columns))}) on conflict (source, namespace, name) do update"
            f" set {', '.join(f'{column} = excluded.{column}' for column in columns)}",
            *columns.values(),
        )

    async def two_callers(self) -> None:
        given: dict[str, Any] = {**self.definition(), "suspended": False}
        await asyncio.gather(
            self._write(self.store, "ping", given),
            self._write(self.other, "pong", given),
        )
        self.ticks = True

    async def a_caller_rolls_back(self) -> None:
        async with self.other.conn.transaction(force_rollback=True):
            await self._write(self.other, "ping", self.definition())
            await self._remove(self.other)

    async def unschedule(self) -> None:
        await self._drops_due_ticks()
        await self._remove(self.store)
        self.ticks = False

    async def replace(self) -> None:
        """A removal and a creation in one transaction are an edit, whichever statements they are."""
        given = self.definition()
        if given["suspended"]:
            await self._drops_due_ticks()
        async with self.store.conn.transaction():
            await self._remove(self.store)
            await self._write(self.store, "ping", given)
        self.ticks = not given["suspended"]

    async def _remove(self, store: MaintenanceStore) -> None:
        match self.choices.randrange(3):
            case 0:
                await wakeboard.unschedule(store.conn, "team/a")
            case 1:
                await wakeboard.unschedule_all(store.conn, "team/*")
            case _:
                await rows(store, "delete from job_definitions where namespace = 'team' and name = 'a'")

    async def pause(self) -> None:
        await wakeboard.pause_schedules(self.store.conn, "team/*")

    async def resume(self) -> None:
        await wakeboard.resume_schedules(self.store.conn, "team/*")

    async def hours_pass(self) -> None:
        hours = self.choices.choice([1, 1, 2, 5])
        for statement in HOURS_PASS.format(h=f"interval '{hours} h'").split(";"):
            await rows(self.store, statement)
        if self.ticks:
            self.owed |= set(range(self.hours, self.hours + hours))
        self.hours += hours

    async def schedule_due_ticks(self) -> None:
        await asyncio.gather(*(schedule_due_ticks(each, misfire_grace=GRACE) for each in (self.store, self.other)))

    async def _drops_due_ticks(self) -> None:
        lost = self.owed - set(await self.recorded())
        self.owed -= lost
        self.free |= lost

    async def recorded(self) -> Counter[int]:
        """How often each tick is a run, or was skipped."""
        ((first,),) = await rows(
            self.store,
            "select hour + make_interval(hours => (hour <= now())::int)"
            "  from (select date_trunc('hour', now(), 'UTC') + make_interval(mins => %s)) as next (hour)",
            int(self.cron.split()[0]),
        )
        return Counter(tick for (tick,) in await rows(self.store, RECORDED, first, self.hours))

    async def check(self) -> None:
        """No tick is doubled, none is early, and none is skipped because of a pause."""
        recorded = await self.recorded()
        assert set(recorded.values()) <= {1}
        assert set(recorded) <= self.owed | self.free
        assert await rows(self.store, "select id from job_run_history where reason = 'Paused'") == []

    async def finish(self) -> None:
        """In the end, none is lost."""
        await self.resume()
        while any(await schedule_due_ticks(self.store, misfire_grace=GRACE)):
            pass
        await self.check()
        assert self.owed <= set(await self.recorded())


GRACE: Final = timedelta(minutes=5)
OPERATIONS: Final = (
    *(History.schedule, History.schedule, History.schedule_again, History.two_callers, History.a_caller_rolls_back),
    *(History.unschedule, History.replace, History.pause, History.resume),
    *(History.hours_pass, History.hours_pass, History.hours_pass, History.schedule_due_ticks),
)


@pytest.mark.timeout(0 if "STATE_MACHINE_STEPS" in os.environ else 120)
async def test_each_tick_of_an_application_s_schedule_is_recorded_once(store: MaintenanceStore, database: str) -> None:
    async with connected(database) as other:
        for number in range(STEPS // STEPS_OF_A_HISTORY):
            choices = random.Random(SEED + number)
            history, done = History(store, other, choices), list[str]()
            try:
                for _ in range(STEPS_OF_A_HISTORY):
                    operation = choices.choice(OPERATIONS)
                    done.append(operation.__name__)
                    await operation(history)
                    await history.check()
                await history.finish()
            except AssertionError as error:
                error.add_note(f"STATE_MACHINE_SEED={SEED + number}: {', '.join(done)}")
                raise
            for table in ("job_runs", "job_run_history", "pauses", "job_definitions"):
                await rows(store, f"alter table {table} disable trigger user")
                await rows(store, f"delete from {table}")
                await rows(store, f"alter table {table} enable trigger user")
