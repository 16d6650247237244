"""The handlers of a campaign. Runs of the `GOOD` types must succeed whatever happens; the other handlers misbehave.

A handler writes its effects through its own connection, as an application does, so faults hit that connection too.
"""

from __future__ import annotations

import asyncio
import mmap
import os
import signal
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, cast
from uuid import uuid4

import psycopg

import wakeboard
from chaos.connection import connect, connect_async
from chaos.ledger import append_line

DSN: Final = os.environ.get("CHAOS_APP_DSN", "")
LEDGER: Final = Path(os.environ.get("CHAOS_LEDGER", "")) / "effects"

# Job type -> the effects that a run of it has when it succeeded.
GOOD: Final[dict[str, tuple[str, ...]]] = {
    "quick": (),
    "naps": (),
    "flaky": (),
    "overruns": (),
    "ships": (),
    "snoozes": ("snoozed",),
    "charges": ("charge",),
    "charges-in-a-thread": ("charge",),
    "limited": ("limited",),
    "metered": ("metered",),
    "two-effects": ("first", "second"),
    "invoices": (),  # its effects happen once for all runs of an invoice
    "ticks": ("tick",),
}
MEGABYTE: Final = 1 << 20
_EFFECT: Final = "insert into chaos.effects (run_id, run_uuid, key, worker_clock) values (%s, %s, %s, %s)"


async def _connect() -> psycopg.AsyncConnection[Any]:
    return await connect_async(DSN, "chaos effects")


async def _insert_effect(run: wakeboard.Run, key: str) -> None:
    async with await _connect() as conn:  # commits at its end
        mine = await run.once(conn, key)
        if mine:
            await conn.execute(_EFFECT, (run.id, run.uuid, key, datetime.now(UTC)))
    if mine:
        _note(run, key)


def _note(run: wakeboard.Run, key: str) -> None:
    """Writes an effect whose commit was acknowledged into the ledger, which no failover changes."""
    append_line(LEDGER, f"{run.uuid} {key}")


async def _insert_effect_forever(run: wakeboard.Run, key: str) -> None:
    async with await _connect() as conn:
        if await run.once(conn, key, once="forever"):
            await conn.execute("insert into chaos.forever_effects values (%s, %s)", (key, run.id))


def _payload(run: wakeboard.Run) -> dict[str, Any]:
    return cast("dict[str, Any]", run.payload)


# -- good --------------------------------------------------------------------------------------------------------------


@wakeboard.handler("quick")
async def quick(run: wakeboard.Run) -> Any:
    """Does nothing."""
    return _payload(run).get("tag")


@wakeboard.handler("naps")
async def naps(run: wakeboard.Run) -> None:
    """Sleeps."""
    await asyncio.sleep(_payload(run)["seconds"])


@wakeboard.handler("flaky")
async def flaky(run: wakeboard.Run) -> None:
    """Fails as often as the payload says, then succeeds."""
    if run.attempt <= _payload(run)["failures"]:
        raise RuntimeError("not yet")


@wakeboard.handler("overruns")
async def overruns(run: wakeboard.Run) -> None:
    """Exceeds its timeout in the first attempt."""
    if run.attempt == 1:
        await asyncio.sleep(30)


@wakeboard.handler("snoozes")
async def snoozes(run: wakeboard.Run) -> None:
    """Snoozes once, after an effect."""
    async with await _connect() as conn:
        first = await run.once(conn, "snoozed")
        if first:
            await conn.execute(_EFFECT, (run.id, run.uuid, "snoozed", datetime.now(UTC)))
    if first:
        raise wakeboard.Snooze(0.3)


@wakeboard.handler("charges")
async def charges(run: wakeboard.Run) -> None:
    """One effect."""
    await _insert_effect(run, "charge")


@wakeboard.handler("ticks")
async def ticks(run: wakeboard.Run) -> None:
    """One effect for a tick, and one once for ever, which a backfill of the same tick has, too."""
    await _insert_effect(run, "tick")
    await _insert_effect_forever(run, f"tick:{run.definition_id}:{run.scheduled_for.isoformat()}")


@wakeboard.handler("invoices")
async def invoices(run: wakeboard.Run) -> None:
    """Two effects once for ever, of all runs of the invoice: at a provider that respects the key, and in a table."""
    number = _payload(run)["invoice"]
    async with run.effect(f"invoice:{number}", once="forever") as payment:
        if not payment.done:
            async with await _connect() as conn:
                await conn.execute(
                    "insert into chaos.parcels values (%s, %s, %s) on conflict do nothing",
                    (payment.provider_key, run.id, f"invoice:{number}"),
                )
            await asyncio.sleep(_payload(run)["seconds"])  # the worker may die before the effect is recorded as done
            if run.attempt == 1 and run.id % 3 == 0:
                raise RuntimeError("in doubt")  # another run of the invoice may be the next to have it
    await _insert_effect_forever(run, f"booking:{number}")


@wakeboard.handler("limited")
async def limited(run: wakeboard.Run) -> None:
    """Occupies its limit's slot for some time, then has one effect."""
    await asyncio.sleep(_payload(run)["seconds"])
    await _insert_effect(run, "limited")


@wakeboard.handler("metered")
async def metered(run: wakeboard.Run) -> None:
    """Takes another unit of its rate limit, or pauses the limit; then has one effect."""
    if run.id % 4 == 0:
        await run.consume(1)
    if run.id % 16 == 1 and run.attempt == 1:
        raise wakeboard.RetryAfter(0.5, limit=True)
    await _insert_effect(run, "metered")


