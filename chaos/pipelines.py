"""The load of schedules: some tick, some run after others, some have circuits; backfills of all of them.

`declare_pipeline` syncs as the operator does, so faults hit the whole sync.
"""

from __future__ import annotations

import asyncio
import itertools
import random
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from wakeboard.engine.maintenance_api import MaintenanceStore
from wakeboard.schedules.desired_schedule import DesiredSchedule
from wakeboard.schedules.rules.job_schedule import load_job_schedule
from wakeboard.schedules.sync import sync
from wakeboard.store.connection import connect
from wakeboard.ticks.cron_parser import parse_cron

if TYPE_CHECKING:
    from collections.abc import Callable

    import psycopg

SOURCE: Final = "file:pipelines"
POLICIES: Final = ("Allow", "Allow", "Forbid", "Queue", "Replace")
CATCH_UPS: Final = ("All", "Latest", "Skip")
LONGEST_BACKLOG: Final = 40  # minutes
LONGEST_BACKFILL: Final = 12  # ticks
BACKFILLED_S: Final = 20_000  # so far back, before every missed tick
FRAGILE: Final = 0.2  # the share of the schedules whose runs nearly all die
PIPELINES: Final = 8  # more would be a load of thousands of ticks

_DEFINE: Final = """
insert into wakeboard.job_definitions (
  source, namespace, name, spec_hash, job_type, schedule, cron_fields, catch_up, catch_up_limit, concurrency_policy,
  max_attempts, backoff_strategy, backoff_base_s, timeout_s, suspend_after_dead, next_run_at)
values ('file:chaos', 'chaos', %s, '', %s, %s, %s, %s, 1000, %s, 100, 'fixed', 1, 15, %s,
        to_timestamp(floor(extract(epoch from now()) / %s) * %s) - make_interval(secs => %s))
"""
# Ticks of one schedule, or of all parents in one pipeline, so that the ticks flow through it.
_BACKFILL: Final = """
with chosen as (
  select id, name, source from wakeboard.job_definitions
   where schedule is not null and source <> 'app' order by random() limit 1
), ticks as (
  select array_agg(at) as ticks, min(at) as first, max(at) + interval '1 s' as until
    from (select to_timestamp(floor(extract(epoch from now()) / 120) * 120) - make_interval(secs => %s + place * 120)
            from generate_series(0, %s) as place) as tick (at)
)
select made.id
  from chosen join wakeboard.job_definitions as def
    on def.id = chosen.id or chosen.source = 'file:pipelines' and def.source = chosen.source
       and def.schedule is not null and split_part(def.name, '-', 2) = split_part(chosen.name, '-', 2)
 cross join ticks
 cross join lateral wakeboard.create_backfill(def.id, ticks, first, until, %s) as made
"""
_RESUME: Final = "wakeboard.resume('backfill:' || id)"
_BACKFILL_ACTIONS: Final = ("wakeboard.pause('backfill:' || id)", _RESUME, _RESUME, "wakeboard.cancel_backfill(id)")


class Pipelines:
    """Declares schedules and backfills. Each method is one request of a user."""

    def __init__(self, admin_dsn: str, connection: Callable[[], psycopg.Connection[Any]]) -> None:
        self._dsn, self._connection = admin_dsn, connection
        self._numbers = itertools.count(1)
        self._random = random.Random()

    def create_schedule(self) -> None:
        """A new schedule that has missed some ticks, and ticks every minute or every two minutes from now on."""
        every = self._random.choice([1, 1, 2])
        cron = "* * * * *" if every == 1 else "*/2 * * * *"
        name = f"schedule-{next(self._numbers)}"
        back = self._random.randint(0, LONGEST_BACKLOG // every) * every * 60
        catch_up, policy = self._random.choice(CATCH_UPS), self._random.choice(POLICIES)
        job_type, suspend_after_dead = ("fragile", 2) if self._random.random() < FRAGILE else ("ticks", None)
        fields = parse_cron(cron, name=name).to_text()
        step = every * 60
        values = name, job_type, cron, fields, catch_up, policy, suspend_after_dead, step, step, back
        self._connection().execute(_DEFINE, values)

    def declare_pipeline(self) -> None:
        """Two schedules, one after both, and one after any end of that. Later an edit that says the same otherwise."""
        number = self._random.randint(1, PIPELINES)
        parents = ["extract", "rates"]
        self._random.shuffle(parents)
        asyncio.run(_sync(self._dsn, _pipeline(number, parents)))

    def act_on_backfills(self) -> None:
        """Declares a backfill, or pauses, resumes or cancels one."""
        conn = self._connection()
        if self._random.random() < 0.5:
            begin, ticks = self._random.randrange(0, 1200, 120), self._random.randint(1, LONGEST_BACKFILL)
            conn.execute(_BACKFILL, (BACKFILLED_S + begin, ticks, self._random.randint(1, 4)))
            return
        action = self._random.choice(_BACKFILL_ACTIONS)
        conn.execute(
            f"select {action} from wakeboard.backfills where finished_at is null order by random() limit 1".encode()
        )


def _pipeline(number: int, parents: list[str]) -> list[DesiredSchedule]:
    after = {
        "transform": [{"schedule": f"{parent}-{number}"} for parent in parents],
        "report": [{"schedule": f"transform-{number}"}, {"schedule": f"extract-{number}", "ticks": "All"}],
        "clean": [{"schedule": f"transform-{number}", "outcome": "Ended"}],
    }
    return [
        _desired(f"{name}-{number}", {"schedule": "* * * * *"} if name in parents else {"after": after[name]})
        for name in (*parents, *after)
    ]


def _desired(name: str, fields: dict[str, Any]) -> DesiredSchedule:
    manifest = {
        "apiVersion": "wakeboard.dev/v1alpha1",
        "kind": "JobSchedule",
        "metadata": {"name": name, "namespace": "chaos"},
        "spec": {
            "jobType": "ticks",
            "maxAttempts": 100,
            "timeoutSeconds": 15,
            "backoff": {"strategy": "Fixed", "baseSeconds": 1, "maxSeconds": 1},
            "catchUp": {"policy": "All", "limit": 1000},
            **fields,
        },
    }
    return DesiredSchedule("chaos", name, load_job_schedule(manifest, name).spec)


async def _sync(dsn: str, desired: list[DesiredSchedule]) -> None:
    async with await connect(dsn, name="chaos pipelines") as conn:
        await sync(MaintenanceStore(conn), SOURCE, desired, prune=False, misfire_grace=timedelta(minutes=5))
