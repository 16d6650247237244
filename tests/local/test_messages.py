from __future__ import annotations

import json
from dataclasses import fields
from datetime import UTC, datetime, timedelta

import pytest

from wakeboard.local.messages import Problems, UpLine, event_message, message_line, worker_message
from wakeboard.views.queries.recent_events import RunEvent

NOON = datetime(2026, 3, 1, 12, 0, 7, tzinfo=UTC)


def event(kind: str, **values: object) -> RunEvent:
    given = {"at": NOON, "run_id": 7, "lease_epoch": 1, "schedule": "shop/report", "job_type": "report", "attempt": 1}
    more = {"max_attempts": 3, "started_at": NOON - timedelta(seconds=2.41), "crashes": 0, "kind": kind}
    absent = dict.fromkeys(field.name for field in fields(RunEvent))
    return RunEvent(**{**absent, **given, **more, **values})  # pyright: ignore[reportArgumentType]


WRONG = {"error_type": "ValueError", "error": "no\nsuch thing"}

EVENT_LINES = [
    (
        event("started", attempt=2, at=NOON - timedelta(seconds=3)),
        "12:00:07  run 7     shop/report has been running for 3.0 s, attempt 2 of 3",
    ),
    (event("succeeded"), "12:00:07  run 7     shop/report succeeded in 2.4 s"),
    (event("succeeded", attempt=3), "12:00:07  run 7     shop/report succeeded in 2.4 s, attempt 3 of 3"),
    (event("succeeded", schedule=None), "12:00:07  run 7     report succeeded in 2.4 s"),
    (
        event("failed", next_attempt_at=NOON + timedelta(seconds=4), **WRONG),
        "12:00:07  run 7     shop/report failed, attempt 1 of 3, retry in 4 s: ValueError: no such thing",
    ),
    (event("crashed"), "12:00:07  run 7     shop/report lost its worker and is queued again"),
    (
        event("timed_out", error_type="Timeout", error="it ran longer than its timeout"),
        "12:00:07  run 7     shop/report timed out, attempt 1 of 3: Timeout: it ran longer than its timeout",
    ),
    (
        event("dead", attempt=3, schedule="a/b", **WRONG),
        "12:00:07  run 7     a/b is dead after 3 attempts: ValueError: no such thing (to retry it: up retry 7)",
    ),
    (
        event("dead", schedule="a/b", crashes=3, error_type="WorkerCrashed", error="died"),
        "12:00:07  run 7     a/b is dead after 3 crashes: WorkerCrashed: died (to retry it: up retry 7)",
    ),
    (
        event("skipped", reason="TooLate", ticks=1),
        "12:00:07  run 7     shop/report was skipped: it was too late to start",
    ),
    (event("skipped", reason="Paused", ticks=9), "12:00:07  run 7     shop/report was skipped 9 times: it was paused"),
    (event("cancelled", reason="Replaced"), "12:00:07  run 7     shop/report was cancelled: replaced by a newer run"),
    (event("discarded", reason="Discarded"), "12:00:07  run 7     shop/report was discarded"),
]


@pytest.mark.parametrize(("run_event", "line"), EVENT_LINES)
def test_an_event_of_a_run_is_printed_as_one_line(run_event: RunEvent, line: str) -> None:
    assert message_line(event_message(run_event, "up", NOON), NOON).plain == line


def test_the_message_of_an_event_is_bounded_and_sanitised() -> None:
    text = event_message(event("failed", error_type="E", error="\x1b[2Jx" * 1000), "wakeboard", NOON).text
    assert len(text) < 400
    assert "\x1b" not in text


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"level": "info", "message": "worker finished"}, UpLine("worker", "worker finished")),
        ({"level": "warning", "message": "late", "run": 4}, UpLine("run 4", "late", "warning")),
        ({"level": "warning", "message": "failed: no", "run": 4, "outcome": "failed"}, None),
        ({"message": "no log line"}, UpLine("worker", '{"message": "no log line"}')),
    ],
)
def test_a_workers_log_line_is_printed_unless_the_poller_reports_it(
    fields: dict[str, object], message: UpLine | None
) -> None:
    assert worker_message(json.dumps(fields)) == message


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("", None),
        ("printed by a handler", UpLine("worker", "printed by a handler")),
        ("\x1b[31mred", UpLine("worker", "\ufffd[31mred")),
        ("{half", UpLine("worker", "{half")),
    ],
)
def test_the_output_of_handlers_is_printed_sanitised(line: str, message: UpLine | None) -> None:
    assert worker_message(line) == message


def test_a_problem_is_printed_when_it_appears_and_when_it_is_resolved() -> None:
    printed: list[str] = []
    problems = Problems(lambda message: printed.append(message.text))
    problems.update("folder", [])
    problems.update("folder", ["it is missing."])
    problems.update("folder", ["it is missing.", "another problem"])
    assert problems.all == ["it is missing.", "another problem."]
    problems.update("folder", [])
    problems.update("folder", [])
    assert printed == [
        "it is missing.", "another problem.", "resolved: it is missing.", "resolved: another problem.",
    ]  # fmt: skip
    assert problems.all == []


def test_problems_of_a_group_are_resolved_one_by_one() -> None:
    printed: list[str] = []
    problems = Problems(lambda message: printed.append(message.text))
    problems.update_each("maintenance", {"reaper": "no disk", "rollups": "no disk either"})
    problems.update_each("maintenance", {"rollups": "no disk either"})
    problems.update_each("maintenance", {})
    assert printed == ["no disk.", "no disk either.", "resolved: no disk.", "resolved: no disk either."]
    assert problems.all == []
