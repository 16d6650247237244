"""Whether commits hang because no synchronous standby confirms them: for `wakeboard check` and the board."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final, LiteralString

import psycopg
from psycopg.rows import class_row

from wakeboard.errors import DatabaseUnavailable
from wakeboard.store.connection import connect
from wakeboard.store.reply_limit import NoReply, ReplyLimit
from wakeboard.store.statements import execute, read

if TYPE_CHECKING:
    from wakeboard.store.connection import AsyncConnection

SLOW_COMMIT: Final = timedelta(seconds=2)  # a session that waits for longer waits for a standby that is away
PROBE_S: Final = 3.0


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitFacts:
    """What the commits of this database wait for.

    `standby_names`: "" on a standby, too. `synchronous_commit`: of this session. `standbys`: the standbys that stream
    and may confirm a commit; those of which this role may not see that count too. `longest_wait`: of the sessions that
    this role may see. `probe_hangs`: whether a commit that was tried was not confirmed; None: none could be tried.
    """

    standby_names: str = ""
    synchronous_commit: str = "on"
    standbys: int = 0
    longest_wait: timedelta | None = None
    probe_hangs: bool | None = None

    @property
    def wait_for_standby(self) -> bool:
        """Whether a commit of this session waits for a standby."""
        return bool(self.standby_names) and self.synchronous_commit not in {"off", "local"}

    @property
    def are_unknown(self) -> bool:
        """Whether this role cannot know that commits hang."""
        return self.wait_for_standby and self.probe_hangs is None and self.longest_wait is None

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
select case when pg_is_in_recovery() then '' else current_setting('synchronous_standby_names') end as standby_names,
       current_setting('synchronous_commit') as synchronous_commit,
       (select count(*) from pg_stat_replication
         where sync_state is null or (sync_state in ('sync', 'quorum') and state = 'streaming')) as standbys,
       (select max(clock_timestamp() - query_start) from pg_stat_activity
         where datname = current_database() and wait_event = 'SyncRep') as longest_wait
"""


async def read_commit_facts(conn: psycopg.AsyncConnection[Any], dsn: str) -> CommitFacts:
    """What a read over `conn` shows, and a probe over a connection of its own to `dsn`. Raises WakeboardError."""
    facts = (await read(conn, class_row(CommitFacts), _FACTS))[0]
    if not facts.wait_for_standby or facts.why_they_hang:
        return facts
    return replace(facts, probe_hangs=await _probe_hangs(dsn))


async def _probe_hangs(dsn: str) -> bool | None:
    """Commits a message that no process reads. Returns whether it was not confirmed in time.

    The probe needs no right to see other sessions, and finds a standby that still counts as streaming. None: this role
    may not send messages, or gets no connection.
    """
    try:
        conn: AsyncConnection = await connect(dsn, name="wakeboard check", reply_limit=ReplyLimit(PROBE_S))
    except DatabaseUnavailable:
        return None
    message = "select pg_catalog.pg_logical_emit_message(%s, %s::pg_catalog.text, %s::pg_catalog.text)"
    async with conn:
        try:
            await execute(conn, message, (True, "wakeboard check", ""))
        except (NoReply, psycopg.errors.StatementCompletionUnknown):
            return True
        except psycopg.Error:
            return None
    return False
