"""wakeboard: tables, and runs that belong to a definition, enqueued by `enqueue_many`. It works as its own process."""

from __future__ import annotations

import asyncio
import os
import sys
import time

import psycopg

import wakeboard
from bench.database import BATCH, OF_A_DEFINITION
from wakeboard.store.migrate import migrate

DSN = os.environ["BENCH_DSN"]


def prepare() -> None:
    asyncio.run(migrate(DSN))
    with psycopg.connect(DSN) as connection:
        connection.execute(OF_A_DEFINITION.encode())


def enqueue(jobs: int) -> None:
    noops = [wakeboard.Job("noop")] * BATCH
    with psycopg.connect(DSN, autocommit=True) as connection:
        began = time.perf_counter()
        for start in range(0, jobs, BATCH):
            wakeboard.enqueue_many(connection, noops[: jobs - start])
        print(time.perf_counter() - began)


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["prepare"]:
            prepare()
        case ["enqueue", jobs]:
            enqueue(int(jobs))
        case other:
            sys.exit(f"unknown: {other}")
