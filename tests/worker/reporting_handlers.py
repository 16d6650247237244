"""Handlers that worker processes of these tests run."""

from __future__ import annotations

import asyncio
import contextvars
import os
import threading
import time

import psycopg

import wakeboard

DSN = os.environ["WAKEBOARD_DSN"]
mine = contextvars.ContextVar[int]("mine", default=0)


@wakeboard.handler("answers")
async def answers(run: wakeboard.Run) -> object:
    """Gives its payload back."""
    return run.payload


@wakeboard.handler("answers-plainly")
def answers_plainly(run: wakeboard.Run) -> object:
    """The same in a thread."""
    assert threading.current_thread() is not threading.main_thread()
    return run.payload


@wakeboard.handler("measures")
async def measures(run: wakeboard.Run) -> float:
    """Waits, and returns how many seconds it took by its own clock."""
    began = time.monotonic()
    await asyncio.sleep(run.payload["seconds"])
    return time.monotonic() - began


@wakeboard.handler("measures-plainly")
def measures_plainly(run: wakeboard.Run) -> float:
    """The same in a thread."""
    began = time.monotonic()
    time.sleep(run.payload["seconds"])
    return time.monotonic() - began


@wakeboard.handler("facts")
async def facts(run: wakeboard.Run) -> dict[str, object]:
    """What a handler can know of its run."""
    run.log.info("here")
    run.progress(0.5)
    return {
        "uuid": str(run.uuid),
        "attempt": run.attempt,
        "max": run.max_attempts,
        "for": run.scheduled_for.isoformat(),
        "queue": run.queue,
        "schedule": run.schedule,
        "cancelled": run.cancelled,
    }


@wakeboard.handler("raises")
async def raises(run: wakeboard.Run) -> object:  # noqa: C901, PLR0912 - one case for each line of a table
    """Raises, or returns, what the payload asks for."""
    await asyncio.sleep(0)
    match run.payload["what"]:
        case "error":
            raise ValueError("no such customer")
        case "credential":
            raise ConnectionError("cannot connect to postgresql://app:hunter2@db/shop")
        case "discard":
            raise wakeboard.Discard("it makes no sense")
        case "retry":
            raise wakeboard.RetryAfter(3600)
        case "limited":
            raise wakeboard.RetryAfter(3600, limit=True)
        case "snooze":
            run.progress(0.25)
            raise wakeboard.Snooze(3600)
        case "no number":
            raise wakeboard.Snooze(float("nan"))
        case "long":
            raise ValueError("xxx " * 1_000_000)
        case "binary":
            raise ValueError("a\0b\udcff")
        case "cancelled":
            raise asyncio.CancelledError
        case "exit":
            raise SystemExit(3)
        case "object":
            return object()
        case "nul":
            return {"a": "b\0c"}
        case _:
            return float("nan")


@wakeboard.handler("consumes")
async def consumes(run: wakeboard.Run) -> None:
    """Takes further units of its rate limit."""
    await run.consume(run.payload["units"])


@wakeboard.handler("consumes-plainly")
def consumes_plainly(run: wakeboard.Run) -> None:
    """The same in a thread."""
    run.consume(run.payload["units"])


@wakeboard.handler("adds")
async def adds(run: wakeboard.Run) -> int:
    """Adds up the answers of the runs that it waited for."""
    return sum(result["answer"] for result in await run.results())


@wakeboard.handler("adds-plainly")
def adds_plainly(run: wakeboard.Run) -> int:
    """The same in a thread."""
    return sum(result["answer"] for result in run.results())


@wakeboard.handler("naps")
async def naps(run: wakeboard.Run) -> None:
    """Takes as long as the payload says."""
    await asyncio.sleep(run.payload["s"])


@wakeboard.handler("says-NUL")
async def says_nul(run: wakeboard.Run) -> None:
    """Names a step or an effect as no text in Postgres can be."""
    if run.payload["what"] == "step":
        await run.step("s\0", dict)
    async with run.effect("a\0"):
        pass


