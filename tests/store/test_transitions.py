"""docs/sql-functions.md is correct: the table of status transitions, and the examples."""

from __future__ import annotations

import re
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import psycopg
import pytest

DOC = Path(__file__).parents[2] / "docs" / "sql-functions.md"
TEXT = DOC.read_text("utf-8")
CLOSE = "select wakeboard.close_for_move();"


def _table() -> list[tuple[str, str, str]]:
    """(status, function, status afterwards) for each cell."""
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in TEXT.splitlines()
        if line.startswith("|") and line.count("|") > 8 and "---" not in line
    ]
    return [(row[0], function, cell) for row in rows[1:] for function, cell in zip(rows[0][1:], row[1:], strict=True)]


EPOCHS = "array(select greatest(lease_epoch, 1) from wakeboard.all_runs where id = 1)"
FAIL = f"select wakeboard.fail(7, '{{1}}', {EPOCHS}, '{{%s}}', '{{E}}', '{{e}}', '{{s}}', '{{null}}')"
COMPLETE = f"select wakeboard.complete(7, '{{1}}', {EPOCHS})"
STEPS_TO = {
    "queued": [],
    "running": ["claim"],
    "failed": ["claim", FAIL % "failed", "update wakeboard.job_runs set run_at = now()"],
    "dead": ["claim", FAIL % "discarded"],
    "succeeded": ["claim", COMPLETE],
    "cancelled": ["select wakeboard.cancel('{1}')"],
    "skipped": [
        "update wakeboard.job_runs set start_before = now() - interval '1 s'",
        "select wakeboard.skip_past_deadline()",
    ],
}
EMPTY = """
truncate wakeboard.job_runs, wakeboard.job_run_history, wakeboard.job_attempts, wakeboard.workers
  restart identity cascade
"""
CLAIM = "select id from wakeboard.fetch_runs(7, 60, '{default}', '{job}', 10) where id is not null"
FUNCTIONS = {
    "claim": CLAIM,
    "complete": COMPLETE,
    "fail": FAIL % "failed",
    "release": f"select wakeboard.release(7, '{{1}}', {EPOCHS}, '{{0}}', '{{true}}')",
    "reap": "select crashed from wakeboard.reap(0, always => true)",
    "report_worker_terminated": "select crashed from wakeboard.report_worker_terminated(7, 'OOMKilled')",
    "cancel": "select answer from wakeboard.cancel('{1}')",
    "retry": "select answer from wakeboard.retry('{1}')",
    "replay": "select answer from wakeboard.replay('{1}')",
    "revoke": "select answer from wakeboard.revoke('{1}')",
    "discard": "select answer from wakeboard.discard('{1}')",
}


def _column(conn: psycopg.Connection[Any], statement: str) -> list[Any]:
    return [row[0] for row in conn.execute(statement.encode()).fetchall()]


def _refused(function: str, answers: list[Any]) -> bool:
    if function in {"complete", "fail", "release"}:
        return 1 in answers
    return any(str(answer).startswith("refused") for answer in answers)


@pytest.mark.parametrize("status", STEPS_TO)
def test_each_function_changes_each_status_as_the_table_shows(conn: psycopg.Connection[Any], status: str) -> None:
    for function, then in [(function, then) for of, function, then in _table() if of == status]:
        conn.execute(EMPTY.encode())
        _check(conn, status, function, then)


def _check(conn: psycopg.Connection[Any], status: str, function: str, then: str) -> None:
    conn.execute("insert into wakeboard.job_runs (job_type) values ('job')")
    conn.execute("select wakeboard.register_worker(7, 'w', 'default', 'here', '1', '{default}', 1, 60, '{job}')")
    for step in STEPS_TO[status]:
        conn.execute((CLAIM if step == "claim" else step).encode())
    assert _column(conn, "select status::text from wakeboard.all_runs where id = 1") == [status]
    if function == "reap" and status == "running":
        conn.execute("update wakeboard.job_runs set locked_until = now() - interval '1 s'")
    answers = _column(conn, FUNCTIONS[function])
    after = _column(conn, "select status::text from wakeboard.all_runs where id = 1")
    assert len(after) == 1, function  # in exactly one table
    assert after[0] == (status if then in {"refused", "-"} else then), function
    assert _refused(function, answers) == (then == "refused"), function


def test_the_table_has_every_status_and_every_function() -> None:
    assert {status for status, _, _ in _table()} == set(STEPS_TO)
    assert {function for _, function, _ in _table()} == set(FUNCTIONS)


def test_every_example_runs(conn: psycopg.Connection[Any]) -> None:
    examples = re.findall(r"^```sql\n(.*?)\n```", TEXT, re.MULTILINE | re.DOTALL)
    assert len(examples) > 50
    conn.execute("insert into wakeboard.alert_rules (name, severity, definition) values ('dead-runs', 'info', '{}')")
    for example in examples:
        # This one is for a database that accepts no connections.
        refused = pytest.raises(psycopg.Error, match="not everything is paused") if CLOSE in example else nullcontext()
        with conn.transaction(force_rollback=True), refused:
            conn.execute(example.encode())
