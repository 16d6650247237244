"""Maps errors of the database and of psycopg to errors of wakeboard.errors.

DatabaseUnavailable means that the same statement may succeed later, over the same connection or a new one; callers
retry it. All other errors are final, also those for values that psycopg refuses to send.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple

import psycopg

from wakeboard.errors import (
    DatabaseUnavailable,
    InvalidValue,
    KeyReused,
    LeadershipLost,
    LeaseLost,
    Locked,
    MissingRight,
    SchemaMismatch,
    WakeboardError,
)

if TYPE_CHECKING:
    from collections.abc import Callable

# SQLSTATEs and their prefixes. Temporary errors of the server: read only (a failover); serialization failures and
# deadlocks; no memory, disk or connections; a lock; statement_timeout; unreadable files.
TEMPORARY: Final = ("25006", "40", "53", "55P03", "57014", "58")
# PgBouncer sends 08P01 for any failure of its server; 25P03, 25P04: the server ended an idle transaction.
CONNECTION_LOST: Final = ("08", "25P03", "25P04", "57P")
NO_SUCH_STATEMENT: Final = ("26000", "42P05")  # another client's prepared statements: a pooler in transaction mode
NOT_NULL_VIOLATION: Final = "23502"
NUL_IN_JSON: Final = "22P05"

# No such function, table or column, another result or another kind of column. A call that waits for a migration goes on
# in the former body of its function, where these follow.
FORMER_BODY: Final = ("0A000", "3F000", "428C9", "42703", "42804", "42883", "42P01")
# The server translates none of these internal errors, which have no SQLSTATE of their own.
_CHANGED_MEANWHILE: Final = re.compile(r"cache lookup failed|could not open relation with OID|tuple concurrently ")
# A function in a line of the context, which begins with the innermost one, in every language of the server's messages:
# "PL/pgSQL-Funktion enqueue(text) Zeile 3 bei RETURN", "fonction SQL « run_of », instruction 1". Those of other schemas
# than the search_path are qualified.
_FUNCTION: Final = re.compile(
    r"""^(?=.*SQL)[^("«»„“”\n]*?(?:(?P<signature>(?:"[^"\n]+"|[a-zA-Z0-9_.$])+)\(|["«»„“”]\s*(?P<name>\w+)\s*["«»„“”])""",
    re.MULTILINE,
)

_UPGRADED: Final = (
    "wakeboard was upgraded during this call, or a part of its schema is gone (`wakeboard check` names it); try again"
)
_OLD_SCHEMA: Final = "the wakeboard schema is missing or older than this release: run `wakeboard migrate`."
_LOCKED: Final = "another transaction keeps a lock that this needs; try again"
_FAILED_BEFORE: Final = (
    "an earlier statement of this transaction failed: roll back, or use `with conn.transaction():` around what may fail"
)
_MISSING: Final = ("3F000", "42883", "42P01")  # a schema, a function or a table does not exist
# What libpq adds to a lost connection.
_LIBPQ_ADDS: Final = re.compile(r"consuming input failed: |\s*This probably means the server .*?request\.")
_MEANINGS: Final[dict[str, Callable[[str], WakeboardError]]] = {
    "WB001": LeaseLost,
    "WB002": KeyReused,
    "WB004": LeadershipLost,
    "25P02": lambda _: WakeboardError(_FAILED_BEFORE),
    "55P03": lambda message: Locked(message if message.endswith("try again") else _LOCKED),
}
NO_RIGHT: Final = "42501"
_READ_BY: Final = (
    "the roles of the operator and of viewers may read it (WAKEBOARD_OPERATOR_ROLE, WAKEBOARD_VIEWER_ROLE)"
)
_WRITTEN_BY: Final = {"job_runs": "client", "job_definitions": "scheduler"}  # some columns, in plain statements


class ErrorReport(NamedTuple):
    """What a database client says of an error; `code` is the SQLSTATE, or None if the server did not report it."""

    code: str | None
    message: str
    context: str = ""
    constraint: str | None = None
    column: str | None = None
    is_stale_plan: bool = False
    """A prepared statement is older than a migration: a new connection prepares it again."""
    is_connection_lost: bool = False


def report_of(exc: psycopg.Error) -> ErrorReport:
    """What psycopg says of an error."""
    diag = exc.diag
    return ErrorReport(
        exc.sqlstate,
        diag.message_primary or " ".join(str(exc).split()),
        diag.context or "",
        diag.constraint_name,
        diag.column_name,
        is_stale_plan=exc.sqlstate == "0A000" and diag.source_function == "RevalidateCachedQuery",
        is_connection_lost=isinstance(exc, psycopg.OperationalError),
    )


def translated(exc: psycopg.Error, role: str = "") -> WakeboardError:
    """The wakeboard error for a database error: DatabaseUnavailable if a retry may succeed, else a final one.

    `role`: the one that logged in, for the message about a missing right.
    """
    return translated_report(report_of(exc), role)


def translated_report(report: ErrorReport, role: str = "") -> WakeboardError:  # noqa: PLR0911 - one line for each meaning
    """As `translated`, for an error of any client."""
    code, message = report.code, report.message
    if code is None:
        return _of_the_client(report)
    if code == NO_RIGHT:
        return _no_right(message, role)
    if code in FORMER_BODY and (function := _function_of(report.context)):
        name, ours = function
        if ours:
            return DatabaseUnavailable(f"{_UPGRADED}: {message}")
        return WakeboardError(f"{message}, in the function {name}, which is not one of wakeboard's")
    if code in _MISSING:
        return SchemaMismatch(_OLD_SCHEMA)
    if code in _MEANINGS:
        return _MEANINGS[code](message)
    if code.startswith(CONNECTION_LOST):
        return DatabaseUnavailable(f"the connection to the database was lost: {message}")
    if code.startswith(TEMPORARY) or report.is_stale_plan or _CHANGED_MEANWHILE.match(message):
        return DatabaseUnavailable(f"the database cannot do this now: {message}")
    return _final(code, report)


def _no_right(message: str, role: str) -> MissingRight:
    who_may = _who_may(message)
    hint = f"; {who_may}" if who_may else ""
    by = f" (login {role})" if role else ""  # SET ROLE may have chosen another one, of which the client does not hear
    return MissingRight(f"the database role of this connection{by} may not do this: {message}{hint}.")


def _who_may(message: str) -> str:
    """Which parts have the right to the object of ours that the message names, in whatever language; "": it names none.

    The server reports its name in no other field.
    """
    from wakeboard.store.schema_files import declared_objects, sql_functions  # as in _function_of

    roles = {function.name: function.roles or () for function in sql_functions()}
    relations = {name for kind, name in declared_objects() if kind in {"table", "view"}}
    known = {"wakeboard", *relations, *roles}
    name = next((word for word in reversed(re.findall(r"[a-zA-Z_0-9]+", message)) if word in known), "")
    if name in relations:
        part = _WRITTEN_BY.get(name)
        return _READ_BY + (f", and {_setting(part)} may insert some of its columns" if part else "")
    if name in roles:
        which = " or ".join(map(_setting, sorted(roles[name]))) or "the role of the part that needs it"
        return f"connect with {which}, to which `wakeboard migrate` grants it"
    if name == "wakeboard":
        return "`wakeboard migrate` grants it to the role of each part (WAKEBOARD_CLIENT_ROLE for applications, …)"
    return ""


def _setting(part: str) -> str:
    return f"WAKEBOARD_{part.upper()}_ROLE"


def _final(code: str, report: ErrorReport) -> WakeboardError:
    message = report.message
    if code in NO_SUCH_STATEMENT:
        return WakeboardError(f"{message}: behind a pooler in transaction mode set WAKEBOARD_PREPARED_STATEMENTS=false")
    if code in {"23514", "22023"}:
        name = report.constraint  # its name is the message; refuse_value and the like raise without one
        return InvalidValue(name.replace("_", " ") if name else message)
    if code == NOT_NULL_VIOLATION:
        return InvalidValue(f"{report.column} is missing")
    if code == NUL_IN_JSON:
        return InvalidValue("a text holds the character NUL (\\x00), which Postgres cannot store: remove it")
    return WakeboardError(message)


def _of_the_client(report: ErrorReport) -> WakeboardError:
    """An error without an SQLSTATE: the connection broke, or the client cannot send or read a value."""
    message = report.message
    if report.is_connection_lost:
        return DatabaseUnavailable(f"the connection to the database was lost: {_LIBPQ_ADDS.sub('', message)}")
    if "(0x00)" in message:
        return InvalidValue("a text holds the character NUL (\\x00), which Postgres cannot store: remove it")
    return WakeboardError(f"the database client refuses this: {message}")


def _function_of(context: str) -> tuple[str, bool] | None:
    """The innermost function of an error's context, and whether it is one of ours. None: in a statement of ours.

    One of the application's is that of a trigger. A word in quotes may be an expression: it is one of ours or none.
    """
    from wakeboard.store.schema_files import sql_functions  # only here: each worker would pay for it at its start

    ours = {function.name for function in sql_functions()}
    for found in _FUNCTION.finditer(context):
        schema, _, name = (found["signature"] or found["name"]).rpartition(".")
        if schema == "wakeboard" or (not schema and name in ours):
            return name, True
        if found["signature"]:
            return found["signature"], False
    return None


def not_encodable(exc: UnicodeError) -> InvalidValue:
    """The error for a text that is not valid Unicode, such as half of a surrogate pair."""
    why = exc.reason if isinstance(exc, UnicodeEncodeError) else str(exc)
    return InvalidValue(f"a text cannot be stored as UTF-8: {why}")


def without_quotes(message: str) -> str:
    """The message on one line, without quoted parts: libpq and psycopg quote parts of the connection string."""
    line = " ".join(message.split())
    if line.count('"') % 2:
        return line[line.rindex('"') + 1 :].strip()
    return re.sub(r"""\s*(".*"|'.*'|«.*»|„.*“|“.*”)""", "", line)
