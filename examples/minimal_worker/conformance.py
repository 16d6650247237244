"""The minimal worker with the handlers that `wakeboard conformance` asks for.

wakeboard conformance -- python examples/minimal_worker/conformance.py
"""

# pyright: basic

import asyncio
import json
import os
import random
import signal
from uuid import UUID, uuid5

import psycopg
from minimal_worker import LEASE_S, WORKER, Database, Outcome, Worker

shared = Database(LEASE_S)  # for all handlers
NOTE = "select conformance.note(%s, %s, %s)"


async def connect():
    return await psycopg.AsyncConnection.connect(os.environ["CONFORMANCE_DSN"])


async def note(run, what):
    async with await connect() as conn:
        await conn.execute(NOTE, [run.id, run.epoch, what])


async def under_lease(function, run, **values):
    (row,) = await shared.call(function, worker=WORKER, run_id=run.id, epoch=run.epoch, **values)
    return row


async def echo(run):
    return run.payload


async def wait(run):
    run.progress, run.message = 0.5, "half"
    await note(run, "started")
    try:
        await asyncio.sleep(run.payload["seconds"])
    except asyncio.CancelledError:
        await note(run, "stopped")
        raise
    await note(run, "finished")
    return {"epoch": run.epoch}


async def fail(run):
    if run.row.attempts > run.payload["times"]:
        return {"attempt": run.row.attempts}
    match run.payload["how"]:
        case "discard":
            raise Outcome("discarded", text="no such customer")
        case "retry":
            raise Outcome("failed", run.payload["seconds"], text="no such customer")
        case "snooze":
            raise Outcome("snoozed", run.payload["seconds"])
        case _:
            raise ValueError(run.payload.get("message", "no such customer"))


async def steps(run):
    await asyncio.sleep(run.payload.get("seconds", 0))
    step = await under_lease("step", run, name="draw")
    drawn = step.stored
    if not step.done:
        await note(run, "draw")
        drawn = random.random()
        await under_lease("step", run, name="draw", result=json.dumps(drawn))
    await note(run, f"drawn {drawn}")
    if run.row.attempts == 1:
        await under_lease("step", run, name="fail")
        await under_lease("step", run, name="fail", error="no such customer")
        raise ValueError("no such customer")
    return {"drawn": drawn}


async def effect(run):
    await asyncio.sleep(run.payload.get("seconds", 0))
    function, key, namespace = "effect", "mail", run.row.uuid
    if "key" in run.payload:
        function, key = "effect_forever", run.payload["key"]
        state, namespace, held_by = await under_lease(function, run, key=key)
        if held_by:
            raise Outcome("snoozed", 5)
    else:
        (state,) = await under_lease(function, run, key=key)
    await note(run, f"{state} {uuid5(UUID(str(namespace)), key)}")
    await asyncio.sleep(run.payload.get("holds", 0))
    if run.row.attempts == 1 and state != "done":
        raise ValueError("within the effect")
    if state != "done":
        await under_lease(function, run, key=key, done=True)
    if run.row.attempts == 2:
        raise ValueError("after the effect")
    return {"done": state == "done"}


async def once(run):
    query = "select wakeboard.once(%s, %s, %s, %s, %s)"
    of, key = (UUID(int=0), run.payload["key"]) if "key" in run.payload else (run.row.uuid, "payment")
    try:
        async with await connect() as conn:  # it commits at the end
            ((mine,),) = await (await conn.execute(query, [WORKER, run.id, of, run.epoch, key])).fetchall()
            if mine:
                await conn.execute(NOTE, [run.id, run.epoch, "paid"])
    except psycopg.Error as refusal:
        if refusal.sqlstate != "WB006":
            raise
        return {"refused": refusal.diag.message_primary}
    if run.row.attempts == 1:
        raise ValueError("after the commit")
    return {"mine": mine}


async def schedule(run):
    values = {"cron": None, "at": None, "payload": json.dumps({"name": run.payload["name"]}), **run.payload}
    query = "select answer from wakeboard.schedule(%(name)s, 'conformance.echo', %(payload)s, %(cron)s, at => %(at)s)"
    try:
        async with await connect() as conn:
            ((answer,),) = await (await conn.execute(query, values)).fetchall()
            if run.payload.get("rollback"):
                await conn.rollback()
    except psycopg.errors.InvalidParameterValue as refusal:
        return {"refused": refusal.diag.message_primary}
    return {"answer": answer}


async def crash(run):
    await note(run, "started")
    os.kill(os.getpid(), signal.SIGKILL)


handlers = [echo, wait, fail, steps, effect, once, schedule, crash]
asyncio.run(Worker({f"conformance.{handler.__name__}": handler for handler in handlers}).work())
