"""Each day is extracted, added up and reported, in this order and once. docs/patterns/nightly-pipeline.md says why."""

from __future__ import annotations

import os
from datetime import date, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import aiohttp
import psycopg

import wakeboard

DSN = os.environ["WAKEBOARD_DSN"]
SOURCE = f"http://127.0.0.1:{os.environ['SOURCE_PORT']}"
TIMEOUT = aiohttp.ClientTimeout(total=2)
ZONE = ZoneInfo("Europe/Lisbon")  # of the schedules


def day_of(run: wakeboard.Run) -> date:
    """The day before the tick. A run that is late, repeated or of a backfill has the same one."""
    return run.scheduled_for.astimezone(ZONE).date() - timedelta(days=1)


@wakeboard.handler("extract")
async def extract(run: wakeboard.Run) -> dict[str, int]:
    """Replaces the day's part of `raw` in one transaction, so that a repetition changes nothing."""
    source, day = run.payload["source"], day_of(run)
    query = {"day": day.isoformat()}
    async with aiohttp.ClientSession(SOURCE, timeout=TIMEOUT) as http, http.get(f"/{source}", params=query) as answer:
        answer.raise_for_status()
        rows: list[dict[str, int]] = await answer.json()
    async with await psycopg.AsyncConnection.connect(DSN) as conn:
        lock = "select pg_advisory_xact_lock(hashtextextended(%s, 0))"
        await conn.execute(lock, (f"{source} {day}",))  # a replay of this day may run at the same time
        if await run.once(conn, "replace the day"):  # raises LeaseLost: another attempt may have newer rows
            await conn.execute("delete from raw where source = %s and day = %s", (source, day))
            values = [(source, day, row["id"], row["cents"]) for row in rows]
            await conn.cursor().executemany("insert into raw values (%s, %s, %s, %s)", values)
    return {"rows": len(rows)}


@wakeboard.handler("add_up")
async def add_up(run: wakeboard.Run) -> dict[str, int]:
    """Replaces the day's row of `daily`. It runs when both extracts of its tick have succeeded."""
    query = """
        insert into daily
        select %(day)s, count(*) filter (where source = 'orders'), count(*) filter (where source = 'refunds'),
               coalesce(sum(case source when 'orders' then cents else -cents end), 0)
          from raw where day = %(day)s
        on conflict (day) do update
           set orders = excluded.orders, refunds = excluded.refunds, cents = excluded.cents
        returning orders, refunds, cents"""
    async with await psycopg.AsyncConnection.connect(DSN) as conn:
        row = await (await conn.execute(query, {"day": day_of(run)})).fetchone()
    assert row is not None, "the statement returns a row"
    return dict(zip(("orders", "refunds", "cents"), row, strict=True))


@wakeboard.handler("report")
async def report(run: wakeboard.Run) -> dict[str, Any]:
    """Sends one report for each day, also if the run is replayed. The numbers are the result of the run before."""
    (numbers,) = await run.results()
    day = day_of(run).isoformat()
    async with (
        run.effect(f"report:{day}", once="forever") as effect,
        aiohttp.ClientSession(SOURCE, timeout=TIMEOUT) as http,
    ):
        try:
            if not (effect.done or (effect.in_doubt and await is_sent(http, effect.provider_key))):
                body = {"reference": effect.provider_key, "day": day, **numbers}
                async with http.post("/reports", json=body) as answer:
                    answer.raise_for_status()
        except (aiohttp.ClientError, TimeoutError) as error:  # sent or not? the next attempt asks
            raise wakeboard.RetryAfter(2, f"in doubt: {error!r}") from error
    return numbers


async def is_sent(http: aiohttp.ClientSession, reference: str) -> bool:
    """Whether the receiver has a report with this reference."""
    async with http.get("/reports", params={"reference": reference}) as answer:
        answer.raise_for_status()
        return bool(await answer.json())
