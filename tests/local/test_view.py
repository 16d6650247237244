from __future__ import annotations

import io
import json
from dataclasses import fields, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from rich.console import Console

from wakeboard.local.live_view import describe_run, draw, share_height
from wakeboard.local.view import Message, Problems, ViewState, event_message, plain_line, worker_message
from wakeboard.store.queries.listings import RunRow, ScheduleRow
from wakeboard.store.queries.recent_events import RunEvent

NOON = datetime(2026, 3, 1, 12, 0, 7, tzinfo=UTC)


def event(kind: str, **values: object) -> RunEvent:
    given = {"at": NOON, "run_id": 7, "lease_epoch": 1, "schedule": "shop/report", "job_type": "report", "attempt": 1}
    more = {"max_attempts": 3, "started_at": NOON - timedelta(seconds=2.41), "crashes": 0, "kind": kind}
    absent = dict.fromkeys(field.name for field in fields(RunEvent))
    return RunEvent(**{**absent, **given, **more, **values})  # pyright: ignore[reportArgumentType]


WRONG = {"error_type": "ValueError", "error": "no\nsuch thing"}

EVENT_LINES = [
    (event("started"), "12:00:07  run 7     shop/report started"),
    (event("started", attempt=2), "12:00:07  run 7     shop/report started, attempt 2 of 3"),
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
    assert plain_line(event_message(run_event, "up"), NOON) == line


def test_the_message_of_an_event_is_bounded_and_sanitised() -> None:
    text = event_message(event("failed", error_type="E", error="\x1b[2Jx" * 1000), "wakeboard").text
    assert len(text) < 400
    assert "\x1b" not in text


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"level": "info", "message": "worker finished"}, Message("worker", "worker finished")),
        ({"level": "warning", "message": "late", "run": 4}, Message("run 4", "late", "warning")),
        ({"level": "warning", "message": "failed: no", "run": 4, "outcome": "failed"}, None),
        ({"message": "no log line"}, Message("worker", '{"message": "no log line"}')),
    ],
)
def test_a_workers_log_line_is_printed_unless_the_poller_reports_it(
    fields: dict[str, object], message: Message | None
) -> None:
    assert worker_message(json.dumps(fields)) == message


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("", None),
        ("printed by a handler", Message("worker", "printed by a handler")),
        ("\x1b[31mred", Message("worker", "\ufffd[31mred")),
        ("{half", Message("worker", "{half")),
    ],
)
def test_the_output_of_handlers_is_printed_sanitised(line: str, message: Message | None) -> None:
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


def row(kind: type[Any], values: dict[str, Any]) -> Any:
    """A row in which all other columns are None."""
    return kind(**{**dict.fromkeys(field.name for field in fields(kind)), **values})


def schedule(name: str, **values: object) -> ScheduleRow:
    defaults: dict[str, object] = {
        "namespace": "shop",
        "name": name,
        "schedule": "0 8 * * MON",
        "time_zone": "Europe/Lisbon",
        "state": "active",
        "next_run_at": NOON + timedelta(seconds=53),
        "last_status": "succeeded",
        "last_finished_at": NOON - timedelta(seconds=7),
    }
    return row(ScheduleRow, {**defaults, **values})


def run(run_id: int, status: str, **values: object) -> RunRow:
    defaults: dict[str, object] = {
        "id": run_id,
        "status": status,
        "schedule": "shop/report",
        "run_at": NOON + timedelta(seconds=4),
        "started_at": NOON - timedelta(seconds=3),
        "attempts": 1,
        "max_attempts": 5,
    }
    return row(RunRow, {**defaults, **values})


SCHEDULES = [schedule("weekly-report"), schedule("close-month", last_status="dead", dead=1)]
RUNS = [
    run(9, "running", progress=0.4),
    run(8, "failed", error_type="ValueError", error="no such\nthing"),
    run(7, "dead", dead_at=NOON, error_type="PermissionError", error="not approved yet", attempts=2),
    run(6, "succeeded", finished_at=NOON - timedelta(seconds=1)),
]
STATE = ViewState(NOON, SCHEDULES, RUNS, workers=1, next_wake_s=52.8)
MESSAGES = [Message("worker", f"line {number}", at=NOON) for number in range(50)]


