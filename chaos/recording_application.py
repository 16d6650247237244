"""An application with a ledger: `python -m chaos.recording_application NAME [PAUSE_S]` enqueues until SIGTERM.

It uses the client library of its own release. Its load is as much as the workers execute: it never has more than
AHEAD runs that are not in the ledger. With PAUSE_S it is less: it waits so many seconds between two runs. A call that
fails is repeated with the same idempotency key, and counted.
"""

from __future__ import annotations

import itertools
import signal
import sys
import threading
from contextlib import suppress
from typing import Any, Final

import psycopg

import wakeboard
from chaos.ledger import Ledger
from wakeboard.settings import read_settings

AHEAD: Final = 100  # runs


def main(name: str, pause_s: float = 0.0) -> None:
    """Enqueues runs with the numbers 1, 2, 3 and so on."""
    stopped = threading.Event()
    signal.signal(signal.SIGTERM, lambda _number, _frame: stopped.set())
    asked, done, failed = (Ledger(f"{name}.{kind}") for kind in ("asked", "done", "failed"))
    dsn = read_settings().dsn.get_secret_value()
    conn: psycopg.Connection[Any] | None = None
    for number in itertools.count(1):
        while not stopped.is_set():
            try:
                if conn is None or conn.closed:
                    conn = psycopg.connect(dsn, autocommit=True, application_name=f"application {name}")
                payload = {"of": name, "number": number}
                wakeboard.enqueue(conn, "recorded", payload, idempotency_key=f"{name}-{number}")
                break
            except (psycopg.Error, wakeboard.WakeboardError) as error:
                sys.stderr.write(f"{type(error).__name__}: {error}\n")
                failed.append(number)
                stopped.wait(0.1)
        if stopped.is_set():
            break
        asked.append(number)
        stopped.wait(pause_s)
        while number - len(done) > AHEAD and not stopped.wait(0.01):
            pass
    with suppress(psycopg.Error):
        if conn is not None:
            conn.close()


if __name__ == "__main__":
    main(sys.argv[1], *map(float, sys.argv[2:]))
