"""Runs the operator's maintenance every second, with its alerts, its limits and its restarts, and nothing else.

It is the code of the operator. Without a cluster there is no leader election, so no statement checks a term.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Any, Final, cast

from wakeboard.engine.maintenance_api import MaintenanceStore
from wakeboard_operator.metrics import Metrics
from wakeboard_operator.replica import OperatorReplica
from wakeboard_operator.settings import read_operator_settings
from wakeboard_operator.term import LeaderTerm

SOURCE: Final = "file:chaos"  # of the declared limits


class MaintenanceOnly(LeaderTerm):
    """A term with one task."""

    def __init__(self) -> None:
        nothing: Any = None  # neither a cluster, nor leadership, nor a watch: maintenance reads none of them
        settings = read_operator_settings()
        super().__init__(OperatorReplica(settings, nothing, SOURCE, nothing, nothing, Metrics()), 0, nothing)

    async def run(self) -> None:
        """Runs until the process is killed."""
        await self._keep_running(
            "maintenance", lambda store: self._run_maintenance(cast("Any", MaintenanceStore(store.conn)))
        )


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO)
    asyncio.run(MaintenanceOnly().run())
