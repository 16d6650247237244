"""Runs maintenance passes every second, as the operator does, and nothing else."""

from __future__ import annotations

import asyncio
import os
import sys
import time

from wakeboard.errors import WakeboardError
from wakeboard.maintenance.loop import MaintenanceLoop
from wakeboard.maintenance.retention import Retention
from wakeboard.settings import read_settings
from wakeboard.store.connection import connect
from wakeboard.store.maintenance_api import MaintenanceStore


async def run_maintenance(dsn: str, name: str) -> None:
    """Runs passes until the process is killed. Opens a new connection when one breaks."""
    settings = read_settings()
    maintenance = MaintenanceLoop(misfire_grace=settings.misfire_grace, retention=Retention.from_settings(settings))
    while True:
        try:
            async with await connect(dsn, name=f"wakeboard maintenance {name}") as conn:
                while not conn.closed:
                    await maintenance.run_due(MaintenanceStore(conn), time.monotonic())
                    await asyncio.sleep(1.0)
        except WakeboardError as error:
            sys.stderr.write(f"{error}\n")
            await asyncio.sleep(0.5)


if __name__ == "__main__":
    asyncio.run(run_maintenance(os.environ["WAKEBOARD_DSN"], os.environ["WAKEBOARD_WORKER_NAME"]))
