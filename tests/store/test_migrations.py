"""Migrating twice is migrating once, and a migration by any role and any release breaks nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import anyio
import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from tests.store.sql_clients import SqlClient
from tools.generate_functions_revision import next_revision
from wakeboard.conformance.tcp_proxy import Action, Intercept, TcpProxy
from wakeboard.errors import DatabaseUnavailable, SchemaMismatch, WakeboardError
from wakeboard.store import connection, migrate
from wakeboard.store.migrate import Migrated
from wakeboard.store.roles import Roles, create_roles, installed_roles
from wakeboard.store.schema_files import Migration, functions_revision, migrations, sql_functions

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from concurrent.futures import ThreadPoolExecutor

    from tests.postgres_servers import PostgresServer

pytestmark = pytest.mark.every_postgres

NEWEST = migrations()[-1].version
LATER = Migration(NEWEST + 1, "later", "create table later (id bigint)")
OLD_SCHEMA_STATE = (
    "create function wakeboard.schema_state() returns table (schema_version integer, min_code_version text)"
    " language sql as $$ select 14, '0.1.0' $$"
)
_QUERIES: Final = {
    "columns": """
select c.relname, c.relkind, a.attnum, a.attname, format_type(a.atttypid, a.atttypmod), a.attnotnull, a.attidentity,
       pg_get_expr(d.adbin, d.adrelid), coalesce(a.attacl::text, ''), a.attstorage, a.attcompression
  from pg_class c join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
  left join pg_attrdef d on d.adrelid = c.oid and d.adnum = a.attnum
 where c.relnamespace = 'wakeboard'::regnamespace and c.relkind in ('r', 'p', 'v', 'c', 'S')""",
    "tables": """
select relname, relkind, reloptions, relpersistence, coalesce(relacl::text, ''), pg_get_expr(relpartbound, oid),
       case when relkind = 'v' then pg_get_viewdef(oid) end
  from pg_class where relnamespace = 'wakeboard'::regnamespace""",
    "constraints": """
select conrelid::regclass::text, contypid::regtype::text, conname, pg_get_constraintdef(oid), convalidated
  from pg_constraint where connamespace = 'wakeboard'::regnamespace""",
    "indexes": "select tablename, indexname, indexdef from pg_indexes where schemaname = 'wakeboard'",
    "triggers": """
select tgrelid::regclass::text, tgname, pg_get_triggerdef(pg_trigger.oid), tgenabled
  from pg_trigger join pg_class c on c.oid = tgrelid
 where c.relnamespace = 'wakeboard'::regnamespace and not tgisinternal""",
    "functions": """
select proname, pg_get_functiondef(oid), coalesce(proacl::text, '')
  from pg_proc where pronamespace = 'wakeboard'::regnamespace""",
    "types": """
