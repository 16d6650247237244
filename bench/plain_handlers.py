"""The same nothing in a plain function, for a thread."""

from __future__ import annotations

import wakeboard
from bench.handler_reports import report_first


@wakeboard.handler("noop")
def noop(run: wakeboard.Run) -> None:
    """Nothing at all, but with its payload read."""
    run.payload.get("due")
    report_first()
