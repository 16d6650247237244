"""Watches, from another session, which statements wait for a lock of a migration, how long, and what it does then."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Self

import psycopg

if TYPE_CHECKING:
    from types import TracebackType

INTERVAL_S: Final = 0.004

# A session that waits behind a migration that itself waits counts, too: pg_blocking_pids names both. While a migration
# builds indexes, it has two sessions, and one may wait for the other.
_WAITS: Final = """
select waiting.pid, waiting.waitstart, coalesce(parent.relname, class.relname, waiting.locktype)::text,
       extract(epoch from clock_timestamp() - waiting.waitstart)::float8, migration.query
  from pg_locks as waiting
  join pg_stat_activity as migration on migration.application_name = 'wakeboard migrate'
  left join pg_class as class on class.oid = waiting.relation
  left join pg_inherits as partition on partition.inhrelid = class.oid and class.relispartition
  left join pg_class as parent on parent.oid = partition.inhparent
 where not waiting.granted and waiting.waitstart is not null and waiting.pid <> migration.pid
   and migration.pid = any (pg_blocking_pids(waiting.pid))
   and not exists (select from pg_stat_activity as own
                    where own.pid = waiting.pid and own.application_name = migration.application_name)
"""


@dataclass(slots=True)
class TableWaits:
    """The waits for one table: how many, and the longest one in seconds."""

    count: int = 0
    longest_s: float = 0.0


@dataclass(slots=True)
class LockWaits:
    """Use it as a context manager around a migration. `tables` has the waits for each table.

    `during`: for how many seconds statements waited while the migration executed each statement, by its first line.
    """

    dsn: str
    tables: dict[str, TableWaits] = field(default_factory=dict[str, TableWaits])
    during: dict[str, float] = field(default_factory=dict[str, float])
    _stop: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def __enter__(self) -> Self:
        self._thread = threading.Thread(target=self._watch, name="lock waits", daemon=True)
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, _: object, __: TracebackType | None) -> None:
        self._stop.set()
        assert self._thread is not None
        self._thread.join()

    @property
    def longest_s(self) -> float:
        """The longest wait for any table."""
        return max((waits.longest_s for waits in self.tables.values()), default=0.0)

    def _watch(self) -> None:
        seen: set[tuple[int, Any]] = set()
        looked = time.monotonic()
        with psycopg.connect(self.dsn, autocommit=True, application_name="chaos observer") as conn:
            while not self._stop.wait(INTERVAL_S):
                before, looked = looked, time.monotonic()
                found = conn.execute(_WAITS.encode()).fetchall()
                for statement in {row[-1].partition("\n")[0] for row in found}:
                    self.during[statement] = self.during.get(statement, 0.0) + looked - before
                for pid, began, table, seconds, _ in found:
                    waits = self.tables.setdefault(table, TableWaits())
                    waits.count += (pid, began) not in seen
                    waits.longest_s = max(waits.longest_s, seconds)
                    seen.add((pid, began))
