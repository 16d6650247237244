"""What the API server refuses, and that the loader of files refuses it, too."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from testbed.cluster.cluster import Refused
from testbed.cluster.job_schedules import job_schedule, refusals
from testbed.processes import wait_for
from tests.chart.rendering import rendered
from tests.schedules.cel_rules import admitted
from tests.ticks.cron_expressions import cron_lines, loose_lines
from tools.generated import ROOT
from wakeboard.errors import InvalidSchedule
from wakeboard.schedules.rules.admission_rules import RULES
from wakeboard.schedules.rules.builtin_payloads import SHAPES, payload_problem
from wakeboard.schedules.rules.job_schedule import load_job_schedule
from wakeboard.ticks.zones import known_zones

if TYPE_CHECKING:
    from testbed.cluster.cluster import Cluster

pytestmark = pytest.mark.usefixtures("crds")

EXAMPLES: list[dict[str, Any]] = yaml.safe_load(Path(__file__).with_name("admission_examples.yaml").read_text())
of_each_example = pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: json.dumps(example["refused"]))


@of_each_example
def test_a_rule_refuses_what_is_wrong_and_says_what_to_write(control_plane: Cluster, example: dict[str, Any]):
    assert refusals(control_plane, job_schedule(**example["admitted"])) == []
    (only,) = refusals(control_plane, job_schedule(**example["refused"]))
    assert only.startswith(f"{example['field']}: Invalid value: ")
    assert only.endswith(example["says"])


@of_each_example
def test_the_loader_of_files_agrees_with_each_example(example: dict[str, Any]):
    load_job_schedule(job_schedule(**example["admitted"]), "jobs.yaml")
    with pytest.raises(InvalidSchedule) as refused:
        load_job_schedule(job_schedule(**example["refused"]), "jobs.yaml")
    (sentence,) = refused.value.problems
    assert sentence.startswith(f"jobs.yaml: {example['field']}")
    assert "write" in sentence


def test_every_rule_has_an_example():
    assert {example["says"] for example in EXAMPLES} == {rule["message"] for rules in RULES.values() for rule in rules}


# The invalid specs of the loader's own tests, and those that only the loader and the operator can refuse.
BAD_SPECS: list[dict[str, Any]] = yaml.safe_load((ROOT / "tests" / "schedules" / "bad_specs.yaml").read_text())
LEFT_TO_THE_OPERATOR = ("0 0 H(30-31) 2 *", "beyond 2^53", "holds a NUL", "before its first tick")
OF_PAYLOADS = "the built-in job type"


def as_json(bad: dict[str, Any]) -> bool:
    """Whether JSON can represent this at all: dates, NaN and keys that are no text end before it."""
    try:
        return json.loads(json.dumps(bad, allow_nan=False).encode().decode()) == bad and "surrogate" not in bad["says"]
    except (TypeError, ValueError):
        return False


@pytest.mark.parametrize("bad", [bad for bad in BAD_SPECS if as_json(bad)], ids=lambda bad: json.dumps(bad["spec"]))
def test_the_api_server_refuses_what_the_loader_refuses(control_plane: Cluster, bad: dict[str, Any]):
    left = any(words in bad["says"] for words in (*LEFT_TO_THE_OPERATOR, OF_PAYLOADS))
    assert (refusals(control_plane, job_schedule(**bad["spec"])) == []) is left


@pytest.fixture(scope="module")
def payload_policy(control_plane: Cluster, crds: None) -> None:
    """The chart's admission policy is in force in the namespace `default`."""
    install_payload_policy(control_plane, "default")


def install_payload_policy(cluster: Cluster, namespace: str) -> None:
    """Returns when the API server refuses wrong payloads in the namespace of a release that watches only this one."""
    documents = rendered({"operator": {"source": "k8s:test", "namespaces": [namespace]}}, namespace=namespace)
    cluster.apply(*(each for each in documents if each["kind"].startswith("ValidatingAdmissionPolicy")))
    wrong = job_schedule("wrong", jobType="http")
    wait_for(lambda: refusals(cluster, wrong, namespace) != [], why=lambda: "the policy refuses nothing")


