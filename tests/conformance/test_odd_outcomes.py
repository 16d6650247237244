"""A worker stores an outcome of each attempt, whatever its handler returns or raises, and other runs notice nothing."""

from __future__ import annotations

import re
import signal
from typing import TYPE_CHECKING

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from testbed.clients import go_worker, typescript_command, typescript_worker
from wakeboard.conformance.scenario import Scenario

if TYPE_CHECKING:
    from wakeboard.conformance.harness import Harness
    from wakeboard.conformance.suite import Suite

OUTCOMES = {
    "TypeScript": {
        "a key with NUL": ("succeeded", None),
        "half a character": ("succeeded", None),
        "a cycle": ("succeeded", None),
        "a function": ("succeeded", None),
        "progress NaN": ("succeeded", None),
        "an error without a text": ("dead", "Error"),
        "an error with an object as its text": ("dead", "Error"),
        "a delay that is no number": ("dead", "TypeError"),
        "a snooze without a delay": ("dead", "TypeError"),
    },
    "Go": {
        "a number out of range": ("succeeded", None),
        "a cycle": ("succeeded", None),
        "progress NaN": ("succeeded", None),
        "an error without a text": ("dead", "panic"),
        "a result without JSON": ("dead", "panic"),
        "no reason": ("dead", "panic"),
        "the end of the goroutine": ("dead", "errors.errorString"),
    },
}


def command(language: str) -> list[str]:
    return typescript_command(typescript_worker()) if language == "TypeScript" else [str(go_worker())]


@pytest.mark.parametrize("language", OUTCOMES)
def test_odd_outcomes_are_stored_and_hurt_no_other_run(language: str, suite: Suite) -> None:
    found: dict[str, tuple[str, str | None]] = {}

    def odd(harness: Harness) -> None:
        harness.start_and_wait()
        other = harness.one("wait", {"seconds": 4})  # longer than a lease
        runs = {what: harness.one("odd", {"what": what}, max_attempts=1) for what in OUTCOMES[language]}
        ended = b"select count(*) = 0 from wakeboard.job_runs where status <> 'dead' and id = any (%s)"
        harness.wait("some runs did not end", ended, list(runs.values()))
        harness.succeeded(other)
        rows = {what: harness.run(run) for what, run in runs.items()}
        found.update({what: (row["status"], row["error_type"]) for what, row in rows.items()})
        for row in [*rows.values(), harness.run(other)]:
            assert (row["attempts"], row["crash_count"], len(harness.leases(row["id"]))) == (1, 0, 1)

    (result,) = suite.run(command(language), [Scenario(f"odd-{language.lower()}", "", "", odd)])
    assert result.held, "\n".join([result.found, *result.output])
    assert found == OUTCOMES[language]


@pytest.mark.parametrize("language", OUTCOMES)
def test_a_snooze_of_no_time_lasts_a_tenth_of_a_second(language: str, suite: Suite) -> None:
    """Nothing else bounds how often a run snoozes."""
    found: list[float] = []

    def snooze(harness: Harness) -> None:
        harness.start()
        run = harness.one("fail", {"how": "snooze", "times": 1, "seconds": 0})
        query = (
            b"select extract(epoch from run_at - max(ended_at))::float"
            b"  from wakeboard.job_runs as run join wakeboard.job_attempts as past on past.run_id = run.id"
            b" where id = %s and run.locked_by = 0 group by run_at"
        )
        found.append(harness.wait("the run did not snooze", query, run))

    (result,) = suite.run(command(language), [Scenario(f"snooze-{language.lower()}", "", "", snooze)])
    assert result.held, "\n".join([result.found, *result.output])
    assert 0.1 <= found[0] < 1  # it counts from the report, a moment after the end of the handler


@pytest.mark.parametrize("language", OUTCOMES)
def test_the_log_names_the_run_whose_outcome_stays_locked(language: str, suite: Suite, server_dsn: str) -> None:
    found: list[re.Match[str] | None] = []

    def end_while_locked(harness: Harness) -> None:
        process = harness.start_and_wait()
        run = harness.one("wait", {"seconds": 60})
        harness.noted(run, "started")
        ((name,),) = harness.rows(b"select current_database()")
        with psycopg.connect(make_conninfo(server_dsn, dbname=name)) as administrator:
            administrator.execute("select from wakeboard.job_runs where id = %s for update", (run,))
            process.send_signal(signal.SIGTERM)
            assert process.wait(60) == 0
            found.append(re.search(rf"lost: no answer confirms the outcomes of 1 runs.*: \[?{run}\b", harness.output()))

    (result,) = suite.run(command(language), [Scenario(f"locked-{language.lower()}", "", "", end_while_locked)])
    assert result.held, "\n".join([result.found, *result.output])
    assert found[0]
