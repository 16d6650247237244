"""An application whose customers get a report every Monday at 8:00 in their time zone.

`wakeboard up examples/fastapi` runs it, and the worker that executes handlers.py.
"""

from __future__ import annotations

import os
from contextlib import asynccontextmanager
from datetime import datetime  # noqa: TC003 - of an answer
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import uvicorn
from fastapi import Depends, FastAPI, HTTPException, Request
from fastapi.responses import JSONResponse
from handlers import SendReport
from psycopg import AsyncConnection
from psycopg_pool import AsyncConnectionPool
from pydantic import BaseModel

import wakeboard
from wakeboard.errors import InvalidValue

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator


class SignUp(BaseModel):
    """What a customer writes."""

    email: str
    time_zone: str = "Etc/UTC"


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncGenerator[None]:
    """Creates the tables, and keeps a pool of connections."""
    async with AsyncConnectionPool(os.environ["WAKEBOARD_DSN"], min_size=1) as app.state.pool:
        async with app.state.pool.connection() as conn:
            await conn.execute(Path(__file__).with_name("schema.sql").read_bytes())
        yield


async def transaction(request: Request) -> AsyncGenerator[AsyncConnection]:
    """A transaction that is committed if the endpoint returns, and before the answer is sent."""
    async with request.app.state.pool.connection() as conn:
        yield conn


Transaction = Annotated[AsyncConnection, Depends(transaction, scope="function")]
app = FastAPI(lifespan=lifespan)


@app.exception_handler(InvalidValue)
async def refuse(_: Request, error: InvalidValue) -> JSONResponse:
    """A time zone that does not exist: the customer is not created either."""
    return JSONResponse({"detail": str(error)}, status_code=422)


@app.post("/customers", status_code=201)
async def sign_up(new: SignUp, conn: Transaction) -> dict[str, int]:
    """Creates a customer and her schedule: both, or none of them."""
    insert = "insert into customers (email) values (%s) returning id"
    (customer,) = await (await conn.execute(insert, (new.email,))).fetchone() or (0,)
    name, payload = f"customers/{customer}-report", SendReport(customer=customer)
    await wakeboard.schedule(conn, name, "send_report", payload, cron="0 8 * * MON", time_zone=new.time_zone)
    return {"customer": customer}


@app.get("/customers/{customer}/schedules")
async def list_schedules(customer: int, conn: Transaction) -> list[dict[str, str | datetime | None]]:
    """The schedules of a customer. `next` is null until the scheduler has seen a new one, within a second."""
    found = await wakeboard.list_schedules(conn, f"customers/{customer}-*")
    return [{"name": each.name, "next": each.next_run_at} for each in found]


@app.delete("/customers/{customer}/schedules/report", status_code=204)
async def cancel(customer: int, conn: Transaction) -> None:
    """No report follows."""
    if not await wakeboard.unschedule(conn, f"customers/{customer}-report"):
        raise HTTPException(404, "there is no such schedule")


if __name__ == "__main__":
    uvicorn.run(app, host="127.0.0.1", port=int(os.environ["PORT"]), log_level="warning")
