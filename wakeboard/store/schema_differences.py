"""Compares the schema with what the files of this release declare, so that a part lost by mistake is named."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

from wakeboard.store.schema_files import (
    INSERT_COLUMNS,
    READERS,
    Trigger,
    concurrent_indexes,
    declared_objects,
    functions_hash,
    migrations,
    sql_functions,
)
from wakeboard.store.statements import pinned_transaction, translating

if TYPE_CHECKING:
    from collections.abc import Sequence

    import psycopg

    from wakeboard.store.schema_files import SqlFunction

# The types are those of the declared texts, so the search_path of the caller must find those of the schema.
_FUNCTIONS: Final = """
select wanted.name,
       exists (select from pg_proc where pronamespace = 'wakeboard'::regnamespace and proname = wanted.name)
  from jsonb_to_recordset(%s::jsonb) as wanted (name text, types jsonb, body text, attributes jsonb, settings jsonb)
 where not exists (
   select from pg_proc
    where pronamespace = 'wakeboard'::regnamespace and proname = wanted.name and prosrc = wanted.body
      and prosecdef = wanted.attributes ? 'security definer' and proisstrict = wanted.attributes ? 'strict'
      and provolatile = case when wanted.attributes ? 'immutable' then 'i'
                             when wanted.attributes ? 'stable' then 's' else 'v' end
      and array(select lower(setting) from unnest(proconfig) as setting order by 1)
            = array(select setting from jsonb_array_elements_text(wanted.settings) as setting order by 1)
      and array(select unnest(proargtypes))
            = array(select to_regtype(type)::oid from jsonb_array_elements_text(wanted.types) with ordinality
                      as types (type, place) order by place))
"""
_FORMER: Final = """
select pg_proc.oid::regprocedure::text
  from pg_proc
  join jsonb_to_recordset(%s::jsonb) as wanted (name text, types jsonb, columns jsonb) on proname = wanted.name
 where pronamespace = 'wakeboard'::regnamespace
   and (array(select unnest(proargtypes))
          <> array(select to_regtype(type)::oid from jsonb_array_elements_text(wanted.types) with ordinality
                     as types (type, place) order by place)
        or array(select name from unnest(proargnames, proargmodes) with ordinality as argument (name, mode, place)
                  where mode = 't' order by place)
          <> array(select jsonb_array_elements_text(wanted.columns)))
"""
_TRIGGERS: Final = """
select tgname::text from pg_trigger join pg_class on pg_class.oid = tgrelid
 where relnamespace = 'wakeboard'::regnamespace and tgenabled in ('O', 'A')
"""
_OBJECTS: Final = """
select kind, name, class.oid is not null
  from unnest(%s::text[], %s::text[]) as wanted (kind, name)
  left join (pg_class as class left join pg_index on indexrelid = class.oid)
    on relnamespace = 'wakeboard'::regnamespace and relname = wanted.name
 where not case
   when kind = 'constraint' then
     exists (select from pg_constraint where connamespace = 'wakeboard'::regnamespace and conname = wanted.name)
   when kind in ('type', 'domain') then
     exists (select from pg_type where typnamespace = 'wakeboard'::regnamespace and typname = wanted.name)
   else class.oid is not null and indisvalid is not false end
 order by 1, 2
"""
_RIGHTS: Final = """
with holder as (
  select part, role, rolname is not null as exists
    from wakeboard.installation cross join jsonb_each_text(roles) as named (part, role)
    left join pg_roles on rolname = role
)
select role, array_agg(distinct "right" order by "right")
  from (
    select role, 'log in: it does not exist' from holder where not exists
     union all
    select role, 'use the schema wakeboard'
      from holder where exists and not has_schema_privilege(role, 'wakeboard', 'usage')
     union all
    select role, 'call ' || proname
      from holder join unnest(%(parts)s::text[], %(functions)s::text[]) as may (part, name) using (part)
      join pg_proc on pronamespace = 'wakeboard'::regnamespace and proname = name
     where exists and not has_function_privilege(role, pg_proc.oid, 'execute')
     union all
    select role, 'read ' || relname
      from holder join pg_class on relnamespace = 'wakeboard'::regnamespace
     where exists and part = any (%(readers)s) and relkind in ('r', 'p', 'v', 'S') and not relispartition
       and not has_table_privilege(role, pg_class.oid, 'select')
     union all
    select role, 'insert into job_runs'
      from holder cross join unnest(%(columns)s::text[]) as set_by_insert (name)
     where exists and part = 'client'
       and not has_column_privilege(role, 'wakeboard.job_runs'::regclass, name, 'insert')
  ) as lost (role, "right")
 group by role
 order by role
