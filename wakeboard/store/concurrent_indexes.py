"""Builds indexes of tables that may be large, outside of the migration's transaction: CREATE INDEX CONCURRENTLY.

No statement of an application waits for it. It waits itself: before and after it reads the table, for the transactions
that write to the table, and at the end for every transaction of the database that may still read older rows. All else
works without the index, only slower. So `migrate` builds it last, and gives up if such a transaction stays open.

The catalog says what is to be done. An index that is not valid is left from a build that ended early (a killed
`migrate`): it is dropped, also concurrently, and built again.

Of several migrators one builds. Postgres would end one of two as a deadlock: the second waits for the lock of the table
while it has a snapshot, for which the first waits at its end. So a build begins only while its migrator has the lock of
the table of migrations, and if no other session has a lock on the table that excludes it. The migrator releases the
lock as soon as the builder's session has that of its table, or waits for it behind an autovacuum, which then ends.
"""

from __future__ import annotations

import asyncio
import math
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

import psycopg
from psycopg import sql
from psycopg.rows import class_row

from wakeboard.store.connection import connect
from wakeboard.store.migration_locks import (
    LONG_S,
    LOOK_INTERVAL_S,
    MESSAGE_INTERVAL_S,
    LockHolder,
    TablesInUse,
    lock_migrations,
    named_sessions,
)
from wakeboard.store.statements import pinned_transaction

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence
    from typing import LiteralString

    from wakeboard.store.schema_files import ConcurrentIndex

BEGIN_S: Final = 5.0  # until the builder has its lock or waits for it; longer only behind a pooler with one connection
BEGIN_INTERVAL_S: Final = 0.01

_VALID: Final = """
select relname::text, indisvalid from pg_index join pg_class on pg_class.oid = indexrelid
 where relnamespace = 'wakeboard'::regnamespace and relname = any (%s)
"""

# The sessions that have a lock on a table which excludes a build, or wait for one: a builder, or another change of the
# table. The modes are those that conflict with SHARE UPDATE EXCLUSIVE. A build waits behind VACUUM and ANALYZE, because
# Postgres ends an autovacuum only if a session waits for it. Those for which these sessions wait are named, too.
_EXCLUDING: Final = """
with excluding as (
  select distinct pid
    from pg_locks
   where locktype = 'relation' and relation = any (%s::regclass[]) and pid is distinct from pg_backend_pid()
     and database = (select oid from pg_database where datname = current_database())
     and mode in ('ShareUpdateExclusiveLock', 'ShareLock', 'ShareRowExclusiveLock', 'ExclusiveLock',
                  'AccessExclusiveLock')
     and not exists (select from pg_stat_progress_vacuum as vacuum where vacuum.pid = pg_locks.pid)
     and not exists (select from pg_stat_progress_analyze as analysis where analysis.pid = pg_locks.pid)
)
select pid from excluding
 union
select blocking from excluding cross join lateral unnest(pg_blocking_pids(pid)) as blocking
 where blocking <> pg_backend_pid()
"""
# The builder is found by its statement, because behind a pooler its process id is not known.
_BLOCKING: Final = """
select distinct blocking.pid
  from pg_stat_activity as builder cross join lateral unnest(pg_blocking_pids(builder.pid)) as blocking (pid)
 where builder.datname = current_database() and builder.state = 'active' and builder.query <> ''
   and starts_with(%s, builder.query) and blocking.pid <> pg_backend_pid()
"""
_SESSIONS: Final = """
select nullif(session.pid, 0) as pid,
       coalesce((select min(virtualtransaction) from pg_locks where pg_locks.pid = session.pid), '') as transaction,
       activity.usename::text as user_name, activity.application_name as application, activity.state,
       clock_timestamp() - activity.xact_start as open_for,
       array(select distinct relname::text
               from pg_locks join pg_class on pg_class.oid = relation
              where pg_locks.pid = session.pid and granted and locktype = 'relation' and relkind in ('r', 'p')
                and relnamespace = 'wakeboard'::regnamespace
                and database = (select oid from pg_database where datname = current_database())) as tables,
       false as maintains
  from unnest(%s::integer[]) as session (pid)
  left join pg_stat_activity as activity on activity.pid = session.pid
 order by open_for desc nulls last, session.pid
"""


class _StillInTheWay(Exception):
    """The time is over. `sessions`: whose transactions have not ended."""

    def __init__(self, sessions: Sequence[LockHolder]) -> None:
        self.sessions = sessions
        super().__init__()


async def unusable_indexes(
    conn: psycopg.AsyncConnection[Any], indexes: Collection[ConcurrentIndex]
) -> list[ConcurrentIndex]:
    """Those of the indexes that are missing or not valid. It must run in a transaction."""
    found = await conn.execute(_VALID, ([one.name for one in indexes],))
    valid = dict(await found.fetchall())
    return [one for one in indexes if not valid.get(one.name)]


async def build_indexes(
    conn: psycopg.AsyncConnection[Any],
    dsn: str,
    indexes: Collection[ConcurrentIndex],
    wait_s: float,
    say: Callable[[str], None],
) -> tuple[list[str], list[str]]:
    """Builds those that are missing or not valid, one after the other. Returns the names of what it built, and did not.

    It did not: for `wait_s` seconds in all, transactions were in the way. `say` gets a sentence about them every few
    seconds. `conn` looks, and a connection of its own builds. Raises psycopg.Error, such as for a full disk.
    """
    async with pinned_transaction(conn):
        missing = await unusable_indexes(conn, indexes)
    built, left = list[str](), [one.name for one in missing]
    if missing:
        async with await connect(dsn, name="wakeboard migrate") as builder:
            await _prepare(builder)
            building = _Building(conn, builder, wait_s, say)
            try:
                for index in missing:
                    if await building.build(index):
                        built.append(index.name)
                    left.remove(index.name)
            except _StillInTheWay as in_the_way:
                say(
                    f"not built: {', '.join(left)}, because transactions were in the way for {max(wait_s, LONG_S):g} s."
                    f" {named_sessions(in_the_way.sessions)} All else works without these indexes, only slower. When"
                    " the transactions have ended, run `wakeboard migrate` again, or wait longer with --wait."
                )
    return built, left


