"""Takes the locks of a migration: keeps other migrators out, and holds up no application that uses its tables.

While a session waits for an ACCESS EXCLUSIVE lock, every later statement on the table waits behind it. So `lock_tables`

1. looks first, and asks for no lock while a transaction that has been open for a while uses one of the tables;
2. then asks for all locks in one statement, in the order of the names, for LOCK_WAIT_S in all. That is shorter than
   deadlock_timeout, so a migration gives way before Postgres ends a transaction of an application;
3. raises TablesInUse if it did not get them. The migration is rolled back, `Waiting.pause` leaves the applications
   room, and the migration begins again.

`sessions_in_the_way` finds those that hold up the applications in the same way: for `wakeboard check` and the board.
"""

from __future__ import annotations

import asyncio
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, LiteralString

import psycopg
from psycopg import sql
from psycopg.rows import class_row, tuple_row

from wakeboard.errors import SchemaMismatch
from wakeboard.store.connection import describe_connection
from wakeboard.store.statements import pinned_transaction, read
from wakeboard.text.humanize import lasted
from wakeboard.text.sanitize import one_line

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence
    from datetime import timedelta

LOCK_WAIT_S: Final = 0.1  # a statement of an application waits so long behind a migration, and while it changes tables
VACUUM_WAIT_S: Final = (
    2.0  # longer than deadlock_timeout, after which Postgres cancels an autovacuum that is in the way
)
LONG_S: Final = 0.5  # a transaction that has been open for longer will not end within LOCK_WAIT_S
LOOK_INTERVAL_S: Final = 0.25
PAUSE_S: Final = 1.0  # between two tries: statements that waited behind one are done before the next
MESSAGE_INTERVAL_S: Final = 5.0
MAX_SHOWN: Final = 5
OTHER_MIGRATOR_WAIT: Final = "5s"  # for one try
IN_THE_WAY_S: Final = 2.0  # a lock that holds up statements for so long is neither of a migration nor of maintenance

# Errors if another migrator commits after this one has read the state.
_CREATED_CONCURRENTLY = (
    psycopg.errors.DuplicateSchema,
    psycopg.errors.DuplicateTable,
    psycopg.errors.DuplicateObject,
    psycopg.errors.UniqueViolation,
)

