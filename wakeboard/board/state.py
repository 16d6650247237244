"""What all requests of one board share: its options, the database, and the feed of changes."""

from __future__ import annotations

from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from wakeboard.actions.admin_api import AdminStore
from wakeboard.board.access.viewer import Access, LocalAccess
from wakeboard.board.bulk_runner import BulkActionRunner
from wakeboard.board.change_feed import ChangeFeed
from wakeboard.errors import WakeboardError
from wakeboard.store.migration_locks import named_sessions, sessions_in_the_way
from wakeboard.text.sanitize import one_line
from wakeboard.views.connection_pool import ConnectionPool
from wakeboard.views.queries.listings import Listings
from wakeboard.views.replica import Replica, ReplicaReads
from wakeboard.views.shared_reads import SharedReads

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Collection

    from starlette.requests import HTTPConnection

    from wakeboard.board.access.run_tokens import RunTokenAccess
    from wakeboard.board.access.viewer import Viewer
    from wakeboard.views.replica import Reads

CACHED_READS_S: Final = 10.0  # counts, charts and names of a board may be this old,
CACHED_READS_SHARE: Final = 0.002  # or older, so that reading one of them takes at most this share of the time
SERVER_READS_S: Final = 10.0  # whether the server works may be so old: while commits hang, each look takes some seconds
READ_TIMEOUT_S: Final = 3  # of a statement of a page
ACTION_TIMEOUT_S: Final = 10  # of a statement of an action
READ_CONNECTIONS: Final = 4
ACTION_CONNECTIONS: Final = 4
SEARCH_CONNECTIONS: Final = 2  # for searches that examine runs one by one, so that these do not hold up other pages
OWN_HOST: Final = (
    "wakeboard.localhost"  # of loopback, as all names under localhost: cookies for it go to no other program
)
LOOPBACK_HOSTS: Final = frozenset({"127.0.0.1", "localhost", "[::1]", OWN_HOST})


@dataclass(frozen=True, slots=True, kw_only=True)
class BoardOptions:
    """What a board shows, and to whom.

    `dsn`: the database. `read_dsn`: a hot standby of it, which pages are read from; "" for none.
    `acting_dsn`: the database with a role that may act; "" for the same. `name`: shown in the
    header, to tell two installations apart. `access`: who may see and do what. `hosts`: names under which browsers
    reach the board, without ports; a request for another one is refused. `origin`: the public origin behind a proxy,
    for example https://jobs.example.com; "" takes the request's Host. `prefix`: the path under which a proxy shows the
    board, for example /tools/wakeboard, whether it strips the prefix or not; an application that mounts the board needs
    none. `listen`: receive notifications of the database. `log_link`: the template of addresses of logs elsewhere.
    `run_tokens`: which run tokens are accepted, so that browsers watch runs without a login; None: none.
    """

    dsn: str
    read_dsn: str = ""
    acting_dsn: str = ""
    name: str = "wakeboard"
    access: Access = field(default_factory=LocalAccess)
    hosts: Collection[str] = LOOPBACK_HOSTS
    origin: str = ""
    prefix: str = ""
    listen: bool = True
    log_link: str = ""
    run_tokens: RunTokenAccess | None = None