select typname, typtype, typnotnull, format_type(typbasetype, typtypmod),
       array(select enumlabel from pg_enum where enumtypid = t.oid order by enumsortorder)
  from pg_type t where typnamespace = 'wakeboard'::regnamespace and typtype in ('e', 'd', 'c')""",
    "schema": "select nspname, coalesce(nspacl::text, '') from pg_namespace where nspname = 'wakeboard'",
    "settings": "select only_row, min_code_version, functions_by, functions_hash, roles from wakeboard.installation",
    "migrations": "select version, name from wakeboard.migrations",
}


def read_catalog(dsn: str) -> dict[str, list[tuple[Any, ...]]]:
    """Everything in the schema but its rows: two schemas are equal when these are."""
    with psycopg.connect(dsn) as conn:
        return {what: sorted(conn.execute(query.encode()).fetchall(), key=str) for what, query in _QUERIES.items()}


def migrated(dsn: str, **named: Any) -> Migrated:
    async def go() -> Migrated:
        return await migrate.migrate(dsn, **named)

    return anyio.run(go)


def checked(dsn: str) -> None:
    async def go() -> None:
        async with await connection.connect(dsn) as conn:
            await connection.require_schema(conn)

    anyio.run(go)


def do(dsn: str, *statements: str) -> None:
    with psycopg.connect(dsn, autocommit=True) as conn:
        for statement in statements:
            conn.execute(statement.encode())


def ask(dsn: str, query: str) -> Any:
    with psycopg.connect(dsn, autocommit=True) as conn:
        row = conn.execute(query.encode()).fetchone()
        return row[0] if row else None


@pytest.fixture
def plain(empty_database: str) -> Iterator[str]:
    """The DSN of a user who may CREATE in the database and nothing else."""
    name = f"owner_{ask(empty_database, 'select current_database()')}"
    do(
        empty_database,
        f"create role {name} login password 'secret'",
        f"grant create on database {ask(empty_database, 'select current_database()')} to {name}",
    )
    yield make_conninfo(empty_database, user=name, password="secret")
    do(empty_database, f"drop owned by {name} cascade; drop role {name}")


# -- the same schema, however often ------------------------------------------------------------------------------------


def test_a_function_with_new_parameters_replaces_the_former_one(database: str) -> None:
    do(
        database,
        "create function wakeboard.retry(ids bigint[]) returns integer language sql as 'select 1'",
        "update wakeboard.installation set functions_hash = 'of another release'",
    )
    migrated(database)
    assert ask(database, "select count(*) from pg_proc where proname = 'retry'") == 1
    assert ask(database, "select answer from wakeboard.retry('{1}')") == "refused: there is no such run"


def test_a_function_with_new_columns_replaces_the_former_one(database: str) -> None:
    do(
        database,
        "drop function wakeboard.retry",
        "create function wakeboard.retry(ids wakeboard.id_array, reason text default '', actor text default null,"
        " source wakeboard.acting_program default 'sql', bulk_action_id bigint default null)"
        " returns table (id bigint) language sql as 'select 1'",
        "update wakeboard.installation set functions_hash = 'of another release'",
    )
    migrated(database)
    assert ask(database, "select answer from wakeboard.retry('{1}')") == "refused: there is no such run"


def test_rights_that_an_administrator_granted_on_enqueue_outlive_its_new_parameters(database: str) -> None:
    role = f"app_{ask(database, 'select current_database()')}"
    do(
        database,
        f"create role {role}; grant usage on schema wakeboard to {role}",
        "drop function wakeboard.enqueue",
        "create function wakeboard.enqueue(job_type text) returns integer language sql as 'select 1'",
        f"grant execute on function wakeboard.enqueue to {role}",
        "update wakeboard.installation set functions_hash = 'of another release'",
    )
    try:
        migrated(database)
        do(database, f"set role {role}; select wakeboard.enqueue('ping', priority => 4)")
    finally:
        do(database, f"drop owned by {role} cascade; drop role {role}")


def test_migrations_are_numbered_without_gaps() -> None:
    assert [migration.version for migration in migrations()] == list(range(1, NEWEST + 1))


def test_a_later_migration_adds_to_the_schema(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(migrate, "migrations", lambda: (*migrations(), LATER))
    before = read_catalog(database)
    assert migrated(database) == Migrated(("later",), functions_written=False, version=LATER.version)
    assert ask(database, "select to_regclass('wakeboard.later')") == "wakeboard.later"
    do(database, "drop table wakeboard.later", f"delete from wakeboard.migrations where version = {LATER.version}")
    assert read_catalog(database) == before


@pytest.mark.parametrize("before", ["select", "create schema wakeboard"])
def test_migrators_at_once_do_the_work_once(empty_database: str, meanwhile: ThreadPoolExecutor, before: str) -> None:
    do(empty_database, before)
    all_four = [meanwhile.submit(migrated, empty_database) for _ in range(4)]
    assert sorted(len(done.result().applied) for done in all_four) == [0, 0, 0, NEWEST]


@pytest.mark.parametrize("action", [Action.DROP_REPLY, Action.DROP_REQUEST])
def test_a_commit_that_loses_its_connection_repeats_no_migration(
    empty_database: str, meanwhile: ThreadPoolExecutor, action: Action
) -> None:
    server = conninfo_to_dict(empty_database)
    proxy = TcpProxy(f"{server['host']}/.s.PGSQL.{server['port']}")
    proxy.start()
    through = make_conninfo(empty_database, host="127.0.0.1", port=proxy.port, sslmode="disable", gssencmode="disable")
    proxy.add(Intercept("wakeboard migrate", b"COMMIT", action))
    try:
        cut = meanwhile.submit(migrated, through)
        others = [meanwhile.submit(migrated, empty_database) for _ in range(3)]
        assert isinstance(cut.exception(), DatabaseUnavailable)
        assert {len(one.result().applied) for one in others} <= {0, NEWEST}
        assert migrated(through).applied == ()
    finally:
        proxy.stop()
    assert ask(empty_database, "select array_agg(version order by version) from wakeboard.migrations") == [
        one.version for one in migrations()
    ]


def test_an_advisory_lock_of_any_role_blocks_no_migration(database: str) -> None:
    """Any role may take it."""
    with psycopg.connect(database) as holder:
        holder.execute("select pg_advisory_lock(hashtext('wakeboard migrate')), wakeboard.schema_state()")
        holder.execute("select from wakeboard.migrations")
        assert migrated(database, wait_s=0) == Migrated((), functions_written=False, version=NEWEST)


def test_a_migration_that_fails_leaves_nothing_behind(empty_database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = Migration(NEWEST + 1, "broken", "create table wakeboard.job_steps ()")
    with monkeypatch.context() as patched:
        patched.setattr(migrate, "migrations", lambda: (*migrations(), broken))
        with pytest.raises(WakeboardError, match="already exists"):
            migrated(empty_database)
    assert ask(empty_database, "select to_regclass('wakeboard.installation')") is None
    assert migrated(empty_database).version == NEWEST


@pytest.mark.parametrize("table", ["users (id bigint)", "migrations (version integer)"])
def test_a_schema_of_another_product_is_left_alone(empty_database: str, table: str) -> None:
    do(empty_database, "create schema wakeboard", f"create table wakeboard.{table}")
    with pytest.raises(SchemaMismatch, match=rf"not of this product: it has {table.partition(' ')[0]}\."):
        migrated(empty_database)


# -- releases ----------------------------------------------------------------------------------------------------------


def test_an_older_release_replaces_no_function_and_revokes_no_right(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = f"worker_{ask(database, 'select current_database()')}"
    do(database, f"create role {name}")
    try:
        monkeypatch.setattr(migrate, "__version__", "99.1.0")
        do(database, "update wakeboard.installation set functions_hash = ''")
        assert migrated(database, roles=Roles(worker=name)).functions_written
        do(
            database,
            "create function wakeboard.claim_2() returns integer language sql as 'select 2'",
            f"grant execute on function wakeboard.claim_2 to {name}",
            "update wakeboard.installation set functions_hash = 'a newer text'",
        )
        monkeypatch.setattr(migrate, "__version__", "99.0.9")
        before = read_catalog(database)
        assert migrated(database, roles=Roles(worker=name)) == Migrated((), functions_written=False, version=NEWEST)
        assert read_catalog(database) == before
        monkeypatch.setattr(migrate, "__version__", "99.1.0")
        assert migrated(database, roles=Roles(worker=name)).functions_written
    finally:
        do(database, f"drop owned by {name}; drop role {name}")


def test_an_older_checkout_replaces_no_function_of_the_same_release(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    revision = functions_revision()
    monkeypatch.setattr(migrate, "functions_revision", lambda: revision + 1)
    do(database, "update wakeboard.installation set functions_hash = ''")
    assert migrated(database).functions_written
    assert ask(database, "select functions_revision from wakeboard.installation") == revision + 1
    do(
        database,
        "create function wakeboard.claim_2() returns integer language sql as 'select 2'",
        "update wakeboard.installation set functions_hash = 'a newer text'",
    )
    monkeypatch.setattr(migrate, "functions_revision", lambda: revision)
    before = read_catalog(database)
    assert migrated(database) == Migrated((), functions_written=False, version=NEWEST)
    assert read_catalog(database) == before
    with pytest.raises(SchemaMismatch, match="newer than this release: revoke roles with that one"):
        migrated(database, revoke=["worker"])


@pytest.mark.parametrize(
    ("before", "revision"),
    [("", 1), ("7 abc\n", 7), ("7 other\n", 8), ("<<<<<<< a\n8 abc\n=======\n9 other\n>>>>>>> b\n", 10)],
)
def test_the_revision_grows_whenever_the_text_of_a_function_changes(before: str, revision: int) -> None:
    assert next_revision(before, "abc") == revision


def test_releases_are_ordered_by_their_numbers() -> None:
    in_order = ["", "0.1.0", "0.2.0", "0.10.0", "1.0.0"]
    assert sorted(["1.0.0", "0.10.0", "", "0.2.0", "0.1.0"], key=connection.version_key) == in_order


def test_a_schema_too_old_is_named_in_one_sentence(empty_database: str) -> None:
    migrated(empty_database)
    checked(empty_database)
    do(empty_database, f"delete from wakeboard.migrations where version = {NEWEST}")
    with pytest.raises(SchemaMismatch, match=f"is at migration {NEWEST - 1} and this release needs {NEWEST}: run"):
        checked(empty_database)


def test_the_schema_of_an_unreleased_version_is_refused_and_kept(database: str) -> None:
    do(database, "update wakeboard.migrations set name = 'walks' where version = 6")
    before = read_catalog(database)
    with pytest.raises(
        SchemaMismatch, match=r"has a wakeboard schema of an unreleased version, .*: use another database"
    ):
        migrated(database)
    assert read_catalog(database) == before
    with pytest.raises(SchemaMismatch, match="unreleased version"):
        checked(database)
    do(database, "delete from wakeboard.migrations where version > 6")  # it is behind, too
    with pytest.raises(SchemaMismatch, match="unreleased version"):
        checked(database)
    do(database, "drop function wakeboard.schema_state()", OLD_SCHEMA_STATE)
    with pytest.raises(SchemaMismatch, match="unreleased version"):
        checked(database)


def test_a_newer_schema_works_down_to_the_release_that_it_allows(database: str) -> None:
    do(database, "insert into wakeboard.migrations (version, name, applied_by) values (99, 'later', '9.9')")
    checked(database)
    do(database, "update wakeboard.installation set min_code_version = '9.9.0'")
    with pytest.raises(SchemaMismatch, match=r"needs wakeboard 9\.9\.0 or newer, and this is .*: upgrade"):
        checked(database)


def test_an_older_release_migrates_nothing_in_a_newer_schema(database: str) -> None:
    do(database, "insert into wakeboard.migrations (version, name, applied_by) values (99, 'later', '9.9')")
    assert migrated(database) == Migrated((), functions_written=False, version=99)


# -- who migrates ------------------------------------------------------------------------------------------------------


def test_a_user_with_create_on_the_database_can_migrate_and_work(plain: str) -> None:
    assert migrated(plain).version == NEWEST
    with psycopg.connect(plain) as conn:
        assert conn.execute("select rolsuper from pg_roles where rolname = current_user").fetchone() == (False,)
    worker = SqlClient(plain, 71)
    run = worker.enqueue()
    assert worker.complete(*worker.claim()) == []
    assert worker.past(run).status == "succeeded"
    worker.close()


def test_a_user_who_owns_the_schema_needs_nothing_on_the_database(plain: str, empty_database: str) -> None:
    name = ask(plain, "select current_user::text")
    do(
        empty_database,
        f"revoke create on database {ask(plain, 'select current_database()')} from {name}",
        f"create schema wakeboard authorization {name}",
    )
    assert migrated(plain).version == NEWEST


def test_all_objects_have_one_owner_whichever_role_migrates(
    plain: str, empty_database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A superuser who migrates later makes nothing that the owner's functions could not change."""
    migrated(plain)
    monkeypatch.setattr(migrate, "migrations", lambda: (*migrations(), LATER))
    assert migrated(empty_database).applied == ("later",)
    owners = (
        "select count(distinct owner) from ("
        "  select relowner from pg_class where relnamespace = 'wakeboard'::regnamespace union all"
        "  select proowner from pg_proc where pronamespace = 'wakeboard'::regnamespace) as every (owner)"
    )
    assert ask(plain, owners) == 1


