"""What can keep a server that answers from working: for `wakeboard check` and the board."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, LiteralString

from psycopg.rows import class_row, tuple_row

from wakeboard.store.statements import read

if TYPE_CHECKING:
    from collections.abc import Sequence

    import psycopg


@dataclass(frozen=True, slots=True, kw_only=True)
class RoleLogin:
    """A role that may log in for a role of the installation: that role, or else one of its members, but no superuser.

    `role`: that of the installation, for these `parts`. `name`: None if none may log in. `expired`: its password is
    valid no longer. `connection_limit`: of its sessions; None: without one. `settings`: as those of Server.
    """

    role: str
    parts: list[str]
    name: str | None
    expired: bool = False
    may_connect: bool = True
    connection_limit: int | None = None
    sessions: int = 0
    settings: dict[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """The database server.

    `settings`: the defaults of this session with unexpected values, by name; timeouts in "ms". `logins`: of the roles
    of the installation. `connections`: in use, of the `max_connections` that ordinary roles may have.
    `of_database`: of them, those to this database; `database_limit`: how many it may have; None: without a limit.
    `full_tablespaces`: by name, what the server says about their full disks.
    """

    version: int = 150_000
    replica: bool = False
    encoding: str = "UTF8"
    settings: dict[str, str] = field(default_factory=dict[str, str])
    logins: Sequence[RoleLogin] = ()
    connections: int = 0
    max_connections: int = 100
    of_database: int = 0
    database_limit: int | None = None
    full_tablespaces: dict[str, str] = field(default_factory=dict[str, str])

    @property
    def major(self) -> int:
        """The major version."""
        return self.version // 10_000


# Those of `given (name, value)` that are not as wakeboard expects, as an object. A value may be as an administrator has
# written it: "1", "0.5 s", "TRUE". One of a timeout without a unit is in milliseconds.
_UNEXPECTED: LiteralString = r"""
select coalesce(jsonb_object_agg(name, coalesce(ms || 'ms', value)), '{}')
  from given
 cross join lateral (
   select case when name in ('statement_timeout', 'transaction_timeout', 'lock_timeout', 'idle_session_timeout',
                             'idle_in_transaction_session_timeout')
                 and value ~ '^[0-9.]+ *(us|ms|s|min|h|d)?$'
               then round(extract(epoch from (value || case when value ~ '[0-9.]$' then 'ms' else '' end)::interval)
                          * 1000)::bigint end as ms) as timeout
 where case when ms is not null then ms between 1 and 9999
            when name in ('array_nulls', 'standard_conforming_strings') then not value::boolean
            when name = 'default_transaction_read_only' then value::boolean
            when name = 'default_transaction_isolation' then lower(value) <> 'read committed'
            when name = 'DateStyle' then value ~* '\m(sql|german|postgres)'
            when name = 'IntervalStyle' then lower(value) <> 'postgres'
            else false end
"""
_SERVER: LiteralString = f"""
select current_setting('server_version_num')::integer as version,
       pg_is_in_recovery() as replica,
       current_setting('server_encoding') as encoding,
       (with given as (select name, reset_val as value from pg_settings) {_UNEXPECTED}) as settings,
       (select sum(numbackends) from pg_stat_database)::integer as connections,
       current_setting('max_connections')::integer - current_setting('superuser_reserved_connections')::integer
         - coalesce(current_setting('reserved_connections', true)::integer, 0) as max_connections,
       (select numbackends from pg_stat_database where datname = current_database()) as of_database,
       (select datconnlimit from pg_database where datname = current_database() and datconnlimit >= 0) as database_limit
"""
# All of this is visible to every role. A member that may only grant the role (as its creator may since Postgres 16)
# does not act for it. What applies to a role and this database wins over what applies to one of them, or to all.
_LOGINS: LiteralString = f"""
select named.role, named.parts, login.rolname::text as name,
       coalesce(login.rolvaliduntil < statement_timestamp(), false) as expired,
       coalesce(has_database_privilege(login.oid, current_database(), 'connect'), true) as may_connect,
       case when login.rolconnlimit >= 0 and not login.rolsuper then login.rolconnlimit end as connection_limit,
       (select count(*) from pg_stat_activity where usesysid = login.oid) as sessions,
       (with given as (
          select distinct on (name) name, substr(entry, length(name) + 2) as value
            from pg_db_role_setting
            join pg_database on datname = current_database()
           cross join unnest(setconfig) as entry
           cross join split_part(entry, '=', 1) as name
           where setrole in (0, login.oid) and setdatabase in (0, pg_database.oid)
           order by name, setrole = 0, setdatabase = 0) {_UNEXPECTED}) as settings
  from (select value as role, array_agg(key order by key) as parts
          from wakeboard.installation cross join jsonb_each_text(roles)
         group by value) as named
  join pg_roles as part on part.rolname = named.role
  left join pg_roles as login
    on login.rolcanlogin
   and case when part.rolcanlogin then login.oid = part.oid
            else not login.rolsuper
                 and (pg_has_role(login.oid, part.oid, 'usage')
                      or pg_has_role(login.oid, part.oid,
                                     case when current_setting('server_version_num')::integer < 160000
                                          then 'member' else 'set' end)) end
 order by named.role, login.rolname
"""
_CHECKERS: LiteralString = """
select rolname::text
  from pg_proc
  join pg_namespace on pg_namespace.oid = pronamespace
 cross join aclexplode(proacl)
  join pg_roles on pg_roles.oid in (grantee, proowner)
 where nspname = 'wakeboard' and proname = 'full_tablespaces'
 group by rolname
 order by bool_or(pg_roles.oid = proowner), rolname
"""
_FULL_TABLESPACES: LiteralString = "select name, problem from wakeboard.full_tablespaces()"


async def read_server(conn: psycopg.AsyncConnection[Any]) -> Server:
    """The facts of the server. Raises WakeboardError."""
    server = (await read(conn, class_row(Server), _SERVER))[0]
    full = dict(await read(conn, tuple_row, _FULL_TABLESPACES))
    return replace(server, full_tablespaces=full, logins=await read(conn, class_row(RoleLogin), _LOGINS))


async def read_checkers(conn: psycopg.AsyncConnection[Any]) -> list[str]:
    """The roles that may check all, the schema's owner last. Any role may read them. Raises WakeboardError."""
    return [name for (name,) in await read(conn, tuple_row, _CHECKERS)]
