"""The effects that happen once for ever, in the order of their keys: for `wakeboard effects list` and the board."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, LiteralString

from psycopg.rows import class_row

from wakeboard.store.statements import read

if TYPE_CHECKING:
    from datetime import datetime

    import psycopg


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeverEffectRow:
    """An effect that happens once for ever. `run_id`: the run that had it, or that took it over last.

    `state`: done, begun or in doubt.
    """

    key: str
    state: str
    run_id: int
    started_at: datetime
    finished_at: datetime | None


_EFFECTS: LiteralString = """
select key, run_id, started_at, finished_at,
       case when finished_at is not null then 'done'
            when exists (select from wakeboard.job_runs as run
                          where run.id = effect.run_id and run.lease_epoch = effect.lease_epoch and run.locked_by <> 0)
            then 'begun' else 'in doubt' end as state
  from wakeboard.job_forever_effects as effect
 where run_id <> 0  -- it was released
   and key collate "C" >= %(prefix)s and key collate "C" <= %(prefix)s || chr(1114111) and key collate "C" > %(after)s
 order by key collate "C"
 limit %(count)s
"""


async def list_forever_effects(
    conn: psycopg.AsyncConnection[Any], prefix: str, after: str, count: int
) -> list[ForeverEffectRow]:
    """The effects whose keys begin with `prefix` and come after the key `after`, at most `count`, by an index."""
    names = {"prefix": prefix, "after": after, "count": count}
    return await read(conn, class_row(ForeverEffectRow), _EFFECTS, names)
