"""When a state is reported, and how bad it is."""

from __future__ import annotations

from datetime import timedelta

import pytest

from wakeboard.views.rules.health_conditions import DEAD_RUNS, NO_WORKER, UNSERVED_QUEUE, HealthCondition

MINUTE, HOUR = timedelta(minutes=1), timedelta(hours=1)


@pytest.mark.parametrize(
    ("condition", "lasted", "severity"),
    [
        (NO_WORKER, MINUTE, None),
        (NO_WORKER, 3 * MINUTE, "bad"),
        (UNSERVED_QUEUE, timedelta(seconds=59), None),
        (UNSERVED_QUEUE, MINUTE, "warn"),
        (UNSERVED_QUEUE, 10 * MINUTE, "bad"),
        (DEAD_RUNS, timedelta(0), "warn"),
        (DEAD_RUNS, 24 * HOUR, "note"),
    ],
)
def test_a_condition_is_reported_when_it_has_lasted_long_enough(
    condition: HealthCondition, lasted: timedelta, severity: str | None
):
    assert condition.severity_after(lasted) == severity
