"""A handler with an effect in the database, and a ledger outside of it, which no failover changes."""

from __future__ import annotations

import os
import time
from pathlib import Path

import psycopg

import wakeboard
from chaos.ledger import append_line

DSN, LEDGER = os.environ["WAKEBOARD_DSN"], Path(os.environ.get("LEDGER", ""))


@wakeboard.handler("noted")
async def noted(run: wakeboard.Run) -> str:
    """Has its effect once, and notes whether it was this attempt that had it, when the commit is acknowledged."""
    tag: str = run.payload["tag"]
    note(tag, "began")
    async with await psycopg.AsyncConnection.connect(DSN, connect_timeout=3) as conn:
        mine = await run.once(conn, "paid")
    note(tag, "paid" if mine else "met")
    return tag


def note(tag: str, what: str) -> None:
    """Appends a line that survives the end of this process."""
    append_line(LEDGER, f"{tag} {what} {time.time()}")
