"""Whether commits hang because no synchronous standby confirms them: for `wakeboard check` and the board."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final, LiteralString

import psycopg
from psycopg.rows import class_row

from wakeboard.store.connection import connect
from wakeboard.store.reply_limit import ReplyLimit
from wakeboard.store.statements import execute, read

if TYPE_CHECKING:
    from wakeboard.store.connection import AsyncConnection

SLOW_COMMIT: Final = timedelta(seconds=2)  # a session that waits for longer waits for a standby that is away
PROBE_S: Final = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitFacts:
    """What the commits of this database wait for.

    `standbys`: the standbys that stream and may confirm a commit; those that this role may not see count too.
    `synchronous_commit`: of this session. `longest_wait`: of the sessions that this role may see. `probe_hangs`: a
    commit was tried and not confirmed.
    """

    standby_names: str = ""
    synchronous_commit: str = "on"
    standbys: int = 0
    longest_wait: timedelta | None = None
    probe_hangs: bool = False

    @property
    def wait_for_standby(self) -> bool:
        """Whether a commit of this session waits for a standby."""
        return bool(self.standby_names) and self.synchronous_commit not in {"off", "local"}

    @property
    def why_they_hang(self) -> str | None:
        """A clause that says why commits hang; None: they do not."""
        if not self.wait_for_standby:
            return None
        if not self.standbys:
            return f"synchronous_standby_names is {self.standby_names!r}, and no such standby streams"
        if self.probe_hangs or (self.longest_wait is not None and self.longest_wait > SLOW_COMMIT):
            return f"synchronous_standby_names is {self.standby_names!r}, and the standby does not answer"
        return None


_FACTS: LiteralString = """
select current_setting('synchronous_standby_names') as standby_names,
       current_setting('synchronous_commit') as synchronous_commit,
       (select count(*) from pg_stat_replication
         where sync_state is null or (sync_state in ('sync', 'quorum') and state = 'streaming')) as standbys,
       (select max(clock_timestamp() - query_start) from pg_stat_activity
         where datname = current_database() and wait_event = 'SyncRep') as longest_wait
"""


async def read_commit_facts(conn: psycopg.AsyncConnection[Any]) -> CommitFacts:
    """The facts that a read shows."""
    return (await read(conn, class_row(CommitFacts), _FACTS))[0]


async def probe_commits(dsn: str) -> CommitFacts:
    """Commits a message that no process reads, if commits wait for a standby, and returns whether it was not confirmed.

    The probe needs no right to see other sessions, and finds a standby that still counts as streaming. It has nothing
    to say if this role may not send messages.
    """
    conn: AsyncConnection = await connect(dsn, name="wakeboard check", reply_limit=ReplyLimit(PROBE_S))
    async with conn:
        state = "select pg_catalog.current_setting(%s), pg_catalog.pg_is_in_recovery()"
        ((standby_names, in_recovery),) = await execute(conn, state, ("synchronous_standby_names",))
        if not standby_names or in_recovery:
            return CommitFacts()
        message = "select pg_catalog.pg_logical_emit_message(%s, %s::pg_catalog.text, %s::pg_catalog.text)"
        try:
            await execute(conn, message, (True, "wakeboard check", ""))
        except psycopg.errors.InsufficientPrivilege:
            return CommitFacts()
        except psycopg.OperationalError:
            return CommitFacts(standby_names=standby_names, standbys=1, probe_hangs=True)
    return CommitFacts()
