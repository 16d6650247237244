"""Each role may call exactly the functions that are for it, and nothing else."""

from __future__ import annotations

import json
import re
from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

import anyio
import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from tests.store.sql_clients import SqlClient
from wakeboard.errors import InvalidValue
from wakeboard.store.migrate import Migrated, migrate
from wakeboard.store.roles import Roles, create_roles
from wakeboard.store.schema_files import SCHEDULE_COLUMNS, sql_functions

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.every_postgres

ROLES: Final = ("operator", "worker", "client", "viewer", "scaler", "scheduler")
STRANGER: Final = "stranger"  # any other role of the server
MAY_INSERT: Final = ("job_type", "payload", "queue", "priority", "run_at", "max_attempts")
FORBIDDEN: Final = "42501"
GUIDE: Final = Path(__file__).parents[2] / "docs/schedules-from-code.md"


class RoleDatabase:
    """A database, and a DSN for each role."""

    def __init__(self, dsn: str) -> None:
        self.superuser = dsn
        with psycopg.connect(dsn) as conn:
            base = conn.info.dbname
        self.names = {role: f"{base}_{role}" for role in (*ROLES, STRANGER)}
        self.roles = Roles(**{role: self.names[role] for role in ROLES})
        self.do(create_roles(self.roles), f"create role {self.names[STRANGER]} login")

    def migrate(self, roles: Roles, *revoke: str) -> Migrated:
        async def go() -> Migrated:
            return await migrate(self.superuser, roles=roles, revoke=revoke)

        return anyio.run(go)

    def dsn(self, role: str) -> str:
        return make_conninfo(self.superuser, user=self.names[role])

    def do(self, *statements: str) -> None:
        with psycopg.connect(self.superuser, autocommit=True) as conn:
            for statement in statements:
                conn.execute(statement.encode())

    def refused(self, role: str, statement: str) -> bool:
        """Whether the database says that the role may not do it; other errors are none of this."""
        with psycopg.connect(self.dsn(role), autocommit=True) as conn:
            return refused(conn, statement)

    def close(self) -> None:
        for name in self.names.values():
            self.do(f"drop owned by {name}; drop role {name}")


def refused(conn: psycopg.Connection[Any], statement: str) -> bool:
    """Whether the role of this connection may not do it."""
    try:
        conn.execute(statement.encode())
    except psycopg.Error as error:
        return error.sqlstate == FORBIDDEN
    return False


@pytest.fixture
def role_database(database: str) -> Iterator[RoleDatabase]:
    made = RoleDatabase(database)
    made.migrate(made.roles)
    yield made
    made.close()


def calls(role_database: RoleDatabase) -> dict[str, str]:
    """A call of each function that there is, with nulls for its arguments."""
    with psycopg.connect(role_database.superuser) as conn:
        rows = conn.execute(
            "select proname, array(select 'null::' || format_type(t, null) from unnest(proargtypes) as t)"
            "  from pg_proc where pronamespace = 'wakeboard'::regnamespace and prorettype <> 'trigger'::regtype"
        ).fetchall()
    return {name: f"select wakeboard.{name}({', '.join(arguments)})" for name, arguments in rows}


def test_each_role_may_call_exactly_its_functions(role_database: RoleDatabase) -> None:
    may = {function.name: function.roles for function in sql_functions()}
    with ExitStack() as opened:
        sessions = {
            role: opened.enter_context(psycopg.connect(role_database.dsn(role), autocommit=True))
            for role in (*ROLES, STRANGER)
        }
        for name, call in calls(role_database).items():
            allowed = {role for role, session in sessions.items() if not refused(session, call)}
            assert allowed == may[name], name


def test_each_function_runs_as_its_owner_with_its_own_search_path(role_database: RoleDatabase) -> None:
    """Otherwise the caller could replace a table of the schema with one of its own."""
    with psycopg.connect(role_database.superuser) as conn:
        rows = conn.execute(
            "select proname, prosecdef, proconfig from pg_proc where pronamespace = 'wakeboard'::regnamespace"
        ).fetchall()
    assert len(rows) == len(sql_functions())
    for name, as_owner, settings in rows:
        if name == "schedule_written":  # of a trigger: it acts as the owner
            assert as_owner
        if name in {
            "runs_inserted",
            "notify_ended",
            "schedule_guarded",
        }:  # of triggers: they write out the schema of each name
            assert (as_owner, settings) == (False, None)
            continue
        assert "search_path=pg_catalog, wakeboard, pg_temp" in settings, name
        assert as_owner or name in {"backoff", "check_payload", "refuse_argument", "refuse_value", "shortened"}, name


