"""What an error of the database means: to be tried again, or not. One rule for all who ask."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

import wakeboard
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
from wakeboard.store.database_errors import ErrorReport, translated, translated_report
from wakeboard.store.schema_files import SqlFunction, sql_functions

if TYPE_CHECKING:
    from tests.store.sql_clients import SqlClient


def error_with(
    sqlstate: str | None, message: str = "it says why", kind: type[psycopg.Error] | None = None
) -> WakeboardError:
    """What becomes of an error with this SQLSTATE; also one that psycopg has no class for."""
    made = (kind or psycopg.DatabaseError)(message)
    made.sqlstate = sqlstate
    return translated(made)


def error_in(context: str) -> type[WakeboardError]:
    """What becomes of an error with this context."""
    return type(translated_report(ErrorReport("42703", "no such column", context)))


@pytest.mark.parametrize(
    "sqlstate",
    [
        "08000",
        "08006",
        "08P01",  # PgBouncer, about its server
        "25P03",  # idle_in_transaction_session_timeout
        "25P04",  # transaction_timeout
        "57P01",  # an administrator's command
        "57P02",  # a crash of another backend
        "57P03",  # starting up
        "57P05",  # idle_session_timeout
        "57014",  # statement_timeout, pg_cancel_backend
        "25006",  # read only: a failover
        "40001",
        "40P01",
        "40003",  # the outcome of the statement is unknown
        "53100",  # disk full
        "53200",  # no memory
        "53300",  # too many connections
        "58030",  # a file cannot be read or written
    ],
)
def test_a_temporary_error_is_retried(sqlstate: str) -> None:
    assert type(error_with(sqlstate)) is DatabaseUnavailable


@pytest.mark.parametrize(
    ("sqlstate", "hint"),
    [("25006", "promote one"), ("53100", "Free space"), ("53300", "raise max_connections"), ("57P03", "see its log")],
)
def test_an_error_of_a_server_that_cannot_work_says_what_to_do(sqlstate: str, hint: str) -> None:
    assert hint in error_with(sqlstate).hint


@pytest.mark.parametrize("sqlstate", ["40001", "40P01"])
def test_a_serialization_failure_says_to_try_the_transaction_again(sqlstate: str) -> None:
    assert "try the whole transaction again" in str(error_with(sqlstate))


def test_an_error_in_a_trigger_of_an_application_is_not_ours(database: str) -> None:
    with psycopg.connect(database, autocommit=True) as conn:
        conn.execute(
            "create function public.audits() returns trigger language plpgsql"
            " as $$ begin insert into no_such_table values (1); return new; end $$"
        )
        conn.execute(
            "create trigger audits after insert on wakeboard.job_runs for each row execute function public.audits()"
        )
        with pytest.raises(psycopg.errors.UndefinedTable) as caught:
            conn.execute("select wakeboard.enqueue('ping')")
        with pytest.raises(psycopg.errors.UndefinedFunction) as missing:
            conn.execute("select wakeboard.no_such_function()")
    error = translated(caught.value)
    assert type(error) is WakeboardError
    assert "no_such_table" in str(error)
    assert "public.audits" in str(error)
    assert isinstance(translated(missing.value), SchemaMismatch)


def test_a_lock_timeout_is_retried_and_has_its_own_error() -> None:
    locked = error_with("55P03")
    assert isinstance(locked, Locked)
    assert isinstance(locked, DatabaseUnavailable)
    assert str(locked).endswith("try again")


@pytest.mark.parametrize(
    ("sqlstate", "meaning"),
    [
        ("WB001", LeaseLost),
        ("WB002", KeyReused),
        ("WB004", LeadershipLost),
        ("3F000", SchemaMismatch),  # no such schema
        ("42883", SchemaMismatch),  # no such function
        ("42P01", SchemaMismatch),  # no such table
        ("22023", InvalidValue),
        ("23514", InvalidValue),
        ("42501", MissingRight),  # a right is missing
        ("0A000", WakeboardError),  # a feature that is not supported
        ("22003", WakeboardError),  # out of range
        ("22021", WakeboardError),  # a character outside the encoding
        ("22P05", InvalidValue),  # a NUL in JSON
        ("22P02", WakeboardError),
        ("23505", WakeboardError),
        ("25P01", WakeboardError),
        ("25P02", WakeboardError),  # the caller's transaction has failed already
        ("26000", WakeboardError),  # a prepared statement of another client
        ("42P05", WakeboardError),
        ("42601", WakeboardError),
        ("42702", WakeboardError),
        ("54000", WakeboardError),
        ("55000", WakeboardError),
        ("P0001", WakeboardError),  # raise exception
        ("XX000", WakeboardError),
        ("XX001", WakeboardError),  # corrupted data
        ("WB999", WakeboardError),
        ("99999", WakeboardError),  # whatever a later server may say
    ],
)
def test_a_permanent_error_is_final(sqlstate: str, meaning: type[WakeboardError]) -> None:
    assert type(error_with(sqlstate)) is meaning


@pytest.mark.parametrize(
    "message",
    [
        "consuming input failed: server closed the connection unexpectedly",
        "the connection is closed",
        "the connection is lost",
        "sending query and params failed: could not send data to server: Broken pipe",
    ],
)
def test_a_broken_connection_without_a_code_is_retried(message: str) -> None:
    assert type(error_with(None, message, psycopg.OperationalError)) is DatabaseUnavailable


@pytest.mark.parametrize(
    ("kind", "message", "says"),
    [
        (psycopg.DataError, "PostgreSQL text fields cannot contain NUL (0x00) bytes", "the character NUL"),
        (psycopg.DataError, "date too large (after year 10K): '12024-01-01'", "refuses this: date too large"),
        (psycopg.ProgrammingError, "cannot adapt type 'object'", "refuses this: cannot adapt type 'object'"),
        (psycopg.NotSupportedError, "can't parse timestamptz with DateStyle 'SQL, DMY'", "refuses this: can't parse"),
        (psycopg.InterfaceError, "the cursor is closed", "refuses this: the cursor is closed"),
        (psycopg.InternalError, "what is this", "refuses this"),
    ],
)
def test_an_error_of_the_client_is_final_and_names_the_problem(
    kind: type[psycopg.Error], message: str, says: str
) -> None:
    error = error_with(None, message, kind)
    assert not isinstance(error, DatabaseUnavailable)
    assert says in str(error)


@pytest.mark.parametrize("function", [function for function in sql_functions() if function.roles])
def test_a_missing_right_names_each_part_that_has_it(function: SqlFunction) -> None:
    said = str(error_with("42501", f"permission denied for function {function.name}"))
    assert set(re.findall(r"WAKEBOARD_(\w+)_ROLE", said)) == {role.upper() for role in function.roles}


@pytest.mark.parametrize(
    ("message", "part"),
    [
        ("permission denied for table job_definitions", "WAKEBOARD_SCHEDULER_ROLE"),
        ("permission denied for table job_runs", "WAKEBOARD_CLIENT_ROLE"),
        ("permission denied for table workers", "WAKEBOARD_VIEWER_ROLE"),
        ("permission denied for schema wakeboard", "WAKEBOARD_SCHEDULER_ROLE for those that have schedules"),
        ("permission denied for function begin_reap", "wakeboard migrate"),
        ("keine Berechtigung für Tabelle job_runs", "WAKEBOARD_CLIENT_ROLE"),
        ("関数 enqueue へのアクセスが拒否されました", "WAKEBOARD_CLIENT_ROLE"),
        ("droit refusé pour le schéma wakeboard", "wakeboard migrate"),
        ("permission denied for database shop", "may not do this"),
        ("permission denied for database wakeboard", "needs CREATE on the database"),
        ("must be owner of table job_runs", "only the owner of the schema may alter it"),
        ("Eigentümer der Tabelle job_runs sein", "only the owner of the schema may alter it"),
    ],
)
def test_a_missing_right_says_which_part_has_it(message: str, part: str) -> None:
    assert part in str(error_with("42501", message))


@pytest.mark.parametrize("sqlstate", ["26000", "42P05"])
def test_a_prepared_statement_lost_by_a_pooler_names_the_setting(sqlstate: str) -> None:
    assert "set WAKEBOARD_PREPARED_STATEMENTS=false" in str(error_with(sqlstate))


async def a_plan_that_a_migration_made_stale(dsn: str) -> WakeboardError | None:
    """What a prepared statement says after the function's result has changed."""
    async with await psycopg.AsyncConnection.connect(dsn, autocommit=True, prepare_threshold=0) as conn:
        await conn.execute("create table moved (a integer)")
        await conn.execute("select * from moved", prepare=True)
        async with await psycopg.AsyncConnection.connect(dsn) as other:
            await other.execute("alter table moved add column b text")
        try:
            await conn.execute("select * from moved", prepare=True)
        except psycopg.Error as error:
            return translated(error)
    return None


