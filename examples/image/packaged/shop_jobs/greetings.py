"""A handler in an installed package. The worker finds it by the entry point in pyproject.toml."""

from __future__ import annotations

from typing import TYPE_CHECKING

import humanize

import wakeboard

if TYPE_CHECKING:
    from wakeboard import Run


@wakeboard.handler("greet")
async def greet(run: Run) -> str:
    """Returns a greeting with the number of the visit."""
    which = humanize.ordinal(run.payload.get("visit", 1))
    return f"Hello, {run.payload['name']}! This is your {which} visit."
