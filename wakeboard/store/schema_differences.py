"""Compares the schema with what the files of this release declare, so that a part lost by mistake is named."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final, Literal

from wakeboard.store.schema_files import Trigger, sql_functions

if TYPE_CHECKING:
    import psycopg

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
_TRIGGERS: Final = """
select tgname::text from pg_trigger join pg_class on pg_class.oid = tgrelid
 where relnamespace = 'wakeboard'::regnamespace and tgenabled in ('O', 'A')
"""
Difference = Literal["missing", "altered"]


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


async def missing_triggers(conn: psycopg.AsyncConnection[Any]) -> list[Trigger]:
    """The triggers of this release that are missing or disabled."""
    found = {name for (name,) in await (await conn.execute(_TRIGGERS)).fetchall()}
    return [one.trigger for one in sql_functions() if one.trigger and one.trigger.name not in found]