def test_without_any_right_one_sentence_says_so(plain: str, empty_database: str) -> None:
    name, base = ask(plain, "select current_user::text"), ask(plain, "select current_database()")
    do(empty_database, f"revoke create on database {base} from {name}")
    with pytest.raises(WakeboardError, match="may not do this: permission denied for database"):
        migrated(plain)


def test_one_role_may_have_all_parts(plain: str) -> None:
    """As on a managed Postgres, where the application's user is the owner and there is no other."""
    name = ask(plain, "select current_user::text")
    everybody = Roles(operator=name, worker=name, client=name, viewer=name)
    for _ in range(3):
        migrated(plain, roles=everybody)
    worker = SqlClient(plain, 71)
    worker.sql("insert into wakeboard.job_runs (job_type) values ('ping')")
    assert worker.fail(*worker.claim()) == []
    assert worker.retry(worker.value("select id from job_runs")) == {1: "queued"}
    worker.close()


def test_a_database_that_cannot_hold_every_text_is_refused(postgres: PostgresServer) -> None:
    do(
        postgres.dsn,
        "create database latin encoding 'LATIN1' locale_provider libc lc_collate 'C' lc_ctype 'C' template template0",
    )
    try:
        with pytest.raises(
            WakeboardError, match="has the encoding LATIN1, which cannot hold every text: create a database"
        ):
            migrated(postgres.dsn_of("latin"))
    finally:
        do(postgres.dsn, "drop database latin")


