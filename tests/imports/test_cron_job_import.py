"""What each field of a CronJob becomes, what changes in meaning, and what cannot be imported."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.imports.import_examples import OPTIONS, cron_job
from wakeboard.errors import InvalidSchedule
from wakeboard.imports.rules.cron_job import import_cron_job, suspended_cron_job

ALWAYS = {
    "jobType": "job",
    "payload": {"cronJob": "report"},
    "schedule": "0 3 * * *",
    "timeZone": "Etc/UTC",
    "maxAttempts": 7,
    "backoff": {"baseSeconds": 10, "maxSeconds": 600},
    "timeoutSeconds": 86_400,
}


def changes(*parts: Any, **metadata: Any) -> str:
    return "\n".join(import_cron_job(cron_job(*parts, **metadata), OPTIONS).changes)


def refusal(*parts: Any, **metadata: Any) -> str:
    with pytest.raises(InvalidSchedule) as refused:
        import_cron_job(cron_job(*parts, **metadata), OPTIONS)
    return str(refused.value)


@pytest.mark.parametrize(
    ("spec", "job", "becomes"),
    [
        ({}, {}, {}),
        ({"schedule": "@daily"}, {}, {"schedule": "@daily"}),
        ({"schedule": "0 3 ? * mon"}, {}, {"schedule": "0 3 * * mon"}),
        ({"schedule": "TZ=Asia/Tokyo 0 3 * * *", "timeZone": None}, {}, {"timeZone": "Asia/Tokyo"}),
        ({"schedule": "CRON_TZ=Asia/Tokyo 0 3 * * *"}, {}, {"timeZone": "Asia/Tokyo"}),
        ({"timeZone": "Asia/Tokyo"}, {}, {"timeZone": "Asia/Tokyo"}),
        ({"timeZone": "Europe/Lisbon"}, {}, {"timeZone": "Europe/Lisbon"}),
        (
            {"timeZone": "Europe/Lisbon", "schedule": "30 1 * * *"},
            {},
            {"timeZone": "Europe/Lisbon", "schedule": "30 1 * * *", "dst": {"gap": "Skip", "overlap": "Both"}},
        ),
        ({"schedule": "*/5 * * * *"}, {}, {"schedule": "*/5 * * * *"}),
        ({"timeZone": None}, {}, {"timeZone": "Etc/UTC"}),
        ({"concurrencyPolicy": "Allow"}, {}, {}),
        ({"concurrencyPolicy": "Forbid"}, {}, {"concurrencyPolicy": "Forbid"}),
        ({"concurrencyPolicy": "Replace"}, {}, {"concurrencyPolicy": "Replace"}),
        ({"startingDeadlineSeconds": 3600}, {}, {"startingDeadlineSeconds": 3600}),
        ({"startingDeadlineSeconds": 0}, {}, {"startingDeadlineSeconds": 1}),
        ({"startingDeadlineSeconds": 99_999_999}, {}, {"startingDeadlineSeconds": 31_536_000}),
        ({"suspend": True}, {}, {"suspend": True}),
        ({"suspend": False}, {}, {}),
        ({}, {"activeDeadlineSeconds": 900}, {"timeoutSeconds": 900}),
        ({}, {"activeDeadlineSeconds": 99_999_999}, {"timeoutSeconds": 2_678_400}),
        ({}, {"backoffLimit": 0}, {"maxAttempts": 1}),
        ({}, {"backoffLimit": 3}, {"maxAttempts": 4}),
        ({}, {"backoffLimit": 5000}, {"maxAttempts": 1000}),
        ({"schedule": "@every 15m"}, {}, {"schedule": "*/15 * * * *"}),
        ({"schedule": "@every 1m"}, {}, {"schedule": "* * * * *"}),
        ({"schedule": "@every 60m"}, {}, {"schedule": "0 * * * *"}),
        ({"schedule": "@every 6h"}, {}, {"schedule": "0 */6 * * *"}),
        ({"schedule": "@every 24h"}, {}, {"schedule": "0 0 * * *"}),
    ],
)  # fmt: skip
def test_each_field_becomes_the_one_with_the_same_meaning(
    spec: dict[str, Any], job: dict[str, Any], becomes: dict[str, Any]
):
    assert import_cron_job(cron_job(spec, job), OPTIONS).spec == {**ALWAYS, **becomes}


@pytest.mark.parametrize(
    ("spec", "job", "pod", "metadata", "says"),
    [
        ({}, {}, {}, {}, "maxAttempts counts attempts"),
        ({}, {}, {}, {}, "the database keeps the history"),
        ({}, {}, {}, {}, "Above 100 missed ticks"),
        ({}, {}, {}, {}, "stops an attempt after 86400 seconds"),
        ({}, {}, {}, {}, "maxTimeoutSeconds"),
        ({}, {"activeDeadlineSeconds": 60}, {}, {}, "timeoutSeconds limits each attempt"),
        ({"timeZone": None}, {}, {}, {}, "the zone of kube-controller-manager, usually UTC"),
        ({"startingDeadlineSeconds": 600}, {}, {}, {}, "includes the wait for a worker"),
        ({"startingDeadlineSeconds": 30}, {}, {}, {}, "below two minutes"),
        ({"startingDeadlineSeconds": 0}, {}, {}, {}, "hardly ever"),
        ({"concurrencyPolicy": "Forbid"}, {}, {}, {}, "as soon as the running Job ends"),
        ({"concurrencyPolicy": "Replace"}, {}, {}, {}, "also cancels a run that waits"),
        ({"suspend": True}, {}, {}, {}, "When a suspended CronJob resumes"),
        ({"schedule": "@every 2h"}, {}, {}, {}, "@every counts from the tick before"),
        ({"schedule": "30 2 * * *", "timeZone": "Europe/Berlin"}, {}, {}, {}, "When the clock changes"),
        ({"schedule": "TZ=Asia/Tokyo 0 3 * * *", "timeZone": None}, {}, {}, {}, "refuses a new CronJob with TZ="),
        ({}, {}, {"restartPolicy": "OnFailure"}, {}, "emptyDir"),
        ({}, {"completions": 5}, {}, {}, "several pods"),
        ({}, {"parallelism": 2}, {}, {}, "several pods"),
        ({}, {"podFailurePolicy": {"rules": []}}, {}, {}, "FailJob makes the run dead without further attempts"),
        ({"schedule": "TZ=Asia/Tokyo 0 3 * * *", "timeZone": "Europe/Berlin"}, {}, {}, {}, "Europe/Berlin was dropped"),
        ({}, {}, {}, {"labels": {"app.kubernetes.io/managed-by": "Helm"}}, "Helm manages"),
        ({}, {}, {}, {"ownerReferences": [{"kind": "Backup"}]}, "Another object owns"),
    ],
)  # fmt: skip
def test_a_change_in_meaning_is_one_sentence(spec: Any, job: Any, pod: Any, metadata: Any, says: str):
    found = changes(spec, job, pod, **metadata)
    assert says in found
    assert all(sentence.endswith(".") for sentence in found.splitlines())


@pytest.mark.parametrize(
    ("spec", "job", "absent"),
    [
        ({"startingDeadlineSeconds": 600}, {}, "Above 100 missed ticks"),
        ({}, {"activeDeadlineSeconds": 600}, "may run for ever"),
        ({}, {"activeDeadlineSeconds": 600}, "maxTimeoutSeconds"),
        ({"timeZone": "Asia/Tokyo"}, {}, "kube-controller-manager"),
        ({"timeZone": "Asia/Tokyo", "schedule": "30 2 * * *"}, {}, "When the clock changes"),
        ({}, {"completions": 1, "parallelism": 1}, "several pods"),
    ],
)
def test_a_sentence_that_does_not_apply_is_absent(spec: Any, job: Any, absent: str):
    assert absent not in changes(spec, job)


@pytest.mark.parametrize(
    ("spec", "job", "pod", "metadata", "says"),
    [
        ({"schedule": "0 0 * * 7"}, {}, {}, {}, 'the day of the week "7"'),
        ({"schedule": "0 0 30 2 *"}, {}, {}, {}, "would never run"),
        ({"schedule": "@reboot"}, {}, {}, {}, "not a known short form"),
        ({"schedule": "@every 90m"}, {}, {}, {}, "does not divide an hour or a day"),
        ({"schedule": "@every 30s"}, {}, {}, {}, "does not divide an hour or a day"),
        ({"schedule": ""}, {}, {}, {}, "spec.schedule is missing"),
        ({"schedule": None}, {}, {}, {}, "spec.schedule is missing"),
        ({"schedule": 5}, {}, {}, {}, "spec.schedule is 5, which is not text"),
        ({"timeZone": "Europe/Lisboa"}, {}, {}, {}, "not a known time zone"),
        ({"schedule": "TZ=Nowhere 0 0 * * *"}, {}, {}, {}, '"Nowhere" is not a known time zone'),
        ({"concurrencyPolicy": "Never"}, {}, {}, {}, "none of Allow, Forbid, Replace"),
        ({"startingDeadlineSeconds": -1}, {}, {}, {}, "which is negative"),
        ({"startingDeadlineSeconds": "60"}, {}, {}, {}, "which is not a whole number"),
        ({"suspend": "yes"}, {}, {}, {}, "which is not true or false"),
        ({}, {"backoffLimit": True}, {}, {}, "which is not a whole number"),
        ({}, {"activeDeadlineSeconds": 0}, {}, {}, "timeoutSeconds is 0"),
        ({}, {"suspend": True}, {}, {}, "another program starts its Jobs"),
        ({}, {"manualSelector": True}, {}, {}, "has a selector"),
        ({}, {"managedBy": "kueue.x-k8s.io/multikueue"}, {}, {}, "another controller"),
        ({}, {"podFailurePolicy": {"rules": []}}, {"restartPolicy": "OnFailure"}, {}, "needs restartPolicy: Never"),
        ({}, {}, {"restartPolicy": "Always"}, {}, "neither Never nor OnFailure"),
        ({}, {}, {"containers": []}, {}, "has no containers"),
        ({}, {}, {}, {"labels": {"app.kubernetes.io/part-of": "wakeboard"}}, "it is wakeboard's own"),
        ({}, {}, {}, {"name": "x" * 53}, "its name has 53 characters, and Kubernetes allows 52"),
        ({}, {}, {}, {"name": None, "generateName": "report-"}, "generateName and no name"),
        ({}, {}, {}, {"name": None}, "metadata.name is missing"),
        ({}, {}, {}, {"name": "../../etc/passwd"}, "metadata.name"),
        ({}, {}, {}, {"namespace": "../up"}, "metadata.namespace"),
    ],
)  # fmt: skip
def test_what_cannot_be_imported_has_a_reason(spec: Any, job: Any, pod: Any, metadata: Any, says: str):
    assert says in refusal(spec, job, pod, **metadata)


def test_an_api_version_that_kubernetes_no_longer_has_is_refused():
    old = {**cron_job(), "apiVersion": "batch/v1beta1"}
    with pytest.raises(InvalidSchedule, match="write batch/v1"):
        import_cron_job(old, OPTIONS)


def test_every_reason_is_listed():
    assert len(refusal({"suspend": "yes"}, {"suspend": True}, {"containers": []}).splitlines()) == 3


def test_options_say_what_the_cron_job_does_not():
    options = replace(OPTIONS, default_zone="Europe/Lisbon", timeout_s=600, queue="reports", suspended=True)
    spec = import_cron_job(cron_job({"timeZone": None}), options).spec
    assert (spec["timeZone"], spec["timeoutSeconds"], spec["queue"], spec["suspend"]) == (
        "Europe/Lisbon", 600, "reports", True,
    )  # fmt: skip


def test_a_schedule_without_a_namespace_gets_none():
    imported = import_cron_job(cron_job(namespace=None), OPTIONS)
    assert imported.document()["metadata"] == {"name": "report"}
    assert imported.full_name == "default/report"


def test_labels_and_annotations_stay_without_those_of_tools():
    found = cron_job(
        labels={"team": "a", "app.kubernetes.io/instance": "shop", "app.kubernetes.io/managed-by": "Helm"},
        annotations={"owner": "b", "argocd.argoproj.io/tracking-id": "x", "kubectl.kubernetes.io/restartedAt": "y"},
    )
    metadata = import_cron_job(found, OPTIONS).document()["metadata"]
    assert (metadata["labels"], metadata["annotations"]) == ({"team": "a"}, {"owner": "b"})


def test_a_job_that_kueue_starts_is_imported():
    found = cron_job(job={"suspend": True})
    found["spec"]["jobTemplate"]["metadata"] = {"labels": {"kueue.x-k8s.io/queue-name": "batch"}}
    assert "Kueue starts the Job" in "\n".join(import_cron_job(found, OPTIONS).changes)


def test_the_suspended_cron_job_lacks_what_the_api_server_sets():
    of_server: dict[str, Any] = {
        "uid": "1",
        "resourceVersion": "7",
        "generation": 2,
        "creationTimestamp": "2026-01-01T00:00:00Z",
    }
    annotations = {"kubectl.kubernetes.io/last-applied-configuration": "{}", "team": "shop"}
    listed = cron_job(
        {"suspend": False}, labels={"app": "report"}, annotations=annotations, managedFields=[], **of_server
    )
    listed["status"] = {"lastScheduleTime": "2026-01-01T00:00:00Z"}
    listed["spec"]["jobTemplate"]["metadata"] = {"creationTimestamp": None}

    suspended = suspended_cron_job(listed)

    assert suspended["metadata"] == {
        "name": "report", "namespace": "shop", "labels": {"app": "report"}, "annotations": {"team": "shop"},
    }  # fmt: skip
    assert "status" not in suspended
    assert suspended["spec"] == {**listed["spec"], "suspend": True, "jobTemplate": {
        "metadata": {}, "spec": listed["spec"]["jobTemplate"]["spec"],
    }}  # fmt: skip


_json = st.recursive(
    st.none() | st.booleans() | st.integers(-10, 10) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
_PLACES = [
    ("metadata",), ("spec",), ("metadata", "name"), ("metadata", "namespace"), ("metadata", "labels"),
    ("metadata", "annotations"), ("metadata", "ownerReferences"),
    ("spec", "schedule"), ("spec", "timeZone"), ("spec", "concurrencyPolicy"), ("spec", "suspend"),
    ("spec", "startingDeadlineSeconds"), ("spec", "jobTemplate"), ("spec", "jobTemplate", "spec"),
    *(("spec", "jobTemplate", "spec", name) for name in (
        "backoffLimit", "activeDeadlineSeconds", "completions", "parallelism", "managedBy", "podFailurePolicy",
        "selector", "suspend", "template",
    )),
    ("spec", "jobTemplate", "spec", "template", "spec"),
    ("spec", "jobTemplate", "spec", "template", "spec", "restartPolicy"),
    ("spec", "jobTemplate", "spec", "template", "spec", "containers"),
]  # fmt: skip


@given(place=st.sampled_from(_PLACES), value=_json)
def test_any_value_in_any_field_is_imported_or_refused_with_reasons(place: tuple[str, ...], value: Any):
    document: Any = cron_job()
    part = document
    for step in place[:-1]:
        part = part[step]
    part[place[-1]] = value
    suspended_cron_job(document)
    with suppress(InvalidSchedule):
        import_cron_job(document, OPTIONS)
