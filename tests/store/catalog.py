"""What a schema consists of, as Postgres knows it: two schemas are equal when these are."""

from __future__ import annotations

from typing import Any, Final

import psycopg

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
    """Everything in the schema but its rows."""
    with psycopg.connect(dsn) as conn:
        return {what: sorted(conn.execute(query.encode()).fetchall(), key=str) for what, query in _QUERIES.items()}
