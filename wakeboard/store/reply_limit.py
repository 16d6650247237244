"""Connections that give a statement up if its reply does not come in time, and bound the sessions that they leave.

A backend that waits for a lock, for a synchronous standby or for a disk does not notice that its client has gone: it
keeps its session and its locks. So a connection first asks the server to cancel the statement, and waits a moment for
the reply. A statement that waits for a lock then fails. A commit that waits for a synchronous standby ends with a
warning: it is visible, and may be missing after a failover. Neither counts as an answer.

A session that does not even end then (its backend waits for a disk) is left, and so is each one where libpq is older
than 17 and cannot cancel. A direct connection leaves at most two: no third one is opened until one of them has ended.
PgBouncer closes its side at once, so there the size of its pool is the bound. A wait that the task itself cancels is
left to psycopg, and not counted. A server that cannot be reached for the cancel accepts no new sessions either, so
nothing is counted there.
"""

from __future__ import annotations

import asyncio
import math
import os
import socket
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, TypeVar

import psycopg
from psycopg.pq import TransactionStatus

from wakeboard.errors import DatabaseUnavailable
from wakeboard.store.several_hosts import ASK_AFTER_S

if TYPE_CHECKING:
    from collections.abc import Generator
    from types import TracebackType

    from psycopg.abc import PQGen

    from wakeboard.store.several_hosts import OtherHosts

_Reply = TypeVar("_Reply")

CANCEL_S: Final = 2.0  # how long a cancel request may take, and then the reply to the cancelled statement
MAX_LEFT: Final = 2  # sessions of one connection whose statements were cancelled, and did not end
WAITS_FOR_STANDBY: Final = "SyncRepWaitForLSN"  # the server's function that warns of a commit without confirmation
_MOVED: Final = "no reply came, and another host of the connection string is the primary now"
_UNCONFIRMED: Final = (
    "no synchronous standby has confirmed the commit: bring the standby back, or remove it from"
    " synchronous_standby_names"
)


class ReplyLimit:
    """How long the statements of one connection at a time may wait for a reply, and the sessions that it has left.

    `seconds`: for each reply. `until` (monotonic): no reply is awaited beyond it.
    """

    def __init__(self, seconds: float) -> None:
        self.seconds, self.until = seconds, math.inf
        self._left: list[socket.socket] = []

    def wait_s(self) -> float:
        """How long a statement that is sent now may wait."""
        return max(0.0, min(self.seconds, self.until - time.monotonic()))

    def require_session(self) -> None:
        """Raises DatabaseUnavailable if the server has too many sessions that were left."""
        self._left = [each for each in self._left if not _has_ended(each)]
        if len(self._left) >= MAX_LEFT:
            raise DatabaseUnavailable(
                f"the database has not ended {MAX_LEFT} statements that it was asked to cancel: see pg_stat_activity"
                " for what they wait for. No other session is opened until one of them has ended"
            )

    def leave(self, fileno: int) -> None:
        """Keeps the socket of a session, whose end shows there."""
        self._left.append(socket.socket(fileno=os.dup(fileno)))

    def __del__(self) -> None:
        for each in self._left:
            each.close()


class NoReply(psycopg.OperationalError):
    """A statement was given up, because no reply came in time."""


class _NoReplyError(Exception):
    """No reply came in time."""


class _MovedError(Exception):
    """No reply came, and another host is the primary now."""


class _Notices:
    """What the server says beside its replies.

    `unconfirmed`: that a commit waits no longer for a standby: after our cancel, an administrator's, statement_timeout.
    `fatal`: why it has ended the session. libpq reports that as a notice if it arrives between two statements.
    """

    def __init__(self) -> None:
        self.unconfirmed = False
        self.fatal: psycopg.OperationalError | None = None

    def note(self, notice: psycopg.errors.Diagnostic) -> None:
        """Handles a notice."""
        if notice.source_function == WAITS_FOR_STANDBY:
            self.unconfirmed = True
        if notice.severity_nonlocalized == "FATAL":
            self.fatal = psycopg.OperationalError(notice.message_primary or "")
            self.fatal.sqlstate = notice.sqlstate

    def confirmed(self, reply: _Reply) -> _Reply:
        """The reply, unless its commit was cancelled while it waited for a synchronous standby."""
        if self.unconfirmed:
            raise psycopg.errors.StatementCompletionUnknown(_UNCONFIRMED)
        return reply

    def reason_of(self, error: psycopg.OperationalError) -> psycopg.OperationalError:
        """Why the session has ended, if the error does not have it; else the error."""
        return self.fatal if self.fatal and error.sqlstate is None else error