@pytest.mark.anyio
async def test_a_statement_prepared_before_a_migration_is_prepared_again(empty_database: str) -> None:
    assert type(await a_plan_that_a_migration_made_stale(empty_database)) is DatabaseUnavailable


@pytest.mark.parametrize(
    "change",
    [
        "alter table wakeboard.job_runs rename priority to importance",
        "alter table wakeboard.job_keys rename to known_keys",
        "drop function wakeboard.wait_for_runs",
        "alter table wakeboard.job_runs drop timeout_s cascade, add timeout_s integer generated always as (1) stored",
    ],
)
def test_a_call_in_the_former_body_of_a_function_is_retried(
    admin: SqlClient, application: psycopg.Connection[Any], change: str
) -> None:
    wakeboard.enqueue(application, "ping")
    with application.transaction(force_rollback=True):
        application.execute(change.encode())
        with pytest.raises(DatabaseUnavailable, match="was upgraded during this call, or a part of its schema is gone"):
            wakeboard.enqueue(application, "ping", idempotency_key="a", after=[])


@pytest.mark.parametrize(
    "context",
    [
        "PL/pgSQL function {} line 3 at SQL statement",
        "PL/pgSQL-Funktion {} Zeile 3 bei SQL-Anweisung",
        "SQL-Anweisung »select 1\nfrom job_runs(1)«\nPL/pgSQL-Funktion {} Zeile 3 bei RETURN",
        "fonction PL/pgSQL {}, ligne 3 à RETURN",
        "PL/pgSQL関数{}の3行目のRETURN",
        "функция PL/pgSQL {}, строка 3, оператор RETURN",
        "función PL/pgSQL {} en la línea 3 en RETURN",
    ],
)
def test_the_function_of_an_error_is_found_in_every_language(context: str) -> None:
    assert error_in(context.format("enqueue(text,jsonb)")) is DatabaseUnavailable
    assert error_in(context.format("public.audits()")) is WakeboardError
    assert error_in(context.format("audits()")) is WakeboardError  # it has its own search_path


