"""How many missed ticks run, by policy. tests/maintenance/test_tick_plans.py says which."""

from __future__ import annotations

import re
from pathlib import Path
from typing import get_args

import pytest

from wakeboard.rules.catch_up import CatchUpPolicy, missed_ticks_to_run

SCHEDULES = Path(__file__).parents[2] / "wakeboard/store/migrations/0002_schedules.sql"


@pytest.mark.parametrize(("policy", "count"), [("Skip", 0), ("Latest", 1), ("All", 7)])
def test_a_catch_up_policy_decides_how_many_missed_ticks_run(policy: str, count: int):
    assert missed_ticks_to_run(policy, limit=7) == count


def test_every_catch_up_policy_can_be_run_and_stored():
    allowed = re.search(r"check \(catch_up in \((.*?)\)\)", SCHEDULES.read_text())
    assert allowed is not None
    assert re.findall(r"'(\w+)'", allowed[1]) == list(get_args(CatchUpPolicy))
    assert all(missed_ticks_to_run(policy, limit=7) >= 0 for policy in get_args(CatchUpPolicy))
