"""A short campaign of random faults; `make chaos` plays long ones."""

from __future__ import annotations

import json
import os
import subprocess
import sys

from chaos.faults.catalogue import KINDS
from chaos.script import write_script
from tests.chaos.processes import ROOT

FAULTS, SEED = 36, 7


def test_nothing_is_lost_or_doubled_in_a_short_campaign_of_random_faults() -> None:
    words = [str(ROOT), str(ROOT / "worker"), str(ROOT / "operator")]
    campaign = subprocess.run(
        [sys.executable, "-m", "chaos", "--faults", str(FAULTS), "--seed", str(SEED), "--json"],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(words)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert campaign.returncode == 0, campaign.stdout[-5000:] + campaign.stderr[-2000:]
    result = json.loads(campaign.stdout)
    assert sum(result["struck"].values()) > FAULTS / 2
    assert result["counts"]["succeeded"] > 100
    assert result["violations"] == []


def test_a_seed_always_writes_the_same_script() -> None:
    assert write_script(SEED, 500) == write_script(SEED, 500)
    assert write_script(SEED, 500) != write_script(SEED + 1, 500)


def test_a_long_script_has_every_kind_of_fault_once_alone() -> None:
    script = write_script(SEED, 500)
    assert len(script) == 500
    assert {strike.kind for strike in script if strike.at_s is None} == {kind.name for kind in KINDS}
