"""Plain handlers that misbehave or take a long time. They run in threads."""

from __future__ import annotations

import contextvars
import time

import wakeboard

mine = contextvars.ContextVar[int]("mine", default=0)


@wakeboard.handler("sits")
def sits(run: wakeboard.Run) -> None:
    """Ignores `run.cancelled` until its time is over."""
    time.sleep(run.payload["seconds"])


@wakeboard.handler("complains")
def complains(run: wakeboard.Run) -> None:
    """Raises its own error when it is to stop."""
    while not run.cancelled:
        time.sleep(0.01)
    raise RuntimeError("stopped by the worker")


@wakeboard.handler("leaves-something")
def leaves_something(run: wakeboard.Run) -> int:
    """Sets a context variable, and returns what it found there."""
    found = mine.get()
    mine.set(run.id)
    return found
