from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import pytest

from wakeboard.local.picture import Concerns
from wakeboard.local.plain_lines import plain_line
from wakeboard.local.telling import OutputLine, happening_line, worker_line
from wakeboard.store.queries.recent_events import RunEvent

NOON = datetime(2026, 3, 1, 12, 0, 7, tzinfo=UTC)


def happening(what: str, **facts: object) -> RunEvent:
    usual: dict[str, object] = {
        "at": NOON,
        "run_id": 7,
        "lease_epoch": 1,
        "schedule": "shop/report",
        "job_type": "report",
        "attempt": 1,
        "max_attempts": 3,
        "started_at": NOON - timedelta(seconds=2.41),
        "next_try_at": None,
        "error_type": None,
        "error": None,
        "reason": None,
        "ticks": None,
        "crashes": 0,
    }
    return RunEvent(what=what, **{**usual, **facts})  # pyright: ignore[reportArgumentType]


WRONG = {"error_type": "ValueError", "error": "no\nsuch thing"}

GOLDEN = [
    (happening("began"), "12:00:07  run 7     shop/report began"),
    (happening("began", attempt=2), "12:00:07  run 7     shop/report began, attempt 2 of 3"),
    (happening("succeeded"), "12:00:07  run 7     shop/report succeeded in 2.4 s"),
    (happening("succeeded", attempt=3), "12:00:07  run 7     shop/report succeeded in 2.4 s, attempt 3 of 3"),
    (happening("succeeded", schedule=None), "12:00:07  run 7     report succeeded in 2.4 s"),
    (
        happening("failed", next_try_at=NOON + timedelta(seconds=4), **WRONG),
        "12:00:07  run 7     shop/report failed, attempt 1 of 3, next try in 4 s: ValueError: no such thing",
    ),
    (happening("crashed"), "12:00:07  run 7     shop/report lost its worker and is queued again"),
    (
        happening("timed_out", error_type="Timeout", error="it ran longer than its timeout"),
        "12:00:07  run 7     shop/report took too long, attempt 1 of 3: Timeout: it ran longer than its timeout",
    ),
    (
        happening("dead", attempt=3, schedule="a/b", **WRONG),
        "12:00:07  run 7     a/b is dead after 3 attempts: ValueError: no such thing (once mended, type: up retry 7)",
    ),
    (
        happening("dead", schedule="a/b", crashes=3, error_type="WorkerCrashed", error="died"),
        "12:00:07  run 7     a/b is dead after 3 crashes: WorkerCrashed: died (once mended, type: up retry 7)",
    ),
    (
        happening("skipped", reason="TooLate", ticks=1),
        "12:00:07  run 7     shop/report was skipped: it was too late to start",
    ),
    (
        happening("skipped", reason="Paused", ticks=9),
        "12:00:07  run 7     shop/report was skipped 9 times: it was paused",
    ),
    (
        happening("cancelled", reason="Replaced"),
        "12:00:07  run 7     shop/report was cancelled: replaced by a newer run",
    ),
    (happening("discarded", reason="Discarded"), "12:00:07  run 7     shop/report was discarded"),
]


@pytest.mark.parametrize(("event", "told"), GOLDEN)
def test_what_became_of_a_run_is_told_in_one_line(event: RunEvent, told: str) -> None:
    assert plain_line(happening_line(event, "up"), NOON) == told


def test_an_error_of_any_length_stays_a_line_and_steers_no_terminal() -> None:
    event = happening("failed", error_type="E", error="\x1b[2Jx" * 1000)
    text = happening_line(event, "wakeboard").text
    assert len(text) < 400
    assert "\x1b" not in text


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ({"level": "info", "message": "wake over"}, OutputLine("worker", "wake over")),
        ({"level": "warning", "message": "late", "run": 4}, OutputLine("run 4", "late", "warn")),
        ({"level": "warning", "message": "failed: no", "run": 4, "outcome": "failed"}, None),
        ({"message": "no log line"}, OutputLine("worker", '{"message": "no log line"}')),
    ],
)
def test_a_workers_log_is_told_unless_the_store_tells_it(said: dict[str, object], told: OutputLine | None) -> None:
    assert worker_line(json.dumps(said)) == told


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("", None),
        ("printed by a handler", OutputLine("worker", "printed by a handler")),
        ("\x1b[31mred", OutputLine("worker", "\ufffd[31mred")),
        ("{half", OutputLine("worker", "{half")),
        ("wakeboard worker: no database.", OutputLine("worker", "no database.", "bad")),
    ],
)
def test_what_handlers_print_is_told_as_it_is(said: str, told: OutputLine | None) -> None:
    assert worker_line(said) == told


def test_a_concern_is_told_when_it_comes_and_when_it_goes() -> None:
    told: list[str] = []
    concerns = Concerns(lambda line: told.append(line.text))
    concerns.now("the folder", [])
    concerns.now("the folder", ["it is gone."])
    concerns.now("the folder", ["it is gone.", "so is its mother."])
    assert concerns.all == ["it is gone.", "so is its mother."]
    concerns.now("the folder", [])
    concerns.now("the folder", [])
    assert told == ["it is gone.", "so is its mother.", "the folder: all is well again."]
    assert concerns.all == []
