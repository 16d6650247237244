"""Any moves in any order: the board is what a model of it in plain Python says, after each of them.

    make test TEST_ARGS='tests/store/test_state_machine.py -s' STATE_MACHINE_STEPS=100000

takes so many steps, from a seed of its own that it prints; STATE_MACHINE_SEED=… takes them once more.
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

from tests.store.state_machine.database import Stage
from tests.store.state_machine.machine import StoreMachine

if TYPE_CHECKING:
    from collections.abc import Iterator

STEPS = int(os.environ.get("STATE_MACHINE_STEPS", "0"))
SEED = int(os.environ.get("STATE_MACHINE_SEED", "0")) or (random.getrandbits(32) if STEPS else 0)
EACH = 60  # steps of an example
A_FEW = 30  # examples


@pytest.fixture
def stage(database: str) -> Iterator[Stage]:
    stage = Stage(database)
    yield stage
    stage.close()


@pytest.mark.timeout(0 if STEPS else 600)  # a story that fails is made short first
def test_the_store_is_what_the_model_says_whatever_moves_are_made(stage: Stage) -> None:
    class Machine(StoreMachine):
        """On this test's board."""

    Machine.stage = stage
    Machine.TestCase.settings = settings()
    began = time.monotonic()
    chosen = settings(
        max_examples=max(A_FEW, STEPS // (EACH - 10)),
        stateful_step_count=EACH,
        deadline=None,
        derandomize=not SEED,
        database=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large],
    )
    try:
        run_state_machine_as_test(seed(SEED)(Machine) if SEED else Machine, settings=chosen)
    finally:
        rate = stage.steps / (time.monotonic() - began)
        sys.stdout.write(f"\n{stage.steps} steps, {rate:.0f} a second, STATE_MACHINE_SEED={SEED}\n")
