"""What `wakeboard up` prints and counts, however slow its polls are."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import psycopg
import pytest

from wakeboard.local import event_poller
from wakeboard.local.event_poller import MAX_PAUSE_S, POLL_INTERVAL_S, EventPoller, pause_s
from wakeboard.local.messages import Problems
from wakeboard.store.reconnecting import ReconnectingConnection
from wakeboard.views.queries.recent_events import MAX_EVENTS, EventQueries

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from wakeboard.local.messages import UpLine

pytestmark = pytest.mark.anyio


@pytest.fixture
def lines() -> list[str]:
    """What was printed."""
    return []


@pytest.fixture
async def poller(database: str, lines: list[str]) -> AsyncIterator[EventPoller]:
    def emit(message: UpLine) -> None:
        lines.append(message.text)

    connection = ReconnectingConnection(database, "test", EventQueries)
    yield EventPoller(connection, Problems(emit), emit, program="wakeboard")
    await connection.close()


@pytest.fixture
def db(database: str) -> Iterator[psycopg.Connection]:
    with psycopg.connect(database, autocommit=True, options="-c search_path=wakeboard") as conn:
        yield conn


def cancelled_runs(db: psycopg.Connection, count: int) -> None:
    """Runs that end at once."""
    ids = [row[0] for row in db.execute("select (enqueue('greet')).id from generate_series(1, %s)", [count])]
    db.execute("select cancel(%s)", [ids])


async def test_a_run_that_ends_between_two_polls_is_printed(
    poller: EventPoller, lines: list[str], db: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_poller, "OVERLAP", timedelta(microseconds=1))  # any pause is longer
    await poller.poll()
    cancelled_runs(db, 3)
    await poller.poll()
    await poller.poll()
    assert len([line for line in lines if "cancelled" in line]) == 3


async def test_a_long_run_is_announced_once(
    poller: EventPoller, lines: list[str], db: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    await poller.poll()
    db.execute("select enqueue('greet'); select fetch_runs(1, 60, '{default}', '{greet}', 1)")
    await poller.poll()
    assert lines == []
    monkeypatch.setattr(event_poller, "LONG_RUN", timedelta(0))
    await poller.poll()
    await poller.poll()
    assert [line.split(" for ")[0] for line in lines] == ["greet has been running"]


async def test_ended_runs_are_counted_also_if_too_many_to_print(
    poller: EventPoller, lines: list[str], db: psycopg.Connection
) -> None:
    assert await poller.counts() == {}
    cancelled_runs(db, 2)
    await poller.poll()
    cancelled_runs(db, MAX_EVENTS + 100)
    db.execute("select enqueue('greet') from generate_series(1, 3)")
    db.execute("update job_runs set status = 'dead', dead_at = clock_timestamp()")
    db.execute(
        "insert into job_attempts (run_id, lease_epoch, attempt, outcome, locked_by, started_at, ended_at,"
        " died) select id, 1, 1, 'failed', 1, dead_at, dead_at, true from job_runs union all"
        " select -1, 1, 1, 'timed_out', 1, clock_timestamp(), clock_timestamp(), false"
    )
    await poller.poll()
    assert len(lines) < MAX_EVENTS + 100
    assert await poller.counts() == {"cancelled": MAX_EVENTS + 100, "dead": 3, "failed": 1}


async def test_runs_without_a_handler_are_a_problem_at_a_second_poll(
    poller: EventPoller, lines: list[str], db: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_poller, "UNSERVED_FOR", timedelta(microseconds=1))
    db.execute("select enqueue('greet', run_at => now() - interval '1 hour') from generate_series(1, 1001)")
    await poller.poll()
    assert lines == []
    await poller.poll()
    db.execute("select enqueue('greet')")
    await poller.poll()  # more of them are no other problem
    assert lines == ["Runs of job type greet cannot start: no worker of queue default has a handler for it."]


def test_the_pause_after_a_slow_poll_is_longer_and_has_a_bound() -> None:
    assert [pause_s(seconds) for seconds in (0.01, 0.5, 20)] == [POLL_INTERVAL_S, 5.0, MAX_PAUSE_S]
