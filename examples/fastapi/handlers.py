"""What the schedules of the customers run."""

from __future__ import annotations

import os

import psycopg
from pydantic import BaseModel

import wakeboard


class SendReport(BaseModel):
    """The payload of `send_report`."""

    customer: int


@wakeboard.handler("send_report")
async def send_report(run: wakeboard.Run[SendReport]) -> dict[str, bool]:
    """Stores one report for each customer and week, also if a run is replayed or a second one has the same week."""
    customer, week = run.payload.customer, f"{run.scheduled_for:%G-W%V}"
    async with await psycopg.AsyncConnection.connect(os.environ["WAKEBOARD_DSN"]) as conn:
        first = await run.once(conn, f"report:{customer}:{week}", once="forever")
        if first:
            await conn.execute("insert into reports (customer, week) values (%s, %s)", (customer, week))
    return {"stored by this run": first}
