"""What an error of the database means: the one place where foreign errors become errors of ours.

Final or for now: an error is retried (DatabaseUnavailable) only if the same statement may succeed later, over the same
connection or a new one. Everything else is final, what the client refuses to send included.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import psycopg

from wakeboard.errors import (
    DatabaseUnavailable,
    InvalidValue,
    KeyReused,
    LeadershipLost,
    LeaseLost,
    Locked,
    SchemaMismatch,
    WakeboardError,
)

if TYPE_CHECKING:
    from collections.abc import Callable

# The server cannot do it now: read only (a failover); serialization failures and deadlocks; no memory, disk or
# connections; a lock; statement_timeout; unreadable files.
FOR_NOW: Final = ("25006", "40", "53", "55P03", "57014", "58")
# PgBouncer says 08P01 to whatever befell its server; 25P03, 25P04: the server ended a transaction that was silent.
CONNECTION_LOST: Final = ("08", "25P03", "25P04", "57P")
NO_SUCH_STATEMENT: Final = ("26000", "42P05")  # another client's prepared statements: a pooler in transaction mode
NULL_WHERE_NONE_MAY_BE: Final = "23502"
NUL_IN_JSON: Final = "22P05"

_OLD_SCHEMA: Final = "the wakeboard schema is missing or older than this release: run `wakeboard migrate`."
_LOCKED: Final = "another transaction keeps a lock that this needs; try again"
_MEANINGS: Final[dict[str, Callable[[str], WakeboardError]]] = {
    "WB001": LeaseLost,
    "WB002": KeyReused,
    "WB004": LeadershipLost,
    "3F000": lambda _: SchemaMismatch(_OLD_SCHEMA),
    "42883": lambda _: SchemaMismatch(_OLD_SCHEMA),
    "42P01": lambda _: SchemaMismatch(_OLD_SCHEMA),
    "55P03": lambda message: Locked(message if message.endswith("try again") else _LOCKED),
    "42501": lambda message: WakeboardError(f"the database role may not do this: {message}."),
}


def translated(exc: psycopg.Error) -> WakeboardError:
    """A database error as an error of ours: DatabaseUnavailable if a retry may help, else one that is final."""
    code, message = exc.sqlstate, exc.diag.message_primary or " ".join(str(exc).split())
    if code is None:
        return _of_the_client(exc, message)
    if code in _MEANINGS:
        return _MEANINGS[code](message)
    if code.startswith(CONNECTION_LOST):
        return DatabaseUnavailable(f"the connection to the database was lost: {message}")
    if code.startswith(FOR_NOW) or _is_stale_plan(exc):
        return DatabaseUnavailable(f"the database cannot do this now: {message}")
    return _final(code, exc, message)


def _final(code: str, exc: psycopg.Error, message: str) -> WakeboardError:
    if code in NO_SUCH_STATEMENT:
        return WakeboardError(f"{message}: behind a pooler in transaction mode set WAKEBOARD_PREPARED_STATEMENTS=false")
    if code in {"23514", "22023"}:
        name = exc.diag.constraint_name  # its name is the message, or a bound of ours has raised one
        return InvalidValue(name.replace("_", " ") if name else message)
    if code == NULL_WHERE_NONE_MAY_BE:
        return InvalidValue(f"{exc.diag.column_name} is missing")
    if code == NUL_IN_JSON:
        return InvalidValue("a text holds the character NUL (\\x00), which Postgres cannot store: remove it")
    return WakeboardError(message)


def _of_the_client(exc: psycopg.Error, message: str) -> WakeboardError:
    """An error that no server sent: the connection broke, or psycopg cannot send or read a value."""
    if isinstance(exc, psycopg.OperationalError):
        return DatabaseUnavailable(f"the connection to the database was lost: {message}")
    if "(0x00)" in message:
        return InvalidValue("a text holds the character NUL (\\x00), which Postgres cannot store: remove it")
    return WakeboardError(f"the database client refuses this: {message}")


def _is_stale_plan(exc: psycopg.Error) -> bool:
    """A statement that was prepared before a migration: a new connection prepares it again."""
    return exc.sqlstate == "0A000" and exc.diag.source_function == "RevalidateCachedQuery"


def not_encodable(exc: UnicodeError) -> InvalidValue:
    """A text that is no Unicode, such as half of a surrogate pair."""
    why = exc.reason if isinstance(exc, UnicodeEncodeError) else str(exc)
    return InvalidValue(f"a text cannot be stored as UTF-8: {why}")


def without_quotes(message: str) -> str:
    """The message in one line, without what it quotes: libpq and psycopg quote the connection string."""
    line = " ".join(message.split())
    if line.count('"') % 2:
        return line[line.rindex('"') + 1 :].strip()
    return re.sub(r"""\s*(".*"|'.*'|«.*»|„.*“|“.*”)""", "", line)