def test_a_read_only_role_gets_the_reason_why_it_cannot_migrate(plain: str, empty_database: str) -> None:
    name = ask(plain, "select current_user::text")
    do(empty_database, f"alter role {name} set default_transaction_read_only = on")
    with pytest.raises(DatabaseUnavailable, match="default_transaction_read_only is on"):
        migrated(plain)


def test_a_role_that_does_not_exist_is_named_with_what_to_do(database: str) -> None:
    with pytest.raises(WakeboardError, match="the database role nobody_at_all does not exist: let a superuser run"):
        migrated(database, roles=Roles(worker="nobody_at_all"))


def test_what_print_roles_prints_can_be_run(database: str) -> None:
    base = ask(database, "select current_database()")
    hostile = """w'%" superuser; create role "evil"""
    roles = Roles(*(f"{base} {role}" for role in ("operator", hostile, "client", "viewer")), scheduler=f"{base} client")
    do(database, create_roles(roles))
    try:
        migrated(database, roles=roles)
        assert anyio.run(installed_roles, database) == (None, roles)
    finally:
        forget(database, roles.named().values())


def test_what_print_roles_prints_makes_an_owner_that_can_migrate(empty_database: str) -> None:
    base = ask(empty_database, "select current_database()")
    owner, roles = f"{base} owner's", Roles(worker=f"{base} worker")
    for _ in range(2):
        do(empty_database, create_roles(roles, owner))
    try:
        migrated(make_conninfo(empty_database, user=owner), roles=roles)
        assert anyio.run(installed_roles, empty_database) == (owner, roles)
    finally:
        forget(empty_database, (owner, f"{base} worker"))


