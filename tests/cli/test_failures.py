"""The command `wakeboard failures`, and the query of docs/monitoring.md for other tools."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.cli.conftest import Type
    from tests.cli.sample_store import SampleStore

MONITORING = Path(__file__).parents[2] / "docs/monitoring.md"


@pytest.fixture
def ended(story: SampleStore) -> SampleStore:
    """Mails: one succeeded at its second attempt, one is dead, one failed and waits. Pings: two succeeded."""
    again, dead, waiting = (story.enqueue("mail") for _ in range(3))
    story.fail(again, "try later", delay_s=0.0)
    story.succeed(again)
    story.fail(dead, "no such address", outcome="discarded")
    story.fail(waiting, "try later")
    for _ in range(2):
        story.succeed(story.enqueue("ping"))
    return story


def test_failures_are_counted_by_job_type(type_command: Type, ended: SampleStore):
    for run in range(1, 6):
        ended.long_ago(run, "2 hours")
    rows = type_command("failures", "--json").json

    assert [(row["job_type"], row["failure_rate"], row["succeeded"], row["failed"], row["dead"]) for row in rows] == [
        ("mail", 0.75, 1, 3, 1),
        ("ping", 0, 2, 0, 0),
    ]
    assert rows[0]["errors"] == {"ValueError": 3}
    assert rows[0]["last_error"] == "try later"
    assert rows[1]["last_failed_at"] is None
    assert [line.split() for line in type_command("failures").lines] == [
        ["JOB", "TYPE", "RATE", "SUCCEEDED", "FAILED", "TIMED", "OUT", "CRASHED", "DEAD", "LAST", "ERRORS"],
        ["mail", "75.0%", "1", "3", "0", "0", "1", "2", "h", "ago", "3", "ValueError"],
        ["ping", "0.0%", "2", "0", "0", "0", "0", "-"],
    ]


def test_failures_of_one_type_and_time_only(type_command: Type, ended: SampleStore):
    assert [row["job_type"] for row in type_command("failures", "--type", "ping", "--json").json] == ["ping"]
    for run in range(1, 6):
        ended.long_ago(run, "2 days")
    assert type_command("failures").out == "no attempt ended in this period.\n"
    assert len(type_command("failures", "--since", "3d", "--json").json) == 2


@pytest.mark.parametrize("outcome", ["snoozed", "released"])
def test_an_attempt_that_was_put_off_is_no_failure(type_command: Type, ended: SampleStore, outcome: str):
    put_off = "update wakeboard.job_attempts set outcome = %s, error_type = null, error = null where run_id = %s"
    for job_type in ("ping", "patience"):
        run = ended.enqueue(job_type)
        ended.fail(run)
        ended.sql(put_off, outcome, run)
    pings = type_command("failures", "--type", "ping", "--json").json

    assert [(row["failure_rate"], row["succeeded"], row["errors"]) for row in pings] == [(0, 2, {})]
    assert [row["job_type"] for row in type_command("failures", "--json").json] == ["mail", "ping"]
    test_the_documented_query_answers_the_same(type_command, ended)


def test_the_documented_query_answers_the_same(type_command: Type, ended: SampleStore):
    query = re.search(r"```sql\n(.*?failure_rate.*?)```", MONITORING.read_text("utf-8"), re.DOTALL)
    assert query
    rows = ended.sql(query[1])

    asked = type_command("failures", "--json").json
    assert [(row[0], float(row[1]), *row[2:]) for row in rows] == [
        (each["job_type"], each["failure_rate"], each["succeeded"], each["failed"], each["timed_out"], each["crashed"])
        for each in asked
    ]
