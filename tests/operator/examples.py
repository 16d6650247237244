"""Resources and facts to make statuses from."""

from __future__ import annotations

from dataclasses import fields, replace
from datetime import UTC, datetime
from typing import Any

from wakeboard.views.queries.schedule_state import ScheduleState
from wakeboard_operator.resources import Resource

NOW = datetime(2026, 11, 21, 8, 0, 30, 123456, tzinfo=UTC)
THEN = datetime(2026, 11, 21, 7, 0, 0, 654321, tzinfo=UTC)

RESOURCE = Resource(
    namespace="billing",
    name="report",
    uid="u1",
    generation=3,
    resource_version="100",
    spec={"jobType": "ping", "schedule": "0 8 * * *"},
    annotations={},
    status={},
)

GIVEN: dict[str, Any] = {
    "id": 1, "source": "k8s:one", "namespace": "billing", "name": "report", "uid": "u1", "generation": 3,
    "queue": "default", "job_type": "ping", "schedule": "0 8 * * *", "suspended": False, "removed": False,
    "next_run_at": NOW, "created_at": THEN, "updated_at": THEN, "queued": 0, "running": 0, "failed": 0, "dead": 0,
}  # fmt: skip
ABSENT: dict[str, Any] = dict.fromkeys(field.name for field in fields(ScheduleState))
FACTS = ScheduleState(**{**ABSENT, **GIVEN})


def facts(**named: Any) -> ScheduleState:
    """Those of a schedule that has not run yet, with `named` on top."""
    return replace(FACTS, **named)


def resource(**named: Any) -> Resource:
    return replace(RESOURCE, **named)


WENT_WELL = {"last_run_id": 7, "last_finished_at": THEN, "last_result": "succeeded", "last_success_at": THEN}
WENT_WRONG = {
    "last_failure_at": THEN,
    "last_failure_type": "HttpError",
    "last_failure_message": "503 Service Unavailable",
    "last_failure_run_id": 8,
}