def forget(database: str, names: Iterable[str]) -> None:
    """Drops the roles, and what they own and may do in the database."""
    for name in set(names):
        quoted = sql.Identifier(name).as_string()
        do(database, f"drop owned by {quoted} cascade; drop role {quoted}")


def test_each_sql_function_names_its_roles_and_is_described() -> None:
    for function in sql_functions():
        assert function.roles <= set(Roles.__slots__)
        assert bool(function.roles) != function.text.startswith("-- internal (")
        assert function.description


def test_the_types_of_all_functions_are_known(database: str) -> None:
    """A function of an unknown one would be written while others wait for the locks of a migration."""
    types = sorted(frozenset[str]().union(*(function.types for function in sql_functions())))
    with psycopg.connect(database) as conn:
        conn.execute("set search_path = wakeboard, pg_catalog")
        unknown = conn.execute("select type from unnest(%s::text[]) as type where to_regtype(type) is null", (types,))
        assert unknown.fetchall() == []


def test_everything_in_the_schema_has_a_comment(database: str) -> None:
    assert (
        ask(
            database,
            "select array_agg(name) from ("
            " select relname from pg_class where relnamespace = 'wakeboard'::regnamespace"
            "    and relkind in ('r', 'p', 'v') and not relispartition"
            "    and obj_description(oid, 'pg_class') is null union all"
            " select proname from pg_proc where pronamespace = 'wakeboard'::regnamespace"
            "    and coalesce(obj_description(oid, 'pg_proc'), '') = '' union all"
            " select typname from pg_type where typname = 'claimed_run' and obj_description(oid, 'pg_type') is null"
            ") as bare (name)",
        )
        is None
    )