@pytest.mark.parametrize("schema", ["pg_temp", "own"])
def test_a_session_of_a_client_compiles_no_planted_type(role_database: RoleDatabase, schema: str) -> None:
    """A plain INSERT compiles the trigger with the client's search_path; `enqueue` then fires it as the owner."""
    client = role_database.names["client"]
    with psycopg.connect(role_database.superuser, autocommit=True) as conn:
        conn.execute(f"create schema if not exists own; grant usage, create on schema own to {client}".encode())
    with psycopg.connect(role_database.dsn("client"), autocommit=True) as conn:
        conn.execute(f"set search_path = {schema}, pg_catalog".encode())
        conn.execute(
            f"""create function {schema}.raises() returns boolean language plpgsql as
                'begin raise exception ''a planted object was called''; end'""".encode()
        )
        for name in ("record", "text", "jsonb", "uuid", "timestamptz", "job_runs", "inserted"):
            conn.execute(f"create domain {schema}.{name} as integer check ({schema}.raises())".encode())
        conn.execute("insert into wakeboard.job_runs (job_type) select 'ping'")
        conn.execute("select wakeboard.enqueue('ping')")
        conn.execute("select wakeboard.enqueue_many('{ping}', '{\"{}\"}')")


@pytest.mark.parametrize("role", [*ROLES, STRANGER])
def test_only_viewer_and_operator_read_tables_and_none_writes(role_database: RoleDatabase, role: str) -> None:
    """But for the six columns that an application may insert."""
    with psycopg.connect(role_database.superuser) as conn:
        rights = conn.execute(
            "select relname, array(select may from unnest('{SELECT, INSERT, UPDATE, REFERENCES}'::text[]) as may"
            "                       where has_any_column_privilege(%(role)s, oid, may))"
            "             || array(select may from unnest('{DELETE, TRUNCATE, TRIGGER}'::text[]) as may"
            "                       where has_table_privilege(%(role)s, oid, may))"
            "  from pg_class"
            " where relnamespace = 'wakeboard'::regnamespace and relkind in ('r', 'p', 'v') and not relispartition",
            {"role": role_database.names[role]},
        ).fetchall()
    reads = ["SELECT"] if role in {"viewer", "operator"} else []
    own = {
        ("client", "job_runs"): ["INSERT"],
        ("scheduler", "job_definitions"): ["SELECT", "INSERT", "UPDATE", "DELETE"],
    }
    assert len(rights) > 15
    for table, may in rights:
        assert may == own.get((role, table), reads), table


def test_plain_statements_change_schedules_of_applications_and_no_others(role_database: RoleDatabase) -> None:
    with psycopg.connect(role_database.superuser) as conn:
        conn.execute(
            "insert into wakeboard.job_definitions (source, namespace, name, job_type, spec_hash)"
            " values ('file:a', 'default', 'declared', 'ping', '')"
        )
    with psycopg.connect(role_database.dsn("scheduler"), autocommit=True) as conn:
        insert = "insert into wakeboard.job_definitions (job_type, payload, schedule) values ('ping', '{\"a\": 1}', %s)"
        conn.execute(f"{insert} returning name", ["@daily"])
        with pytest.raises(psycopg.errors.InvalidParameterValue, match='schedule "@never": a schedule has five fields'):
            conn.execute(insert, ["@never"])
        conn.execute("update wakeboard.job_definitions set schedule = '@hourly' where source = 'app'")
        for changed in ("removed_at = now()", "priority = 3"):  # also one that its source has removed
            for refused in (
                "update wakeboard.job_definitions set priority = 2",
                "delete from wakeboard.job_definitions",
            ):
                with pytest.raises(psycopg.errors.InsufficientPrivilege, match="default/declared belongs to file:a"):
                    conn.execute(f"{refused} where name = 'declared'".encode())
            with psycopg.connect(role_database.superuser) as admin:
                admin.execute(f"update wakeboard.job_definitions set {changed} where name = 'declared'".encode())
        live = "select count(*) from wakeboard.job_definitions where source = 'app' and removed_at is null"
        assert conn.execute(live).fetchone() == (1,)
        conn.execute("delete from wakeboard.job_definitions where source = 'app'")
        assert conn.execute(live).fetchone() == (0,)
        for _ in range(2):  # also one that was removed
            conn.execute("insert into wakeboard.job_definitions (name, job_type) values ('again', 'ping')")
            for late in ("delete from", "delete from", "update"):
                change = "set priority = 2" if late == "update" else ""
                done = conn.execute(f"{late} wakeboard.job_definitions {change} where name = 'again'".encode())
                assert done.rowcount == 0
    with psycopg.connect(role_database.superuser) as conn:
        row = conn.execute(
            "select name ~ '^schedule-[0-9]+$', schedule, payload, generation, removed_at is null"
            "  from wakeboard.job_definitions where source = 'app' and name <> 'again'"
        )
        assert row.fetchall() == [(True, "@hourly", {"a": 1}, 2, False)]