"""
Difference = Literal["missing", "altered"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Differences:
    """What the schema lacks: "function claim is missing", … `restorable`: what `migrate` writes again; `others`: more.

    `indexes`: those that `migrate` builds concurrently, without which all works, only slower. They are not valid while
    they are being built, and after a build that ended early. `rights`: what roles of the installation may not do
    although their parts need it: {"wb_worker": ["call claim"]}.
    """

    restorable: list[str]
    others: list[str]
    indexes: list[str]
    rights: dict[str, list[str]]


async def read_differences(conn: psycopg.AsyncConnection[Any]) -> Differences | None:
    """Compares the schema with this release. None if the functions are of another one. Raises WakeboardError."""
    kinds, names = zip(*sorted(declared_objects()), strict=True)
    calls = [(part, one.name) for one in sql_functions() for part in one.roles]
    with translating(conn):
        async with pinned_transaction(conn):
            ours = await conn.execute(
                "select from wakeboard.installation where functions_hash = %s", (functions_hash(),)
            )
            if not await ours.fetchall():
                return None
            functions = await altered_functions(conn)
            triggers = await missing_triggers(conn)
            concurrent = {("index", one.name) for one in concurrent_indexes(migrations())}
            lost = {
                (kind, name): f"{kind} {name} is {'not valid' if exists and kind == 'index' else 'missing'}"
                async for kind, name, exists in await conn.execute(_OBJECTS, (list(kinds), list(names)))
            }
            rights = await conn.execute(
                _RIGHTS,
                {
                    "parts": [part for part, _ in calls],
                    "functions": [name for _, name in calls],
                    "readers": list(READERS),
                    "columns": list(INSERT_COLUMNS),
                },
            )
            return Differences(
                restorable=[
                    *(f"function {name} is {how}" for name, how in sorted(functions.items())),
                    *(f"trigger {one.name} is missing or disabled" for one in triggers),
                ],
                others=[text for which, text in lost.items() if which not in concurrent],
                indexes=[text for which, text in lost.items() if which in concurrent],
                rights=dict(await rights.fetchall()),
            )


async def altered_functions(conn: psycopg.AsyncConnection[Any]) -> dict[str, Difference]:
    """The functions of this release that are missing or altered. It must run in a transaction."""
    declared = [
        {
            "name": one.name,
            "types": one.argument_types,
            "body": one.body,
            "attributes": sorted(one.attributes),
            "settings": one.settings,
        }
        for one in sql_functions()
    ]
    await conn.execute("set local search_path = wakeboard, pg_catalog, pg_temp")
    cursor = await conn.execute(_FUNCTIONS, (json.dumps(declared),))
    return {name: "altered" if exists else "missing" for name, exists in await cursor.fetchall()}


async def former_functions(conn: psycopg.AsyncConnection[Any], functions: Sequence[SqlFunction]) -> list[str]:
    """The functions that have the name of one of these and other arguments or columns: "retry(bigint[])".

    Postgres would keep both, and a call would match both; it replaces none that returns other columns. The search_path
    must find the types of the schema.
    """
    declared = [{"name": one.name, "types": one.argument_types, "columns": one.result_columns} for one in functions]
    return [name for (name,) in await (await conn.execute(_FORMER, (json.dumps(declared),))).fetchall()]


async def missing_triggers(conn: psycopg.AsyncConnection[Any]) -> list[Trigger]:
    """The triggers of this release that are missing or disabled."""
    found = {name for (name,) in await (await conn.execute(_TRIGGERS)).fetchall()}
    return [one.trigger for one in sql_functions() if one.trigger and one.trigger.name not in found]
