from __future__ import annotations

import contextlib
import copy
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from tests.schedules.full_spec import FULL_SPEC
from wakeboard.alerts.rules.alert_rules import AlertRules
from wakeboard.declared.validation_messages import wanted
from wakeboard.errors import InvalidSchedule
from wakeboard.limits.rules.declared_limits import Limits
from wakeboard.schedules.rules.job_schedule import JobSchedule, JobScheduleSpec, load_job_schedule, spec_hash

if TYPE_CHECKING:
    from collections.abc import Iterator

FULL: dict[str, Any] = {
    "apiVersion": "wakeboard.dev/v1alpha1",
    "kind": "JobSchedule",
    "metadata": {"name": "weekly-report", "namespace": "billing"},
    "spec": FULL_SPEC,
}
KNOWN = {"apiVersion", "kind", "metadata", "spec", *FULL_SPEC}

# Pairs of an invalid spec and its error message.
BAD_SPECS: list[dict[str, Any]] = yaml.safe_load(Path(__file__).with_name("bad_specs.yaml").read_text())
BAD_DOCUMENTS: list[dict[str, Any]] = yaml.safe_load(Path(__file__).with_name("bad_documents.yaml").read_text())


def document(**spec: Any) -> dict[str, Any]:
    """The smallest JobSchedule, with `spec` on top."""
    return {
        "apiVersion": "wakeboard.dev/v1alpha1",
        "kind": "JobSchedule",
        "metadata": {"name": "report"},
        "spec": {"jobType": "ping", **spec},
    }


def load(**spec: Any) -> JobScheduleSpec:
    return load_job_schedule(document(**spec), "jobs.yaml").spec


def problems(written: object) -> tuple[str, ...]:
    with pytest.raises(InvalidSchedule) as refused:
        load_job_schedule(written, "jobs.yaml")
    assert str(refused.value) == "\n".join(refused.value.problems)
    return refused.value.problems


def problem(**spec: Any) -> str:
    (only,) = problems(document(**spec))
    return only


def test_every_field_can_be_written():
    loaded = load_job_schedule(FULL, "jobs.yaml")
    assert loaded.full_name == "billing/weekly-report"
    assert loaded.spec.model_dump(by_alias=True) == FULL_SPEC | dict.fromkeys(
        ("every", "at", "after")
    )  # each excludes schedule


def parts(schema: Any) -> Iterator[dict[str, Any]]:
    """All objects of a JSON schema that describe a value."""
    if isinstance(schema, dict):
        if "type" in schema:
            yield cast("dict[str, Any]", schema)
        schema = list(cast("dict[str, Any]", schema).values())
    if isinstance(schema, list):
        for each in cast("list[Any]", schema):
            yield from parts(each)


@pytest.mark.parametrize("declared", [JobSchedule, AlertRules, Limits])
def test_what_to_write_is_known_of_every_field(declared: Any):
    assert all(wanted(part) for part in parts(declared.model_json_schema()))


def test_only_the_job_type_is_required():
    assert load().model_dump(by_alias=True) == {
        "jobType": "ping",
        **dict.fromkeys(("schedule", "every", "at", "startsAt", "endsAt", "after")),
        "timeZone": "Etc/UTC",
        "payload": {},
        "queue": "default",
        "priority": 3,
        "suspend": False,
        "concurrencyPolicy": "Allow",
        "limitKey": None,
        "catchUp": {"policy": "Latest", "limit": None},
        "startingDeadlineSeconds": None,
        "dst": {"gap": "RunAfter", "overlap": "First"},
        "jitterSeconds": 0,
        "maxAttempts": 5,
        "backoff": {"strategy": "Exponential", "baseSeconds": 10, "maxSeconds": 3600},
        "timeoutSeconds": 600,
        **dict.fromkeys(("suspendAfterDead", "expectSuccessWithinSeconds", "alertAfterMissed")),
    }
    assert load_job_schedule(document(), "jobs.yaml").full_name == "default/report"


def test_a_schedule_compiles_its_cron_expression_with_its_own_name():
    hashed = document(schedule="H H * * *")
    other = copy.deepcopy(hashed) | {"metadata": {"name": "other"}}
    assert load_job_schedule(hashed, "a").cron_fields != load_job_schedule(other, "a").cron_fields
    assert load_job_schedule(document(), "a").cron_fields is None


def test_fields_that_the_api_server_adds_are_accepted():
    served = copy.deepcopy(FULL) | {"status": {"observedGeneration": 3}}
    served["metadata"] |= {
        "uid": "4f6",
        "generation": 3,
        "creationTimestamp": None,
        "managedFields": [],
        "labels": {"a": "b"},
    }
    assert load_job_schedule(served, "jobs.yaml").spec == load_job_schedule(FULL, "jobs.yaml").spec


