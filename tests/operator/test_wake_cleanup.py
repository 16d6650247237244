"""Which Jobs of waking workers are removed because their pods did not start."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from wakeboard_operator.wake_cleanup import START_DEADLINE, JobName, not_started_in_time

NOW = datetime(2026, 11, 22, 8, 0, tzinfo=UTC)


def job(status: dict[str, Any], *, age_s: float, deadline: str | None = "300", **metadata: Any) -> dict[str, Any]:
    created = (NOW - timedelta(seconds=age_s)).strftime("%Y-%m-%dT%H:%M:%SZ")
    annotations = {} if deadline is None else {START_DEADLINE: deadline}
    about = {"name": "wake-1", "uid": "u1", "creationTimestamp": created, "annotations": annotations}
    return {"metadata": about | metadata, "status": status}


@pytest.mark.parametrize("status", [{}, {"active": 1, "ready": 0}, {"active": 1, "terminating": 0}])
def test_a_wake_that_has_not_started_in_time_is_removed(status: dict[str, Any]):
    assert not_started_in_time([job(status, age_s=301)], NOW) == [JobName("wake-1", "u1")]


@pytest.mark.parametrize(
    "kept",
    [
        job({"active": 1, "ready": 0}, age_s=299),
        job({"active": 1, "ready": 1}, age_s=4000),
        job({"succeeded": 1}, age_s=4000),
        job({"failed": 1}, age_s=4000),
        job({"active": 1, "uncountedTerminatedPods": {"failed": ["u2"]}}, age_s=4000),
        job({"conditions": [{"type": "Failed", "status": "True"}]}, age_s=4000),
        job({"active": 1}, age_s=4000, deadline=None),
        job({"active": 1}, age_s=4000, deadline=""),
        job({"active": 1}, age_s=4000, deadline="soon"),
        job({"active": 1}, age_s=4000, annotations=None),
        job({"active": 1}, age_s=4000, deletionTimestamp="2026-11-22T07:59:00Z"),
    ],
)
def test_every_other_wake_is_kept(kept: dict[str, Any]):
    assert not_started_in_time([kept], NOW) == []


def test_a_deadline_of_ages_is_no_error():
    assert not_started_in_time([job({"active": 1}, age_s=4000, deadline="9" * 30)], NOW) == []