@wakeboard.handler("uses-a-key-twice")
async def uses_a_key_twice(run: wakeboard.Run) -> list[bool]:
    """Once after a rollback, which is right, and once after a commit."""
    found: list[bool] = []
    async with await psycopg.AsyncConnection.connect(DSN, autocommit=True) as conn:
        for number in range(run.payload["uses"]):
            async with conn.transaction(force_rollback=number == 0):
                found.append(await run.once(conn, "book"))
    return found


@wakeboard.handler("repeats-its-transaction")
async def repeats_its_transaction(run: wakeboard.Run) -> list[bool | str]:
    """Its first attempt has the effect. The second one rolls back a transaction and a savepoint, and repeats it."""
    found: list[bool | str] = []
    async with await psycopg.AsyncConnection.connect(DSN, autocommit=True) as conn:

        async def book() -> None:
            found.append(await run.once(conn, f"book {run.id}", once=run.payload["once"]))

        if run.attempt == 1:
            async with conn.transaction():
                await book()
            raise ConnectionError
        async with conn.transaction(force_rollback=True):
            await book()
        async with conn.transaction():
            async with conn.transaction(force_rollback=True):
                await book()
            await book()
        try:
            async with conn.transaction():
                await book()
        except wakeboard.WakeboardError as error:
            found.append(type(error).__name__)
    return found


_tried, _booked = asyncio.Event(), asyncio.Event()


@wakeboard.handler("tries-again-later")
async def tries_again_later(run: wakeboard.Run) -> list[bool]:
    """With two tries it rolls back what it did first, and tries again when the run with one try has had the effect."""
    found: list[bool] = []
    async with await psycopg.AsyncConnection.connect(DSN, autocommit=True) as conn:
        if run.payload["tries"] == 1:
            await _tried.wait()
            async with conn.transaction():
                found.append(await run.once(conn, "book later", once="forever"))
            _booked.set()
            return found
        async with conn.transaction(force_rollback=True):
            found.append(await run.once(conn, "book later", once="forever"))
            _tried.set()
        await _booked.wait()
        async with conn.transaction():
            found.append(await run.once(conn, "book later", once="forever"))
    return found


@wakeboard.handler("uses-a-key-in-both-ways")
async def uses_a_key_in_both_ways(run: wakeboard.Run) -> list[bool]:
    """What it had to do: of an effect outside, and of one in its transaction, per run and once for ever."""
    found: list[bool] = []
    for once in ("per_run", "forever"):
        async with run.effect("mail", once=once) as mail:
            found.append(not mail.done)
    async with await psycopg.AsyncConnection.connect(DSN) as conn:
        found += [await run.once(conn, "both ways", once=once) for once in ("per_run", "forever")]
    return found


@wakeboard.handler("swallows")
async def swallows(run: wakeboard.Run) -> str:
    """Swallows its cancellation."""
    try:
        await asyncio.sleep(3600)
    except asyncio.CancelledError:
        return "swallowed"
    return "slept"


@wakeboard.handler("stuck")
def stuck(run: wakeboard.Run) -> None:
    """A plain function that never looks at run.cancelled."""
    time.sleep(600)


@wakeboard.handler("isolated")
async def isolated(run: wakeboard.Run) -> list[object]:
    """Context variables belong to one run, and reach its child tasks."""
    before = mine.get()
    mine.set(run.id)
    await asyncio.sleep(0.001)

    async def child() -> int:
        return mine.get()

    task = asyncio.create_task(child())
    async with asyncio.timeout(5):
        inside = await task
    async with asyncio.TaskGroup() as group:
        group.create_task(asyncio.sleep(0))
    timed_out = False
    try:
        async with asyncio.timeout(0.001):
            await asyncio.sleep(5)
    except TimeoutError:
        timed_out = True
    return [before, mine.get() == run.id == inside, timed_out]


@wakeboard.handler("loses-its-connection")
def loses_its_connection(run: wakeboard.Run) -> bool:
    """In the transaction of its effect, the first time."""
    with psycopg.connect(os.environ["WAKEBOARD_DSN"]) as conn:
        first = run.once(conn, "charge")
        given_back = conn.execute("select release_count from wakeboard.job_runs where id = %s", (run.id,)).fetchone()
        if given_back == (0,):
            conn.execute("select pg_terminate_backend(pg_backend_pid())")
    return first