def test_an_application_reads_the_columns_that_it_writes_but_payloads(role_database: RoleDatabase) -> None:
    with psycopg.connect(role_database.dsn("scheduler"), autocommit=True) as conn:
        for column in SCHEDULE_COLUMNS:
            upsert = (
                "insert into wakeboard.job_definitions as def (name, job_type) values ('a', 'ping')"
                f" on conflict (source, namespace, name) do update set {column} = excluded.{column}"
            )
            assert refused(conn, upsert) == (column == "payload")
            assert refused(conn, f"select {column} from wakeboard.job_definitions") == (column == "payload")


def test_the_documented_upserts_create_edit_and_bring_back(role_database: RoleDatabase) -> None:
    upserts = re.search(
        r"```sql\n(insert into [^`]*\son conflict [^`]*;)\n\n(merge into [^`]*;)\n```", GUIDE.read_text()
    )
    assert upserts
    shown = (
        "select name, definition ->> 'cron', definition -> 'payload', generation from wakeboard.list_schedules('*/*')"
    )
    with psycopg.connect(role_database.dsn("scheduler"), autocommit=True) as conn:
        for upsert in upserts.groups() if conn.info.server_version >= 150_000 else upserts.groups()[:1]:
            conn.execute(upsert.encode())
            created = conn.execute(shown).fetchall()
            conn.execute("update wakeboard.job_definitions set schedule = '@daily' where source = 'app'")
            conn.execute(upsert.encode())
            edited = conn.execute(shown).fetchall()
            conn.execute("delete from wakeboard.job_definitions where source = 'app'")
            conn.execute(upsert.encode())
            again = conn.execute(shown).fetchall()
            assert [row[:-1] for row in (*created, *edited, *again)] == [
                ("customers/42-report", "0 9 * * 1", {"customer": 42})
            ] * 3
            conn.execute("delete from wakeboard.job_definitions where source = 'app'")


def test_an_application_may_insert_six_columns_and_read_nothing(role_database: RoleDatabase) -> None:
    plain = "insert into wakeboard.job_runs ({}) values ('ping'{})"
    assert not role_database.refused("client", plain.format("job_type", ""))
    with psycopg.connect(role_database.dsn("client"), autocommit=True) as conn:
        conn.execute(
            f"insert into wakeboard.job_runs ({', '.join(MAY_INSERT)})"
            " values ('ping', '[1]', 'mail', 5, now() + interval '1 h', 3)"
        )
        conn.execute("set search_path = pg_catalog, wakeboard, pg_temp")  # as the SQL functions have it
        with pytest.raises(psycopg.errors.InvalidParameterValue, match="are of the product"):
            conn.execute("insert into job_runs (job_type) values ('wakeboard.alert')")
    assert role_database.refused("client", plain.format("job_type", "") + " returning id")
    with psycopg.connect(role_database.superuser) as conn:
        columns = {
            row[0]
            for row in conn.execute(
                "select attname from pg_attribute"
                " where attrelid = 'wakeboard.job_runs'::regclass and attnum > 0 and not attisdropped"
            )
        }
        assert conn.execute("select count(*) from wakeboard.job_runs where status = 'queued'").fetchone() == (2,)
    for column in columns - set(MAY_INSERT):
        assert role_database.refused("client", plain.format(f"job_type, {column}", ", default")), column


