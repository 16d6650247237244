"""The watchdog limits how long a thread waits for a reply."""

from __future__ import annotations

import psycopg
import pytest

from wakeboard_worker.watchdog import Watchdog


def test_a_connection_whose_reply_is_late_is_aborted(database: str) -> None:
    watchdog = Watchdog()
    watchdog.start()
    for _ in range(2):  # one thread, again and again
        with psycopg.connect(database) as conn, watchdog.waiting(conn, 30):
            assert conn.execute("select 1").fetchone() == (1,)
        conn = psycopg.connect(database)
        with pytest.raises(psycopg.OperationalError), watchdog.waiting(conn, 0.1):
            conn.execute("select pg_sleep(60)")
        conn.close()


def test_a_connection_whose_reply_arrived_is_not_aborted(database: str) -> None:
    watchdog = Watchdog()
    watchdog.start()
    with psycopg.connect(database) as conn:
        with watchdog.waiting(conn, 0.05):
            conn.execute("select 1")
        conn.execute("select pg_sleep(0.2)")
