"""The command `wakeboard failures`, and the query of docs/monitoring.md for other tools."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.cli.conftest import Cli
    from tests.cli.sample_store import SampleStore

MONITORING = Path(__file__).parents[2] / "docs/monitoring.md"


@pytest.fixture
def ended(sample: SampleStore) -> SampleStore:
    """Mails: one succeeded at its second attempt, one is dead, one failed and waits. Pings: two succeeded."""
    again, dead, waiting = (sample.enqueue("mail") for _ in range(3))
    sample.fail(again, "try later", delay_s=0.0)
    sample.succeed(again)
    sample.fail(dead, "no such address", outcome="discarded")
    sample.fail(waiting, "try later")
    for _ in range(2):
        sample.succeed(sample.enqueue("ping"))
    return sample


def test_failures_are_counted_by_job_type(cli: Cli, ended: SampleStore):
    for run in range(1, 6):
        ended.backdate(run, "2 hours")
    rows = cli("failures", "--json").json

    assert [(row["job_type"], row["failure_rate"], row["succeeded"], row["failed"], row["dead"]) for row in rows] == [
        ("mail", 0.75, 1, 3, 1),
        ("ping", 0, 2, 0, 0),
    ]
    assert rows[0]["errors"] == {"ValueError": 3}
    assert rows[0]["last_error"] == "try later"
    assert rows[1]["last_failed_at"] is None
    assert [line.split() for line in cli("failures").lines] == [
        [
            "JOB",
            "TYPE",
            "RATE",
            "SUCCEEDED",
            "FAILED",
            "TIMED",
            "OUT",
            "CRASHED",
            "CANCELLED",
            "DEAD",
            "LAST",
            "FAILURE",
            "ERRORS",
        ],
        ["mail", "75.0%", "1", "3", "0", "0", "0", "1", "2", "h", "ago", "3", "ValueError"],
        ["ping", "0.0%", "2", "0", "0", "0", "0", "0", "-"],
    ]


def test_failures_can_be_filtered_by_type_and_time(cli: Cli, ended: SampleStore):
    assert [row["job_type"] for row in cli("failures", "--type", "ping", "--json").json] == ["ping"]
    for run in range(1, 6):
        ended.backdate(run, "2 days")
    assert cli("failures").out == "no attempt ended in this period.\n"
    assert len(cli("failures", "--since", "3d", "--json").json) == 2


def test_a_retry_without_a_cause_counts_by_its_message(cli: Cli, sample: SampleStore):
    for seconds in (5, 60.5):
        sample.fail(sample.enqueue("mail"), f"the bank answers 429: retry after {seconds} s")
    sample.sql("update wakeboard.job_attempts set error_type = 'RetryAfter'")
    (row,) = cli("failures", "--json").json
    assert row["errors"] == {"RetryAfter: the bank answers #: retry after # s": 2}


@pytest.mark.parametrize("outcome", ["snoozed", "released"])
def test_snoozed_and_released_attempts_are_no_failures(cli: Cli, ended: SampleStore, outcome: str):
    postpone = "update wakeboard.job_attempts set outcome = %s, error_type = null, error = null where run_id = %s"
    for job_type in ("ping", "timeout_s"):
        run = ended.enqueue(job_type)
        ended.fail(run)
        ended.sql(postpone, outcome, run)
    pings = cli("failures", "--type", "ping", "--json").json

    assert [(row["failure_rate"], row["succeeded"], row["errors"]) for row in pings] == [(0, 2, {})]
    assert [row["job_type"] for row in cli("failures", "--json").json] == ["mail", "ping"]
    test_the_documented_query_returns_the_same(cli, ended)


def test_no_reader_counts_a_cancelled_attempt_as_a_failure(cli: Cli, sample: SampleStore):
    schedule = sample.add_schedule("report", job_type="report")
    sample.sql("update wakeboard.job_definitions set suspend_after_dead = 1, dead_counted_from = now()")
    sample.register_worker("report")
    sample.succeed(sample.run_now(schedule))
    levels = {finding["check"]: finding["level"] for finding in cli("check", "--json").json}
    for _ in range(4):
        run = sample.run_now(schedule)
        epoch = sample.claim(run)
        sample.sql("select wakeboard.cancel(array[%s]::bigint[])", run)
        sample.sql(
            "select wakeboard.fail(77, array[%s]::bigint[], array[%s]::bigint[], '{failed}', '{CancelledError}', '{}',"
            " '{}', '{null}')".replace("'{}'", "array['']"),
            run,
            epoch,
        )
    (row,) = cli("failures", "--json").json
    assert (row["failure_rate"], row["failed"], row["cancelled"], row["errors"]) == (0, 0, 4, {})
    for condition in ("failures", "dead"):
        assert sample.value("select value from wakeboard.measure_alert(%s, '1 hour')", condition) == 0
    sample.sql("select wakeboard.update_circuits()")
    assert sample.value("select circuit_opened_at is null and circuit_probes is null from wakeboard.job_definitions")
    events = sample.sql("select outcome, count(*) from wakeboard.job_attempts group by 1")
    assert events == [("cancelled", 4)]
    assert {finding["check"]: finding["level"] for finding in cli("check", "--json").json} == levels
    facts = "select measure, count from wakeboard.run_facts(now() - interval '1 hour', 'infinity') where bucket is null"
    assert dict(sample.sql(facts)) == {"succeeded": 1, "cancelled": 4}
    sample.sql("update wakeboard.job_run_history set finished_at = finished_at - interval '3 min'")
    sample.sql("update wakeboard.job_attempts set ended_at = ended_at - interval '3 min'")
    sample.sql("select wakeboard.roll_up()")
    ends = "sum(succeeded), sum(cancelled), sum(failed + timed_out + crashed + died)"
    counted = f"select {ends} from wakeboard.run_rollups where dimension = 'all' and grain = 'minute'"
    assert sample.sql(counted) == [(1, 4, 0)]


def test_the_documented_query_returns_the_same(cli: Cli, ended: SampleStore):
    query = re.search(r"```sql\n(.*?failure_rate.*?)```", MONITORING.read_text("utf-8"), re.DOTALL)
    assert query
    rows = ended.sql(query[1])

    asked = cli("failures", "--json").json
    assert [(row[0], float(row[1]), *row[2:]) for row in rows] == [
        (each["job_type"], each["failure_rate"], each["succeeded"], each["failed"], each["timed_out"], each["crashed"])
        for each in asked
    ]
