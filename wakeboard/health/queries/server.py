"""What can keep a server that answers from working: for `wakeboard check` and the board."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, LiteralString

from psycopg.rows import class_row, tuple_row

from wakeboard.store.statements import read

if TYPE_CHECKING:
    import psycopg


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """The database server.

    `odd_settings`: "name = value" of the session defaults with unexpected values. `short_timeouts`: of those that stop
    what works. `connections`: in use, of the `max_connections` that ordinary roles may have. `full_tablespaces`: by
    name, what the server says about their full disks.
    """

    version: int = 150_000
    replica: bool = False
    encoding: str = "UTF8"
    odd_settings: list[str] = field(default_factory=list[str])
    short_timeouts: list[str] = field(default_factory=list[str])
    connections: int = 0
    max_connections: int = 100
    full_tablespaces: dict[str, str] = field(default_factory=dict[str, str])

    @property
    def major(self) -> int:
        """The major version."""
        return self.version // 10_000


_SERVER: LiteralString = """
select current_setting('server_version_num')::integer as version,
       pg_is_in_recovery() as replica,
       current_setting('server_encoding') as encoding,
       array(select name || ' = ' || reset_val from pg_settings
              where name in ('array_nulls', 'DateStyle', 'IntervalStyle', 'standard_conforming_strings',
                             'default_transaction_isolation', 'default_transaction_read_only')
                and split_part(reset_val, ',', 1) not in ('on', 'ISO', 'postgres', 'read committed', 'off')
                 or (name, reset_val) in (('array_nulls', 'off'), ('standard_conforming_strings', 'off'),
                                          ('default_transaction_read_only', 'on'))
              order by 1) as odd_settings,
       array(select name || ' = ' || reset_val || unit from pg_settings
              where name in ('statement_timeout', 'transaction_timeout', 'lock_timeout', 'idle_session_timeout',
                             'idle_in_transaction_session_timeout')
                and reset_val::bigint between 1 and 9999
              order by 1) as short_timeouts,
       (select sum(numbackends) from pg_stat_database)::integer as connections,
       current_setting('max_connections')::integer - current_setting('superuser_reserved_connections')::integer
         - coalesce(current_setting('reserved_connections', true)::integer, 0) as max_connections
"""
_FULL_TABLESPACES: LiteralString = "select name, problem from wakeboard.full_tablespaces()"


async def read_server(conn: psycopg.AsyncConnection[Any]) -> Server:
    """The facts of the server. Raises WakeboardError."""
    server = (await read(conn, class_row(Server), _SERVER))[0]
    return replace(server, full_tablespaces=dict(await read(conn, tuple_row, _FULL_TABLESPACES)))
