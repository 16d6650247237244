"""The companion process of this pattern: starts the systems around it, and asks for a backfill of the last days."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import psycopg

EXTRACTS = ("extract-orders", "extract-refunds")
SCHEDULES = "select count(*) from wakeboard.job_definitions where namespace = 'pipeline' and removed_at is null"


def main() -> None:
    """Creates the tables, waits until `up` has applied the schedules, and backfills both extracts."""
    provider = subprocess.Popen([sys.executable, "provider.py"])
    with psycopg.connect(os.environ["WAKEBOARD_DSN"], autocommit=True) as conn:
        conn.execute(Path(__file__).with_name("schema.sql").read_bytes())
        while conn.execute(SCHEDULES).fetchone() != (4,):
            time.sleep(0.1)
    today = datetime.now(UTC).date()
    span = ["--from", str(today - timedelta(days=int(os.environ["PIPELINE_DAYS"]))), "--to", str(today)]
    wakeboard = str(Path(sys.executable).with_name("wakeboard"))
    for extract in EXTRACTS:
        subprocess.run(
            [wakeboard, "backfill", f"pipeline/{extract}", *span, "--at-once", "2"], check=False
        )  # 1: all have run
    provider.wait()


if __name__ == "__main__":
    main()
