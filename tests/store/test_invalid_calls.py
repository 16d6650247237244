"""The state machine can fail: a move with one condition changed is found out, each time at the same step."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import psycopg
import pytest
from hypothesis import Phase, settings
from hypothesis.errors import FlakyFailure
from hypothesis.stateful import run_state_machine_as_test

from tests.store.state_machine.database import Stage
from tests.store.state_machine.machine import StoreMachine

FUNCTIONS = Path(__file__).parents[2] / "wakeboard/store/functions"

# The move, what stands there, what stands there instead.
WRONG: Final = (
    ("claim", "lease_epoch = lease_epoch + 1,", ""),
    ("claim", "where scope in ('all', 'queue:' || pair.queue)", "where scope = 'all'"),
    ("claim_limited", "greatest(0, bound.max_running\n", "greatest(0, 1 + bound.max_running\n"),
    ("claim_limited", "least(turn_count, free_slots(turn.shared_key))", "turn_count"),
    ("sync_definitions", "or not other_keys then true", "or true then true"),
    ("complete", "and locked_by = worker\n", "\n"),
    ("fail", "and job_attempts.outcome = case missing.outcome when 'timed_out' then 'timed_out' else 'failed' end", ""),
    ("reap", "lease_epoch = run.lease_epoch + 1", "lease_epoch = run.lease_epoch"),
    ("reap", "attempts = run.attempts - (verdict like 'crashed%')::integer", "attempts = run.attempts"),
    ("release", "attempts = run.attempts - (not locked.costs_the_attempt)::integer", "attempts = run.attempts"),
    ("renew", "run.locked_until > statement_timestamp() as holds", "true as holds"),
)


@pytest.mark.parametrize(("move", "line", "instead"), WRONG, ids=[f"{move}: {line[:30]}" for move, line, _ in WRONG])
def test_a_move_that_is_wrong_is_found_out(database: str, move: str, line: str, instead: str) -> None:
    text = (FUNCTIONS / f"{move}.sql").read_text("utf-8")
    assert line in text
    stage = Stage(database)
    stage.person.sql(text.replace(line, instead))

    class Machine(StoreMachine):
        """On this test's board."""

    Machine.stage = stage
    chosen = settings(
        max_examples=200,
        stateful_step_count=60,
        deadline=None,
        derandomize=True,
        database=None,
        phases=[Phase.generate],
    )
    # FlakyFailure: the steps that found it found nothing when they were tried again: backoff and claims are random.
    try:
        with pytest.raises((AssertionError, psycopg.Error, FlakyFailure)):
            run_state_machine_as_test(Machine, settings=chosen)
    finally:
        stage.close()
