"""docs/sql-functions.md is true: its table of moves is walked, its signatures compared, its examples run."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from wakeboard.store.migrate import sql_functions

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.every_postgres

DOC = Path(__file__).parents[2] / "docs" / "sql-functions.md"
TEXT = DOC.read_text("utf-8")


def _table() -> list[tuple[str, str, str]]:
    """(status, move, what it is then) for each cell."""
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in TEXT.splitlines()
        if line.startswith("|") and "---" not in line
    ]
    return [(row[0], move, cell) for row in rows[1:] for move, cell in zip(rows[0][1:], row[1:], strict=True)]


SETTLE = "select wakeboard.fail(7, '{1}', '{1}', '{%s}', '{E}', '{e}', '{s}', '{null}')"
INTO = {
    "queued": [],
    "running": ["claim"],
    "failed": ["claim", SETTLE % "failed", "update wakeboard.job_runs set run_at = now()"],
    "dead": ["claim", SETTLE % "discarded"],
    "succeeded": ["claim", "select wakeboard.complete(7, '{1}', 1)"],
    "cancelled": ["select wakeboard.cancel('{1}')"],
    "skipped": [
        "update wakeboard.job_runs set start_before = now() - interval '1 s'",
        "select wakeboard.skip_past_deadline()",
    ],
}
CLAIM = "select id from wakeboard.claim(7, 60, '{default}', '{3}', '{-infinity}', '{0}', '{job}', 10)"
MOVES = {
    "claim": CLAIM,
    "complete": "select wakeboard.complete(7, '{1}', 1)",
    "fail": SETTLE % "failed",
    "release": "select wakeboard.release(7, '{1}', '{1}', '{0}', '{true}')",
    "reap": "select crashed from wakeboard.reap(0, always => true)",
    "cancel": "select answer from wakeboard.cancel('{1}')",
    "retry": "select answer from wakeboard.retry('{1}')",
    "replay": "select answer from wakeboard.replay('{1}')",
    "discard": "select answer from wakeboard.discard('{1}')",
}


@pytest.fixture
def conn(database: str) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(database, autocommit=True) as conn:
        yield conn


def _ask(conn: psycopg.Connection[Any], statement: str) -> list[Any]:
    return [row[0] for row in conn.execute(statement.encode()).fetchall()]


def _said_no(move: str, answers: list[Any]) -> bool:
    if move in {"complete", "fail", "release"}:
        return 1 in answers
    return any(str(answer).startswith("refused") for answer in answers)


@pytest.mark.parametrize(("status", "move", "then"), _table())
def test_each_move_does_to_each_status_what_the_table_says(
    conn: psycopg.Connection[Any], status: str, move: str, then: str
) -> None:
    conn.execute("insert into wakeboard.job_runs (job_type) values ('job')")
    for step in INTO[status]:
        conn.execute((CLAIM if step == "claim" else step).encode())
    assert _ask(conn, "select status::text from wakeboard.all_runs where id = 1") == [status]
    if move == "reap" and status == "running":
        conn.execute("update wakeboard.job_runs set locked_until = now() - interval '1 s'")
    answers = _ask(conn, MOVES[move])
    after = _ask(conn, "select status::text from wakeboard.all_runs where id = 1")
    assert len(after) == 1  # in exactly one table
    assert after[0] == (status if then in {"refused", "-"} else then)
    assert _said_no(move, answers) == (then == "refused")


def test_the_table_has_every_status_and_every_move() -> None:
    assert {status for status, _, _ in _table()} == set(INTO)
    assert {move for _, move, _ in _table()} == set(MOVES)


def test_every_move_is_documented_with_its_signature_and_the_roles_that_may_make_it(
    conn: psycopg.Connection[Any],
) -> None:
    documented = dict(re.findall(r"^### (\w+)\n\n```\n(.*?)\n```", TEXT, re.MULTILINE | re.DOTALL))
    signatures = conn.execute(
        "select proname, proname || '(' || pg_get_function_arguments(oid) || E')\\n  → ' || pg_get_function_result(oid)"
        " from pg_proc where pronamespace = 'wakeboard'::regnamespace"
    ).fetchall()
    public = {function.name: function.roles for function in sql_functions() if function.roles}
    assert {name: text for name, text in signatures if name in public} == documented
    for name, roles in public.items():
        said = re.search(rf"^### {name}\n.*?^May be made by: (.*?)\.$", TEXT, re.MULTILINE | re.DOTALL)
        assert said
        assert set(said[1].split(", ")) == roles


@pytest.mark.parametrize("example", re.findall(r"^```sql\n(.*?)\n```", TEXT, re.MULTILINE | re.DOTALL))
def test_every_example_runs(conn: psycopg.Connection[Any], example: str) -> None:
    conn.execute(example.encode())
