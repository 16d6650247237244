"""Migrates a schema to this release: pending migrations, SQL functions and grants, then indexes of large tables.

All but these indexes is one transaction that locks the table of migrations, so of two concurrent migrators one does the
work, and a failure changes nothing. It takes no advisory lock, because any role could block it. An older release or
revision never replaces the functions of a newer one, and no role loses rights because a setting is missing.
migration_locks.py says how it takes the locks of the tables that it changes, concurrent_indexes.py how it builds the
indexes.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import psycopg
from psycopg import sql

from wakeboard import __version__
from wakeboard.errors import DatabaseUnavailable, InvalidValue, SchemaMismatch, WakeboardError
from wakeboard.store.concurrent_indexes import build_indexes, unusable_indexes
from wakeboard.store.connection import connect, describe_connection, foreign_schema, version_key
from wakeboard.store.migration_locks import (
    LOCK_WAIT_S,
    AnotherWasFirst,
    TablesInUse,
    Waiting,
    act_as_owner,
    existing_tables,
    lock_migrations,
    lock_tables,
    require_no_long_use,
)
from wakeboard.store.migration_plan import FIRST_RELEASE, MigrationPlan, make_plan
from wakeboard.store.roles import Roles
from wakeboard.store.schema_differences import altered_functions, former_functions, missing_triggers
from wakeboard.store.schema_files import (
    INSERT_COLUMNS,
    READERS,
    SCHEDULE_COLUMNS,
    SCHEDULE_FACTS,
    SCHEDULE_NAMES,
    SqlFunction,
    concurrent_indexes,
    functions_hash,
    functions_revision,
    migrations,
    sql_functions,
)
from wakeboard.store.statements import pinned_transaction, translating

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from wakeboard.store.migration_plan import Functions
    from wakeboard.store.schema_files import ConcurrentIndex

WAIT_S = 60.0  # for transactions on the tables that a migration changes
OLDEST_POSTGRES = 15


@dataclass(frozen=True, slots=True)
class Migrated:
    """What a migration did: the migrations applied, whether the functions were rewritten, and the version reached.

    `revoked`: database roles that have lost their rights. `granted`: the parts that have another database role now, and
    the role. `released`: the parts that a database role no longer has, though it has others, and the role.
    `restored`: functions and triggers of this release that were missing or altered. `built`: indexes that were built
    concurrently. `unbuilt`: those that were not, because transactions were in the way. `held_up_s`: no statement of an
    application waited longer for its locks.
    """

    applied: tuple[str, ...]
    functions_written: bool
    version: int
    revoked: tuple[str, ...] = ()
    granted: dict[str, str] = field(default_factory=dict[str, str])
    released: dict[str, str] = field(default_factory=dict[str, str])
    restored: tuple[str, ...] = ()
    built: tuple[str, ...] = ()
    unbuilt: tuple[str, ...] = ()
    held_up_s: float = field(default=0.0, compare=False)


class _RoleChanges(NamedTuple):
    """As in Migrated."""

    revoked: tuple[str, ...] = ()
    granted: dict[str, str] = {}  # noqa: RUF012 - nothing changes it
    released: dict[str, str] = {}  # noqa: RUF012


class _Functions(NamedTuple):
    """Which functions are in place."""

    release: str
    texts: str
    revision: int

    @property
    def fate(self) -> Functions:
        """What a migration to this release does with them. Those of a newer one stay, with their grants."""
        if (version_key(self.release), self.revision) > (version_key(__version__), functions_revision()):
            return "kept"
        return "unchanged" if self == _functions_of_this_release() else "written"


def _functions_of_this_release() -> _Functions:
    return _Functions(__version__, functions_hash(), functions_revision())


async def migrate(  # one keyword for each decision of the caller
    dsn: str,
    *,
    roles: Roles | None = None,
    revoke: Collection[str] = (),
    wait_s: float = WAIT_S,
    say: Callable[[str], None] = lambda _: None,
    announce: Callable[[MigrationPlan], None] | None = None,
) -> Migrated:
    """Migrates the database at `dsn`. Requires only the privilege CREATE on it.

    A part that `roles` does not name keeps its database role. The role of a part in `revoke` ("worker", …) loses its
    rights. It waits up to `wait_s` seconds for transactions that use the tables it changes; `say` gets a sentence about
    them at once and every few seconds. Then it builds the indexes of large tables, and waits as long once more for
    transactions in their way. `announce` gets what it is going to do, before it changes anything.
    Raises DatabaseUnavailable, SchemaMismatch (the transactions did not end; nothing is changed), WakeboardError (a
    named role does not exist).
    """
    contradicted = set(revoke) & set((roles or Roles()).named())
    if contradicted:
        part = min(contradicted)
        raise InvalidValue(
            f"WAKEBOARD_{part.upper()}_ROLE names the role that loses its rights; leave one of both out."
        )
    conn = await connect(dsn, name="wakeboard migrate")
    async with conn:
        if announce is not None:
            announce(await _plan(conn))
        waiting = Waiting(conn, wait_s, say)
        with translating(conn):
            done = await _until_done(conn, roles or Roles(), revoke, waiting)
            built, unbuilt = await build_indexes(conn, dsn, _concurrent_indexes(done.version), wait_s, say)
    held_up_s = math.ceil(waiting.held_up_s * 1000) / 1000
    return replace(done, built=tuple(built), unbuilt=tuple(unbuilt), held_up_s=held_up_s)


async def plan_migration(dsn: str) -> MigrationPlan:
    """What `migrate` would do to the database at `dsn`. Changes nothing. Raises as `migrate` does."""
    conn = await connect(dsn, name="wakeboard migrate")
    async with conn:
        return await _plan(conn)


async def _plan(conn: psycopg.AsyncConnection[Any]) -> MigrationPlan:
    with translating(conn):
        async with pinned_transaction(conn):
            await _require_suitable_database(conn)
            exists = await act_as_owner(conn)
            cursor = await conn.execute("select to_regclass('wakeboard.migrations')")
            if not exists or await cursor.fetchone() == (None,):
                return make_plan(migrations(), (), "written", FIRST_RELEASE)
            done = await _applied(conn)
            before = await _functions_in_place(conn)
            cursor = await conn.execute("select min_code_version from wakeboard.installation")
            row = await cursor.fetchone()
            missing = await unusable_indexes(conn, _concurrent_indexes(max(done, default=0)))
            return make_plan(migrations(), done, before.fate, row[0] if row else FIRST_RELEASE, missing)


def _concurrent_indexes(version: int) -> tuple[ConcurrentIndex, ...]:
    """Those of this release; none for a schema of a newer one, which may have dropped them."""
    return concurrent_indexes(migrations()) if version <= migrations()[-1].version else ()


async def _until_done(
    conn: psycopg.AsyncConnection[Any], roles: Roles, revoke: Collection[str], waiting: Waiting
) -> Migrated:
    while True:
        try:
            return await _try(conn, roles, revoke, waiting)
        except AnotherWasFirst:
            continue
        except TablesInUse as in_use:
            await waiting.pause(in_use)
        except psycopg.errors.LockNotAvailable:
            await waiting.pause(TablesInUse())  # such as VACUUM, while `create_partitions` adds a table


async def _try(conn: psycopg.AsyncConnection[Any], roles: Roles, revoke: Collection[str], waiting: Waiting) -> Migrated:
    try:
        async with pinned_transaction(conn):
            return await _migrate(conn, roles, revoke, waiting)
    finally:
        waiting.released()


async def _migrate(
    conn: psycopg.AsyncConnection[Any], roles: Roles, revoke: Collection[str], waiting: Waiting
) -> Migrated:
    await _require_suitable_database(conn)
    await lock_migrations(conn)
    done = await _applied(conn)
    wanted = [m for m in migrations() if m.version not in done]
    version = max([*done, *(m.version for m in wanted)])
    rewrite = _Rewrite(conn, roles, revoke, await _granted(conn))
    if done:
        triggers = {one.table for one in await missing_triggers(conn)}
        tables = await existing_tables(conn, triggers.union(*(m.locks for m in wanted)))
        await require_no_long_use(tables, waiting)
        await rewrite.try_now()  # the locks are then held for a shorter time
        await lock_tables(conn, tables, waiting)
    await conn.execute(sql.SQL("set local lock_timeout = {}").format(f"{LOCK_WAIT_S}s"))
    for migration in wanted:
        noted = sql.SQL(";\ninsert into wakeboard.migrations (version, name, applied_by) values ({}, {}, {})").format(
            migration.version, migration.name, __version__
        )
        await conn.execute((migration.transaction_text(new_schema=not done) + noted.as_string(conn)).encode())
    await rewrite.finish()
    await conn.execute("select wakeboard.create_partitions(), wakeboard.note_server()")
    return Migrated(
        tuple(m.name for m in wanted), rewrite.written, version, *rewrite.changed, restored=tuple(rewrite.restored)
    )


class _Rewrite:
    """Writes the functions and the grants of this release, unless those in place are newer. Then says what it did."""

    def __init__(
        self,
        conn: psycopg.AsyncConnection[Any],
        roles: Roles,
        revoke: Collection[str],
        granted: Collection[tuple[str, str, bool]],
    ) -> None:
        self._conn, self._roles, self._revoke, self._granted = conn, roles, revoke, granted
        self._wanted_roles: dict[str, str] | None = None  # None: neither functions nor grants are written yet
        self._later: list[SqlFunction] = []
        self.written = False
        self.restored: list[str] = []
        self.changed = _RoleChanges()

    async def try_now(self) -> None:
        """Writes them, but for functions of types that a pending migration creates. It locks no table and no row."""
        try:
            async with self._conn.transaction():
                self._later = await _functions_of_unknown_types(self._conn)
                now = [each for each in sql_functions() if each not in self._later]
                await self._write(await _functions_in_place(self._conn), now)
        except psycopg.ProgrammingError:
            self._wanted_roles, self.restored, self._later = None, [], []

    async def finish(self) -> None:
        """Writes what is not written yet, when the migrations are applied and the tables are locked."""
        before = await _functions_in_place(self._conn)
        if self._wanted_roles is None:
            await self._write(before, sql_functions())
        elif self._later:
            await _write_functions(self._conn, before, self._later)
            await self._grant_functions(self._later)
        if self._wanted_roles is None:
            return
        triggers = await missing_triggers(self._conn)
        self.written = before.fate == "written"
        self.restored = [] if self.written else sorted(self.restored + [one.name for one in triggers])
        update = sql.SQL(
            "update wakeboard.installation"
            " set functions_by = {}, functions_hash = {}, functions_revision = {}, roles = {}"
        ).format(*_functions_of_this_release(), json.dumps(self._wanted_roles))
        grants = [one.as_string(self._conn) for one in _table_grants(Roles(**self._wanted_roles))]
        statements = [*grants, *(one.text for one in triggers), update.as_string(self._conn)]
        await self._conn.execute(";\n".join(statements).encode())

    async def _write(self, before: _Functions, functions: Sequence[SqlFunction]) -> None:
        if before.fate == "kept":
            if self._revoke:
                raise SchemaMismatch("the functions in place are newer than this release: revoke roles with that one.")
            return
        self.restored = await _write_functions(self._conn, before, functions)
        await self._grant(functions)

    async def _grant(self, functions: Sequence[SqlFunction]) -> None:
        """Grants every role exactly its functions, and says whose grants changed."""
        row = await (await self._conn.execute("select roles from wakeboard.installation")).fetchone()
        former: dict[str, str] = row[0] if row else {}
        known = {r[0] async for r in await self._conn.execute("select rolname from pg_roles")}
        missing = sorted(set(self._roles.named().values()) - known)
        if missing:
            raise WakeboardError(
                f"the database role {missing[0]} does not exist: let a superuser run the output of"
                " `wakeboard migrate --print-roles` first."
            )
        kept = {part: name for part, name in former.items() if name in known and part not in self._revoke}
        wanted = kept | self._roles.named()
        had_rights = set(former.values()) & known
        owner = await (await self._conn.execute("select current_user::text")).fetchone()
        for name in had_rights.difference(owner or ()):  # one-role mode: the owner keeps its own tables
            await self._conn.execute(_revoke(sql.Identifier(name)))
        self._wanted_roles = wanted
        self._granted = [one for one in self._granted if one[1] not in had_rights | set(wanted.values())]
        await self._grant_functions(functions)
        lost = had_rights - set(wanted.values())
        self.changed = _RoleChanges(
            tuple(sorted(lost)),
            {part: name for part, name in sorted(wanted.items()) if former.get(part) != name},
            {
                part: name
                for part, name in sorted(former.items())
                if wanted.get(part) != name and name in had_rights - lost
            },
        )

    async def _grant_functions(self, functions: Sequence[SqlFunction]) -> None:
        """Other roles keep those that an administrator granted to them, also those that have new parameters now."""
        names = {function.name for function in functions}
        statements = _function_grants(Roles(**self._wanted_roles or {}), functions)
        statements += [
            sql.SQL(
                "grant execute on function wakeboard.{} to {}" + (" with grant option" if may_grant else "")
            ).format(sql.Identifier(function), sql.Identifier(role))
            for function, role, may_grant in self._granted
            if function in names
        ]
        await self._conn.execute(sql.SQL("; ").join(statements))


async def _require_suitable_database(conn: psycopg.AsyncConnection[Any]) -> None:
    """Raises DatabaseUnavailable for a database that accepts no writes now, WakeboardError for an unsuitable one."""
    row = await (
        await conn.execute(
            "select current_setting('server_version_num')::integer / 10000, current_setting('server_encoding'),"
            " pg_is_in_recovery(), current_setting('transaction_read_only')::boolean"
        )
    ).fetchone()
    assert row is not None
    major, encoding, replica, read_only = row
    if major < OLDEST_POSTGRES:
        raise WakeboardError(
            f"{describe_connection(conn)} runs PostgreSQL {major}: wakeboard needs {OLDEST_POSTGRES} or newer."
        )
    if encoding != "UTF8":
        raise WakeboardError(
            f"{describe_connection(conn)} has the encoding {encoding}, which cannot hold every text: create a database"
            " with `create database … encoding 'UTF8' template template0`."
        )
    if replica:
        raise DatabaseUnavailable(f"{describe_connection(conn)} is a read-only replica: connect to the primary.")
    if read_only:
        raise DatabaseUnavailable(
            f"{describe_connection(conn)} allows only reads (default_transaction_read_only is on):"
            " switch that off for this role."
        )


async def _functions_in_place(conn: psycopg.AsyncConnection[Any]) -> _Functions:
    cursor = await conn.execute("select functions_by, functions_hash, functions_revision from wakeboard.installation")
    row = await cursor.fetchone()
    return _Functions(*row) if row else _Functions("", "", 0)


async def _applied(conn: psycopg.AsyncConnection[Any]) -> dict[int, str]:
    """The names of the migrations in place, by their versions. Raises SchemaMismatch for a foreign schema."""
    done = {row[0]: row[1] async for row in await conn.execute("select version, name from wakeboard.migrations")}
    if any(done.get(m.version, m.name) != m.name for m in migrations()):
        raise foreign_schema(conn)
    return done


async def _functions_of_unknown_types(conn: psycopg.AsyncConnection[Any]) -> list[SqlFunction]:
    types = sorted(frozenset[str]().union(*(one.types for one in sql_functions())))
    found = await conn.execute("select type from unnest(%s::text[]) as type where to_regtype(type) is null", (types,))
    unknown = {name for (name,) in await found.fetchall()}
    return [one for one in sql_functions() if one.types & unknown]


async def _write_functions(
    conn: psycopg.AsyncConnection[Any], before: _Functions, functions: Sequence[SqlFunction]
) -> list[str]:
    """Writes the functions if they are others than `before`, else those that are missing or altered: returns these.

    A function of another release with the same name and other arguments or columns goes.
    """
    now = _functions_of_this_release()
    altered = await altered_functions(conn) if before == now else {}
    wanted = [function for function in functions if before != now or function.name in altered]
    former = await former_functions(conn, functions) if before != now else []
    texts = [f"drop function {one};" for one in former]
    texts += [text for function in wanted for text in (function.text, _comment(function).as_string(conn))]
    if texts:  # one round trip, not 250, while others wait for the locks; the tests have checked the bodies
        await conn.execute("\n".join(["set local check_function_bodies = off;", *texts]).encode())
    return [*altered]


def _comment(function: SqlFunction) -> sql.Composed:
    """Sets the comment of a function to the head comment of its file, for psql's df+."""
    return sql.SQL("comment on function wakeboard.{} is {};").format(
        sql.Identifier(function.name), sql.Literal(function.description)
    )


