"""Handlers in an installed package: its entry point tells the worker where they are."""

from __future__ import annotations

from typing import TYPE_CHECKING

import humanize

import wakeboard

if TYPE_CHECKING:
    from wakeboard import Run


@wakeboard.handler("greet")
async def greet(run: Run) -> str:
    """A greeting that knows which one it is, as the run's result."""
    which = humanize.ordinal(run.payload.get("visit", 1))
    return f"Hello, {run.payload['name']}! This is your {which} visit."