def test_null_is_absent():
    nothing = {key: None for key in FULL_SPEC if key != "jobType"}
    assert load(**nothing) == load()
    assert load(dst={"gap": None}, payload={"a": None, "b": {"c": None}}) == load(payload={"b": {}})


@pytest.mark.parametrize("bad", BAD_SPECS, ids=lambda bad: json.dumps(bad["spec"], default=str))
def test_a_bad_field_is_named_with_its_value_and_a_remedy(bad: dict[str, Any]):
    assert problem(**bad["spec"]) == f"jobs.yaml: {bad['says']}"


def test_numbers_of_any_length_are_refused():
    assert problem(payload={"a": 10**5000}) == problem(payload={"a": 2**53 + 1})


def test_a_payload_that_is_nested_without_end_is_refused():
    nested: dict[str, Any] = {}
    for _ in range(10_000):
        nested = {"a": nested}
    assert "is nested deeper than 32 levels" in problem(payload=nested)
    assert "spec.priority is {'a': {'a': " in problem(priority=nested)


def test_a_few_lines_that_stand_for_billions_are_refused():
    """YAML's aliases make one value of many: here of 10^9."""
    bomb: list[Any] = ["ha"]
    for _ in range(9):
        bomb = [bomb] * 10
    assert "pass ids, not blobs" in problem(payload={"bomb": bomb})
    assert "spec.priority is [[[[[[" in problem(priority=bomb)


@pytest.mark.parametrize("bad", BAD_DOCUMENTS, ids=lambda bad: json.dumps(bad["written"]))
def test_each_problem_of_a_document_gets_a_sentence(bad: dict[str, Any]):
    assert list(problems(FULL | bad["written"])) == [f"jobs.yaml: {sentence}" for sentence in bad["says"]]


@pytest.mark.parametrize("written", [None, "apiVersion", ["apiVersion"], 5])
def test_a_document_that_is_no_mapping_gets_a_beginning(written: object):
    assert problems(written) == (
        'jobs.yaml: this is not a JobSchedule; begin with "apiVersion: wakeboard.dev/v1alpha1"',
    )


json_and_more = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(), st.dates()),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(sorted(KNOWN)) | st.text(), inner, max_size=5)
    ),
)


@given(json_and_more)
def test_loading_any_document_gives_a_schedule_or_errors(anything: object):
    for written in (anything, FULL | {"spec": anything}, FULL | {"metadata": anything}, document(payload=anything)):
        with contextlib.suppress(InvalidSchedule):
            load_job_schedule(written, "jobs.yaml")


@pytest.mark.parametrize(
    "same",
    [
        {"schedule": None, "payload": {"b": [1, {"x": "y"}], "a": 1.0}},
        {"payload": {"b": [1.0, {"x": "y", "z": None}], "a": 1, "c": None}},
        {
            "payload": {"a": 1, "b": [1, {"x": "y"}]},
            "timeZone": "Etc/UTC",
            "priority": 3,
            "dst": {},
            "backoff": {"baseSeconds": 10},
        },
    ],
)
def test_equal_schedules_have_one_hash_however_they_are_written(same: dict[str, Any]):
    assert spec_hash(load(**same)) == spec_hash(load(payload={"a": 1, "b": [1, {"x": "y"}]}))


@pytest.mark.parametrize(
    "other",
    [
        {"payload": {"a": 2}},
        {"payload": {"a": "1"}},
        {"payload": {"a": True}},
        {"payload": {"a": [1, None]}},
        {"priority": 4},
        {"catchUp": {"policy": "All"}},
        {"schedule": "@daily"},
    ],
)
def test_another_schedule_has_another_hash(other: dict[str, Any]):
    assert spec_hash(load(**other)) != spec_hash(load(payload={"a": 1}))


def test_the_hash_of_a_schedule_never_changes():
    """It is stored with each definition; a new one would look like an edit of every schedule."""
    expected = "236b4114"
    newer = {"suspendAfterDead", "expectSuccessWithinSeconds", "alertAfterMissed"}
    spec = {name: value for name, value in FULL_SPEC.items() if name not in newer}
    assert spec_hash(load_job_schedule({**FULL, "spec": spec}, "jobs.yaml").spec)[:8] == expected


def test_a_time_needs_no_quotes_in_yaml() -> None:
    spec = yaml.safe_load("{every: 1h, startsAt: 2026-12-01T08:00:00+01:00}")
    assert load(**spec).starts_at == "2026-12-01T07:00:00Z"