async def _granted(conn: psycopg.AsyncConnection[Any]) -> list[tuple[str, str, bool]]:
    """Who may call which function: its name, a role, and whether that may grant it to others."""
    cursor = await conn.execute(
        "select distinct proname::text, pg_get_userbyid(granted.grantee)::text, granted.is_grantable"
        "  from pg_proc cross join lateral aclexplode(proacl) as granted"
        " where pronamespace = 'wakeboard'::regnamespace and granted.grantee not in (0, proowner)"
    )
    return await cursor.fetchall()


def _revoke(name: sql.Composable) -> sql.Composed:
    return sql.SQL(
        "revoke all on all functions in schema wakeboard from {0};"
        " revoke all on all tables in schema wakeboard from {0};"
        " revoke all on all sequences in schema wakeboard from {0};"
        " revoke insert ({1}) on wakeboard.job_runs from {0};"
        " revoke all on schema wakeboard from {0}"
    ).format(name, _columns(INSERT_COLUMNS))


def _function_grants(roles: Roles, functions: Sequence[SqlFunction]) -> list[sql.Composed]:
    """The statements that grant each role exactly its functions."""
    names = sql.SQL(", ").join(sql.Identifier("wakeboard", function.name) for function in functions)
    statements = [sql.SQL("revoke all on function {} from public").format(names)]
    for role, name in roles.named().items():
        who = sql.Identifier(name)
        statements.append(sql.SQL("grant usage on schema wakeboard to {}").format(who))
        statements += [
            sql.SQL("grant execute on function wakeboard.{} to {}").format(sql.Identifier(function.name), who)
            for function in functions
            if role in function.roles
        ]
    return statements