def test_an_application_sees_and_cancels_only_its_own_run(role_database: RoleDatabase) -> None:
    client, worker = SqlClient(role_database.dsn("client")), SqlClient(role_database.dsn("worker"), 71)
    ((mine, uuid),) = client.sql("select id, uuid from enqueue('ping')")
    ((other, another_uuid),) = client.sql("select id, uuid from enqueue('ping')")
    get, cancel = "select status::text, result from get_run(%s, %s)", "select cancel_run(%s, %s, 'withdrawn')"
    assert client.sql(get, mine, uuid) == [("queued", None)]
    assert client.sql(get, other, uuid) == []
    assert client.value(cancel, other, uuid) == "refused: there is no such run"
    assert client.value(cancel, mine, None) == "refused: there is no such run"
    assert client.value(cancel, mine, uuid) == "cancelled"
    assert client.value("select reason from get_run(%s, %s)", mine, uuid) == "withdrawn"
    worker.register()
    (lease,) = worker.fetch()
    assert client.value(cancel, other, another_uuid) == "requested"
    worker.complete(lease, results={other: {"sent": 1}})
    assert client.sql(get, other, another_uuid) == [("succeeded", {"sent": 1})]
    assert client.value(cancel, other, another_uuid) == "refused: the run has succeeded"
    client.close()
    worker.close()


@pytest.fixture
def applications(role_database: RoleDatabase) -> Iterator[tuple[SqlClient, SqlClient]]:
    """Two logins of applications, which are members of the client's role."""
    client = role_database.names["client"]
    logins = ("shop", "mail")
    for login in logins:
        role_database.names[login] = f"{client}_{login}"
        role_database.do(f"create role {client}_{login} login in role {client}")
    with ExitStack() as stack:
        shop, mail = (stack.enter_context(closing(SqlClient(role_database.dsn(login)))) for login in logins)
        yield shop, mail


ONE_RUN = ("idempotency_key => 'order-42'", "unique_for => 3600")


@pytest.mark.parametrize("named", ONE_RUN)
def test_a_key_gives_no_right_to_the_run_of_another_role(applications: tuple[SqlClient, SqlClient], named: str) -> None:
    shop, mail = applications
    enqueue = f"select id, uuid, created, status from enqueue('ping', {named})"
    ((run, uuid, *_),) = shop.sql(enqueue)
    assert mail.sql(enqueue) == [(run, None, False, None)]
    assert shop.sql(enqueue) == [(run, uuid, False, "queued")]


@pytest.mark.parametrize("named", ONE_RUN)
def test_a_member_of_a_role_may_use_its_runs(
    applications: tuple[SqlClient, SqlClient], role_database: RoleDatabase, named: str
) -> None:
    shop, mail = applications
    enqueue = f"select id, uuid from enqueue('ping', {named})"
    (run,) = shop.sql(enqueue)
    role_database.do(f"grant {role_database.names['shop']} to {role_database.names['mail']}")
    assert mail.sql(enqueue) == [run]


def test_logins_that_set_one_role_share_their_runs(
    applications: tuple[SqlClient, SqlClient], role_database: RoleDatabase
) -> None:
    for each in applications:
        each.sql(f"set role {role_database.names['client']}")
    shop, mail = applications
    enqueue = "select id, uuid from enqueue('ping', idempotency_key => 'order-42')"
    assert shop.sql(enqueue) == mail.sql(enqueue)


