"""The status in each situation, and which of its changes are written at once."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.operator.examples import NOW, THEN, WENT_WELL, WENT_WRONG, facts, resource
from wakeboard_operator.events import events_between
from wakeboard_operator.problems import INVALID, ScheduleProblem
from wakeboard_operator.status import Owner, difference, next_change_at, status_of

if TYPE_CHECKING:
    from datetime import datetime

    from wakeboard.views.queries.schedule_state import ScheduleState
    from wakeboard_operator.status_models import JobScheduleStatus

WRONG = ScheduleProblem(INVALID, "schedule is nonsense.")
HERE = Owner("here")
LONG_AGO = NOW - timedelta(minutes=11)
MINUTE = timedelta(minutes=1)
KNOWN = {"queue_known_at": NOW, "type_known_at": NOW}


def status(
    known: ScheduleState | None,
    problem: ScheduleProblem | None = None,
    before: JobScheduleStatus | None = None,
    **named: Any,
) -> JobScheduleStatus:
    return status_of(resource(**named), problem, known, before, HERE, NOW)


def condition_of(made: JobScheduleStatus, kind: str) -> tuple[str, str]:
    (found,) = [each for each in made.conditions or [] if each.type == kind]
    return found.status, found.reason


SITUATIONS: dict[str, tuple[JobScheduleStatus, dict[str, tuple[str, str]]]] = {
    "not synced": (status(None), {"Ready": ("False", "Syncing"), "Stalled": ("False", "NotStalled")}),
    "never valid": (status(None, WRONG), {"Ready": ("False", "InvalidSpec"), "Stalled": ("True", "InvalidSpec")}),
    "an invalid edit": (
        status(facts(generation=2), WRONG),
        {"Ready": ("False", "InvalidSpec"), "Stalled": ("True", "InvalidSpec")},
    ),
    "an edit on its way": (
        status(facts(generation=2)),
        {"Ready": ("False", "Syncing"), "Stalled": ("False", "NotStalled")},
    ),
    "deleted and created again": (status(facts(), uid="u2"), {"Ready": ("False", "Syncing")}),
    "new": (
        status(facts(queue_known_at=THEN, type_known_at=THEN)),
        {"Ready": ("True", "Synced"), "Healthy": ("Unknown", "NoRuns"), "Suspended": ("False", "Active")},
    ),
    "went well": (status(facts(**WENT_WELL)), {"Ready": ("True", "Synced"), "Healthy": ("True", "LastRunSucceeded")}),
    "is tried again": (
        status(facts(**WENT_WELL, **WENT_WRONG, failed=1)),
        {"Ready": ("True", "Synced"), "Healthy": ("False", "Retrying")},
    ),
    "dead": (
        status(facts(dead=2, oldest_dead_at=THEN)),
        {"Ready": ("True", "Synced"), "Healthy": ("False", "DeadRuns")},
    ),
    "discarded": (
        status(facts(last_run_id=1, last_finished_at=THEN, last_result="dead")),
        {"Healthy": ("False", "LastRunDiscarded")},
    ),
    "the database went back in time": (
        status(facts(last_run_id=1, last_finished_at=THEN, last_result="succeeded", database_went_back=True)),
        {"Healthy": ("Unknown", "DatabaseWentBack")},
    ),
    "skipped because the run before was unfinished": (
        status(facts(last_run_id=1, last_finished_at=THEN, last_result="skipped", last_reason="Forbidden")),
        {"Healthy": ("True", "LastRunEnded")},
    ),
    "skipped after the deadline": (
        status(facts(last_run_id=1, last_finished_at=THEN, last_result="skipped", last_reason="TooLate")),
        {"Ready": ("True", "Synced"), "Healthy": ("False", "Skipped")},
    ),
    "missed": (
        status(facts(last_run_id=1, last_finished_at=THEN, last_result="skipped", last_reason="CatchUpSkip")),
        {"Healthy": ("False", "Skipped")},
    ),
    "waits for an unknown schedule": (
        status(facts(**WENT_WELL, waiting_for="It waits for extract, which does not exist in its namespace.")),
        {"Healthy": ("False", "Blocked")},
    ),
    "suspended": (status(facts(suspended=True)), {"Ready": ("True", "Synced"), "Suspended": ("True", "Suspended")}),
    "paused": (
        status(facts(paused="queue:default", pause_reason="moving")),
        {"Ready": ("True", "Synced"), "Suspended": ("True", "PausedInDatabase")},
    ),
    "uncomputable": (
        status(facts(schedule_error="no such zone")),
        {"Ready": ("False", "TicksUnknown"), "Stalled": ("True", "TicksUnknown")},
    ),
    "no worker knows the job type": (
        status(facts(queued=1, oldest_due_at=LONG_AGO)),
        {"Healthy": ("False", "NoWorker")},
    ),
    "workers of the queue know other job types": (
        status(facts(queue_known_at=NOW)),
        {"Healthy": ("False", "NoWorker")},
    ),
    "a job type that is misspelled": (
        status(facts(updated_at=NOW - MINUTE, queue_known_at=NOW, type_meant="pong")),
        {"Healthy": ("False", "NoWorker")},
    ),
    "names a host that its workers may not call": (
        status(facts(**WENT_WELL, **KNOWN, missing_offer="No worker may call it.")),
        {"Ready": ("True", "Synced"), "Healthy": ("False", "NoWorker")},
    ),
    "names a host, and no worker has registered since": (
        status(facts(**(KNOWN | {"type_known_at": THEN - MINUTE}), missing_offer="No worker may call it.")),
        {"Healthy": ("Unknown", "NoRuns")},
    ),
    "a suspended schedule of which a run waits": (
        status(facts(suspended=True, queued=1, oldest_due_at=LONG_AGO)),
        {"Healthy": ("False", "NoWorker")},
    ),
    "new, of a pool that has not woken yet": (
        status(facts(next_run_at=NOW + timedelta(days=20))),
        {"Healthy": ("Unknown", "NoWorker")},
    ),
    "new, of a pool that last woke before": (
        status(facts(queue_known_at=THEN - MINUTE, type_meant="pong")),
        {"Healthy": ("Unknown", "NoRuns")},
    ),
    "new, while a rollout replaces the workers": (
        status(facts(updated_at=NOW - 2 * MINUTE, queue_known_at=NOW)),
        {"Healthy": ("Unknown", "NoRuns")},
    ),
    "of a pool that last woke a quarter ago": (
        status(facts(**WENT_WELL, updated_at=THEN - MINUTE, queue_known_at=NOW)),
        {"Healthy": ("True", "LastRunSucceeded")},
    ),
    "imported, so suspended": (
        status(facts(suspended=True, queue_known_at=NOW, type_meant="pong")),
        {"Healthy": ("Unknown", "NoRuns")},
    ),
    "paused while a run waits": (
        status(facts(paused="queue:default", queued=1, oldest_due_at=LONG_AGO)),
        {"Healthy": ("Unknown", "NoRuns")},
    ),
    "due just now": (
        status(facts(queued=1, oldest_due_at=NOW - MINUTE, **KNOWN)),
        {"Healthy": ("Unknown", "NoRuns")},
    ),
}


def test_the_docs_list_the_reasons_of_healthy_in_their_order() -> None:
    """Each step mends the problem that is shown."""
    text = Path("docs/conditions.md").read_text(encoding="utf-8")
    listed = re.findall(r"^\| \w+, `(\w+)`", text.split("## Healthy")[1].split("\n## ")[0], re.MULTILINE)
    known = facts(dead=1, queued=1, oldest_due_at=LONG_AGO, waiting_for="It waits.", failed=1)
    known = replace(known, expect_success_within_s=60, success_missed_at=THEN, database_went_back=True)
    mended: tuple[dict[str, Any], ...] = (
        {},
        {"success_missed_at": None},
        {"dead": 0},
        {"queued": 0},
        {"waiting_for": None},
        {"failed": 0},
        {"database_went_back": False, "queue_known_at": None},
        {"queue_known_at": THEN - MINUTE},
        {"last_result": "dead", "last_reason": "TooLate"},
        {"last_reason": None},
        {"last_result": "succeeded"},
    )
    shown = [condition_of(status(known := replace(known, **step)), "Healthy")[1] for step in mended]
    assert shown == listed


@pytest.mark.parametrize("situation", SITUATIONS)
def test_conditions_name_the_problem(situation: str) -> None:
    made, wanted = SITUATIONS[situation]
    assert {kind: condition_of(made, kind) for kind in wanted} == wanted
    assert [each.type for each in made.conditions or []] == ["Ready", "Healthy", "Suspended", "Stalled"]
    assert made.observed_generation == 3


def test_the_last_good_spec_stays_in_force() -> None:
    made = status(facts(generation=2), WRONG)
    assert (made.observed_generation, made.accepted_generation) == (3, 2)
    assert "Generation 2 stays in force." in (made.conditions or [])[0].message


def test_a_condition_keeps_its_time_while_its_status_is_the_same() -> None:
    first = status_of(resource(), None, facts(), None, HERE, THEN)
    second = status(facts(**WENT_WELL), before=first)
    times = {each.type: each.last_transition_time for each in second.conditions or []}
    assert times["Ready"] == THEN.replace(microsecond=0)
    assert times["Healthy"] == NOW.replace(microsecond=0)


def test_times_are_whole_seconds_and_absent_where_nothing_will_run() -> None:
    assert status(facts()).next_run_time == NOW.replace(microsecond=0)
    for still in ({"suspended": True}, {"paused": "all"}, {"schedule_error": "broken"}):
        assert status(facts(**still)).next_run_time is None


@pytest.mark.parametrize(
    ("before", "after", "wanted"),
    [
        (facts(), facts(), "none"),
        (facts(), facts(running=1), "values"),
        (facts(), facts(queued=5, next_run_at=NOW + timedelta(hours=1)), "values"),
        (facts(**WENT_WELL), facts(**{**WENT_WELL, "last_run_id": 9, "last_finished_at": NOW}), "values"),
        (facts(), facts(**WENT_WELL), "transition"),
        (facts(), facts(dead=1), "transition"),
        (facts(dead=1), facts(dead=2), "transition"),
        (facts(), facts(suspended=True), "transition"),
        (facts(), facts(**WENT_WRONG), "transition"),
        (
            facts(),
            facts(last_action="run-now", last_action_token="1", last_action_at=NOW, last_action_result="queued run 1"),
            "transition",
        ),
    ],
)
def test_condition_changes_are_written_at_once_and_counts_are_not(
    before: ScheduleState, after: ScheduleState, wanted: str
) -> None:
    first = status(before)
    assert difference(first, status(after, before=first)) == wanted


def test_the_first_status_is_a_transition() -> None:
    assert difference(None, status(facts())) == "transition"


def test_whatever_an_error_says_the_document_stays_small() -> None:
    huge = {**WENT_WRONG, "last_failure_type": "E" * 5000, "last_failure_message": "m" * 5_000_000, "failed": 1}
    assert len(status(facts(**huge)).model_dump_json()) < 20_000


@pytest.mark.parametrize(
    ("due_at", "known_at", "earliest"),
    [
        (NOW - MINUTE, NOW, NOW + 10 * MINUTE),
        (NOW + 60 * MINUTE, NOW, NOW + 70 * MINUTE),
        (LONG_AGO, None, NOW + MINUTE),
    ],
)
def test_a_waiting_run_is_checked_when_a_worker_is_overdue(
    due_at: datetime, known_at: datetime | None, earliest: datetime
) -> None:
    waiting = facts(queued=1, oldest_due_at=due_at, type_known_at=known_at)
    at = next_change_at(waiting, NOW)
    assert at is not None
    assert earliest <= at <= earliest + timedelta(seconds=1)
    if at > NOW + MINUTE:
        assert condition_of(status_of(resource(), None, waiting, None, HERE, at), "Healthy") == ("False", "NoWorker")


def test_a_schedule_of_which_nothing_waits_changes_by_events_only() -> None:
    assert next_change_at(facts(**WENT_WELL, type_known_at=NOW), NOW) is None


def test_a_job_type_that_no_worker_knows_is_asked_for_again() -> None:
    assert next_change_at(facts(**WENT_WELL), NOW) == NOW + MINUTE
    (event,) = events_between(status(facts()), status(facts(queue_known_at=NOW, type_meant="pong")))
    assert event.warning
    assert event.message == "No worker of queue default has known job type ping yet. Did you mean pong?"


SECRETIVE = {**WENT_WRONG, "last_failure_message": "cannot connect to postgresql://app:hunter2@db/shop\n\x1b[31mred"}


def test_no_status_or_event_shows_a_credential_or_steers_a_terminal() -> None:
    made = status(facts(**WENT_WELL, **SECRETIVE, failed=1, dead=1))
    retrying = status(facts(**WENT_WELL, **SECRETIVE, failed=1))
    texts = [made.model_dump_json(), retrying.model_dump_json(), *(each.message for each in events_between(None, made))]
    assert "postgresql://app:***@db/shop" in texts[0]
    assert "Run 8 is dead: HttpError: cannot connect to postgresql://app:***@db/shop" in texts[-1]
    assert not any("hunter2" in text or "\\u001b" in text or "\x1b" in text or "\\n" in text for text in texts)


def test_with_type_only_an_error_s_message_stays_in_the_database() -> None:
    known = facts(**WENT_WELL, **WENT_WRONG, failed=1, dead=1)
    made = status_of(resource(), None, known, None, HERE, NOW, "type-only")
    texts = [made.model_dump_json(), *(each.message for each in events_between(None, made))]
    assert made.last_failure is not None
    assert made.last_failure.reason == "HttpError"
    assert made.last_failure.message == "See `wakeboard run 8`."
    assert "Run 8 is dead: HttpError: See `wakeboard run 8`." in texts
    assert not any("503" in text for text in texts)