# Of transactions of other roles, only a member of pg_read_all_stats sees state and age, but everybody sees their locks.
_SESSIONS: LiteralString = """
select lock.pid, lock.virtualtransaction as transaction, activity.usename::text as user_name,
       activity.application_name as application, activity.state,
       clock_timestamp() - activity.xact_start as open_for,
       array_agg(distinct coalesce(parent.relname, class.relname)::text) as tables,
       bool_and(lock.mode = 'ShareUpdateExclusiveLock') as maintains
  from pg_locks as lock
  join pg_class as class on class.oid = lock.relation and class.relnamespace = 'wakeboard'::regnamespace
  left join pg_inherits as partition on partition.inhrelid = class.oid and class.relispartition
  left join pg_class as parent on parent.oid = partition.inhparent
  left join pg_stat_activity as activity on activity.pid = lock.pid
 where lock.locktype = 'relation' and (lock.granted or %(transactions)s::text[] is not null)
   and lock.pid is distinct from pg_backend_pid()
   and (%(transactions)s::text[] is null or lock.virtualtransaction = any (%(transactions)s))
   and lock.database = (select oid from pg_database where datname = current_database())
   and (coalesce(parent.relname, class.relname) = any (%(tables)s) or %(tables)s = '{}')
   and (class.relname not in ('installation', 'migrations') or lock.mode <> 'AccessShareLock')
 group by 1, 2, 3, 4, 5, 6
 order by open_for desc nulls last, lock.pid
"""
# The transactions because of which statements on wakeboard's tables wait: each that has a lock that conflicts with
# theirs, or waits for one, because later statements wait behind it; and those that the latter waits for. The
# tables that functions of wakeboard lock like this are left out.
_IN_THE_WAY: LiteralString = """
with strong as (
  select lock.pid, lock.virtualtransaction, lock.granted
    from pg_locks as lock
    join pg_class as class on class.oid = lock.relation and class.relnamespace = to_regnamespace('wakeboard')
   where lock.locktype = 'relation' and lock.database = (select oid from pg_database where datname = current_database())
     and lock.mode in ('ShareLock', 'ShareRowExclusiveLock', 'ExclusiveLock', 'AccessExclusiveLock')
     and class.relkind in ('r', 'p') and class.relname not in ('migrations', 'declared_limits', 'worker_types')
     and lock.pid is distinct from pg_backend_pid()
)
select virtualtransaction as transaction from strong
union
select held.virtualtransaction
  from strong
 cross join unnest(pg_blocking_pids(strong.pid)) as blocker
  join pg_locks as held on coalesce(held.pid, 0) = blocker
 where not strong.granted
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class LockHolder:
    """A session whose transaction uses `tables` of wakeboard. `pid` None: a prepared transaction, which no session has.

    `maintains`: it is a VACUUM, ANALYZE or the like.
    """

    pid: int | None
    transaction: str
    user_name: str | None
    application: str | None
    state: str | None
    open_for: timedelta | None
    tables: list[str]
    maintains: bool

    def __str__(self) -> str:
        if self.pid is None:
            uses = f"; it uses {', '.join(self.tables)}" if self.tables else ""
            return f"a prepared transaction (pg_prepared_xacts lists it{uses})"
        known = (
            f"user {self.user_name}" if self.user_name else "",
            f"application_name {self.application}" if self.application else "",
            self.state or "",
            f"open for {lasted(self.open_for)}" if self.open_for is not None else "",
            f"uses {', '.join(self.tables)}" if self.tables else "",
        )
        return f"pid {self.pid} ({', '.join(filter(None, known))})"


class AnotherWasFirst(Exception):
    """Another migrator has just created the schema or its first table: try again."""


class TablesInUse(Exception):
    """Other sessions use the tables that a migration must change. `long`: one of their transactions is not short.

    Without tables: Postgres did not say which of wakeboard's tables it was.
    """

    def __init__(self, *tables: str, long: bool = False) -> None:
        self.tables = tables
        self.long = long
        super().__init__()


class Waiting:
    """What a migration waits for, and for how long: `wait_s` seconds in all. `say` gets a sentence when it waits.

    `held_up_s`: the longest time for which one try asked for its locks or had them. No statement waited longer.
    """

    def __init__(self, conn: psycopg.AsyncConnection[Any], wait_s: float, say: Callable[[str], None]) -> None:
        self._conn = conn
        self._say = say
        self._wait_s = wait_s
        self._deadline = self._now() + wait_s
        self._next_message = 0.0
        self._first_seen: dict[tuple[int | None, str], float] = {}
        self._locking_since: float | None = None
        self.held_up_s = 0.0

    def begin_locking(self) -> None:
        """Other statements wait from now on, until `released`."""
        self._locking_since = self._now()

    def released(self) -> None:
        """The transaction has ended."""
        if self._locking_since is not None:
            self.held_up_s = max(self.held_up_s, self._now() - self._locking_since)
        self._locking_since = None

    async def sessions(self, tables: Sequence[str]) -> list[LockHolder]:
        """The other sessions that use the tables, the longest transaction first. It must run in a transaction."""
        async with self._conn.cursor(row_factory=class_row(LockHolder)) as cursor:
            values = {"tables": list(tables), "transactions": None}
            found = await (await cursor.execute(_SESSIONS, values)).fetchall()
        now = self._now()
        self._first_seen = {
            (one.pid, one.transaction): self._first_seen.get((one.pid, one.transaction), now) for one in found
        }
        return found

    def is_long(self, session: LockHolder) -> bool:
        """Whether its transaction has been open for a while, by what Postgres says or this has seen."""
        seen_s = self._now() - self._first_seen[session.pid, session.transaction]
        open_s = session.open_for.total_seconds() if session.open_for is not None else 0.0
        return not session.maintains and max(open_s, seen_s) > LONG_S

    async def pause(self, in_use: TablesInUse) -> None:
        """Says what is in the way, and waits. Raises SchemaMismatch if the time is over."""
        now = self._now()
        over = now >= self._deadline
        if over or now >= self._next_message:
            async with pinned_transaction(self._conn):
                found = await self.sessions(in_use.tables)
            names = ", ".join(in_use.tables) or "wakeboard's tables"
            if over:
                remedy = "End them (`select pg_terminate_backend(PID)`)" if found else "Try again"
                raise SchemaMismatch(
                    f"nothing was migrated: for {self._wait_s:g} s other transactions have used {names}."
                    f" {named_sessions(found)} {remedy}, or wait longer with --wait."
                ) from in_use
            if found:
                left_s = math.ceil(self._deadline - now)
                self._say(f"waiting up to {left_s} s more for transactions on {names}. {named_sessions(found)}")
                self._next_message = now + MESSAGE_INTERVAL_S
        await asyncio.sleep(min(LOOK_INTERVAL_S if in_use.long else PAUSE_S, max(self._deadline - now, 0.0)))

    @staticmethod
    def _now() -> float:
        return asyncio.get_running_loop().time()


def named_sessions(sessions: Sequence[LockHolder]) -> str:
    """The first sessions in words, as one or more sentences."""
    if not sessions:
        return "They were short, and none is open now."
    shown = "; ".join(map(str, sessions[:MAX_SHOWN]))
    return f"{shown}{f'; and {len(sessions) - MAX_SHOWN} more' if len(sessions) > MAX_SHOWN else ''}."


async def sessions_in_the_way(conn: psycopg.AsyncConnection[Any]) -> list[LockHolder]:
    """The transactions that have held up statements on wakeboard's tables for IN_THE_WAY_S, the longest one first.

    It reads no table of wakeboard, and looks twice, because only a member of pg_read_all_stats sees how long another
    role has had a lock. Without a lock in the way it does not wait. Raises WakeboardError.
    """
    transactions: set[str] | None = None
    for wait_s in (0.0, IN_THE_WAY_S):
        await asyncio.sleep(wait_s)
        found = {name for (name,) in await read(conn, tuple_row, _IN_THE_WAY)}
        transactions = found if transactions is None else transactions & found
        if not transactions:
            return []
    values = {"tables": [], "transactions": sorted(transactions or ())}
    return await read(conn, class_row(LockHolder), _SESSIONS, values)


async def act_as_owner(conn: psycopg.AsyncConnection[Any]) -> bool:
    """Whether the schema exists. Acts as its owner if this role may.

    Raises SchemaMismatch for a schema of another product.
    """
    cursor = await conn.execute(
        "select pg_get_userbyid(nspowner), pg_has_role(nspowner, 'MEMBER') from pg_namespace"
        " where nspname = 'wakeboard'"
    )
    row = await cursor.fetchone()
    if row is None:
        return False
    if row[1]:
        await conn.execute(sql.SQL("set local role {}").format(sql.Identifier(row[0])))
    cursor = await conn.execute(
        "select min(relname::text) from pg_class where relnamespace = 'wakeboard'::regnamespace"
        " having to_regclass('wakeboard.installation') is null and count(*) > 0"
    )
    if other := await cursor.fetchone():
        raise SchemaMismatch(
            f"{describe_connection(conn)} has a schema wakeboard that is not of this product: it has"
            f" {one_line(other[0])}. Rename or drop that schema, or use another database."
        )
    return True


async def lock_migrations(conn: psycopg.AsyncConnection[Any]) -> None:
    """Makes other migrators wait until the transaction ends. Creates a missing schema and table."""
    try:
        await conn.execute(sql.SQL("set local lock_timeout = {}").format(OTHER_MIGRATOR_WAIT))
        if not await act_as_owner(conn):
            await conn.execute("create schema wakeboard")
        await conn.execute("set local search_path = wakeboard, pg_catalog, pg_temp")
        await conn.execute(
            "create table if not exists wakeboard.migrations (version integer primary key, name text not null,"
            " applied_by text not null, applied_at timestamptz not null default statement_timestamp())"
        )
    except _CREATED_CONCURRENTLY as exc:
        raise AnotherWasFirst from exc
    try:
        await conn.execute("lock table wakeboard.migrations in share row exclusive mode")
    except psycopg.errors.LockNotAvailable as exc:
        raise TablesInUse("installation", "migrations") from exc  # such as by another migrator


async def existing_tables(conn: psycopg.AsyncConnection[Any], tables: Collection[str]) -> list[str]:
    """Those of the tables that exist, in the order in which they are locked."""
    found = await conn.execute(
        "select relname::text from pg_class where relnamespace = 'wakeboard'::regnamespace and relname = any (%s)"
        " order by 1",
        (list(tables),),  # a table that an earlier one of the pending migrations creates does not exist yet
    )
    return [name for (name,) in await found.fetchall()]


async def require_no_long_use(names: Sequence[str], waiting: Waiting) -> None:
    """Raises TablesInUse (roll back) while a transaction that is not short uses one of the tables."""
    if names and any(map(waiting.is_long, await waiting.sessions(names))):
        raise TablesInUse(*names, long=True)


async def lock_tables(conn: psycopg.AsyncConnection[Any], names: Sequence[str], waiting: Waiting) -> None:
    """Takes ACCESS EXCLUSIVE locks on the tables in this transaction. Raises TablesInUse (roll back) if it cannot."""
    if not names:
        return
    await require_no_long_use(names, waiting)
    every = sql.SQL(", ").join(sql.Identifier("wakeboard", name) for name in names)
    try:
        # It makes an autovacuum end, and no statement of an application waits for it.
        await conn.execute(sql.SQL("set local lock_timeout = {}").format(f"{VACUUM_WAIT_S}s"))
        await conn.execute(sql.SQL("lock table {} in share update exclusive mode").format(every))
        await conn.execute(sql.SQL("set local statement_timeout = {}").format(f"{LOCK_WAIT_S}s"))
        waiting.begin_locking()
        lock = sql.SQL("lock table {} in access exclusive mode; set local statement_timeout to default")
        await conn.execute(lock.format(every))
    except (psycopg.errors.LockNotAvailable, psycopg.errors.QueryCanceled, psycopg.errors.DeadlockDetected) as exc:
        raise TablesInUse(*names) from exc