@wakeboard.handler("two-effects")
async def two_effects(run: wakeboard.Run) -> None:
    """Two effects in two transactions, with a pause in which the worker may die."""
    await _insert_effect(run, "first")
    await asyncio.sleep(_payload(run)["seconds"])
    await _insert_effect(run, "second")


@wakeboard.handler("charges-in-a-thread")
def charges_in_a_thread(run: wakeboard.Run) -> None:
    """One effect, from a plain function."""
    with connect(DSN, "chaos effects", autocommit=False) as conn:
        if mine := run.once(conn, "charge"):
            conn.execute(_EFFECT, (run.id, run.uuid, "charge", datetime.now(UTC)))
    if mine:
        _note(run, "charge")


@wakeboard.handler("ships")
async def ships(run: wakeboard.Run) -> dict[str, str]:
    """Two steps and an external effect. Every attempt must see the result of the first step that was stored first."""
    label = await run.step("label", lambda: uuid4().hex)
    run.progress(0.3)
    async with run.effect("parcel") as parcel:
        if not parcel.done:
            async with await _connect() as conn:
                await conn.execute(
                    "insert into chaos.parcels values (%s, %s, %s) on conflict do nothing",
                    (parcel.provider_key, run.id, label),
                )
    return {"label": label, "receipt": await run.step("receipt", lambda: f"for {label}")}


@wakeboard.handler("discards")
async def discards(run: wakeboard.Run) -> None:
    """Discards its run."""
    raise wakeboard.Discard("there is no such customer")


@wakeboard.handler("fragile")
async def fragile(run: wakeboard.Run) -> None:
    """Discards most of its runs."""
    if run.id % 5:
        raise wakeboard.Discard("the supplier is away")


# -- runs that meet locks: enqueued by held_locks.py -------------------------------------------------------------------


@wakeboard.handler("held")
async def held(run: wakeboard.Run) -> None:
    """Waits until locks are held, meets them as its payload says, and ends. Or it waits until they are released."""
    number, part = _payload(run)["number"], _payload(run)["part"]
    async with await _connect() as conn:
        await _wait_for(conn, 2 * number + (part == "waits"))
    if part == "consumes":
        await run.consume(1)
    elif part == "pauses" and run.attempt == 1:
        raise wakeboard.RetryAfter(0.5, limit=True)


async def _wait_for(conn: psycopg.AsyncConnection[Any], number: int) -> None:
    await conn.set_autocommit(True)
    query = "select from chaos.held where number between %s and %s"
    while not (await conn.execute(query, (number, number | 1))).rowcount:  # noqa: ASYNC110 - another process writes it
        await asyncio.sleep(0.2)


# -- misbehaving: enqueued by faults -----------------------------------------------------------------------------------


@wakeboard.handler("blocks")
async def blocks(run: wakeboard.Run) -> None:
    """Blocks the event loop."""
    time.sleep(_payload(run)["seconds"])  # noqa: ASYNC251 - the fault


@wakeboard.handler("never-stops")
async def never_stops(run: wakeboard.Run) -> None:
    """Swallows every cancellation for 15 s."""
    end = time.monotonic() + 15
    while time.monotonic() < end:
        try:
            await asyncio.sleep(end - time.monotonic())
        except asyncio.CancelledError:
            continue


@wakeboard.handler("never-stops-in-a-thread")
def never_stops_in_a_thread(run: wakeboard.Run) -> None:
    """Ignores its timeout for 8 s."""
    time.sleep(8)


@wakeboard.handler("hangs-in-a-transaction")
def hangs_in_a_transaction(run: wakeboard.Run) -> None:
    """Outlives its timeout, and keeps a transaction open that has locked its run, for longer than a lease."""
    with psycopg.connect(DSN, application_name="chaos effects", connect_timeout=5) as conn:
        run.once(conn, "hang")
        time.sleep(12)
        conn.rollback()


@wakeboard.handler("forks")
async def forks(run: wakeboard.Run) -> None:
    """Forks a child that keeps every socket of this worker open for 5 s."""
    if os.fork() == 0:
        time.sleep(5)  # noqa: ASYNC251 - in the child, which has no event loop
        os._exit(0)
    await asyncio.sleep(0.1)


@wakeboard.handler("starts-a-program")
async def starts_a_program(run: wakeboard.Run) -> int:
    """Starts a program that outlives the run."""
    program = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(3)"], env={})  # noqa: ASYNC220 - the fault
    return program.pid


@wakeboard.handler("hogs")
async def hogs(run: wakeboard.Run) -> None:
    """Maps all the address space that this process may have, for up to a second. It touches no page."""
    blocks: list[mmap.mmap] = []
    size = 64 * MEGABYTE
    while size >= mmap.PAGESIZE:
        try:
            blocks.append(mmap.mmap(-1, size))
        except (MemoryError, OSError):
            size //= 2
    await asyncio.sleep(_payload(run)["seconds"])
    raise MemoryError("all memory was allocated")


@wakeboard.handler("returns-too-much")
async def returns_too_much(run: wakeboard.Run) -> Any:
    """Returns 5 MB, raises an error of 5 MB, or returns bytes that are not text."""
    how = _payload(run)["how"]
    if how == "result":
        return {"text": "x" * 5 * MEGABYTE}
    if how == "binary":
        return os.urandom(1000)
    raise RuntimeError("\0\ud800" + "y" * 5 * MEGABYTE)


@wakeboard.handler("kills")
async def kills(run: wakeboard.Run) -> None:
    """Kills its worker and every other run there."""
    os.kill(os.getpid(), signal.SIGKILL)