@pytest.mark.usefixtures("payload_policy")
def test_the_api_server_refuses_payloads_as_wakeboard_apply_does(control_plane: Cluster):
    said = {
        json.dumps(bad["spec"]): refusals(control_plane, job_schedule(**bad["spec"]))
        for bad in BAD_SPECS
        if OF_PAYLOADS in bad["says"]
    }
    expected = {json.dumps(bad["spec"]): bad["says"] for bad in BAD_SPECS if OF_PAYLOADS in bad["says"]}
    assert {
        spec: [sentence.partition(" denied request: ")[2] for sentence in found] for spec, found in said.items()
    } == {spec: [sentence] for spec, sentence in expected.items()}


fitting_values = st.none() | st.booleans() | st.integers(-9, 9) | st.text("aA-./:@{} ", max_size=9)
payload_values = st.one_of(
    fitting_values,
    st.lists(fitting_values, max_size=2),
    st.dictionaries(st.sampled_from(["$secret", "A"]), fitting_values, max_size=2),
    st.sampled_from(["post", "HTTPS://a.example", "http://", "nightly-report", "x" * 53, "http://u@h\n"]),
)
payloads = st.dictionaries(
    st.sampled_from([*(field.name for fields in SHAPES.values() for field in fields), "cronjob", ""]), payload_values
)


@pytest.mark.usefixtures("payload_policy")
@settings(max_examples=150, suppress_health_check=[HealthCheck.too_slow])
@given(job_type=st.sampled_from([*SHAPES, "mine"]), payload=payloads)
def test_the_api_server_reads_payloads_as_python_does(control_plane: Cluster, job_type: str, payload: dict[str, Any]):
    found = refusals(control_plane, job_schedule(jobType=job_type, payload=payload))
    problem = payload_problem(job_type, payload)
    assert [sentence.partition(f"job type {job_type}: ")[2] for sentence in found] == [problem] * (problem is not None)


def test_a_stored_wrong_payload_blocks_no_change_of_metadata(control_plane: Cluster, namespace: str):
    stored = job_schedule(jobType="http")
    control_plane.apply(stored, namespace=namespace)
    install_payload_policy(control_plane, namespace)
    stored["metadata"]["labels"] = {"team": "billing"}
    control_plane.apply(stored, namespace=namespace)
    stored["spec"]["priority"] = 5
    with pytest.raises(Refused, match="url must be a text"):
        control_plane.apply(stored, namespace=namespace)


@pytest.mark.parametrize(
    "zone",
    ["Europe/Lisboa", "CEST", "+05:00", "05:30", "Local", "europe/lisbon", "EUROPE/LISBON", " UTC", "UTC ", "GMT+1",
     "Etc/GMT+15", "../etc/passwd", "posixrules", "right/UTC", "Europe", ""],
)  # fmt: skip
def test_what_is_no_zone_is_refused_by_both(control_plane: Cluster, zone: str):
    assert zone not in known_zones()
    assert any("spec.timeZone: Invalid value" in why for why in refusals(control_plane, job_schedule(timeZone=zone)))


@settings(max_examples=300, suppress_health_check=[HealthCheck.too_slow])
@given(line=st.one_of(loose_lines, cron_lines))
def test_the_api_server_reads_the_rules_as_python_does(control_plane: Cluster, line: str):
    assert (refusals(control_plane, job_schedule(schedule=line)) == []) is admitted(line)


@pytest.mark.parametrize("name", ["a" * 64, "Report", "-report"])
def test_a_name_that_the_loader_would_not_take_is_refused(control_plane: Cluster, name: str):
    assert refusals(control_plane, job_schedule(name))
    with pytest.raises(InvalidSchedule, match=r"metadata\.name"):
        load_job_schedule(job_schedule(name), "jobs.yaml")
