"""Rules that the planner needs written out in several SQL functions and queries are the same text in each of them."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import Final

import wakeboard.store
from wakeboard.run import ClaimedRow

STORE: Final = Path(wakeboard.store.__file__).parent
QUARANTINED_FROM: Final = 2  # crashes; the predicates of job_runs' indexes have it as a literal

CLAIMABLE: Final = (
    "locked_by = 0 and job_type = any (job_types) and timeout_s <= max_timeout_s"
    " and (start_before is null or start_before > statement_timestamp() or started_at > 'epoch')"
)
PAUSED: Final = re.compile(
    r"from pauses where scope in \('all', 'queue:' \|\| [\w.]+(, 'schedule:' \|\| \w+\.id)?\)"  # also of a schedule
)
OF_A_SKIPPED_RANGE: Final = ["reason", "skipped_until", "skipped_count"]


def _sql(*patterns: str) -> dict[str, str]:
    """The files' texts on one line each, without comments and the aliases of job_runs."""
    texts = {file.name: file.read_text("utf-8") for pattern in patterns for file in sorted(STORE.glob(pattern))}
    bare = {name: re.sub(r"--[^\n]*", "", text).replace("wakeboard.", "") for name, text in texts.items()}
    return {name: " ".join(re.sub(r"\b(free|run|job_runs)\.", "", text).split()) for name, text in bare.items()}


FUNCTIONS: Final = _sql("functions/*.sql")
EVERYWHERE: Final = FUNCTIONS | _sql("migrations/*.sql", "queries/*.py")


def _history_columns(function: str) -> list[str]:
    """The columns that the function inserts into job_run_history."""
    found = re.search(r"insert into job_run_history \((.*?)\) select ", FUNCTIONS[function])
    assert found, function
    return found[1].strip().split(", ")


def test_every_claim_has_the_same_rule_for_what_is_claimable() -> None:
    found = {name: text.count(CLAIMABLE) for name, text in FUNCTIONS.items() if "start_before is null" in text}
    assert found == {"advance_scan.sql": 1, "claim.sql": 1, "claim_limited.sql": 1, "claim_oldest.sql": 0}
    rechecked = CLAIMABLE.replace("max_timeout_s and", "max_timeout_s and {} and").format(
        "run_at <= statement_timestamp() and crash_count < 2 and dead_at is null and limit_key is null"
    )
    assert {name for name, text in FUNCTIONS.items() if rechecked in text} == {"claim.sql", "claim_oldest.sql"}


def test_paused_means_the_same_in_every_query() -> None:
    others = {"pause.sql", "resume.sql", "0001_installation.sql", "due_definitions.sql"}
    for name, text in EVERYWHERE.items():
        uses = len(re.findall(r"\bfrom pauses\b(?! as pause\b)", text))
        assert uses == len(list(PAUSED.finditer(text))) or name in others, name
    assert "from pauses) or not exists (" in FUNCTIONS["due_definitions.sql"]  # the fast path: no pause at all
    assert PAUSED.search(FUNCTIONS["due_definitions.sql"])


def test_the_quarantine_has_one_limit() -> None:
    limits = Counter(re.findall(r"\bcrash_count (<|>=) (\d+)", " ".join(EVERYWHERE.values())))
    assert set(limits) == {("<", str(QUARANTINED_FROM)), (">=", str(QUARANTINED_FROM))}


def test_all_columns_of_a_run_are_kept_in_history() -> None:
    completed = _history_columns("complete.sql")
    finished = _history_columns("finish_runs.sql")
    skipped = _history_columns("enqueue_due_ticks.sql")
    assert completed[:-1] == finished[:-1]
    assert (completed[-1], finished[-1]) == ("result", "reason")
    assert skipped[:-3] == finished[: len(skipped) - 3]
    assert skipped[-3:] == OF_A_SKIPPED_RANGE
    table = re.search(r"create table job_run_history \((.*?) constraint", EVERYWHERE["0004_history.sql"])
    assert table
    columns = [column.split()[0] for column in table[1].strip(", ").split(", ")]
    assert {*completed, *finished, *skipped} == set(columns)


def test_every_claim_returns_the_columns_of_claimed_run() -> None:
    found = re.search(r"create type claimed_run as \((.*?)\);", EVERYWHERE["0003_runs.sql"])
    assert found
    assert [column.split()[0] for column in found[1].split(", ")] == list(ClaimedRow._fields)
    returned = ", ".join(ClaimedRow._fields)
    claims = {name for name, text in FUNCTIONS.items() if returned in re.sub(r"::\w+|\bclaimed\.", "", text)}
    assert claims == {"claim.sql", "claim_limited.sql", "claim_oldest.sql", "claim_quarantined.sql"}
