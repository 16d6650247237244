"""The handlers of the schedules in this folder. `wakeboard up examples/shop/` reloads this file when you change it.

A handler is a function with one argument, the run. An `async def` handler runs in the worker's event loop, a plain
`def` in a thread. Its return value is stored as the run's result. If it raises, the error is stored and the run is
retried as its schedule says.
"""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg

import wakeboard

HERE = Path(__file__).parent
OUT = HERE / "out"


def open_shop() -> sqlite3.Connection:
    """Opens a new database in memory with the data of shop.sql."""
    shop = sqlite3.connect(":memory:")
    shop.executescript((HERE / "shop.sql").read_text(encoding="utf-8"))
    return shop


def write_out(name: str, text: str) -> str:
    """Writes examples/shop/out/NAME and returns its relative path."""
    path = OUT / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return os.path.relpath(path)


# -- a report in steps -------------------------------------------------------------------------------------------------


@wakeboard.handler("weekly_report")
async def weekly_report(run: wakeboard.Run) -> dict[str, Any]:
    """Reports on the week before the tick. A later attempt gets the stored results of completed steps."""
    days: list[tuple[str, int]] = []
    for back in range(7, 0, -1):
        days.append(await run.step(f"Add up the day {back} days ago", revenue_of, str(run.scheduled_for.date()), back))
        run.progress(len(days) / 8)
        await asyncio.sleep(0.5)  # slow enough to see the progress
    best = await run.step("Find the best customers", best_customers, run.payload["segment"], run.payload["best"])
    path = await run.step("Write the report", write_report, str(run.scheduled_for.date()), days, best)
    run.log.info("the report is in %s", path)
    return {"report": path}


def revenue_of(today: str, back: int) -> tuple[str, int]:
    """Returns the date and the revenue in cents of one day."""
    query = "select date(:today, :back), coalesce(sum(cents), 0) from orders where placed_on = date(:today, :back)"
    with closing(open_shop()) as shop:
        return shop.execute(query, {"today": today, "back": f"-{back} days"}).fetchone()


def best_customers(segment: str, count: int) -> list[tuple[str, int]]:
    """Returns the customers of a segment who spent most: name and cents."""
    query = """
        select name, sum(cents) from orders join customers on customers.id = customer_id
         where segment = ? group by name order by 2 desc limit ?"""
    with closing(open_shop()) as shop:
        return shop.execute(query, (segment, count)).fetchall()


def write_report(today: str, days: list[tuple[str, int]], best: list[tuple[str, int]]) -> str:
    """Writes the report. A second call overwrites the file with the same content."""
    lines = [f"# The week before {today}", "", "| day | revenue |", "| --- | ---: |"]
    lines += [f"| {day} | {cents / 100:.2f} € |" for day, cents in days]
    lines += ["", f"All in all {sum(cents for _, cents in days) / 100:.2f} €. The best customers:", ""]
    lines += [f"{place}. {name}, {cents / 100:.2f} €" for place, (name, cents) in enumerate(best, start=1)]
    return write_out(f"report-{today}.md", "\n".join(lines) + "\n")


# -- a snapshot every minute, and a clean-up ---------------------------------------------------------------------------


@wakeboard.handler("count_orders")
def count_orders(run: wakeboard.Run) -> dict[str, int]:
    """Writes a snapshot of the shop. Its name is the tick's time, so a second attempt overwrites the same file."""
    with closing(open_shop()) as shop:
        counts = dict(
            shop.execute("select segment, count(*) from orders join customers on customers.id = customer_id group by 1")
        )
    write_out(f"snapshots/{run.scheduled_for:%Y-%m-%dT%H-%M}.json", json.dumps(counts))
    return counts


@wakeboard.handler("clean_up")
def clean_up(run: wakeboard.Run) -> dict[str, int]:
    """Deletes all but the newest snapshots."""
    snapshots = sorted((OUT / "snapshots").glob("*.json"), reverse=True)
    for old in snapshots[run.payload["keep"] :]:
        old.unlink(missing_ok=True)
    return {"kept": min(len(snapshots), run.payload["keep"]), "removed": max(0, len(snapshots) - run.payload["keep"])}


# -- failures ----------------------------------------------------------------------------------------------------------


@wakeboard.handler("import_rates")
async def import_rates(run: wakeboard.Run) -> dict[str, float]:
    """Fails in its first two attempts. The run is retried with the backoff of its schedule."""
    if run.attempt < 3:
        raise ConnectionError(f"the bank's server is still starting (this was attempt {run.attempt})")
    return {"EUR/USD": 1.0837}


@wakeboard.handler("close_month")
def close_month(run: wakeboard.Run) -> dict[str, str]:
    """Fails unless the file out/approved exists. Create it, then run `wakeboard retry ID`."""
    approval = OUT / "approved"
    if not approval.exists():
        raise PermissionError(f"not approved; to approve, type: touch {shlex.quote(os.path.relpath(approval))}")
    approval.unlink()
    return {"closed": f"{run.scheduled_for:%B %Y}"}


# -- exactly-once effects ----------------------------------------------------------------------------------------------


@wakeboard.handler("payment_webhooks")
async def payment_webhooks(run: wakeboard.Run) -> dict[str, Any]:
    """Simulates a payment provider that delivers an event twice. The idempotency key makes it one run."""
    key = f"payment-{run.id}"
    event = {"event": key, "cents": 4200}
    async with await psycopg.AsyncConnection.connect(os.environ["WAKEBOARD_DSN"]) as conn:
        first = await wakeboard.enqueue(conn, "payment_received", event, idempotency_key=key)
        again = await wakeboard.enqueue(conn, "payment_received", event, idempotency_key=key)
    return {"first delivery": f"run {first.id}", "second delivery": f"the same run {again.id}"}


@wakeboard.handler("payment_received")
async def payment_received(run: wakeboard.Run) -> dict[str, int]:
    """Books a payment once, although its first attempt fails after the booking is committed."""
    async with await psycopg.AsyncConnection.connect(os.environ["WAKEBOARD_DSN"]) as conn:
        await conn.execute("create table if not exists public.payments (event text, cents integer)")
        if await run.once(conn, "book"):  # committed together with the booking, or not at all
            await conn.execute("insert into payments values (%s, %s)", (run.payload["event"], run.payload["cents"]))
    if run.attempt == 1:
        raise ConnectionResetError("the network went away after the booking was committed")
    async with await psycopg.AsyncConnection.connect(os.environ["WAKEBOARD_DSN"]) as conn:
        found = await conn.execute("select count(*) from payments where event = %s", (run.payload["event"],))
        return {"times it was booked": (await found.fetchone() or (0,))[0]}
