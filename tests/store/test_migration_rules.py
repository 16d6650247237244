"""What a migration may do beside applications whose calls do not stop: rules for each file of `migrations/`."""

from __future__ import annotations

import re
from typing import Any, Final

import psycopg
import pytest

from wakeboard.store.schema_files import Migration, concurrent_indexes, migrations

# A call that waits for the lock of a migration goes on in the former body of its function, so a migration only adds. It
# holds the lock for a moment, so it does not read a whole table.
_LOCKS: Final = """
select array_agg(distinct relname::text)
  from pg_locks join pg_class on pg_class.oid = relation
 where pid = pg_backend_pid() and relnamespace = 'wakeboard'::regnamespace and relkind in ('r', 'p')
   and not relispartition and relname <> 'migrations'
   and mode in ('ShareLock', 'ShareRowExclusiveLock', 'ExclusiveLock', 'AccessExclusiveLock')
"""
_TABLES: Final = """
select relname::text from pg_class where relnamespace = 'wakeboard'::regnamespace and relkind in ('r', 'p')
"""
_COLUMNS: Final = """
select relname || '.' || attname,
       array[format_type(atttypid, atttypmod), case attidentity when 'a' then 'generated always' else '' end,
             case when attnotnull then 'not null' else '' end],
       atthasdef or attidentity <> '' or not attnotnull
  from pg_attribute join pg_class on pg_class.oid = attrelid
 where relnamespace = 'wakeboard'::regnamespace and relkind in ('r', 'p') and attnum > 0 and not attisdropped
"""


# An index or a validated constraint of an existing table, and its file, which is another one after a rewrite.
_STORAGE: Final = """
select indrelid::regclass || ' is read for ' || indexrelid::regclass, indrelid
  from pg_index where indrelid::regclass::text = any (%(tables)s)
 union all
select conrelid::regclass || ' is read for ' || conname, conrelid
  from pg_constraint where convalidated and contype in ('c', 'f') and conrelid::regclass::text = any (%(tables)s)
 union all
select oid::regclass || ' is rewritten', relfilenode
  from pg_class where relkind = 'r' and oid::regclass::text = any (%(tables)s)
"""


# The migrations of the first published schema, which no other release preceded: their tables are empty.
FIRST_SCHEMA: Final = 25


def apply_next(conn: psycopg.Connection[Any], migration: Migration) -> tuple[set[str], set[str]]:
    """Applies a migration in a transaction. Returns the existing tables that it locks, and the rules that it breaks."""
    conn.execute("set local search_path = wakeboard, pg_catalog, pg_temp")
    tables = {name for (name,) in conn.execute(_TABLES)}
    before, stored = _columns(conn), _storage(conn, tables)
    conn.execute(migration.transaction_text(new_schema=False).encode())
    row = conn.execute(_LOCKS).fetchone()
    after, reads = _columns(conn), {fact for fact, _ in _storage(conn, tables) - stored}
    if migration.version <= FIRST_SCHEMA:
        reads.clear()
    return tables & set(row[0] or () if row else ()), _broken(before, after, tables) | reads


def _columns(conn: psycopg.Connection[Any]) -> dict[str, tuple[list[str], bool]]:
    return {name: (facts, optional) for name, facts, optional in conn.execute(_COLUMNS)}


def _storage(conn: psycopg.Connection[Any], tables: set[str]) -> set[tuple[str, int]]:
    return set(conn.execute(_STORAGE, {"tables": list(tables)}))


def _broken(before: dict[str, Any], after: dict[str, Any], tables: set[str]) -> set[str]:
    """The columns that a former body of a function cannot read or write as before."""
    gone = {f"{name}: gone" for name in before if name not in after}
    changed = {
        f"{name}: {fact}"
        for name, (facts, _) in after.items()
        for fact, former in zip(facts, before[name][0] if name in before else facts, strict=True)
        if fact not in {former, ""}
    }
    required = {
        f"{name}: required"
        for name, (_, optional) in after.items()
        if name not in before and not optional and name.partition(".")[0] in tables
    }
    return gone | changed | required


def test_each_migration_declares_its_short_locks_and_breaks_no_call_in_flight(empty_database: str) -> None:
    with psycopg.connect(empty_database) as conn:
        conn.execute("create schema wakeboard; create table wakeboard.migrations ()")
        for migration in migrations():
            assert apply_next(conn, migration) == (migration.locks, set()), migration.name
            conn.commit()


def test_an_index_built_concurrently_is_the_same_in_each_search_path() -> None:
    """Its session has any search_path: outside of a transaction none can be set behind a pooler."""
    for index in concurrent_indexes(migrations()):
        text = re.sub(r"'[^']*'", "", index.text)
        assert not re.search(r"[-+*/<>=~!@#%^&|`?]|(?<![.\w])\w+\(|collate (?!pg_catalog\.)", text), index.name


@pytest.mark.parametrize(
    ("statement", "broken"),
    [
        ("alter table workers drop column pool", {"workers.pool: gone"}),
        (
            "alter table workers alter pool type varchar(9)",
            {"workers.pool: character varying(9)", "workers is rewritten"},
        ),
        ("alter table workers rename pool to group_name", {"workers.pool: gone", "workers.group_name: required"}),
        ("alter table workers add column place text not null", {"workers.place: required"}),
        ("alter table job_runs alter progress set not null", {"job_runs.progress: not null"}),
        ("create index pools on workers (pool)", {"workers is read for pools"}),
        ("alter table workers add constraint named check (pool <> '')", {"workers is read for named"}),
        ("alter table workers add constraint named check (pool <> '') not valid", set[str]()),
        ("alter table workers add column place text default random()::text", {"workers is rewritten"}),
        ("alter table backfills alter id set generated by default", set[str]()),
        ("alter table workers add column place text not null default ''", set[str]()),
    ],
)
def test_a_migration_that_breaks_calls_or_reads_a_table_is_refused(
    database: str, statement: str, broken: set[str]
) -> None:
    with psycopg.connect(database) as conn:
        assert apply_next(conn, Migration(99, "later", statement))[1] == broken
