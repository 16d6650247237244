"""The plain function of measured workers, which runs in a thread."""

from __future__ import annotations

import wakeboard
from bench.handler_reports import report


@wakeboard.handler("noop_in_a_thread")
def noop_in_a_thread(run: wakeboard.Run) -> None:
    """Nothing at all, but with its payload read."""
    report(run)
