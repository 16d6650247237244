"""One handler for the smallest worker image."""

from __future__ import annotations

from typing import TYPE_CHECKING

import wakeboard

if TYPE_CHECKING:
    from wakeboard import Run


@wakeboard.handler("greet")
async def greet(run: Run) -> str:
    """Returns a greeting, which is stored as the run's result."""
    return f"Hello, {run.payload['name']}!"