async def _prepare(builder: psycopg.AsyncConnection[Any]) -> None:
    """Lets statements run as long as they must, with the rights of the schema's owner.

    It sets nothing that the session has already: behind a pooler in transaction mode, other clients would have it then.
    """
    async with pinned_transaction(builder):
        limits = await builder.execute(
            "select name from pg_settings where setting <> '0'"
            " and name in ('statement_timeout', 'lock_timeout', 'transaction_timeout')"
        )
        wanted = [sql.SQL("set {} = 0").format(sql.Identifier(name)) for (name,) in await limits.fetchall()]
        owner = await builder.execute(
            "select pg_get_userbyid(nspowner) from pg_namespace"
            " where nspname = 'wakeboard' and pg_has_role(nspowner, 'MEMBER') and not pg_has_role(nspowner, 'USAGE')"
        )
        wanted += [sql.SQL("set role {}").format(sql.Identifier(name)) for (name,) in await owner.fetchall()]
    for statement in wanted:
        await builder.execute(statement)


class _Building:
    """Builds indexes while it looks what is in the way, for `wait_s` seconds in all."""

    def __init__(
        self,
        conn: psycopg.AsyncConnection[Any],
        builder: psycopg.AsyncConnection[Any],
        wait_s: float,
        say: Callable[[str], None],
    ) -> None:
        self._conn, self._builder, self._say = conn, builder, say
        self._left_s = max(wait_s, LONG_S)
        self._seen: dict[tuple[int | None, str], float] = {}  # since when each transaction has been in the way
        self._looked = self._now()
        self._next_message = 0.0

    async def build(self, index: ConcurrentIndex) -> bool:
        """Returns when the index is valid: whether this built it, or another migrator did. Raises _StillInTheWay."""
        executed = ""
        while not await self._is_valid(index):
            with suppress(psycopg.errors.DeadlockDetected):  # with a session that changes the table
                if not (executed := await self._step(index)):
                    await self._look(index, _EXCLUDING, [f"wakeboard.{index.table}", "wakeboard.migrations"])
                    await asyncio.sleep(LOOK_INTERVAL_S)
        return executed == index.text

    async def _step(self, index: ConcurrentIndex) -> str:
        """Builds the index, or drops what is left of it: returns the statement. "": it must wait for other sessions."""
        executing: asyncio.Task[Any] | None = None
        try:
            async with pinned_transaction(self._conn):
                await lock_migrations(self._conn)
                if await self._is_excluded(index) or (statement := await self._statement(index)) is None:
                    return ""
                executing = asyncio.create_task(self._send(statement))
                began = self._now()
                while not executing.done() and not await self._is_excluded(index):
                    if self._now() - began > BEGIN_S:
                        return ""
                    await asyncio.wait({executing}, timeout=BEGIN_INTERVAL_S)
            while not executing.done():
                await asyncio.wait({executing}, timeout=LOOK_INTERVAL_S)
                await self._look(index, _BLOCKING, statement)
            executing.result()
        except TablesInUse:  # another migrator has locked the table of migrations
            return ""
        finally:
            if executing is not None and not executing.done():
                executing.cancel()  # psycopg cancels the statement on the server, too
                await asyncio.wait({executing})
        return statement

    async def _is_valid(self, index: ConcurrentIndex) -> bool:
        async with pinned_transaction(self._conn):
            return not await unusable_indexes(self._conn, [index])

    async def _statement(self, index: ConcurrentIndex) -> str | None:
        """What is to be executed next; None: another migrator has just built the index."""
        found = await (await self._conn.execute(_VALID, ([index.name],))).fetchone()
        if found is None:
            return index.text
        return None if found[1] else f"drop index concurrently wakeboard.{index.name}"

    async def _send(self, statement: str) -> None:
        await self._builder.execute(statement.encode())

    async def _is_excluded(self, index: ConcurrentIndex) -> bool:
        return bool(await (await self._conn.execute(_EXCLUDING, ([f"wakeboard.{index.table}"],))).fetchall())

    async def _look(self, index: ConcurrentIndex, query: LiteralString, value: str | list[str]) -> None:
        """Says which transactions are in the way, but for short ones. Raises _StillInTheWay if the time is over."""
        async with pinned_transaction(self._conn), self._conn.cursor(row_factory=class_row(LockHolder)) as cursor:
            pids = [pid for (pid,) in await (await self._conn.execute(query, (value,))).fetchall()]
            sessions = await (await cursor.execute(_SESSIONS, (pids,))).fetchall()
        now, before = self._now(), self._looked
        self._looked = now
        self._seen = {(one.pid, one.transaction): self._seen.get((one.pid, one.transaction), now) for one in sessions}
        long = [one for one in sessions if now - self._seen[one.pid, one.transaction] > LONG_S]
        if long or query == _EXCLUDING:
            self._left_s -= now - before
        if self._left_s <= 0:
            raise _StillInTheWay(long)
        if long and now >= self._next_message:
            self._say(
                f"waiting up to {math.ceil(self._left_s)} s more to build {index.name}, for which no statement waits."
                f" Transactions are in the way: {named_sessions(long)}"
            )
            self._next_message = now + MESSAGE_INTERVAL_S

    @staticmethod
    def _now() -> float:
        return asyncio.get_running_loop().time()
