"""Handlers that log in every way, for the tests of the logs of runs."""

# ruff: noqa: T201 - what they print is what the tests look for

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys

from pydantic import BaseModel, SecretStr

import wakeboard
from wakeboard.errors import EffectHeld

shop = logging.getLogger("shop")
PRIVATE_KEY = "-----BEGIN PRIVATE KEY-----\nMIIEvAIBADANBg\n-----END PRIVATE KEY-----"


@wakeboard.handler("logs-everywhere")
async def logs_everywhere(run: wakeboard.Run) -> None:
    """Logs in the coroutine, a thread, a task and a step."""
    run.log.info("by the run")
    shop.warning("by a logger of %s", "another name")
    print("printed", "in parts")
    await asyncio.to_thread(print, "in a thread", file=sys.stderr)
    await asyncio.create_task(_logs_later())
    await run.step("part", shop.info, "in a step")
    print("unfinished", end="")


_met = asyncio.Event()


@wakeboard.handler("meets-another-run")
async def meets_another_run(run: wakeboard.Run) -> None:
    """Of two of them, one executes an effect until the other has asked for it."""
    try:
        async with run.effect("invoice:812", once="forever") as effect:
            if not effect.done:
                await _met.wait()
    except EffectHeld:
        _met.set()
        raise


async def _logs_later() -> None:
    await asyncio.sleep(0)
    shop.info("in a task")


@wakeboard.handler("logs-plainly")
def logs_plainly(run: wakeboard.Run) -> None:
    """Logs in the thread of a plain handler."""
    print(f"plain {run.payload['number']}")


@wakeboard.handler("logs-hostile-lines")
async def logs_hostile_lines(run: wakeboard.Run) -> None:
    """Logs what could harm who stores or reads it."""
    shop.info("escape \x1b[31m nul \0 html <script> surrogate \udc80 forged\n12:00:00 error forged line")
    shop.info("x" * 10_000_000)
    print(f"the word is {run.payload['password']}, and token=abcdef0123456789")
    print(PRIVATE_KEY)
    shop.info("%d arguments", "no")
    shop.error("after them")


@wakeboard.handler("takes-its-secret")
async def takes_its_secret(run: wakeboard.Run) -> None:
    """Takes the password out of its payload, and prints it."""
    print(f"the word is {run.payload.pop('password')}")


class Login(BaseModel):
    """A payload."""

    password: SecretStr


@wakeboard.handler("has-a-secret-type")
async def has_a_secret_type(run: wakeboard.Run[Login]) -> None:
    """Prints what a model of pydantic hides."""
    print(f"the word is {run.payload.password.get_secret_value()}")


@wakeboard.handler("logs-a-line-in-parts")
def logs_a_line_in_parts(run: wakeboard.Run) -> None:
    """Writes the parts of a line that it does not end."""
    for _ in range(run.payload["parts"]):
        sys.stdout.write("x" * 1_000)


@wakeboard.handler("logs-a-million")
async def logs_a_million(run: wakeboard.Run) -> None:
    """Prints a million lines as fast as it can."""
    for number in range(run.payload["lines"]):
        print(number)


@wakeboard.handler("logs-and-fails")
async def logs_and_fails(run: wakeboard.Run) -> None:
    """Logs unless it is silent, and fails if the payload says so."""
    if not run.payload.get("silent"):
        run.log.info("before it")
    if run.payload.get("fails"):
        raise ValueError("that was it")


@wakeboard.handler("logs-and-is-killed")
async def logs_and_is_killed(run: wakeboard.Run) -> None:
    """Logs, and its worker is killed some time later."""
    print("before the end")
    await asyncio.sleep(1.2)
    print("too late")
    os.kill(os.getpid(), signal.SIGKILL)


@wakeboard.handler("is-silent")
async def is_silent(run: wakeboard.Run) -> None:
    """Logs nothing."""


@wakeboard.handler("logs-nothing", logs="off")
async def logs_nothing(run: wakeboard.Run) -> None:
    """Logs and fails, and nothing of it is kept."""
    run.log.info("a secret")
    print("another")
    raise ValueError("the third")
