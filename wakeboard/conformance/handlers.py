"""The handlers of the tested worker, in Python. docs/workers-in-any-language.md describes each.

A handler writes notes about what it does into the table `conformance.notes`. It connects directly for that, not through
the proxy of the suite, so a note arrives even if the network of the worker fails.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
from datetime import datetime
from typing import TYPE_CHECKING, Any

from wakeboard.engine.handlers import handler
from wakeboard.errors import Discard, EffectInDoubt, InvalidValue, RetryAfter, Snooze
from wakeboard.schedules.application_api import schedule as create_schedule
from wakeboard.store.connection import connect

if TYPE_CHECKING:
    from wakeboard.engine.run import Once, Run

NOTE = b"select conformance.note(%s, %s, %s)"


async def note(run: Run, what: str) -> None:
    """Record what this attempt did."""
    async with await connect(os.environ["CONFORMANCE_DSN"], name="conformance notes") as conn:
        await conn.execute(NOTE, [run.id, run.epoch, what])


@handler("conformance.echo")
async def echo(run: Run) -> Any:
    """Return the payload."""
    return run.payload


@handler("conformance.wait")
async def wait(run: Run) -> dict[str, int]:
    """Wait for `seconds`, unless the worker stops the attempt."""
    run.progress(0.5, "half")
    try:
        await note(run, "started")
        await asyncio.sleep(run.payload["seconds"])
    except asyncio.CancelledError:
        await note(run, "stopped")
        raise
    await note(run, "finished")
    return {"epoch": run.epoch}


@handler("conformance.fail")
async def fail(run: Run) -> dict[str, int]:
    """End the first `times` attempts as `how` says."""
    if run.attempt <= run.payload["times"]:
        match run.payload["how"]:
            case "discard":
                raise Discard("no such customer")
            case "retry":
                raise RetryAfter(run.payload["seconds"], "no such customer")
            case "snooze":
                raise Snooze(run.payload["seconds"])
            case _:
                raise ValueError(run.payload.get("message", "no such customer"))
    return {"attempt": run.attempt}


@handler("conformance.log")
async def log(run: Run) -> None:
    """Log `lines` numbered lines, and `text` as an error. Then fail if it `fails`."""
    for number in range(1, run.payload["lines"] + 1):
        run.log.info("line %s", number)
    run.log.error("%s", run.payload["text"])
    if run.payload.get("fails"):
        raise ValueError("no such customer")


@handler("conformance.steps")
async def steps(run: Run) -> dict[str, float]:
    """Draw a number in a step. The first attempt fails in the next one."""
    await asyncio.sleep(run.payload.get("seconds", 0))

    async def draw() -> float:
        await note(run, "draw")
        return random.random()  # noqa: S311 - no secret

    drawn = await run.step("draw", draw)
    await note(run, f"drawn {drawn}")
    if run.attempt == 1:
        await run.step("fail", refuse)
    return {"drawn": drawn}


def refuse() -> None:
    """The function of a step that fails."""
    raise ValueError("no such customer")


@handler("conformance.effect")
async def effect(run: Run) -> dict[str, bool]:
    """Attempt 1 fails within the effect, attempt 2 after it. Attempt 3 finds it done."""
    await asyncio.sleep(run.payload.get("seconds", 0))
    async with run.effect(run.payload.get("key", "mail"), once=_how_often(run)) as mail:
        state = "done" if mail.done else "in doubt" if mail.in_doubt else "new"
        await note(run, f"{state} {mail.provider_key}")
        await asyncio.sleep(run.payload.get("holds", 0))
        if run.attempt == 1 and not mail.done:
            raise ValueError("within the effect")
    if run.attempt == 2:  # noqa: PLR2004 - see above
        raise ValueError("after the effect")
    if "key" in run.payload:
        async with run.effect(run.payload["key"]):  # per run, the key is another one
            pass
    return {"done": mail.done}


@handler("conformance.once")
async def once(run: Run) -> dict[str, Any]:
    """Write a note in a transaction of the handler's own, once. The first attempt fails after the commit."""
    try:
        async with await connect(os.environ["CONFORMANCE_DSN"], name="conformance once") as conn, conn.transaction():
            mine = await run.once(conn, run.payload.get("key", "payment"), once=_how_often(run))
            if mine:
                await conn.execute(NOTE, [run.id, run.epoch, "paid"])
    except EffectInDoubt as refusal:
        return {"refused": str(refusal)}
    if run.attempt == 1:
        raise ValueError("after the commit")
    return {"mine": mine}


def _how_often(run: Run) -> Once:
    return "forever" if "key" in run.payload else "per_run"


@handler("conformance.schedule")
async def schedule(run: Run) -> dict[str, str]:
    """Create a schedule in a transaction of the handler's own, and roll it back if the payload says so."""
    given = run.payload
    at = datetime.fromisoformat(given["at"]) if "at" in given else None
    name = given["name"]
    try:
        async with await connect(os.environ["CONFORMANCE_DSN"], name="conformance schedule") as conn:
            await conn.execute(b"begin")
            made = await create_schedule(conn, name, "conformance.echo", {"name": name}, cron=given.get("cron"), at=at)
            await conn.execute(b"rollback" if given.get("rollback") else b"commit")
    except InvalidValue as refusal:
        return {"refused": str(refusal)}
    return {"answer": made.answer}


@handler("conformance.crash")
async def crash(run: Run) -> None:
    """End the process as a crash does."""
    await note(run, "started")
    os.kill(os.getpid(), signal.SIGKILL)
