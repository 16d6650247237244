"""SQL functions in any order: after each call, the store equals a model of it in plain Python.

    make test TEST_ARGS='tests/store/test_state_machine.py -s' STATE_MACHINE_STEPS=100000

takes so many steps with a random seed, which it prints. STATE_MACHINE_SEED=… repeats them.
"""

from __future__ import annotations

import os
import random
import sys
import time
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, seed, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.store.state_machine.database import StoreHarness
from tests.store.state_machine.machine import StoreMachine

if TYPE_CHECKING:
    from collections.abc import Iterator

STEPS = int(os.environ.get("STATE_MACHINE_STEPS", "0"))
SEED = int(os.environ.get("STATE_MACHINE_SEED", "0")) or (random.getrandbits(32) if STEPS else 0)
STEPS_PER_EXAMPLE = 60
EXAMPLES = 30  # at least


@pytest.fixture
def harness(database: str) -> Iterator[StoreHarness]:
    harness = StoreHarness(database)
    yield harness
    harness.close()


@pytest.mark.timeout(0 if STEPS else 600)  # Hypothesis shortens a failing example first
def test_the_store_equals_the_model_after_any_operations(harness: StoreHarness) -> None:
    class Machine(StoreMachine):
        """On this test's store."""

    Machine.harness = harness
    Machine.TestCase.settings = settings()
    began = time.monotonic()
    chosen = settings(
        max_examples=max(EXAMPLES, STEPS // (STEPS_PER_EXAMPLE - 10)),
        stateful_step_count=STEPS_PER_EXAMPLE,
        deadline=None,
        derandomize=not SEED,
        database=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large],
    )
    try:
        run_state_machine_as_test(seed(SEED)(Machine) if SEED else Machine, settings=chosen)
    finally:
        rate = harness.steps / (time.monotonic() - began)
        sys.stdout.write(f"\n{harness.steps} steps, {rate:.0f} a second, STATE_MACHINE_SEED={SEED}\n")
