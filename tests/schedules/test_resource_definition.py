"""The custom resource definition: what any API server requires of it, and that it agrees with the models."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import yaml

from tools.generate_crd import definition
from tools.generated import ROOT
from wakeboard.schedules.rules.job_schedule import load_job_schedule

if TYPE_CHECKING:
    from collections.abc import Iterator

FILE = ROOT / "crds" / "jobschedules.wakeboard.dev.yaml"
VERSION: dict[str, Any] = definition()["spec"]["versions"][0]
SCHEMA: dict[str, Any] = VERSION["schema"]["openAPIV3Schema"]


def nodes(schema: dict[str, Any] = SCHEMA, place: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Every part of the schema, by its place."""
    yield place, schema
    for name, field in schema.get("properties", {}).items():
        yield from nodes(field, f"{place}.{name}")
    if "items" in schema:
        yield from nodes(schema["items"], f"{place}[]")


NODES = dict(nodes())
OURS = {place: node for place, node in NODES.items() if place.startswith((".spec", ".status"))}


def test_the_folder_can_be_applied_as_a_whole():
    assert [file.name for file in FILE.parent.iterdir()] == [FILE.name]


def test_the_file_is_small():
    """Twice this and `kubectl apply` could no longer keep a copy in an annotation for long."""
    assert FILE.stat().st_size < 60_000


@pytest.mark.parametrize("place", OURS)
def test_every_field_is_documented_and_bounded(place: str):
    node = OURS[place]
    assert node["description"].endswith(".")
    assert "\n" not in node["description"]
    match node["type"]:
        case "string":
            assert "maxLength" in node or "enum" in node or node["format"] == "date-time"
        case "integer":
            assert {"minimum", "maximum"} <= set(node)
        case "array":
            assert "maxItems" in node
        case _:
            pass


def test_conditions_are_merged_by_their_type():
    conditions = NODES[".status.conditions"]
    assert conditions["x-kubernetes-list-type"] == "map"
    assert conditions["x-kubernetes-list-map-keys"] == ["type"]


def test_a_new_resource_has_observed_generation_minus_1():
    """-1, as tools that wait for a resource would take a status that is missing for one that is fine."""
    assert filled(NODES[".status"], {}) == {"observedGeneration": -1}


def test_the_api_server_fills_in_the_defaults_that_the_loader_fills_in():
    document = {
        "apiVersion": "wakeboard.dev/v1alpha1",
        "kind": "JobSchedule",
        "metadata": {"name": "report"},
        "spec": {"jobType": "ping"},
    }
    loaded = load_job_schedule(document, "jobs.yaml").spec
    assert filled(NODES[".spec"], {"jobType": "ping"}) == loaded.model_dump(by_alias=True, exclude_none=True)


def filled(schema: dict[str, Any], value: dict[str, Any]) -> dict[str, Any]:
    """`value` with defaults, as the API server fills them in."""
    whole = dict(value)
    for name, field in schema.get("properties", {}).items():
        if name not in whole and "default" in field:
            whole[name] = field["default"]
        if isinstance(whole.get(name), dict):
            whole[name] = filled(field, whole[name])
    return whole


def test_the_reference_begins_with_a_schedule_that_loads():
    _, _, rest = (ROOT / "docs" / "job-schedule.md").read_text().partition("```yaml\n")
    assert (
        load_job_schedule(yaml.safe_load(rest.partition("```")[0]), "job-schedule.md").full_name
        == "billing/weekly-report"
    )