class Board:
    """What all requests of one board share: the database, the feed of changes, and the options."""

    def __init__(self, options: BoardOptions) -> None:
        self.options = options
        self._pools: list[ConnectionPool] = []
        primary, searching = self._reading(options.dsn), self._searching(options.dsn)
        pages: Reads = primary
        searches: Reads = searching
        self.replica: Replica | None = None
        if options.read_dsn:
            on_standby = self._reading(options.read_dsn)
            self.replica = Replica(primary, on_standby)
            pages = ReplicaReads(self.replica, primary, on_standby)
            searches = ReplicaReads(self.replica, searching, self._searching(options.read_dsn))
        self.reads, self.cached_reads = SharedReads(pages), _cached(pages)
        self.searches, self.cached_searches = SharedReads(searches), _cached(searches)
        self.fresh_reads = SharedReads(primary) if self.replica else self.reads
        self.fresh_searches = SharedReads(searching) if self.replica else self.searches
        self.server_reads = SharedReads(primary, keep_s=SERVER_READS_S)
        self.changes = ChangeFeed(
            options.dsn,
            listen=options.listen,
            on_change=self._clear_reads,
            reading_s=lambda: sum(pool.busy_s for pool in self._pools),
        )
        acting_dsn = options.acting_dsn or options.dsn
        self._acting = ConnectionPool(
            acting_dsn,
            name="wakeboard board action",
            max_connections=ACTION_CONNECTIONS,
            statement_timeout_s=ACTION_TIMEOUT_S,
        )
        self.bulk_actions = BulkActionRunner(acting_dsn, self.changes.publish)

    async def viewer(self, request: HTTPConnection) -> Viewer | None:
        """The viewer who sent the request; None: the request must log in first. Raises WakeboardError."""
        return await self.options.access.viewer(request, self.known_namespaces)

    async def lock_holders(self) -> str:
        """Who keeps locks on wakeboard's tables, in a sentence; "": it is not known."""
        try:
            found = await self.server_reads.get("locks", sessions_in_the_way)
        except WakeboardError:
            return ""
        return f"Locks are kept by {one_line(named_sessions(found))}" if found else ""

    async def known_namespaces(self) -> list[str]:
        """The namespaces that have schedules. Raises WakeboardError."""
        return await self.reads.get("namespaces", lambda conn: Listings(conn).namespaces())

    @asynccontextmanager
    async def acting(self, actor: str, *, statement_timeout_s: int | None = None) -> AsyncGenerator[AdminStore]:
        """The SQL functions for an action of `actor`, in one transaction. Raises as `ConnectionPool.transaction`."""
        async with self._acting.transaction(statement_timeout_s=statement_timeout_s) as conn:
            yield AdminStore(conn, actor=actor[:256], source="board")

    def forget_reads(self) -> None:
        """Forgets all reads, also those that run, and wakes all pages: an action has changed the store."""
        if self.replica is not None:
            self.replica.read_own_changes()
        for reads in self._all_reads():
            reads.forget()
        self.changes.publish()

    def _clear_reads(self) -> None:
        for reads in (self.reads, self.searches, self.fresh_reads, self.fresh_searches):
            reads.clear()

    def _all_reads(self) -> set[SharedReads]:
        fresh = {self.fresh_reads, self.fresh_searches}
        return {self.reads, self.cached_reads, self.searches, self.cached_searches, self.server_reads, *fresh}

    def _reading(
        self, dsn: str, name: str = "wakeboard board", max_connections: int = READ_CONNECTIONS
    ) -> ConnectionPool:
        pool = ConnectionPool(
            dsn, name=name, max_connections=max_connections, statement_timeout_s=READ_TIMEOUT_S, read_only=True
        )
        self._pools.append(pool)
        return pool

    def _searching(self, dsn: str) -> ConnectionPool:
        return self._reading(dsn, "wakeboard board search", SEARCH_CONNECTIONS)

    def is_secure(self, request: HTTPConnection) -> bool:
        """Whether the browser uses HTTPS."""
        return (self.options.origin or request.scope["scheme"]).startswith("https")

    async def close(self) -> None:
        """Ends all event streams and closes the connections."""
        await self.changes.close()
        await self.bulk_actions.close()
        for reads in self._all_reads():
            await reads.close()
        if self.replica is not None:
            await self.replica.close()
        for pool in (*self._pools, self._acting):
            await pool.close()
        await self.options.access.close()


def _cached(pool: Reads) -> SharedReads:
    return SharedReads(pool, keep_s=CACHED_READS_S, max_share=CACHED_READS_SHARE)
