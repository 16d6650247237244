"""The starts of a limit key never exceed its rate limit, with several workers. Workers know when the next may start."""

from __future__ import annotations

import random
import threading
import time
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from wakeboard.limits.queries import NEXT_START_S

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.store.sql_clients import SqlClient


def limited(admin: SqlClient, runs: int, **values: Any) -> None:
    for _ in range(runs):
        admin.enqueue(limit_key="api", **values)


@pytest.mark.parametrize(("rate", "burst"), [(400, 1), (150, 40)])
def test_retries_and_other_queues_count_among_the_starts(
    admin: SqlClient, open_client: Callable[[int], SqlClient], rate: int, burst: int
) -> None:
    """Five workers claim by the shared key and by the key of a schedule, and end each run in a random way."""
    fail = "select fail(%s, array[%s]::bigint[], array[%s]::bigint[], '{failed}', '{E}', '{e}', '{x}', '{0}')"
    complete = "select complete(%s, array[%s]::bigint[], array[%s]::bigint[])"
    definition = admin.define(policy="Queue", limit_key="api")
    admin.sql("select set_rate_limit('api', %s, 1, %s)", rate, burst)
    admin.sql("select enqueue('ping', limit_key => 'api', max_attempts => 50) from generate_series(1, 1500)")
    admin.sql("select run_now(%s) from generate_series(1, 40)", definition)
    ends = time.monotonic() + 1.5
    starts: list[datetime] = []

    def work(worker: SqlClient) -> None:
        chance = random.Random(worker.worker_id)
        while time.monotonic() < ends or len(starts) <= 60:
            key = chance.choice(["api", "api", "api", f"schedule:{definition}"])
            for lease in worker.claim_limited(key, count=chance.randint(1, 30)):
                starts.append(worker.value("select started_at from job_runs where id = %s", lease.id))
                query = chance.choice([complete, fail])
                worker.sql(query, worker.worker_id, lease.id, lease.epoch)

    threads = [threading.Thread(target=work, args=[open_client(number)]) for number in range(81, 86)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert_within_rate(sorted(starts), rate, burst)


def assert_within_rate(starts: list[datetime], rate: float, burst: int) -> None:
    """Asserts that each window from one start to another has at most burst + rate * t starts."""
    slack = [number - rate * (at - starts[0]).total_seconds() for number, at in enumerate(starts)]
    least = float("inf")
    for value in slack:
        least = min(least, value)
        assert value - least + 1 <= burst + 0.01


def test_a_waiting_worker_learns_when_the_next_unit_is_free(admin: SqlClient, worker: SqlClient) -> None:
    limited(admin, 3)
    admin.sql("select set_rate_limit('api', 60, 600, 1)")
    assert next_due(worker) is None, "a run that may start now is not announced"
    assert len(worker.claim_limited("api", count=9)) == 1
    assert 8 < (next_due(worker) or 0) <= 10
    admin.sql("select set_rate_limit('api', null)")
    assert next_due(worker) is None


@pytest.mark.parametrize("policy", ["Allow", "Queue"])
def test_a_worker_learns_when_a_backfill_gets_its_next_unit(admin: SqlClient, worker: SqlClient, policy: str) -> None:
    """So a draining worker ends if that is later than it stays: it does not look each second."""
    schedule = admin.define(policy=policy, schedule="0 2 * * *", cron_fields="-", limit_key="api")
    admin.sql("select set_rate_limit('api', 1, 40, 1)")
    ticks = [datetime(2026, 1, day, 2, tzinfo=UTC) for day in (1, 2, 3)]
    admin.sql(
        "select create_backfill(%s, %s::timestamptz[], %s, '2026-02-01', at_once => 3)", schedule, ticks, ticks[0]
    )
    worker.register()
    (lease,) = worker.claim_limited()
    worker.complete(lease)
    assert 30 < (next_due(worker) or 0) <= 40
    admin.sql("update job_limits set next_unit_at = now() + interval '10 minutes'")
    assert next_due(worker) is None


def next_due(worker: SqlClient) -> float | None:
    return worker.value("select next_due('{default}', '{ping}', 60)")


def test_a_clock_set_back_stops_a_key_for_two_hours(admin: SqlClient, worker: SqlClient) -> None:
    limited(admin, 4)
    admin.sql("select set_rate_limit('api', 1, 1, 1)")
    set_back = "update job_limits set next_unit_at = now() + %s::interval, paused_until = now() + %s::interval"
    admin.sql(set_back, "119 minutes", "9 days")
    assert worker.claim_limited("api") == []
    later = admin.value("select advance_rate(bound, 0) - now() from job_limits as bound")
    assert later <= timedelta(hours=1)
    admin.sql(set_back, "9 days", "9 days")
    assert admin.value(f"select {NEXT_START_S} from job_limits as stored") == 0
    assert len(worker.claim_limited("api", count=4)) == 1
    assert worker.claim_limited("api", count=4) == []


def test_the_largest_rate_and_burst_are_within_the_range_of_times(admin: SqlClient, worker: SqlClient) -> None:
    limited(admin, 2)
    admin.sql("select set_rate_limit('api', 1, 2678400, 1000000)")
    for far in ("now() + interval '80000 years'", "'294276-12-31'", "'4713-01-01 BC'", "'infinity'", "'epoch'"):
        admin.sql(f"update job_limits set next_unit_at = {far}")
        assert admin.value("select advance_rate(bound, 1) is not null from job_limits as bound")
    (lease, *_) = worker.claim_limited("api", count=1)
    worker.sql("select consume(%s, %s, %s, 1000000)", worker.worker_id, lease.id, lease.epoch)


def test_a_pause_of_a_shared_key_outlives_the_removal_of_unused_limits(admin: SqlClient, worker: SqlClient) -> None:
    """Runs of schedules with a concurrencyPolicy have the key of their schedule, and share the paused one."""
    definition = admin.define(policy="Queue", limit_key="api")
    admin.sql("select run_now(%s)", definition)
    (lease,) = worker.claim_limited(f"schedule:{definition}")
    worker.sql("select pause_limit(%s, %s, %s, 7200)", worker.worker_id, lease.id, lease.epoch)
    admin.sql("update job_limits set created_at = now() - interval '2 days'")
    admin.sql("select delete_expired()")
    assert admin.value("select paused_until > now() + interval '1 hour' from job_limits where key = 'api'")
    admin.sql("update job_limits set paused_until = now()")
    admin.sql("select delete_expired()")
    assert admin.sql("select from job_limits where key = 'api'") == []


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ("'api', 0", "a rate is 0 runs; write a whole number from 1 to 1000000, or null for no rate limit"),
        ("'api', -1", "a rate is -1 runs; write a whole number from 1 to 1000000, or null for no rate limit"),
        ("'api', 1, 0", "a rate is per 0 seconds; write a whole number from 1 to 2678400 (31 days)"),
        ("'api', 1, null", "a rate is per null seconds; write a whole number from 1 to 2678400 (31 days)"),
        ("'api', 1, 1, 2000000", "a burst is 2000000 runs; write a whole number from 1 to 1000000"),
        ("null, 1", "key is null; write the name of a limit key"),
    ],
)
def test_a_wrong_rate_is_refused_with_what_to_write(admin: SqlClient, arguments: str, sentence: str) -> None:
    with pytest.raises(psycopg.Error, match=sentence.replace("(", r"\(").replace(")", r"\)")):
        admin.sql(f"select set_rate_limit({arguments})")  # pyright: ignore[reportArgumentType]