@pytest.mark.parametrize(
    "call", ["enqueue('ping', '{\"by\": 2}', %s)", "enqueue_many('{ping}', array['{\"by\": 2}'::jsonb], %s)"]
)
def test_the_payload_of_another_roles_run_is_not_replaced(
    applications: tuple[SqlClient, SqlClient], role_database: RoleDatabase, call: str
) -> None:
    shop, mail = applications
    shop.sql("select from enqueue('ping', '{\"by\": 1}', unique_for => 3600, unique_by => '{}')")
    with pytest.raises(
        psycopg.errors.InsufficientPrivilege, match=f"belongs to the role {role_database.names['shop']}"
    ):
        mail.sql("select from " + call.replace("%s", "unique_for => 3600, unique_by => '{}', if_exists => 'replace'"))
    with psycopg.connect(role_database.superuser) as conn:
        assert conn.execute("select payload from wakeboard.job_runs").fetchall() == [({"by": 1},)]


ONE: Final = "enqueue('pong', after => array[%%s::bigint]%s)"
MANY: Final = "enqueue_many('{pong}', '{\"{}\"}', after => jsonb_build_array(jsonb_build_array(%s)))"


@pytest.mark.parametrize(
    ("by_id", "by_uuid"),
    [
        (ONE % "", ONE % ", after_uuids => array[%s::uuid]"),
        (
            MANY.replace("%s", "%s::bigint"),
            MANY.replace("%s", "jsonb_build_object('id', %s::bigint, 'uuid', %s::uuid)"),
        ),
    ],
    ids=["enqueue", "enqueue_many"],
)
def test_a_client_waits_for_runs_whose_uuid_it_knows(role_database: RoleDatabase, by_id: str, by_uuid: str) -> None:
    """A role that may read all runs may name them by their ids."""
    with closing(SqlClient(role_database.dsn("client"))) as client:
        ((run, uuid),) = client.sql("select id, uuid from enqueue('ping')")
        with pytest.raises(psycopg.errors.InvalidParameterValue, match=f"after holds run {run} without its uuid"):
            client.sql(f"select from {by_id}", run)
        assert client.value(f"select created from {by_uuid}", run, uuid)
    with closing(SqlClient(role_database.superuser)) as owner:
        assert owner.value(f"select created from {by_id}", run)


def test_a_client_locks_no_run_by_naming_its_id(role_database: RoleDatabase) -> None:
    """Also with a key that exists, whose call creates no run that could wait."""
    again = "enqueue_many('{pong}', '{\"{}\"}', idempotency_keys => '{mine}', after => jsonb_build_array(%s::jsonb))"
    with (
        closing(SqlClient(role_database.dsn("client"))) as client,
        closing(SqlClient(role_database.superuser)) as owner,
    ):
        run, uuid = owner.sql("select id, uuid from enqueue('ping')")[0]
        client.sql("select from enqueue('pong', idempotency_key => 'mine')")
        refused = {
            f"[{run}]": "without its uuid",
            json.dumps([run] * 1001): "up to 1000 runs",
        }
        for after, message in refused.items():
            with pytest.raises(psycopg.errors.InvalidParameterValue, match=message):
                client.sql(f"select from {again}", after)
        with client.conn.transaction():
            client.sql(f"select from {again}", json.dumps([{"id": run, "uuid": str(uuid4())}]))
            assert owner.column("select id from job_runs where id = %s for update skip locked", run) == [run]
            client.sql(f"select from {again}", json.dumps([{"id": run, "uuid": str(uuid)}]))
            assert owner.column("select id from job_runs where id = %s for update skip locked", run) == []


def test_only_the_owner_shortens_the_life_of_audit_rows(role_database: RoleDatabase) -> None:
    def kept_days(role: str, days: int) -> float:
        with psycopg.connect(role_database.dsn(role) if role else role_database.superuser) as conn:
            conn.execute("select wakeboard.set_audit_retention(make_interval(days => %s))", [days])
        with psycopg.connect(role_database.superuser) as conn:
            row = conn.execute("select extract(epoch from min_audit_retention)::float8 from wakeboard.installation")
            return row.fetchall()[0][0] / 86_400

    assert [kept_days("operator", 1), kept_days("operator", 500), kept_days("operator", 400)] == [400, 500, 500]
    assert kept_days("", 30) == 30


def test_an_autoscaler_may_count_the_backlog_and_nothing_else(role_database: RoleDatabase) -> None:
    assert not role_database.refused("scaler", "select from wakeboard.backlog('{default}', 60)")
    assert role_database.refused("scaler", "select from wakeboard.job_runs")
    assert role_database.refused("scaler", "select wakeboard.trace_contexts('{}')")
    with (
        psycopg.connect(role_database.dsn("scaler")) as conn,
        pytest.raises(psycopg.errors.InvalidParameterValue, match="within_s is -1; write a number of seconds"),
    ):
        conn.execute("select from wakeboard.backlog('{default}', -1)")


