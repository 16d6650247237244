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


@pytest.mark.parametrize(
    ("short", "long", "rounds_of_short", "rounds_of_long"),
    [
        ([drain(50_000, 1.0), Failed("once")], [drain(300_000, 6.5), Failed("once")], 3, 3),
        ([drain(50_000, 2.5)] * 2, [drain(300_000, 15.0)] * 2, 2, 2),
        ([drain(50_000, 6.0)], [], 2, 0),
        ([Failed("nothing was done within 10 s")], [], 2, 0),
        ([drain(49_000, 1.0, complete=False)], [], 2, 0),
    ],
    ids=["quick, though it fails once", "slow", "very slow", "it fails", "it is stopped"],
)
def test_the_slower_a_queue_is_the_less_often_it_takes_part(
    results: Results, short: list[Drain | Failed], long: list[Drain | Failed], rounds_of_short: int, rounds_of_long: int
) -> None:
    for case, drains, rounds in ((SHORT, short, rounds_of_short), (LONG, long, rounds_of_long)):
        for in_round, each in enumerate(drains):
            results.note_drain(THEM, case, in_round, each)
        assert sum(PLAN.takes_part(THEM, case, in_round, results) for in_round in range(3)) == rounds


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
