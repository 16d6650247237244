"""Connection strings of several hosts, of which one is the primary.

A primary that is frozen or cut off answers nothing and closes nothing, so a statement would wait for its whole time
after a standby was promoted. A connection whose string names several hosts and `target_session_attrs=read-write` asks
the other hosts while it waits for a reply, and gives the statement up when one of them is the primary. The next
connections of the process begin with the host that was reached last, and end with one that answered no cancel.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

if TYPE_CHECKING:
    from collections.abc import Sequence

ASK_AFTER_S: Final = 2.0  # without a reply, and again after each such time
CONNECT_TIMEOUT_S: Final = 2  # of each other host
TO_PRIMARY: Final = {"read-write", "primary"}  # values of target_session_attrs that only a primary has


class _Host(NamedTuple):
    host: str
    hostaddr: str
    port: str

    def is_of(self, conn: psycopg.Connection[Any] | psycopg.AsyncConnection[Any]) -> bool:
        return (self.host or self.hostaddr, self.port) == (conn.info.host, str(conn.info.port))


_orders: dict[str, list[_Host]] = {}  # in which this process tries the hosts, by connection string


@dataclass(frozen=True, slots=True)
class OtherHosts:
    """The hosts of the connection string `dsn` that may be the primary in place of the one that was reached."""

    dsn: str
    here: _Host

    def put_here_last(self) -> None:
        """Makes the next connections try the host that was reached last of all."""
        _orders[self.dsn] = [*self._hosts(), self.here]

    async def have_primary(self) -> bool:
        """Whether one of them is the primary. If so, the next connection begins with it."""
        try:
            conn = await psycopg.AsyncConnection.connect(self._string(), connect_timeout=CONNECT_TIMEOUT_S)
        except psycopg.Error:
            return False
        note_reached(self.dsn, conn)
        await conn.close()
        return True

    def have_primary_blocking(self) -> bool:
        """As `have_primary`, for blocking use in a thread."""
        try:
            conn = psycopg.connect(self._string(), connect_timeout=CONNECT_TIMEOUT_S)
        except psycopg.Error:
            return False
        note_reached(self.dsn, conn)
        conn.close()
        return True

    def _string(self) -> str:
        return _with_hosts(self.dsn, self._hosts())

    def _hosts(self) -> list[_Host]:
        return [host for host in _orders.get(self.dsn, _hosts(self.dsn)) if host != self.here]


def ordered(dsn: str) -> str:
    """The connection string, with its hosts in the order in which they should be tried."""
    return _with_hosts(dsn, _orders[dsn]) if dsn in _orders else dsn


def note_reached(dsn: str, conn: psycopg.Connection[Any] | psycopg.AsyncConnection[Any]) -> OtherHosts | None:
    """Notes which host a new connection has reached. Returns the others; None if they need not be asked."""
    hosts = _hosts(dsn)
    here = next((host for host in hosts if host.is_of(conn)), None)
    if here is None or len(hosts) == 1 or conninfo_to_dict(dsn).get("target_session_attrs") not in TO_PRIMARY:
        return None
    _orders[dsn] = sorted(_orders.get(dsn, hosts), key=lambda host: host != here)
    return OtherHosts(dsn, here)


def _hosts(dsn: str) -> list[_Host]:
    parts = {name: str(value).split(",") for name, value in conninfo_to_dict(dsn).items()}
    count = max(len(parts.get(name, [""])) for name in ("host", "hostaddr"))
    hosts, addresses, ports = (_repeated(parts.get(name, [""]), count) for name in ("host", "hostaddr", "port"))
    return [_Host(*each) for each in zip(hosts, addresses, (port or "5432" for port in ports), strict=True)]


def _repeated(values: list[str], count: int) -> list[str]:
    return values * count if len(values) == 1 else (values + [""] * count)[:count]  # one port is that of every host


def _with_hosts(dsn: str, hosts: Sequence[_Host]) -> str:
    values = {name: [getattr(host, name) for host in hosts] for name in _Host._fields}
    parts = conninfo_to_dict(dsn) | {name: ",".join(each) if any(each) else None for name, each in values.items()}
    return make_conninfo("", **parts)
