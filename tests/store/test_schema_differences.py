"""A part of the schema that was lost by mistake is named, and `migrate` restores it if it can."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import anyio
import psycopg
import pytest

from wakeboard.store import connection
from wakeboard.store.migrate import Migrated, migrate
from wakeboard.store.roles import Roles
from wakeboard.store.schema_differences import Differences, read_differences
from wakeboard.store.schema_files import concurrent_indexes, declared_objects, migrations

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.every_postgres

OTHER_BODY: Final = """
create or replace function wakeboard.circuit_pause(probes integer) returns interval language sql immutable
  security definer set search_path = pg_catalog, wakeboard, pg_temp as $$ select interval '1 s' $$
"""

_OBJECTS: Final = """
select case relkind when 'v' then 'view' when 'i' then 'index' when 'I' then 'index' else 'table' end, relname::text
  from pg_class
 where relnamespace = 'wakeboard'::regnamespace and relkind in ('r', 'p', 'v', 'i', 'I') and not relispartition
   and relname <> 'migrations'
   and not exists (select from pg_constraint where conindid = pg_class.oid and contype in ('p', 'u', 'x'))
 union all
select case typtype when 'd' then 'domain' else 'type' end, typname::text
  from pg_type where typnamespace = 'wakeboard'::regnamespace and typtype in ('d', 'e', 'c')
   and not exists (select from pg_class where reltype = pg_type.oid and relkind <> 'c')
 union all
select 'constraint', conname::text
  from pg_constraint left join pg_class on pg_class.oid = conrelid
 where connamespace = 'wakeboard'::regnamespace and relispartition is not true and contype <> 'n'
   and conname !~ '_(pkey|fkey|check|key)$'
"""


def do(dsn: str, *statements: str) -> None:
    with psycopg.connect(dsn, autocommit=True) as conn:
        for statement in statements:
            conn.execute(statement.encode())


def differences(dsn: str) -> Differences | None:
    async def go() -> Differences | None:
        async with await connection.connect(dsn) as conn:
            return await read_differences(conn)

    return anyio.run(go)


def migrated(dsn: str, **named: Any) -> Migrated:
    async def go() -> Migrated:
        return await migrate(dsn, **named)

    return anyio.run(go)


def test_all_parts_of_the_schema_are_declared(database: str) -> None:
    with psycopg.connect(database) as conn:
        assert set(conn.execute(_OBJECTS)) == declared_objects()
    assert differences(database) == Differences(restorable=[], others=[], indexes=[], rights={})


@pytest.mark.parametrize(
    ("mistake", "named"),
    [
        ("drop function wakeboard.lease_runs", "function lease_runs is missing"),
        ("drop function wakeboard.create_partitions", "function create_partitions is missing"),
        ("drop function wakeboard.schema_state", "function schema_state is missing"),
        ("alter function wakeboard.renew rename to renew_2", "function renew is missing"),
        ("alter function wakeboard.renew reset lock_timeout", "function renew is altered"),
        ("alter function wakeboard.cancel_run security invoker", "function cancel_run is altered"),
        ("alter function wakeboard.due_definitions volatile", "function due_definitions is altered"),
        (OTHER_BODY, "function circuit_pause is altered"),
        ("drop trigger ended_runs_notify on wakeboard.ended_runs", "trigger ended_runs_notify is missing or disabled"),
        ("alter table wakeboard.job_runs disable trigger all", "trigger job_runs_inserted is missing or disabled"),
    ],
)
def test_a_function_or_trigger_lost_by_mistake_is_named_and_restored(database: str, mistake: str, named: str) -> None:
    do(database, mistake)
    assert differences(database) == Differences(restorable=[named], others=[], indexes=[], rights={})
    done = migrated(database)
    assert (done.functions_written, done.restored) == (False, (named.split()[1],))
    assert differences(database) == Differences(restorable=[], others=[], indexes=[], rights={})


@pytest.mark.parametrize(
    ("mistake", "missing"),
    [
        ("drop index wakeboard.job_runs_claim", "index job_runs_claim is missing"),
        ("drop view wakeboard.all_runs", "view all_runs is missing"),
        ("drop table wakeboard.pauses", "table pauses is missing"),
        (
            "alter table wakeboard.job_runs drop constraint only_a_running_run_has_a_lease",
            "constraint only_a_running_run_has_a_lease is missing",
        ),
        (
            "update pg_index set indisvalid = false where indexrelid = 'wakeboard.job_runs_claim'::regclass",
            "index job_runs_claim is not valid",
        ),
    ],
)
def test_a_lost_part_that_cannot_be_restored_is_named(database: str, mistake: str, missing: str) -> None:
    do(database, mistake)
    found = differences(database)
    assert found
    assert missing in found.others


@pytest.mark.parametrize(
    ("mistake", "what"),
    [
        ("drop index wakeboard.{}", "missing"),
        ("update pg_index set indisvalid = false where indexrelid = 'wakeboard.{}'::regclass", "not valid"),
    ],
)
def test_a_lost_index_without_which_all_works_is_named_and_built_again(database: str, mistake: str, what: str) -> None:
    names = sorted(one.name for one in concurrent_indexes(migrations()))
    before = definitions(database)
    do(database, *map(mistake.format, names))
    lost = [f"index {name} is {what}" for name in names]
    assert differences(database) == Differences(restorable=[], others=[], indexes=lost, rights={})
    assert sorted(migrated(database).built) == names
    assert differences(database) == Differences(restorable=[], others=[], indexes=[], rights={})
    assert definitions(database) == before


def definitions(dsn: str) -> set[Any]:
    """All indexes, as Postgres describes them."""
    with psycopg.connect(dsn) as conn:
        return set(conn.execute("select indexname, indexdef from pg_indexes where schemaname = 'wakeboard'"))


@pytest.fixture
def roles(database: str) -> Iterator[Roles]:
    """A role for each part, with its rights."""
    with psycopg.connect(database) as conn:
        base = conn.info.dbname
    parts = {part: f"{base}_{part}" for part in Roles.__slots__}
    do(database, *(f"create role {name}" for name in parts.values()))
    migrated(database, roles=Roles(**parts))
    yield Roles(**parts)
    do(database, *(f"drop owned by {name}; drop role if exists {name}" for name in parts.values()))


@pytest.mark.parametrize(
    ("mistake", "part", "lost"),
    [
        ("revoke execute on function wakeboard.fetch_runs from {worker}", "worker", ["call fetch_runs"]),
        ("revoke usage on schema wakeboard from {client}", "client", ["use the schema wakeboard"]),
        ("revoke insert (queue) on wakeboard.job_runs from {client}", "client", ["insert into job_runs"]),
        ("revoke select on wakeboard.pauses from {viewer}", "viewer", ["read pauses"]),
        ("revoke select on wakeboard.pauses from {operator}", "operator", ["read pauses"]),
    ],
)
def test_a_right_revoked_by_mistake_is_named_and_granted_again(
    database: str, roles: Roles, mistake: str, part: str, lost: list[str]
) -> None:
    do(database, mistake.format(**roles.named()))
    expected = {roles.named()[part]: lost}
    assert differences(database) == Differences(restorable=[], others=[], indexes=[], rights=expected)
    migrated(database)
    assert differences(database) == Differences(restorable=[], others=[], indexes=[], rights={})


def test_the_functions_of_another_release_are_not_compared(database: str) -> None:
    do(database, "update wakeboard.installation set functions_hash = 'another'", "drop function wakeboard.lease_runs")
    assert differences(database) is None
