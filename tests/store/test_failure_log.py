"""What the log says about a task that fails again and again."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from wakeboard.process.failure_log import FailureLog

if TYPE_CHECKING:
    import pytest


def test_a_failing_task_has_few_lines(caplog: pytest.LogCaptureFixture) -> None:
    now = 0.0
    failures = FailureLog(logging.getLogger("test"), clock=lambda: now)
    caplog.set_level("INFO", "test")
    for second in range(150):
        now = float(second)
        failures.update({"limits": ValueError(f"locked by {second}")})
    failures.update({})
    failures.update({})
    assert caplog.messages == [
        "the task limits fails: locked by 0",
        "the task limits fails for 60 s: locked by 60",
        "the task limits fails for 120 s: locked by 120",
        "the task limits succeeds again, after 149.0 s",
    ]


def test_a_task_that_fails_now_and_then_has_two_lines_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    now = 0.0
    failures = FailureLog(logging.getLogger("test"), clock=lambda: now)
    caplog.set_level("INFO", "test")
    for second in range(0, 60, 2):
        now = float(second)
        failures.failed("limits", ValueError())
        failures.succeeded("limits")
    assert caplog.messages == ["the task limits fails: ValueError", "the task limits succeeds again, after 0.0 s"]
