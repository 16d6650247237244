"""Which metrics the leader and a standby export."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import psycopg
import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.health.test_conditions import WELL
from wakeboard import __version__
from wakeboard.health.findings import findings
from wakeboard.health.queries.facts import read_maintenance, read_measured
from wakeboard.schedules.leader_api import LeadershipState
from wakeboard.store.connection import connect
from wakeboard.views.queries.backlog import read_queues
from wakeboard.views.queries.finished_runs import finished_since
from wakeboard_operator.leadership import Leadership
from wakeboard_operator.metrics import BACKLOG_WITHIN_S, Metrics
from wakeboard_operator.run_histogram import MAX_PAIRS
from wakeboard_operator.term import no_worker_seen
from wakeboard_operator.watch import PendingChanges, WatchSupervisor

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

pytestmark = pytest.mark.anyio

WAITED = "update wakeboard.job_runs set run_at = now() - %s::interval, created_at = '-infinity'"  # this long


@pytest.fixture
async def leadership(database: str) -> AsyncGenerator[Leadership]:
    made = Leadership(database, "k8s:one", 15)
    leading = asyncio.create_task(made.run())
    while not made.is_leader():
        await made.changed.wait()
    yield made
    leading.cancel()
    await made.release()


def exported_values(metrics: Metrics, leadership: Leadership) -> dict[str, float]:
    """Every sample by name and labels."""
    supervisor = WatchSupervisor([], PendingChanges(asyncio.get_running_loop()))
    page = metrics.text(leadership, supervisor).decode()
    return {
        sample.name + "".join(f" {value}" for value in sample.labels.values()): sample.value
        for family in text_string_to_metric_families(page)
        for sample in family.samples
    }


async def test_a_leader_exports_schedules_and_runs_and_a_standby_does_not(
    leadership: Leadership, database: str
) -> None:
    metrics = Metrics()
    with psycopg.connect(database, autocommit=True) as conn:
        conn.execute("select wakeboard.enqueue('ping')")
        conn.execute(WAITED, ["1 minute"])
    async with await connect(database) as conn:
        metrics.record_health(await read_measured(conn))
    found = exported_values(metrics, leadership)
    assert found["wakeboard_leader"] == 1
    assert found["wakeboard_due_runs default"] == 1
    assert found["wakeboard_oldest_due_seconds default"] >= 60
    assert found["wakeboard_dead_runs"] == 0
    standby = exported_values(metrics, Leadership(database, "k8s:one", 15))
    assert standby["wakeboard_leader"] == 0
    of_leaders = ("wakeboard_due_runs", "wakeboard_dead_runs", "wakeboard_api_server_up", "wakeboard_last_reconcile")
    assert not any(name.startswith(of_leaders) for name in standby)


async def test_the_backlog_of_each_queue_counts_the_ticks_of_the_next_minute(
    leadership: Leadership, database: str
) -> None:
    metrics = Metrics()
    async with await connect(database) as conn:
        await conn.execute("select wakeboard.enqueue('ping')")
        await conn.execute(
            "insert into wakeboard.job_definitions"
            " (source, namespace, name, spec_hash, job_type, queue, schedule, cron_fields, next_run_at)"
            " select 'file:t', 't', queue, '-', 'ping', queue, '0 8 * * *', '-', now() + away::interval"
            "   from (values ('default', '30 s'), ('mail', '1 hour')) as made (queue, away)"
        )
        metrics.record_backlog(await read_queues(conn, BACKLOG_WITHIN_S))
    found = exported_values(metrics, leadership)
    assert found["wakeboard_backlog_runs default"] == 2
    assert found["wakeboard_backlog_runs mail"] == 0


async def test_a_paused_queue_is_not_called_late(leadership: Leadership, database: str) -> None:
    metrics = Metrics()
    async with await connect(database) as conn:
        for queue in ("busy", "paused"):
            await conn.execute("select wakeboard.enqueue('ping', queue => %s)", (queue,))
        await conn.execute(WAITED, ["1 hour"])
        await conn.execute("select wakeboard.pause('queue:paused')")
        metrics.record_health(await read_measured(conn))
    found = exported_values(metrics, leadership)
    assert found["wakeboard_due_runs paused"] == 1
    assert found["wakeboard_oldest_due_seconds busy"] >= 3600
    assert found["wakeboard_oldest_due_seconds paused"] == 0


async def test_without_any_worker_the_dead_man_switch_counts_from_the_installation(
    leadership: Leadership, database: str
) -> None:
    metrics = Metrics()
    async with await connect(database) as conn:
        await conn.execute("update wakeboard.installation set created_at = now() - interval '1 hour'")
        metrics.record_health(await read_measured(conn))
        assert exported_values(metrics, leadership)["wakeboard_last_worker_age_seconds"] >= 3600
        await conn.execute(
            "select wakeboard.register_worker(99, 'one', 'default', 'host', '1', '{default}', 1, 60, '{ping}')"
        )
        await conn.execute("update wakeboard.workers set last_seen = now() - interval '5 minutes'")
        await conn.execute("update wakeboard.worker_types set last_known_at = now() - interval '5 minutes'")
        metrics.record_health(await read_measured(conn))
    assert exported_values(metrics, leadership)["wakeboard_last_worker_age_seconds"] >= 300


async def test_a_worker_that_deregistered_counts_as_seen(database: str) -> None:
    with psycopg.connect(database, autocommit=True) as conn:
        conn.execute(
            "select wakeboard.register_worker(99, 'one', 'default', 'host', '1', '{default}', 1, 60, '{ping}')"
        )
        conn.execute("select wakeboard.deregister_worker(99)")
    async with await connect(database) as conn:
        vitals = await read_measured(conn)
    now = vitals.now
    assert not no_worker_seen(vitals.maintenance.last_worker, now - timedelta(hours=1), now)


@pytest.mark.parametrize(
    ("last_worker_s", "first_s", "missing"),
    [
        (60, 3600, False),
        (181, 3600, True),
        (None, 3600, True),
        (None, 60, False),
        (3600, 60, False),  # a release that has just been installed again: its first wake is still to come
    ],
)
def test_no_worker_is_missed_in_the_first_three_minutes(last_worker_s: int | None, first_s: int, missing: bool) -> None:
    now = datetime(2026, 11, 22, 12, tzinfo=UTC)
    last_worker = None if last_worker_s is None else now - timedelta(seconds=last_worker_s)
    assert no_worker_seen(last_worker, now - timedelta(seconds=first_s), now) == missing


async def test_runs_that_end_are_counted_once_by_how_they_ended(leadership: Leadership, database: str) -> None:
    metrics = Metrics()
    async with await connect(database) as conn:
        since = (await finished_since(conn, None)).until
        await conn.execute("select wakeboard.enqueue('ping') from generate_series(1, 3)")
        await conn.execute("select wakeboard.cancel(array(select id from wakeboard.job_runs))")
        counted = 0
        while counted < 3:
            finished = await finished_since(conn, since)
            metrics.record_finished(finished)
            counted += sum(finished.runs.values())
            since = finished.until
            await conn.execute("select pg_sleep(0.1)")
        assert sum((await finished_since(conn, since)).runs.values()) == 0
    assert exported_values(metrics, leadership)["wakeboard_runs_finished_total cancelled"] == 3


async def test_durations_and_lateness_are_histograms_with_bounded_labels(leadership: Leadership, database: str) -> None:
    metrics = Metrics()
    async with await connect(database) as conn:
        await conn.execute("select wakeboard.enqueue('ping', queue => 'q' || n) from generate_series(1, 60) as n")
        await conn.execute("select wakeboard.cancel(array(select id from wakeboard.job_runs))")
        await conn.execute(
            "update wakeboard.job_run_history set status = 'succeeded', schedule = 'shop/report',"
            " created_at = now() - interval '26 s', run_at = now() - interval '26 s',"
            " started_at = now() - interval '24 s', finished_at = now() - interval '4 s'"
        )
        metrics.record_finished(await finished_since(conn, datetime.now(UTC) - timedelta(minutes=1)))
    page = metrics.text(leadership, WatchSupervisor([], PendingChanges(asyncio.get_running_loop()))).decode()
    found = {
        (sample.name.removeprefix("wakeboard_run_"), *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(page)
        for sample in family.samples
    }
    assert found["duration_seconds_bucket", "10.0", "other", "other"] == 0
    assert found["duration_seconds_bucket", "30.0", "other", "other"] == 60 - MAX_PAIRS
    assert found["lateness_seconds_bucket", "5.0", "other", "other"] == 60 - MAX_PAIRS
    assert found["duration_seconds_sum", "other", "other"] == 20 * (60 - MAX_PAIRS)
    assert sum(name[0] == "duration_seconds_count" for name in found) == MAX_PAIRS + 1


async def test_health_names_what_the_operator_is_refused(leadership: Leadership, database: str) -> None:
    refused = "the API server does not list jobschedules: forbidden"
    leadership.problem = refused
    leadership.check_now()
    async with await connect(database) as conn:
        while not (facts := await read_maintenance(conn)).operator_problems:
            await conn.execute("select pg_sleep(0.05)")
    (found,) = (each for each in findings(replace(WELL, maintenance=facts)) if each.check == "operators")
    text = f"The operator of k8s:one: {refused}. Changes of schedules have no effect meanwhile."
    assert (found.level, found.message) == ("fail", text)


@pytest.mark.parametrize(
    ("release", "leads", "blocked"),
    [
        ("", __version__, None),
        ("", "9.9.9", "9.9.9"),
        # Or a rolling upgrade would wait for ever: for a pod that is ready when the old one has gone.
        ("wakeboard/wakeboard", "wakeboard/wakeboard", None),
        ("wakeboard/wakeboard", "team-a/wakeboard", "team-a/wakeboard"),
    ],
)
async def test_a_standby_is_blocked_by_another_release_only(release: str, leads: str, blocked: str | None) -> None:
    standby = Leadership("", "k8s:one", 15, release=release)
    assert standby.blocked_by() is None
    standby.state = LeadershipState(1, False, "other", leads, 9.0)
    assert standby.blocked_by() == blocked
    assert not standby.is_leader()


async def test_a_standby_that_another_release_blocks_logs_what_to_set(
    leadership: Leadership, database: str, caplog: pytest.LogCaptureFixture
) -> None:
    other = Leadership(database, "k8s:one", 15, release="team-b/wakeboard")
    standing_by = asyncio.create_task(other.run())
    while other.blocked_by() is None:  # noqa: ASYNC110 - a standby sets no event
        await asyncio.sleep(0.01)
    standing_by.cancel()
    await asyncio.gather(standing_by, return_exceptions=True)
    await other.release()
    assert leadership.is_leader()
    assert "set operator.namespaces and operator.source" in caplog.text