@pytest.mark.parametrize(
    "context",
    [
        'SQL function "{}" statement 1',
        'SQL function "{}" during startup',
        "SQL-Funktion »{}« Anweisung 1",
        "fonction SQL «\xa0{}\xa0», instruction 1",
        '"{}" SQL 함수의 1 번째 명령문',
    ],
)
def test_an_sql_function_of_an_error_is_found_in_every_language(context: str) -> None:
    name = next(function.name for function in sql_functions() if "language sql" in function.text)
    assert error_in(context.format(name)) is DatabaseUnavailable
    assert error_in(context.format("theirs") + "\nPL/pgSQL function public.audits() line 1 at IF") is WakeboardError


def test_a_broken_trigger_of_the_application_is_named(application: psycopg.Connection[Any]) -> None:
    application.execute(
        "create function public.copy() returns trigger language plpgsql as 'begin insert into missing values (1); end';"
        "create trigger copies after insert on wakeboard.job_runs execute function public.copy()"
    )
    with pytest.raises(
        WakeboardError, match=r"missing. does not exist, in the function public\.copy, which is not one of"
    ):
        wakeboard.enqueue(application, "ping")


def test_results_of_more_than_256_mb_are_refused_with_a_sentence(admin: SqlClient, worker: SqlClient) -> None:
    """More than the database can hold in one value."""
    pay = admin.enqueue()
    ship = admin.enqueue(after=[pay] * 300)
    worker.register()
    worker.complete(*worker.claim(), results={str(pay): "x" * 1_000_000})
    admin.sql("select enqueue_dependents()")
    (lease,) = worker.claim()
    with pytest.raises(psycopg.Error, match=f"run {ship} waited for have more than 256 MB together") as refused:
        worker.value("select run_results(%s, %s, %s)", worker.worker_id, *lease)
    assert refused.value.sqlstate == "22023"
