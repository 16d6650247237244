"""Short campaigns of random faults. `make chaos` runs long ones."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any, cast

import pytest

from chaos.disk import can_mount
from chaos.faults.catalogue import faults_of
from chaos.plan import make_plan
from chaos.report_page import page, summary
from chaos.results import RESULT, Recovery, Result, Violation
from chaos.tick_checker import check_ticks
from testbed.patroni import find_patroni
from testbed.processes import OUR_PACKAGES, ROOT
from testbed.server_network import can_make_network

if TYPE_CHECKING:
    import psycopg

COUNT, SEED = 24, 7
OF_SERVERS = ("primary cut off", "disk of a server full", "standby behind")
ONE_OF_EACH = 2088  # a seed, and soon over


def run_campaign(*words: str) -> dict[str, Any]:
    """Its result, without a violation."""
    command = [sys.executable, "-m", "chaos", "--json", *words]
    environment = {**os.environ, "PYTHONPATH": OUR_PACKAGES}
    campaign = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert campaign.returncode == 0, campaign.stdout[-5000:] + campaign.stderr[-2000:]
    return json.loads(campaign.stdout)


def test_nothing_is_lost_or_doubled_in_a_short_campaign_of_random_faults() -> None:
    result = run_campaign("--faults", str(COUNT), "--seed", str(SEED))
    assert sum(result["injected"].values()) > COUNT / 2
    assert result["counts"]["succeeded"] > 60
    assert result["counts"]["ticks of schedules from code"] > 6
    assert result["counts"]["effects once for ever"] > 6
    assert result["violations"] == []


@pytest.mark.xdist_group("patroni")
@pytest.mark.timeout(300)
def test_nothing_is_lost_where_servers_are_cut_off_full_or_behind() -> None:
    if find_patroni() is None or not (can_mount() and can_make_network()):
        pytest.skip("it needs Patroni, root and namespaces of mounts and the network")
    kinds = [f"--only={name}" for name in OF_SERVERS]
    result = run_campaign("--failover", f"--faults={len(OF_SERVERS)}", f"--seed={ONE_OF_EACH}", *kinds)
    assert result["injected"] == dict.fromkeys(OF_SERVERS, 1)
    assert result["counts"]["failovers"] >= 2
    assert result["counts"]["timelines of this WAL"] >= 3
    assert result["counts"]["acknowledged effects found in this WAL"] > 20
    assert result["counts"]["succeeded"] > 60
    assert result["violations"] == []


def test_a_seed_always_gives_the_same_plan() -> None:
    assert make_plan(SEED, 500) == make_plan(SEED, 500)
    assert make_plan(SEED, 500) != make_plan(SEED + 1, 500)


def test_a_long_plan_has_every_kind_of_fault_once_in_isolation() -> None:
    plan = make_plan(SEED, 500)
    assert len(plan) == 500
    isolated = {planned.fault for planned in plan if planned.at_s is None}
    assert isolated == {fault.name for fault in faults_of(failover=False)}
    assert {planned.fault for planned in make_plan(SEED, 500, failover=True)} >= {"switchover", *OF_SERVERS}


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


class Found:
    """A connection that answers the queries of `check_ticks`."""

    def __init__(self, *answers: list[tuple[Any, ...]]) -> None:
        self._answers = iter(answers)

    def execute(self, _: bytes) -> Found:
        return self

    def fetchall(self) -> list[tuple[Any, ...]]:
        return next(self._answers)


@pytest.mark.parametrize(
    ("since", "until", "count", "violated"),
    [
        (105, 111, 3, set[str]()),
        (105, 111, 4, {"a tick is a moment of its schedule", "no tick is lost"}),
        (105, 111, 2, {"no tick is lost"}),
        (105, 110, 3, {"a skipped range counts its ticks", "a tick is a moment of its schedule", "no tick is lost"}),
        (105, 111, 1, {"a skipped range counts its ticks", "no tick is lost"}),
        (102, 111, 4, {"no tick twice"}),
        (105, 114, 4, {"a tick is a moment of its schedule"}),
    ],
)
def test_a_range_that_a_removal_skips_has_all_its_ticks(since: int, until: int, count: int, violated: set[str]) -> None:
    ticks = [(12, 102, 102, 1, "succeeded"), (12, since, until, count, "skipped")]
    generation = (12, 3, 100.0, 0.0, False, 112.0, True, 111.0, 105.0, True)
    conn = cast("psycopg.Connection[Any]", Found(ticks, [], [generation]))
    assert {violation.invariant for violation in check_ticks(conn)} == violated
