"""Runs the operator's maintenance every second, with its alerts, its limits and its restarts, and nothing else.

It is the code of the operator. Without a cluster there is no leader election, so no statement checks a term.
"""

from __future__ import annotations

import asyncio
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

from wakeboard.alerts.file import AlertFile
from wakeboard.engine.maintenance_api import MaintenanceStore
from wakeboard_operator.metrics import Metrics
from wakeboard_operator.operator import Operator, log_problems
from wakeboard_operator.settings import read_operator_settings

if TYPE_CHECKING:
    from wakeboard_operator.settings import OperatorSettings

SOURCE: Final = "file:chaos"  # of the declared limits


class MaintenanceOnly(Operator):
    """An operator that has one task of a leader."""

    def __init__(self, settings: OperatorSettings) -> None:
        nothing: Any = None  # neither a cluster, nor leadership, nor health: maintenance reads none of them
        super().__init__(settings, nothing, SOURCE, nothing, nothing, Metrics(), nothing)

    async def run(self) -> None:
        """Runs until the process is killed."""
        alerts = AlertFile(Path(self._settings.alerts_file), partial(log_problems, "alert rules")).alerts
        maintenance = self._maintenance(alerts)
        await self._keep_running(
            "maintenance", lambda conn: self._run_maintenance(cast("Any", MaintenanceStore(conn)), maintenance)
        )


if __name__ == "__main__":
    asyncio.run(MaintenanceOnly(read_operator_settings()).run())