def _table_grants(roles: Roles) -> list[sql.Composed]:
    """Among them: SELECT on the tables to viewer and operator."""
    statements: list[sql.Composed] = []
    for role, name in roles.named().items():
        who = sql.Identifier(name)
        if role in READERS:
            statements += [
                sql.SQL("grant select on all tables in schema wakeboard to {}").format(who),
                sql.SQL("grant select on all sequences in schema wakeboard to {}").format(who),
            ]
        if role == "client":
            statements.append(
                sql.SQL("grant insert ({}) on wakeboard.job_runs to {}").format(_columns(INSERT_COLUMNS), who)
            )
        if role == "scheduler":
            statements.append(
                sql.SQL(
                    "grant insert ({}), update ({}), select ({}), delete on wakeboard.job_definitions to {}"
                ).format(
                    _columns((*SCHEDULE_NAMES, *SCHEDULE_COLUMNS)),
                    _columns(SCHEDULE_COLUMNS),
                    _columns(
                        [*SCHEDULE_NAMES, *(each for each in SCHEDULE_COLUMNS if each != "payload"), *SCHEDULE_FACTS]
                    ),
                    who,
                )
            )
    return statements


def _columns(names: Sequence[str]) -> sql.Composed:
    return sql.SQL(", ").join(map(sql.Identifier, names))
