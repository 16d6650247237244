"""Replies that are lost after the commit, where a worker depends on them."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, urlsplit

import pytest

from tests.chaos.processes import Worker
from wakeboard.conformance.tcp_proxy import Action, Intercept, TcpProxy

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.chaos.processes import Watcher

LEASE_S = 2  # of the workers of these tests
BUSY_MACHINE_S = 10


@pytest.fixture
def proxy(database: str) -> Iterator[TcpProxy]:
    parts = urlsplit(database)
    options = parse_qs(parts.query)
    proxy = TcpProxy(f"{options['host'][0]}/.s.PGSQL.{options['port'][0]}")
    proxy.start()
    yield proxy
    proxy.stop()


def through(proxy: TcpProxy, database: str) -> str:
    return f"postgresql://postgres@127.0.0.1:{proxy.port}{urlsplit(database).path}?sslmode=disable&gssencmode=disable"


@pytest.mark.parametrize("statement", [b"wakeboard.schema_state", b"wakeboard.register_worker"])
def test_a_forever_worker_starts_although_its_first_replies_are_lost(
    statement: bytes, database: str, proxy: TcpProxy, watcher: Watcher, tmp_path: Path
) -> None:
    watcher.enqueue("quick")
    intercept = Intercept("wakeboard claims", statement, Action.DROP_REPLY)
    proxy.add(intercept)
    with Worker(through(proxy, database), tmp_path, "--forever"):
        watcher.wait("select true from wakeboard.job_run_history where status = 'succeeded'")
    assert intercept.matched.is_set()


def test_orphaned_leases_of_a_terminating_worker_are_reaped_soon(
    database: str, proxy: TcpProxy, watcher: Watcher, tmp_path: Path
) -> None:
    with Worker(database, tmp_path, "--forever", queues="elsewhere"):  # it reaps now, and again in a minute
        watcher.wait("select reap_completed_at > 'epoch' from wakeboard.installation")
        watcher.enqueue("quick", 10)
        intercept = Intercept("wakeboard claims", b"wakeboard.fetch_runs(", Action.DROP_REPLY, b'"quick"')
        proxy.add(intercept)
        with Worker(through(proxy, database), tmp_path, drain_lookahead_seconds=0) as leaving:
            assert leaving.exit_code() == 0
        assert intercept.matched.is_set()
        left = time.monotonic()
        # The runs of the lost reply are left; the worker had claimed others before. Whether the reap counts a crash
        # depends on whether the worker sent heartbeats for half a lease after the claim.
        watcher.wait("select bool_and(status = 'queued' and lease_epoch > 0) from wakeboard.job_runs")
        assert time.monotonic() - left < LEASE_S + 6 + BUSY_MACHINE_S
