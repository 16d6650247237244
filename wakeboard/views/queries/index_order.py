"""Makes the planner read by indexes where its estimates mislead it."""

from __future__ import annotations

from typing import TYPE_CHECKING, LiteralString

from psycopg.rows import tuple_row

from wakeboard.store.statements import read

if TYPE_CHECKING:
    import psycopg

_PLANNER: LiteralString = """
select set_config('enable_seqscan', 'off', true), set_config('enable_bitmapscan', 'off', true),
       set_config('enable_sort', %(sort)s, true)
"""


async def prefer_index_order(conn: psycopg.AsyncConnection[object], *, sort: bool = True) -> None:
    """Makes the planner of this transaction read rows in the order of an index and stop at the limit of a query.

    While workers finish many thousand runs per second, the statistics are out of date: the planner expects few rows,
    and then reads and sorts a million. `sort` False: it avoids each other sort too. A BRIN index is not used either.
    """
    await read(conn, tuple_row, _PLANNER, {"sort": "on" if sort else "off"})
