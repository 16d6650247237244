"""The JobSchedule resource on a real API server: what it keeps, fills in, drops, lists and explains."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from testbed.cluster.cluster import Refused
from testbed.cluster.job_schedules import job_schedule, path
from testbed.processes import wait_for
from tests.schedules.test_job_schedule import FULL
from wakeboard.schedules.rules.job_schedule import load_job_schedule, spec_hash
from wakeboard_operator.resources import Resource, resource
from wakeboard_operator.status_models import Condition, JobScheduleStatus, LastAction, LastFailure, LastRun

if TYPE_CHECKING:
    from testbed.cluster.cluster import Cluster

pytestmark = pytest.mark.usefixtures("crds")

MERGE = "application/merge-patch+json"
NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)
STATUS = JobScheduleStatus(
    observed_generation=1,
    accepted_generation=1,
    conditions=[
        Condition(
            type="Ready",
            status="True",
            observed_generation=1,
            last_transition_time=NOON,
            reason="Synced",
            message="Runs are scheduled.",
        )
    ],
    next_run_time=NOON + timedelta(days=3),
    last_run=LastRun(id=4711, scheduled_for=NOON, finished_at=NOON, result="succeeded"),
    last_success_time=NOON,
    last_failure=LastFailure(time=NOON, reason="ValueError", message="no such report", run_id=4711),
    running=1,
    queued=0,
    failed=2,
    dead=3,
    oldest_dead_time=NOON,
    last_action=LastAction(action="run-now", token="1", time=NOON, result="queued as run 4712"),
    waiting_for="It waits for run 88 of extract, which is dead; `wakeboard retry 88` continues it.",
    installation="0197a5b2-3c4d-7e8f-9a0b-1c2d3e4f5a6b",
    release="jobs/wakeboard",
)


def create(cluster: Cluster, namespace: str, document: dict[str, Any], validation: str = "Strict") -> dict[str, Any]:
    document = document | {"metadata": {**document["metadata"], "namespace": namespace}}
    return cluster.call("POST", f"{path(namespace)}?fieldValidation={validation}", document)


def write_status(cluster: Cluster, namespace: str, status: dict[str, Any], name: str = "report") -> dict[str, Any]:
    return cluster.call("PATCH", f"{path(namespace, name)}/status", {"status": status}, MERGE)


# ------------------------------------------------------------------------------------------------ the spec


def test_what_is_served_loads_as_what_was_written(control_plane: Cluster, namespace: str):
    """So that the operator and `wakeboard up` make the same definition of one file."""
    for written in (job_schedule(), FULL, job_schedule("nulls", payload={"a": None, "b": [1, 2.5, {"c": None}]})):
        served = create(control_plane, namespace, written)
        theirs, ours = load_job_schedule(served, "served").spec, load_job_schedule(written, "written").spec
        assert theirs == ours
        assert spec_hash(theirs) == spec_hash(ours)


def test_an_unknown_field_is_refused_by_kubectl_and_server_side_apply(control_plane: Cluster, namespace: str):
    mistyped = json.dumps(job_schedule(timezone="Etc/UTC"))
    for words in (["create"], ["apply"], ["apply", "--server-side"]):
        with pytest.raises(Refused, match=r"spec\.timezone"):
            control_plane.kubectl(*words, "--namespace", namespace, "-f", "-", stdin=mistyped)


def test_everything_can_be_edited(control_plane: Cluster, namespace: str):
    create(control_plane, namespace, FULL)
    name = FULL["metadata"]["name"]
    edited = {
        "schedule": "@daily", "timeZone": "Asia/Tokyo", "jobType": "http", "payload": {"url": "x"}, "queue": "other",
        "startsAt": "2026-01-01T00:00:00Z", "endsAt": "2026-01-02T00:00:00Z",
        "priority": 1, "suspend": True, "suspendAfterDead": 1, "concurrencyPolicy": "Queue", "limitKey": "x",
        "catchUp": {"policy": "All", "limit": 1}, "dst": {"gap": "Skip", "overlap": "Both"},
        "expectSuccessWithinSeconds": 7, "alertAfterMissed": 6,
        "startingDeadlineSeconds": 9, "jitterSeconds": 8, "maxAttempts": 1, "timeoutSeconds": 1,
        "backoff": {"strategy": "Fixed", "baseSeconds": 1, "maxSeconds": 1},
    }  # fmt: skip
    assert set(edited) == set(FULL["spec"])
    served = control_plane.call("PATCH", path(namespace, name), {"spec": {**edited, "payload": None}}, MERGE)
    assert served["spec"] == {**edited, "payload": {}}
    assert served["metadata"]["generation"] == 2


# ------------------------------------------------------------------------------------------------ the status


def test_a_resource_that_no_operator_has_observed_is_marked(control_plane: Cluster, namespace: str):
    create(control_plane, namespace, job_schedule())
    assert control_plane.call("GET", path(namespace, "report"))["status"] == {"observedGeneration": -1}


def test_all_that_the_operator_writes_is_kept(control_plane: Cluster, namespace: str):
    create(control_plane, namespace, job_schedule())
    document = STATUS.model_dump(mode="json", by_alias=True)
    assert None not in document.values()
    served = write_status(control_plane, namespace, document)
    assert served["status"] == document
    assert served["metadata"]["generation"] == 1
    assert JobScheduleStatus.model_validate(served["status"]) == STATUS


def test_values_of_a_later_operator_can_be_written(control_plane: Cluster, namespace: str):
    create(control_plane, namespace, job_schedule())
    condition = STATUS.model_dump(mode="json", by_alias=True)["conditions"][0] | {"type": "Drained"}
    served = write_status(control_plane, namespace, {"observedGeneration": 1, "conditions": [condition]})
    assert served["status"]["conditions"] == [condition]


def test_conditions_of_two_writers_are_merged(control_plane: Cluster, namespace: str):
    create(control_plane, namespace, job_schedule())
    base = {"apiVersion": "wakeboard.dev/v1alpha1", "kind": "JobSchedule", "metadata": {"name": "report"}}
    condition = STATUS.model_dump(mode="json", by_alias=True)["conditions"][0]
    for writer, kind in (("operator", "Ready"), ("auditor", "Audited")):
        document = {**base, "status": {"conditions": [condition | {"type": kind}]}}
        where = f"{path(namespace, 'report')}/status?fieldManager={writer}"
        served = control_plane.call("PATCH", where, document, "application/apply-patch+yaml")
    assert [each["type"] for each in served["status"]["conditions"]] == ["Ready", "Audited"]


@pytest.mark.parametrize(
    ("how", "again"),
    [
        (["create"], ["replace", "--field-manager=kubectl-create"]),
        (["apply"], ["apply"]),
        (["apply", "--server-side"], ["apply", "--server-side"]),
    ],
)
def test_an_annotation_of_the_creation_differs_from_a_later_one(
    control_plane: Cluster, namespace: str, how: list[str], again: list[str]
) -> None:
    document = job_schedule()
    document["metadata"] |= {"namespace": namespace, "annotations": {"wakeboard.dev/run-now": "restored"}}
    control_plane.kubectl(*how, "-f", "-", stdin=json.dumps(document))

    def read() -> Resource:
        return resource(control_plane.call("GET", path(namespace, "report")))

    assert (read().annotations, read().annotated) == ({"run-now": "restored"}, {})
    control_plane.kubectl("annotate", "-n", namespace, "jobschedule", "report", "wakeboard.dev/retry-dead=now")
    assert list(read().annotated) == ["retry-dead"]
    at, with_spec = read().annotated["retry-dead"]
    assert not with_spec
    assert abs(datetime.now(UTC) - at) < timedelta(minutes=1)

    def is_written_by_the_creator_in_a_later_second() -> bool:
        document["spec"]["payload"] = {"at": datetime.now(UTC).isoformat()}
        control_plane.kubectl(*again, "-f", "-", stdin=json.dumps(document))
        return "run-now" in read().annotated

    wait_for(is_written_by_the_creator_in_a_later_second)
    assert read().annotated["run-now"].with_spec


# ------------------------------------------------------------------------------------------------ kubectl


@pytest.mark.parametrize(("words", "file"), [([], "get.txt"), (["-o", "wide"], "get_wide.txt")])
def test_kubectl_get_shows_the_state_of_each_schedule(
    control_plane: Cluster, namespace: str, words: list[str], file: str
):
    weekly = {"schedule": "0 8 * * MON", "timeZone": "Europe/Lisbon", "jobType": "send_weekly_report"}
    create(control_plane, namespace, job_schedule("weekly-report", **weekly))
    create(control_plane, namespace, job_schedule("working-hours", every="90m", suspend=True))
    status = STATUS.model_dump(mode="json", by_alias=True)
    status["conditions"].append({**status["conditions"][0], "type": "Healthy", "status": "False", "reason": "DeadRuns"})
    status["lastRun"]["finishedAt"] = f"{datetime.now(UTC) - timedelta(days=12, hours=1):%Y-%m-%dT%H:%M:%SZ}"
    write_status(control_plane, namespace, status, "weekly-report")
    table = control_plane.kubectl("get", "jobschedules", "--namespace", namespace, *words)
    of_any_age = re.sub(r"\b(\ds ?|\d\ds)(?=\s)", "AGE", table)
    shown = [line.rstrip() for line in of_any_age.splitlines()]
    assert shown == Path(__file__).with_name(file).read_text().splitlines()


def test_after_does_not_drift_under_any_kind_of_apply(control_plane: Cluster, namespace: str) -> None:
    document = job_schedule(after=[{"schedule": "extract"}, {"schedule": "rates", "ticks": "All"}])

    def kubectl(*words: str) -> str:
        return control_plane.kubectl(*words, "--namespace", namespace, "-f", "-", stdin=json.dumps(document))

    assert "created" in kubectl("apply")
    assert "unchanged" in kubectl("apply")
    assert "serverside-applied" in kubectl("apply", "--server-side")
    assert kubectl("diff", "--server-side") == ""
    document["spec"]["after"].pop(0)
    document["spec"]["after"][0].pop("ticks")
    kubectl("apply", "--server-side")
    served = control_plane.call("GET", path(namespace, "report"))["spec"]["after"]
    assert served == [{"schedule": "rates"}]


@pytest.mark.parametrize("word", ["jobschedules", "jobschedule", "jsched", "jobsched", "wakeboard"])
def test_schedules_are_found_by_each_of_their_names(control_plane: Cluster, namespace: str, word: str):
    create(control_plane, namespace, job_schedule())
    found = control_plane.kubectl("get", word, "--namespace", namespace, "-o", "name")
    assert found == "jobschedule.wakeboard.dev/report\n"


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        ("spec.queue=mail", ["mailing"]),
        ("spec.jobType=http", ["calling"]),
        ("spec.suspend=true", ["calling"]),
        ("spec.queue!=mail,spec.suspend=false", ["plain"]),
    ],
)
def test_schedules_are_selected_by_field(control_plane: Cluster, namespace: str, selector: str, expected: list[str]):
    create(control_plane, namespace, job_schedule("mailing", queue="mail"))
    create(control_plane, namespace, job_schedule("calling", jobType="http", suspend=True))
    create(control_plane, namespace, job_schedule("plain"))
    found = control_plane.call("GET", f"{path(namespace)}?fieldSelector={selector}")
    assert [item["metadata"]["name"] for item in found["items"]] == expected


def test_kubectl_explains_every_field_in_words(control_plane: Cluster):
    for part, fields in (("spec", FULL["spec"]), ("status", STATUS.model_dump(by_alias=True))):
        output = control_plane.kubectl("explain", f"jobschedule.{part}")
        for field in fields:
            assert re.search(rf"^  {field}\t<\S+>.*\n(  enum: .+\n)?    \w", output, re.MULTILINE), field
    assert "<no description>" not in control_plane.kubectl("explain", "jobschedule")


def test_kubectl_explains_defaults_bounds_and_examples(control_plane: Cluster):
    zone, priority = (
        " ".join(control_plane.kubectl("explain", f"jobschedule.spec.{field}").split())
        for field in ("timeZone", "priority")
    )
    assert zone.endswith('The IANA time zone of the schedule. Default: "Etc/UTC". Example: "Europe/Lisbon".')
    assert priority.endswith("From 1 to 5. Default: 3.")
