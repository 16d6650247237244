"""The load of schedules from code: an application creates, edits and removes one for each of its customers.

Each change is one transaction with the customer's row. `tick_checker` computes which ticks there must have been, from
chaos.generations, in which a trigger records each change of a schedule.
"""

from __future__ import annotations

import random
import time
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

import wakeboard
from chaos.results import Violation

if TYPE_CHECKING:
    import psycopg

    from chaos.environment import Environment

CUSTOMERS: Final = 8
EVERY_S: Final = (1, 3, 10)
HELD_S: Final = 3.0  # at most, a transaction stays open: the second of two callers of one name waits 2 s
_WRITE: Final = (
    "insert into chaos.customers values (%s, %s) on conflict (name) do update set version = excluded.version"
)
_CONTRADICTIONS: Final = """
select coalesce(customer.name, def.name), customer.version, def.payload
  from chaos.customers as customer
  full join (select namespace || '/' || name as name, payload
               from wakeboard.job_definitions where source = 'app' and removed_at is null) as def using (name)
 where (def.payload ->> 'version')::float8 is distinct from customer.version
"""


class Customers:
    """Changes one schedule after another. Several threads may."""

    def __init__(self) -> None:
        self._random = random.Random()

    def change_one(self, conn: psycopg.Connection[Any]) -> None:
        """Creates, edits or removes the schedule of a customer, with the customer's row.

        Sometimes it rolls back, and sometimes it keeps the transaction open and the schedule locked.
        """
        held_s = self._random.uniform(0, HELD_S) if self._random.random() < 0.15 else 0.0
        if self._random.random() < 0.5:  # just after a second, when ticks are due that the scheduler has not seen
            time.sleep(1 - time.time() % 1 + self._random.uniform(0, 0.05))
        name = f"customers/{self._random.randint(1, CUSTOMERS)}-sync"
        with conn.transaction(force_rollback=self._random.random() < 0.2):
            if self._random.random() < 0.25:
                wakeboard.unschedule(conn, name)
                conn.execute("delete from chaos.customers where name = %s", (name,))
                time.sleep(held_s)
                return
            version, every = self._random.random(), timedelta(seconds=self._random.choice(EVERY_S))
            options: dict[str, Any] = {"catch_up": "All", "max_attempts": 100, "timeout_s": 15, "backoff_base_s": 1}
            wakeboard.schedule(conn, name, "ticks", {"version": version}, every=every, backoff="fixed", **options)
            conn.execute(_WRITE, (name, version))
            time.sleep(held_s)


def end_customers(environment: Environment) -> list[Violation]:
    """Compares the schedules with the customers' rows, and removes all, so that each has had its last tick."""
    found = environment.query(_CONTRADICTIONS)
    environment.query("select wakeboard.unschedule_all('customers/*')")
    promise = "a schedule and an application's row commit together"
    return [Violation("other", promise, ", ".join(map(str, row))) for row in found]
