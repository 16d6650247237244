"""The Kubernetes Jobs that the steps of a run name."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from wakeboard.jobs.rules import kubernetes_jobs

AT = datetime(2026, 1, 5, 8, tzinfo=UTC)
LOGS = "kubectl logs --namespace shop job/report-wb-1 --container main"


def _record(**more: Any) -> dict[str, Any]:
    return {"namespace": "shop", "job": "report-wb-1", "uid": "u", "at": "2026-01-05T08:00:00Z", "logs": LOGS, **more}


def test_a_job_reports_its_node_and_the_time_of_each_phase():
    where = {"pod": "report-wb-1-x", "node": "node-1"}
    steps = [
        ("Job 1", AT, _record()),
        ("Job 1 scheduled", AT, where | {"at": "2026-01-05T08:00:01Z"}),
        ("Job 1 started", AT, where | {"at": "2026-01-05T08:00:03Z"}),
        ("Job 1 ended", AT, where | {"at": "2026-01-05T08:04:00Z", "outcome": "Failed", "exit_code": 3}),
    ]
    (job,) = kubernetes_jobs("job", steps)
    assert (job.namespace, job.name, job.pod, job.node, job.logs) == (
        "shop", "report-wb-1", "report-wb-1-x", "node-1", LOGS,
    )  # fmt: skip
    assert job.phases == [
        ("created", AT, ""),
        ("scheduled", AT + timedelta(seconds=1), ""),
        ("started", AT + timedelta(seconds=3), ""),
        ("ended", AT + timedelta(minutes=4), "Failed, exit code 3"),
    ]


def test_phases_that_were_not_reached_are_left_out():
    steps = [("Job 1", AT, _record()), ("Job 1 scheduled", None, None), ("Job 2", None, None)]
    (job,) = kubernetes_jobs("job", steps)
    assert job.phases == [("created", AT, "")]
    assert (job.pod, job.node, job.exit_code) == (None, None, None)


def test_a_replaced_pod_gives_way_to_the_one_that_ended():
    steps = [
        ("Job 1", AT, _record()),
        ("Job 1 started", AT, {"pod": "first", "node": "node-1"}),
        ("Job 1 ended", AT, {"pod": "second", "node": "node-2", "outcome": "Complete", "exit_code": 0}),
    ]
    (job,) = kubernetes_jobs("job", steps)
    assert (job.pod, job.node, job.phases[-1]) == ("second", "node-2", ("ended", None, "exit code 0"))


@pytest.mark.parametrize(
    "record",
    [None, [], "x", {}, {"logs": 1}, _record(logs="kubectl logs --namespace shop job/a --container b; reboot")],
)
def test_a_step_of_another_handler_is_no_job(record: Any):
    assert kubernetes_jobs("job", [("Job 1", AT, record)]) == []


def test_hostile_facts_are_unknown_facts():
    steps = [
        ("Job 1", AT, _record(at="yesterday")),
        ("Job 1 ended", AT, {"pod": 1, "at": "2026-01-05T08:04:00", "outcome": "Failed", "exit_code": True}),
    ]
    (job,) = kubernetes_jobs("job", steps)
    assert (job.created_at, job.pod, job.ended_at, job.exit_code) == (AT, None, None, None)


def test_other_job_types_have_no_kubernetes_jobs():
    assert kubernetes_jobs("report", [("Job 1", AT, _record())]) == []
