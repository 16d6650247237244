"""The handlers of campaigns with a ledger: each execution is a line of it."""

from __future__ import annotations

from typing import Any, cast

import wakeboard
from chaos.ledger import Ledger


@wakeboard.handler("recorded")
def recorded(run: wakeboard.Run) -> None:
    """A run that the application `of` has enqueued as its `number`-th one."""
    payload = cast("dict[str, Any]", run.payload)
    Ledger(f"{payload['of']}.done").append(payload["number"])


@wakeboard.handler("recorded-tick")
def recorded_tick(run: wakeboard.Run) -> None:
    """A tick, by its moment."""
    Ledger("ticks.done").append(int(run.scheduled_for.timestamp()))
