"""The overview names every problem, worst first, and links to what is concerned."""

from __future__ import annotations

from dataclasses import fields, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from wakeboard.alerts.queries.page import AlertCounts
from wakeboard.board.problems import Situation, problems
from wakeboard.limits.queries import LimitRow
from wakeboard.text.facts import Pause
from wakeboard.views.queries.health_checks import Definitions, DueRuns, MaintenanceFacts
from wakeboard.views.queries.listings import RemovalRow
from wakeboard.views.queries.overview import DeadGroup
from wakeboard.views.queries.schedule_list import ListedSchedule

NOW = datetime(2026, 11, 22, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
AGO = 10 * MINUTE
DEFINITIONS = Definitions(
    schedules=3, stalled=0, stalled_example=None, late=0, oldest_late=None, unserved=[], tzdata_versions=[]
)
MAINTENANCE = MaintenanceFacts(
    last_worker=NOW,
    workers=1,
    releases=[],
    last_reap=NOW,
    partition_now=True,
    partitions_until=NOW,
    oldest_partition_end=NOW,
    oldest_change=None,
)
DUE = DueRuns(
    queue="gpu",
    job_type="train",
    runs=2,
    oldest=NOW - AGO,
    longest_timeout_s=600,
    known=True,
    served=True,
    paused=False,
)
DEAD = DeadGroup(
    job_type="send_mail", error_type="Timeout", runs=3, newest=NOW - AGO, example_id=7, example_error="slow"
)
WELL = Situation(
    now=NOW,
    due=(),
    definitions=DEFINITIONS,
    maintenance=MAINTENANCE,
    stalled=(),
    dead=(),
    limits=(),
    pauses=(),
    removals=(),
)
_NULLS = dict.fromkeys((each.name for each in fields(ListedSchedule)), None)
_STALLED: dict[str, Any] = {**_NULLS, "id": 1, "namespace": "a", "name": "b", "schedule_error": "no zone"}
STALLED = ListedSchedule(**_STALLED)
PAUSE = Pause(kind="queue", name="mail", reason="a move", paused_at=NOW - AGO)


def test_nothing_is_wrong_when_all_is_well():
    assert problems(WELL) == []


@pytest.mark.parametrize(
    ("situation", "severity", "text", "query"),
    [
        (replace(WELL, maintenance=replace(MAINTENANCE, last_worker=None)), "bad", "No worker has ever", ""),
        (
            replace(WELL, maintenance=replace(MAINTENANCE, last_worker=NOW - AGO)),
            "bad",
            "No worker is running. The last one was seen 10 min ago.",
            "",
        ),
        (replace(WELL, definitions=replace(DEFINITIONS, late=2, oldest_late=NOW - AGO)), "bad", "2 schedules over", ""),
        (
            replace(WELL, definitions=replace(DEFINITIONS, without_tick=1, without_tick_example="a/b")),
            "bad",
            "1 schedule whose next tick is missing or too far away, for example a/b",
            "",
        ),
        (
            replace(WELL, stalled=[STALLED]),
            "bad",
            "a/b is stalled: no zone",
            "",
        ),
        (
            replace(WELL, due=[replace(DUE, served=False, oldest=NOW - 2 * MINUTE)]),
            "warn",
            "No worker serves the queue of 2 runs of train in queue gpu",
            "status:queued type:train queue:gpu",
        ),
        (
            replace(WELL, due=[replace(DUE, served=False)]),
            "bad",
            "No worker serves the queue of 2 runs of train in queue gpu",
            "status:queued type:train queue:gpu",
        ),
        (
            replace(WELL, due=[replace(DUE, known=False)]),
            "bad",
            "No worker has a handler for 2 runs",
            "status:queued type:train",
        ),
        (
            replace(WELL, definitions=replace(DEFINITIONS, unserved=["gpu"])),
            "warn",
            "No worker has served queue gpu in the last 10 minutes",
            "",
        ),
        (replace(WELL, due=[replace(DUE, more=True)]), "warn", "Waiting: 2+ runs of train", ""),
        (replace(WELL, dead=[replace(DEAD, runs=9_997, more=True)]), "warn", "9,997+ dead runs of send_mail", ""),
        (replace(WELL, due=[DUE]), "warn", "Waiting: 2 runs of train in queue gpu", "status:queued type:train"),
        (replace(WELL, dead=[DEAD]), "warn", "3 dead runs of send_mail: Timeout", "status:dead type:send_mail"),
        (replace(WELL, dead=[replace(DEAD, newest=NOW - timedelta(days=3))]), "note", "3 dead runs", "status:dead"),
        (replace(WELL, pauses=[PAUSE]), "warn", "Paused 10 min ago: queue mail (a move)", ""),
        (replace(WELL, pauses=[replace(PAUSE, actor="ada")]), "warn", "Paused 10 min ago by ada: queue mail", ""),
        (replace(WELL, pauses=[replace(PAUSE, kind="all", name=None)]), "warn", "Paused 10 min ago: all", ""),
        (
            replace(WELL, removals=[RemovalRow(source="k8s:x", count=9, requested_at=NOW, confirmed_at=None)]),
            "warn",
            "k8s:x asks to remove 9 schedules. To confirm, type:",
            "",
        ),
        (
            replace(WELL, limits=[LimitRow(key="api", max_running=2, is_explicit=True, running=2, waiting=4)]),
            "note",
            "The limit api is full (2 of 2): 4 runs waiting.",
            "limit:api",
        ),
    ],
)
def test_each_problem_has_a_severity_a_sentence_and_a_link(situation: Situation, severity: str, text: str, query: str):
    (problem,) = problems(situation)

    assert problem.severity == severity
    assert text in problem.text
    assert problem.parameters.get("q", "").startswith(query)


@pytest.mark.parametrize(
    "situation",
    [
        replace(WELL, due=[replace(DUE, paused=True)]),
        replace(WELL, due=[replace(DUE, known=False, oldest=NOW)]),
        replace(WELL, limits=[LimitRow(key="api", max_running=2, is_explicit=True, running=1, waiting=4)]),
        replace(WELL, removals=[RemovalRow(source="k8s:x", count=9, requested_at=NOW, confirmed_at=NOW)]),
    ],
)
def test_what_is_intended_or_has_just_begun_is_no_problem(situation: Situation):
    assert problems(situation) == []


def test_without_a_worker_all_due_runs_are_one_problem():
    gone = replace(MAINTENANCE, last_worker=NOW - AGO)
    due = [replace(DUE, served=False), replace(DUE, job_type="judge", runs=3, more=True), replace(DUE, paused=True)]

    texts = [problem.text for problem in problems(replace(WELL, maintenance=gone, due=due))]

    assert texts == [
        "No worker is running. The last one was seen 10 min ago.",
        "5+ due runs wait for a worker; the oldest was due 10 min ago.",
    ]


def test_an_alert_about_all_dead_runs_marks_these_instead_of_repeating_them():
    alerts = AlertCounts(
        open=1, severity="critical", names=["dead-runs"], of_all_dead=["dead-runs"], summary="3 dead", opened_at=NOW
    )
    (marked,) = problems(replace(WELL, dead=[DEAD], alerts=alerts))
    assert (marked.alert, marked.severity) == ("dead-runs", "bad")
    others = replace(alerts, open=2, names=["dead-runs", "slow"])
    both, dead = problems(replace(WELL, dead=[DEAD], alerts=others))
    assert (both.text[:8], both.count, dead.count) == ("2 alerts", 2, 0)
    mild = problems(replace(WELL, dead=[DEAD], alerts=replace(others, severity="info")))
    assert sum(problem.count for problem in mild if problem.colour == "bad") == 1


def test_dead_runs_have_one_colour():
    (problem,) = problems(replace(WELL, dead=[DEAD]))
    assert (problem.severity, problem.colour) == ("warn", "bad")


def test_the_worst_problem_comes_first():
    paused = replace(PAUSE, kind="schedule", name="shop/nightly")
    situation = replace(WELL, pauses=[paused], due=[DUE], definitions=replace(DEFINITIONS, late=1, oldest_late=NOW))

    assert [problem.severity for problem in problems(situation)] == ["bad", "warn", "note"]