def test_a_worker_may_make_and_drop_partitions_that_belong_to_the_owner(role_database: RoleDatabase) -> None:
    worker = SqlClient(role_database.dsn("worker"), 71)
    assert worker.value("select create_partitions(9)") == 4
    assert worker.value("select drop_partitions('30 days')") == 0
    worker.close()
    with psycopg.connect(role_database.superuser) as conn:
        owners = conn.execute(
            "select distinct relowner from pg_class where relnamespace = 'wakeboard'::regnamespace"
        ).fetchall()
    assert len(owners) == 1


def test_a_role_that_is_not_named_keeps_its_rights(role_database: RoleDatabase) -> None:
    """As when an administrator migrates without the variables, or `wakeboard up --dsn` does."""
    assert role_database.migrate(Roles()).revoked == ()
    assert not role_database.refused("worker", "select wakeboard.trace_contexts('{}')")
    assert not role_database.refused("viewer", "select from wakeboard.job_runs")
    assert not role_database.refused("client", "insert into wakeboard.job_runs (job_type) values ('ping')")
    role_database.migrate(Roles(worker=role_database.names["worker"]))
    assert not role_database.refused("viewer", "select from wakeboard.job_runs")


def test_a_role_that_keeps_its_rights_gets_newer_functions(role_database: RoleDatabase) -> None:
    call = "select wakeboard.trace_contexts('{}')"
    role_database.do(
        f"revoke execute on function wakeboard.trace_contexts from {role_database.names['worker']}",
        "update wakeboard.installation set functions_hash = ''",
    )
    assert role_database.refused("worker", call)
    role_database.migrate(Roles())
    assert not role_database.refused("worker", call)


def test_a_role_loses_its_rights_when_its_part_is_revoked(role_database: RoleDatabase) -> None:
    call = "select wakeboard.trace_contexts('{}')"
    assert role_database.migrate(Roles(), "worker").revoked == (role_database.names["worker"],)
    assert role_database.refused("worker", call)
    assert not role_database.refused("viewer", "select from wakeboard.job_runs")
    assert role_database.migrate(Roles(), "worker").revoked == ()
    role_database.migrate(Roles(), *ROLES)
    for role in (*ROLES, STRANGER):
        assert role_database.refused(role, call)
        assert role_database.refused(role, "select from wakeboard.job_runs")
        assert role_database.refused(role, "insert into wakeboard.job_runs (job_type) values ('ping')")


def test_a_role_whose_part_another_role_gets_loses_its_rights(role_database: RoleDatabase) -> None:
    call = "select wakeboard.trace_contexts('{}')"
    assert role_database.migrate(Roles(worker=role_database.names[STRANGER])).revoked == (
        role_database.names["worker"],
    )
    assert role_database.refused("worker", call)
    assert not role_database.refused(STRANGER, call)


def test_a_part_is_not_named_and_revoked_at_once(role_database: RoleDatabase) -> None:
    with pytest.raises(InvalidValue, match="WAKEBOARD_WORKER_ROLE names the role that loses its rights"):
        role_database.migrate(role_database.roles, "worker")


def test_a_role_that_was_dropped_meanwhile_is_no_obstacle(role_database: RoleDatabase) -> None:
    name = role_database.names["client"]
    role_database.do(f"drop owned by {name}; drop role {name}")
    role_database.migrate(replace(role_database.roles, client=None))
    role_database.do(f"create role {name}")


def test_a_table_of_the_caller_does_not_replace_that_of_the_store(role_database: RoleDatabase) -> None:
    """The search path of a move names pg_temp last."""
    worker = SqlClient(role_database.dsn("worker"), 71)
    worker.sql("create temporary table pauses (scope text)")
    worker.sql("insert into pauses values ('all')")
    client = SqlClient(role_database.dsn("client"))
    client.enqueue()
    assert len(worker.fetch()) == 1
    worker.close()
    client.close()
