"""The lease model: no wrong state can be reached, and without any one guard a wrong state can.

The guards are those of the table of docs/model.md: the page is the only list.
"""

from __future__ import annotations

import re
import sys
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.model.explorer import explore
from tests.model.lease_state import SETUPS, VALIDITY, Setup

ROOT = Path(__file__).parents[2]
ROW = re.compile(r"^\| ([^|]+) \| (\w+) \| ([^|]+) \| ([\w./]+): `(.+)` \|$", re.MULTILINE)


class Guard(NamedTuple):
    """`without`: what goes wrong in `setup` if the guard is removed. `line`: the guard in `file` of the product."""

    name: str
    setup: str
    without: str
    file: str
    line: str


GUARDS = [Guard(*row) for row in ROW.findall((ROOT / "docs/model.md").read_text("utf-8"))]
NEEDED = [guard for guard in GUARDS if guard.without != "-"]
SPARE = [guard for guard in GUARDS if guard.without == "-"]


@pytest.mark.parametrize("setup", SETUPS, ids=lambda setup: setup.name)
def test_nothing_wrong_can_be_reached(setup: Setup) -> None:
    found = explore(setup)
    assert not found.wrong, f"{found}"
    assert len(found.states) > 1000


@pytest.mark.parametrize("guard", NEEDED, ids=lambda guard: guard.name)
def test_without_this_guard_something_wrong_can_be_reached(guard: Guard) -> None:
    """The message has the shortest steps."""
    (setup,) = [setup for setup in SETUPS if setup.name == guard.setup]
    found = explore(replace(setup, removed=frozenset({guard.name})))
    sys.stdout.write(f"\n{found}\n")
    assert found.wrong.startswith(guard.without), f"{found}"


def test_without_these_guards_nothing_wrong_can_be_reached_either() -> None:
    """They tell a zombie at its next heartbeat that its lease is lost."""
    found = explore(replace(VALIDITY, removed=frozenset(guard.name for guard in SPARE)))
    assert not found.wrong, f"{found}"


def test_the_line_of_each_guard_is_in_the_product() -> None:
    parts = ("wakeboard", "worker", "operator")
    files = [file for part in parts for file in (ROOT / part).rglob("*") if file.suffix in {".py", ".sql"}]
    for guard in GUARDS:
        (file,) = [file for file in files if file.match(guard.file)]
        assert guard.line in file.read_text("utf-8"), guard.name


def test_every_guard_of_the_model_is_in_the_table() -> None:
    source = (ROOT / "tests/model/lease_model.py").read_text("utf-8")
    used = set(re.findall(r'has\("(.+?)"\)', source))
    used |= {f"{outcome} checks the {what}" for outcome in ("complete", "release") for what in ("worker", "epoch")}
    assert used == {guard.name for guard in GUARDS}
