"""Short campaigns of random faults. `make chaos` runs long ones."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

from chaos.faults.catalogue import FAULTS
from chaos.plan import make_plan
from chaos.report_page import page, summary
from chaos.results import RESULT, Recovery, Result, Violation
from testbed.processes import OUR_PACKAGES, ROOT

if TYPE_CHECKING:
    from pathlib import Path

COUNT, SEED = 36, 7
KEYS = "if enqueue.idempotency_key is not null then"


def run_campaigns(root: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """`make chaos` with the code in `root`."""
    return subprocess.run(
        [sys.executable, "-m", "chaos", *words],
        cwd=root,
        env={**os.environ, "PYTHONPATH": OUR_PACKAGES.replace(str(ROOT), str(root))},
        capture_output=True,
        text=True,
        check=False,
    )


def test_nothing_is_lost_or_doubled_in_a_short_campaign_of_random_faults() -> None:
    campaign = run_campaigns(ROOT, "--faults", str(COUNT), "--seed", str(SEED), "--json")
    assert campaign.returncode == 0, campaign.stdout[-5000:] + campaign.stderr[-2000:]
    result = json.loads(campaign.stdout)
    assert sum(result["injected"].values()) > COUNT / 2
    assert result["counts"]["succeeded"] > 100
    assert result["counts"]["ticks of schedules from code"] > 10
    assert result["counts"]["effects once for ever"] > 10
    assert result["violations"] == []


def test_a_campaign_finds_a_missing_guard_and_prints_how_to_replay_it(tmp_path: Path) -> None:
    for part in ("chaos", "testbed", "wakeboard", "worker", "operator"):
        shutil.copytree(ROOT / part, tmp_path / part)
    enqueue = tmp_path / "wakeboard/engine/sql/enqueue.sql"
    assert KEYS in enqueue.read_text()
    enqueue.write_text(enqueue.read_text().replace(KEYS, "if false then"))
    campaign = run_campaigns(tmp_path, "--faults", "6", "--seed", "11")
    assert campaign.returncode == 1
    assert "an idempotency key makes one run" in campaign.stdout
    assert "make chaos CHAOS_FAULTS=6 CHAOS_SEED=11" in campaign.stdout
    kept = campaign.stderr.splitlines()[-1].rsplit(": ", 1)[1]
    shutil.rmtree(kept)  # the logs, the faults and the result


def test_a_seed_always_gives_the_same_plan() -> None:
    assert make_plan(SEED, 500) == make_plan(SEED, 500)
    assert make_plan(SEED, 500) != make_plan(SEED + 1, 500)


def test_a_long_plan_has_every_kind_of_fault_once_in_isolation() -> None:
    plan = make_plan(SEED, 500)
    assert len(plan) == 500
    assert {planned.fault for planned in plan if planned.at_s is None} == {fault.name for fault in FAULTS}


def test_results_add_up_and_the_report_shows_the_violations() -> None:
    one, other = Result(seeds=[7], faults=500, about="PostgreSQL"), Result(seeds=[8], faults=500)
    one.injected["worker killed"], other.injected["worker killed"] = 20, 22
    one.recoveries.append(Recovery("worker killed", 0.1, 6.5, 0.2))
    other.violations.append(Violation("doubled", "no effect twice", "seed 8 of 500: run 17"))
    one.add(RESULT.validate_json(RESULT.dump_json(other)))
    for text in (summary(one, "make chaos"), page(one, "make chaos")):
        assert "1,000 faults" in text.replace("1000", "1,000")
        assert "seeds 7 to 8" in text
        assert "| 0 | 1 | 0 | 0 |" in text
        assert "seed 8 of 500: run 17" in text
        assert "| 42 | 0 | 0.10 s, 0.10 s | 6.50 s, 6.50 s | 0.20 s, 0.20 s |" in text