class LimitedConnection(psycopg.AsyncConnection[Any]):
    """A connection whose statements are bounded by a `reply_limit`; None: they wait without a limit.

    `sent_at`: when the last statement was sent, by time.monotonic.
    """

    reply_limit: ReplyLimit | None = None
    other_hosts: OtherHosts | None = None
    sent_at = 0.0

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.said = _Notices()
        self.add_notice_handler(self.said.note)

    async def wait(self, gen: PQGen[_Reply], *args: Any, **options: Any) -> _Reply:
        """Waits for a reply. All statements of psycopg wait here."""
        self.sent_at = time.monotonic()
        self.said.unconfirmed = False  # of a wait that raised
        limit = self.reply_limit
        seconds = math.inf if limit is None else limit.wait_s()
        try:
            if limit is None:
                return self.said.confirmed(await super().wait(gen, *args, **options))
            return self.said.confirmed(await self._wait_for(gen, seconds, *args, **options))
        except _NoReplyError:
            if limit:
                await self._give_up(gen, limit)
        except _MovedError:
            await self.close()  # the former primary answers no cancel
            raise NoReply(_MOVED) from None
        except psycopg.OperationalError as error:
            raise self.said.reason_of(error) from None
        raise _no_reply(seconds)

    async def _wait_for(self, gen: PQGen[_Reply], seconds: float, *args: Any, **options: Any) -> _Reply:
        others = self.other_hosts if seconds < math.inf else None
        until = time.monotonic() + seconds
        while True:
            left = until - time.monotonic()
            try:
                return await super().wait(_bounded(gen, min(left, ASK_AFTER_S) if others else left), *args, **options)
            except _NoReplyError:
                if not others:
                    raise
            try:
                if await others.have_primary():
                    raise _MovedError
            except asyncio.CancelledError:
                await self.close()  # no caller reads the reply any more
                raise
            if time.monotonic() >= until:
                raise _NoReplyError

    async def _give_up(self, gen: PQGen[Any], limit: ReplyLimit) -> None:
        answers = False
        try:
            if psycopg.capabilities.has_cancel_safe():
                await self.cancel_safe(timeout=CANCEL_S)
                await super().wait(_bounded(gen, CANCEL_S))
                answers = True
            else:
                limit.leave(self.fileno())
        except _NoReplyError:
            limit.leave(self.fileno())
        except psycopg.Error as error:
            answers = error.sqlstate is not None  # it was cancelled; without a code, the server cannot be reached
        finally:
            if self.other_hosts and not answers:
                self.other_hosts.put_here_last()
            await self.close()

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Closes the connection, also if the task is cancelled while psycopg rolls back."""
        try:
            await super().__aexit__(exc_type, exc, traceback)
        finally:
            await self.close()


class LimitedBlockingConnection(psycopg.Connection[Any]):
    """As `LimitedConnection`, for blocking use in a thread."""

    reply_limit: ReplyLimit | None = None
    other_hosts: OtherHosts | None = None

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.said = _Notices()
        self.add_notice_handler(self.said.note)

    def wait(self, gen: PQGen[_Reply], *args: Any, **options: Any) -> _Reply:
        """Waits for a reply. All statements of psycopg wait here."""
        self.said.unconfirmed = False  # of a wait that raised
        limit = self.reply_limit
        seconds = math.inf if limit is None else limit.wait_s()
        try:
            if limit is None:
                return self.said.confirmed(super().wait(gen, *args, **options))
            return self.said.confirmed(self._wait_for(gen, seconds, *args, **options))
        except _NoReplyError:
            if limit:
                self._give_up(gen, limit)
        except _MovedError:
            self.close()
            raise NoReply(_MOVED) from None
        except psycopg.OperationalError as error:
            raise self.said.reason_of(error) from None
        raise _no_reply(seconds)

    def _wait_for(self, gen: PQGen[_Reply], seconds: float, *args: Any, **options: Any) -> _Reply:
        others = self.other_hosts if seconds < math.inf else None
        until = time.monotonic() + seconds
        while True:
            left = until - time.monotonic()
            try:
                return super().wait(_bounded(gen, min(left, ASK_AFTER_S) if others else left), *args, **options)
            except _NoReplyError:
                if not others:
                    raise
            if others.have_primary_blocking():
                raise _MovedError
            if time.monotonic() >= until:
                raise _NoReplyError

    def _give_up(self, gen: PQGen[Any], limit: ReplyLimit) -> None:
        answers = False
        try:
            if psycopg.capabilities.has_cancel_safe():
                self.cancel_safe(timeout=CANCEL_S)
                super().wait(_bounded(gen, CANCEL_S))
                answers = True
            else:
                limit.leave(self.fileno())
        except _NoReplyError:
            limit.leave(self.fileno())
        except psycopg.Error as error:
            answers = error.sqlstate is not None
        finally:
            if self.other_hosts and not answers:
                self.other_hosts.put_here_last()
            self.close()


def unanswered_s(conn: psycopg.AsyncConnection[Any]) -> float:
    """How long a statement of a connection of this store has waited for its reply; 0: none waits."""
    if isinstance(conn, LimitedConnection) and conn.info.transaction_status is TransactionStatus.ACTIVE:
        return time.monotonic() - conn.sent_at
    return 0.0


def _bounded(gen: PQGen[_Reply], seconds: float) -> Generator[Any, Any, _Reply]:
    """The same generator, but it raises _NoReplyError if the socket is not ready for `seconds`. `gen` may continue."""
    until = time.monotonic() + seconds
    try:
        wanted = next(gen)
        while True:
            ready = yield wanted
            if not ready and time.monotonic() >= until:  # psycopg asks ten times a second
                raise _NoReplyError
            wanted = gen.send(ready)
    except StopIteration as done:
        return done.value


def _no_reply(seconds: float) -> NoReply:
    return NoReply(f"no reply came within {seconds:.3g} s: it hangs, or commits wait for a standby")


def _has_ended(session: socket.socket) -> bool:
    """Whether the server has closed this connection. What it has sent before is dropped."""
    with suppress(OSError):
        while session.recv(65_536, socket.MSG_DONTWAIT):
            pass
        session.close()
        return True
    return False