def page(width: int, height: int, state: ViewState = STATE) -> list[str]:
    """The lines of the drawn page."""
    out = io.StringIO()
    console = Console(file=out, width=width, height=height, color_system=None, highlight=False)
    console.print(draw("wakeboard up examples", "wakeboard", state, MESSAGES, width, height))
    return [line.rstrip() for line in out.getvalue().splitlines()]


def test_a_page_on_a_terminal_of_80_columns() -> None:
    assert page(80, 20) == [
        "wakeboard up examples          1 worker running, next wake in 53 s  12:00:07 UTC",
        "",
        "SCHEDULE                                      NEXT     LAST               RUNS",
        "shop/weekly-report                            in 53 s  succeeded 7 s ago",
        "shop/close-month                              in 53 s  dead 7 s ago       1 dead",
        "",
        "RUN  STATUS     JOB          ATTEMPT",
        "  9  running    shop/report  1/5      ━━━━────── 40% for 3.0 s",
        "  8  failed     shop/report  1/5      retry in 4 s  ValueError: no such thing",
        "  7  dead       shop/report  2/5      PermissionError: not approved yet",
        "  6  succeeded  shop/report  1/5      1 s ago, took 2.0 s",
        "",
        *(f"12:00:07  worker    line {number}" for number in range(45, 50)),
        "",
        "run 7 is dead: PermissionError: not approved yet",
        "Ctrl-C stops everything  ·  to retry it: wakeboard retry 7",
    ]


def test_the_reason_of_a_skipped_run_is_shown() -> None:
    skipped = run(5, "skipped", finished_at=NOON - timedelta(seconds=1), reason="Forbidden")
    (line,) = [line for line in page(80, 20, ViewState(NOON, SCHEDULES, [skipped])) if "skipped" in line]
    assert line.endswith("1 s ago  the run before was unfinished")


@pytest.mark.parametrize("width", [10, 20, 44, 80, 140, 300])
@pytest.mark.parametrize("height", [1, 2, 3, 5, 8, 12, 24, 60])
def test_a_page_fits_any_terminal_size(width: int, height: int) -> None:
    many = ViewState(NOON, [schedule(f"schedule-{n}") for n in range(40)], [run(n, "queued") for n in range(40)])
    for state in (STATE, many, ViewState(NOON)):
        lines = page(width, height, replace(state, problems=["a long problem " * 20]))
        assert len(lines) <= height
        assert all(len(line) <= width for line in lines)


def test_a_small_terminal_shows_runs_before_schedules() -> None:
    rows = share_height(12, schedules=7, runs=9, problems=0, messages=20)
    assert rows["schedules"] == 0
    assert rows["runs"] > 5


def test_a_problem_comes_first_and_keeps_its_file_and_line_whatever_their_length() -> None:
    file = "/home/user/with/a/long/path/to/the/folder/of/schedules/reports/weekly.yaml:123"
    problem = f"{file}: timeZone is Europe/Lisboa, and there is no such zone; write Europe/Lisbon."
    lines = page(80, 24, replace(STATE, problems=[problem]))
    assert lines[2] == f"{file}:"
    assert "write Europe/Lisbon." in " ".join(lines)


def test_a_time_after_now_is_shown_as_now() -> None:
    late = run(1, "succeeded", finished_at=NOON + timedelta(seconds=30))
    assert describe_run(late, NOON).plain.startswith("now")


def test_long_names_with_the_same_prefix_differ_on_80_columns() -> None:
    names = [f"send-the-weekly-report-to-each-customer-of-region-{region}" for region in ("north", "south")]
    runs = [run(9, "queued", schedule=f"shop/{name}") for name in names]
    lines = page(80, 24, ViewState(NOON, [schedule(name) for name in names], runs))
    for region in ("north", "south"):
        assert sum(f"region-{region} " in f"{line} " for line in lines) == 2
    assert all(len(line) <= 80 for line in lines)
