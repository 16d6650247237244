"""The lease model, walked to its ends: nothing wrong can be reached, and without any one guard something can."""

from __future__ import annotations

import re
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tests.model.exploring import walk
from tests.model.guards import GUARDS, NOTHING, Guard
from tests.model.lease_state import TRUST, WORLDS, World

ROOT = Path(__file__).parents[2]
NEEDED = [guard for guard in GUARDS if guard.without != NOTHING]
SPARE = [guard for guard in GUARDS if guard.without == NOTHING]


@pytest.mark.parametrize("world", WORLDS, ids=lambda world: world.name)
def test_nothing_wrong_can_be_reached(world: World) -> None:
    found = walk(world)
    assert not found.wrong, f"{found}"
    assert len(found.states) > 1000


@pytest.mark.parametrize("guard", NEEDED, ids=lambda guard: guard.name)
def test_without_this_guard_something_wrong_can_be_reached(guard: Guard) -> None:
    """The story in the message is the shortest one."""
    found = walk(replace(guard.world, removed=frozenset({guard.name})))
    sys.stdout.write(f"\n{found}\n")
    assert found.wrong.startswith(guard.without), f"{found}"


def test_without_these_guards_nothing_wrong_can_be_reached_either() -> None:
    """They are there so that a zombie hears of it at its next heartbeat, and its run's heir waits no longer."""
    found = walk(replace(TRUST, removed=frozenset(guard.name for guard in SPARE)))
    assert not found.wrong, f"{found}"


@pytest.mark.parametrize("guard", GUARDS, ids=lambda guard: guard.name)
def test_the_line_that_a_guard_stands_for_is_in_the_product(guard: Guard) -> None:
    assert guard.line in (ROOT / guard.file).read_text("utf-8")


def test_every_guard_of_the_model_is_in_the_table() -> None:
    source = (ROOT / "tests/model/lease_model.py").read_text("utf-8")
    asked = set(re.findall(r'has\("(.+?)"\)', source))
    asked |= {f"{move} checks the {what}" for move in ("complete", "give") for what in ("worker", "epoch")}
    assert asked == {guard.name for guard in GUARDS}


def test_every_guard_is_on_the_page_about_the_model() -> None:
    page = (ROOT / "docs/model.md").read_text("utf-8")
    for guard in GUARDS:
        row = f"| {guard.name} | {guard.without or '-'} | {Path(guard.file).name}: `{guard.line}` |"
        assert row in page, f"docs/model.md lacks\n{row}"
