"""The companion process of this pattern: tenants order articles, and one of them cancels in mid-stream."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import psycopg

import wakeboard

TENANTS = ("ada", "grace", "edsger")
SECTIONS = 4
BURST = 300  # tokens


def main() -> None:
    """Orders the articles, cancels one while it is written, then waits for SIGTERM."""
    with psycopg.connect(os.environ["WAKEBOARD_DSN"], autocommit=True) as conn:
        conn.execute(Path(__file__).with_name("schema.sql").read_bytes())
        provider = subprocess.Popen([sys.executable, "provider.py"])
        for tenant in TENANTS:  # a token is a unit: this is what the tenant may spend
            budget = (f"tenant-{tenant}", int(os.environ["AI_TOKENS_PER_MINUTE"]), 60, BURST)
            conn.execute("select wakeboard.set_rate_limit(%s, %s, %s, %s)", budget)
        runs = [order(conn, TENANTS[number % len(TENANTS)]) for number in range(int(os.environ["AI_ARTICLES"]))]
        query = "select id from wakeboard.job_runs where status = 'running' and id = any(%s) order by id desc limit 1"
        while not (running := conn.execute(query, (runs,)).fetchone()):
            time.sleep(0.1)
        conn.execute("select wakeboard.cancel(array[%s]::bigint[], reason => 'the tenant changed its mind')", running)
    print(f"{len(runs)} articles are ordered; run {running[0]} is cancelled", flush=True)
    provider.wait()


def order(conn: psycopg.Connection[tuple[object, ...]], tenant: str) -> int:
    """Stores the prompts and enqueues the run, which has the tenant's limit key. Returns the run's id."""
    with conn.transaction():
        prompts = [f"confidential-{tenant}: write section {number}" for number in range(1, SECTIONS + 1)]
        insert = "insert into articles (tenant, prompts) values (%s, %s) returning id"
        (article,) = conn.execute(insert, (tenant, prompts)).fetchone() or (0,)
        payload = {"article": article}
        return wakeboard.enqueue(conn, "write_article", payload, limit_key=f"tenant-{tenant}", max_attempts=20).id


if __name__ == "__main__":
    main()
