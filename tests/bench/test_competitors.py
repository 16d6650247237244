"""The comparison of job queues: which take part, what is compared, and what the tables show."""

from __future__ import annotations

import json
import re

import pytest

from bench.competitors.catalogue import COMPETITORS, OUR_NAME, PROGRAMS, Competitor, named
from bench.competitors.comparison import Failed
from bench.competitors.installation import NPM, PYTHON_LOCK
from bench.competitors.plan import Plan
from bench.competitors.results import Case, Results, cost_table, drain_plot, drain_table, enqueue_table
from bench.drains import Drain

US, THEM = named([OUR_NAME, "graphile-worker"])
SHORT, LONG = Case(50_000, 1), Case(300_000, 1)
PLAN = Plan()


def drain(runs: int, seconds: float, *, complete: bool = True) -> Drain:
    return Drain(
        runs=runs,
        seconds=seconds,
        start_s=0.2,
        worker_cpu_us=10,
        server_cpu_us=12,
        wal_bytes=900,
        peak_mb=60,
        others_cpus=0.1,
        complete=complete,
    )


@pytest.fixture
def results() -> Results:
    return Results([US, THEM])


def test_our_rate_is_compared_with_theirs_of_the_same_round(results: Results) -> None:
    for in_round, (ours, theirs) in enumerate([(0.5, 1.0), (0.4, 1.2)]):
        results.note_drain(US, SHORT, in_round, drain(50_000, ours))
        results.note_drain(THEM, SHORT, in_round, drain(50_000, theirs))
    results.note_drain(US, SHORT, 2, drain(50_000, 0.5))
    results.note_drain(THEM, SHORT, 2, Failed("it fell over"))

    assert results.ratios(THEM.name, SHORT) == pytest.approx([2.0, 3.0])


def test_a_slow_queue_takes_part_in_two_rounds_of_each_length(results: Results) -> None:
    for in_round in range(2):
        results.note_drain(THEM, SHORT, in_round, drain(50_000, 2.5))
        results.note_drain(THEM, LONG, in_round, drain(300_000, 15.0))

    for case in (SHORT, LONG):
        assert PLAN.takes_part(THEM, case, 1, results)
        assert not PLAN.takes_part(THEM, case, 2, results)


def test_a_very_slow_queue_drains_nothing_longer(results: Results) -> None:
    results.note_drain(THEM, SHORT, 0, drain(50_000, 6.0))

    assert PLAN.takes_part(THEM, SHORT, 1, results)
    assert not PLAN.takes_part(THEM, LONG, 0, results)


def test_a_quick_queue_takes_part_in_everything_even_if_it_fails_once(results: Results) -> None:
    for case, seconds in ((SHORT, 1.0), (LONG, 6.5)):
        results.note_drain(THEM, case, 0, drain(case.jobs, seconds))
        results.note_drain(THEM, case, 1, Failed("it fell over"))

    assert PLAN.takes_part(THEM, SHORT, 2, results)
    assert PLAN.takes_part(THEM, LONG, 2, results)


def test_millions_of_jobs_are_drained_in_two_rounds_only(results: Results) -> None:
    longest = Case(3_000_000, 2)

    assert PLAN.takes_part(US, longest, 1, results)
    assert not PLAN.takes_part(US, longest, 2, results)


def test_a_queue_that_fails_or_is_stopped_counts_as_slow(results: Results) -> None:
    results.note_drain(THEM, SHORT, 0, Failed("nothing was done within 10 s"))
    results.note_drain(US, SHORT, 0, drain(49_000, 1.0, complete=False))

    assert not PLAN.takes_part(THEM, LONG, 0, results)
    assert not PLAN.takes_part(US, LONG, 0, results)


def test_what_was_not_finished_is_output(results: Results) -> None:
    results.note_drain(THEM, SHORT, 0, drain(11_000, 15.0, complete=False))
    results.note_drain(THEM, SHORT, 1, Failed("nothing was done within 15 s"))
    results.note_drain(US, SHORT, 0, drain(50_000, 0.5))

    hung, late = results.unfinished()
    assert "graphile-worker, 50,000 jobs, 1 process: 1 of 2 drains failed: nothing was done within 15 s" in hung
    assert "stopped when the time was over, with 11,000 jobs done" in late


def test_tables_show_a_gap_where_nothing_was_measured(results: Results) -> None:
    results.note_drain(US, SHORT, 0, drain(50_000, 0.5))
    results.note_drain(THEM, SHORT, 0, Failed("it fell over"))
    results.note_enqueue(US, 200_000.0)
    results.note_enqueue(THEM, Failed("enqueue took more than 120 s"))

    ours, theirs = drain_table(results, SHORT.jobs, [1, 2]).rows
    assert ours == ("wakeboard", "100,000", "-", "", "")
    assert theirs == ("graphile-worker", "-", "-", "-", "-")
    assert enqueue_table(results, SHORT.jobs).rows[1] == ("graphile-worker", "enqueue took more than 120 s")
    assert cost_table(results, SHORT.jobs, [1, 2]).rows[0][1] == "10.0 / -"
    assert "graphile-worker" not in drain_plot(results, SHORT.jobs, [1, 2])


def test_a_longer_queue_has_more_time() -> None:
    assert PLAN.within_s(50_000) == PLAN.least_s
    assert PLAN.within_s(3_000_000) == 10 * PLAN.within_s(300_000)


@pytest.mark.parametrize("competitor", COMPETITORS, ids=lambda competitor: competitor.name)
def test_every_queue_has_a_program_and_pinned_packages(competitor: Competitor) -> None:
    by_npm = json.loads((NPM / "package.json").read_text())["dependencies"]
    by_pip = re.findall(r"^(\S+)==", PYTHON_LOCK.read_text(), re.MULTILINE)

    assert (PROGRAMS / competitor.program).exists()
    assert set(competitor.packages) <= {*by_npm, *by_pip}


def test_the_npm_lock_names_no_registry() -> None:
    packages = json.loads((NPM / "package-lock.json").read_text())["packages"]

    assert not [name for name, package in packages.items() if "resolved" in package]
    assert not [name for name, package in packages.items() if name and "integrity" not in package]
