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
    EffectInDoubt,
    InvalidValue,
    KeyReused,
    LeadershipLost,
    LeaseLost,
    Locked,
    MissingRight,
    Refused,
    SchemaMismatch,
    WakeboardError,
)

if TYPE_CHECKING:
    from collections.abc import Callable

# SQLSTATEs and their prefixes. Temporary errors of the server: serialization failures and deadlocks; read only (a
# failover); no memory, disk or connections; a lock; statement_timeout; unreadable files.
ROLLED_BACK: Final = "40"
READ_ONLY: Final = "25006"
TEMPORARY: Final = (READ_ONLY, "53", "55P03", "57014", "58")
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
_TRY_AGAIN: Final = "another transaction was in the way: roll back and try the whole transaction again"
_NAMED_BY_CHECK: Final = "If it lasts, `wakeboard check` names the session."
_FAILED_BEFORE: Final = (
    "an earlier statement of this transaction failed: roll back, or use `with conn.transaction():` around what may fail"
)
_MISSING: Final = ("3F000", "42883", "42P01")  # a schema, a function or a table does not exist
# What libpq adds to a lost connection.
_LIBPQ_ADDS: Final = re.compile(r"consuming input failed: |\s*This probably means the server .*?request\.")
_MEANINGS: Final[dict[str, Callable[[str], WakeboardError]]] = {
    "WB001": LeaseLost,
    "WB002": KeyReused,
    "WB003": Refused,
    "WB004": LeadershipLost,
    "WB006": EffectInDoubt,
    "25P02": lambda _: WakeboardError(_FAILED_BEFORE),
    "55P03": lambda message: Locked(message if message.endswith("try again") else _LOCKED),
}
NO_RIGHT: Final = "42501"


class _Cause(NamedTuple):
    """Why a server cannot be used now. `refuses`: it refuses the login, and waiting does not help.

    `codes`: SQLSTATEs or their prefixes. `says`: what libpq, PgBouncer or a server in English says without a code.
    """

    codes: tuple[str, ...]
    says: str
    hint: str
    refuses: bool = False


_CAUSES: Final = (
    _Cause(
        (READ_ONLY,),
        "session is read-only|server is in hot standby mode",
        "Each server that answered is read-only or a standby: promote one, turn default_transaction_read_only off, or"
        " name the primary in the DSN. A transaction that was begun read-only cannot write either.",
    ),
    _Cause(
        (),
        "server is not in hot standby mode|session is not read-only",
        "A primary answered, and target_session_attrs in the DSN asks for a standby: change one of them.",
    ),
    _Cause(
        ("53300",),
        "too many (clients|connections)|remaining connection slots|no more connections allowed",
        "End sessions (pg_stat_activity has them), raise max_connections, or the connection limit of the role, the"
        " database or the pooler, or use a pooler.",
    ),
    _Cause(
        ("57P03",), "the database system is", "The server is starting or shutting down. If that lasts, see its log."
    ),
    _Cause(("53100",), "No space left", "Free space on that disk of the server."),
    _Cause(("53200",), "out of memory", "Give the server more memory, or lower work_mem and max_connections."),
    _Cause(("58",), "could not (open|read|write)", "A disk or file of the server fails: see its log."),
    _Cause(
        (),
        "authentication failed|no password supplied",
        "Check the user and the password in the DSN, and the server's pg_hba.conf.",
        refuses=True,
    ),
    _Cause(
        (),
        "^role does not exist|not permitted to log in",
        "Create the role with LOGIN: `wakeboard migrate --print-roles` prints the statements.",
        refuses=True,
    ),
    _Cause(
        (),
        r"no pg_hba\.conf entry|pg_hba\.conf rejects",
        "The server's pg_hba.conf must let this user come to this database from this address, with this encryption.",
        refuses=True,
    ),
    _Cause(
        (),
        "SSL was required|certificate",
        "Check sslmode, sslrootcert and sslcert in the DSN, and the certificate of the server.",
        refuses=True,
    ),
    _Cause(
        ("25P03", "25P04", "57P05"),
        "idle-session timeout|idle-in-transaction timeout|transaction timeout",
        "An administrator has set that timeout, for the role or the database: use `alter role` to give wakeboard's"
        " roles at least 10 s, or 0.",
    ),
    _Cause((), "SSL|TLS", "Check sslmode in the DSN, and that PostgreSQL listens at this address."),
    # Not refused: both may be made later.
    _Cause((), "database does not exist", "Create the database, or correct its name in the DSN."),
    _Cause((), "permission denied for database", "Grant the role CONNECT on the database."),
    _Cause((), "not currently accepting", "Let an administrator allow connections to this database."),
    _Cause((), "(resolve|translate) host", "Check the host in the DSN, and the name service."),
    _Cause(
        ("08P01",), "server login|pgbouncer|wait_timeout", "PgBouncer gets no connection to its server: see its log."
    ),
)
_NO_SERVER: Final = "Check that the server runs and that the DSN is correct."
_UNKNOWN: Final = "The server answers and refuses the connection: see its log."
_SERVER_SAYS: Final = re.compile(r"failed: [^:\n]+:  ")  # libpq writes its severity so, in whatever language


def hint_about_connection(failure: str, reason: str) -> tuple[str, bool]:
    """What to do about a connection that cannot be made, and whether waiting does not help: the login is refused.

    `failure`: the message of libpq; `reason`: the part of it that says why.
    """
    if cause := _cause_of(None, reason):
        return cause.hint, cause.refuses
    return _UNKNOWN if _SERVER_SAYS.search(failure) else _NO_SERVER, False


def _cause_of(code: str | None, message: str) -> _Cause | None:
    found = (each for each in _CAUSES if (code.startswith(each.codes) if code else re.search(each.says, message)))
    return next(found, None)


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


def meaning_of(exc: Exception) -> WakeboardError | None:
    """The wakeboard error for any error; None: it is not one of the database."""
    return translated(exc) if isinstance(exc, psycopg.Error) else None


def translated(exc: psycopg.Error, role: str = "") -> WakeboardError:
    """The wakeboard error for a database error: DatabaseUnavailable if a retry may succeed, else a final one.

    `role`: the one that logged in, for the message about a missing right.
    """
    return translated_report(report_of(exc), role)


def translated_report(report: ErrorReport, role: str = "") -> WakeboardError:
    """As `translated`, for an error of any client."""
    error = _meaning(report, role)
    if isinstance(error, Locked):
        error.hint = _NAMED_BY_CHECK
    elif isinstance(error, DatabaseUnavailable) and report.code and (cause := _cause_of(report.code, report.message)):
        error.hint = cause.hint
    return error


def _meaning(report: ErrorReport, role: str) -> WakeboardError:  # noqa: PLR0911 - one line for each meaning
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
    if code.startswith(ROLLED_BACK):
        return DatabaseUnavailable(f"{_TRY_AGAIN}: {message}")
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
        inserts = f", {_setting(part)} may insert some of its columns" if part else ""
        return f"{_READ_BY}{inserts}, and only the owner of the schema may alter it"
    if name in roles:
        which = " or ".join(map(_setting, sorted(roles[name]))) or "the role of the part that needs it"
        return f"connect with {which}, to which `wakeboard migrate` grants it"
    if name == "wakeboard":
        return (
            "`wakeboard migrate` needs CREATE on the database, and grants the schema to the role of each part"
            " (WAKEBOARD_CLIENT_ROLE for applications, WAKEBOARD_SCHEDULER_ROLE for those that have schedules, …)"
        )
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
