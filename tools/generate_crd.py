"""Prints crds/jobschedules.wakeboard.dev.yaml: the resource definition, made from the models of spec and status.

The API server takes structural schemas only. Of what pydantic says, the keywords below are kept, translated or dropped;
any other stops the generator, so that nothing is lost unseen.
"""

from __future__ import annotations

import inspect
import json
import sys
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import yaml
from pydantic.json_schema import GenerateJsonSchema

from wakeboard.rules.admission_rules import RULES
from wakeboard.rules.job_schedule import JobSchedule, JobScheduleSpec, Metadata
from wakeboard_operator.status_models import JobScheduleStatus

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pydantic import BaseModel

Schema: TypeAlias = dict[str, Any]

MADE = "# Made by tools/generate_crd.py from the models of spec and status; `make fix` makes it anew.\n"
GROUP, VERSION = "wakeboard.dev", "v1alpha1"

KEPT: Final = (  # in this order
    "type", "description", "format", "enum", "default", "minimum", "maximum", "minLength", "maxLength", "pattern",
    "maxItems", "x-kubernetes-list-type", "x-kubernetes-list-map-keys", "required", "properties", "items",
)  # fmt: skip
TRANSLATED: Final = {"$ref", "additionalProperties", "examples"}
DROPPED: Final = {"$defs", "title"}

SELECTABLE: Final = ("queue", "jobType", "suspend")
COLUMNS: Final = (  # name, type, path; kubectl prints a date as an age, and one in the future as <invalid>
    ("Schedule", "string", ".spec.schedule"),
    ("Zone", "string", ".spec.timeZone"),
    ("Suspend", "boolean", ".spec.suspend"),
    ("Ready", "string", '.status.conditions[?(@.type=="Ready")].status'),
    ("Last-Run", "date", ".status.lastRun.finishedAt"),
    ("Result", "string", ".status.lastRun.result"),
    ("Next-Run", "string", ".status.nextRunTime"),
    ("Running", "integer", ".status.running"),
    ("Dead", "integer", ".status.dead"),
    ("Age", "date", ".metadata.creationTimestamp"),
)
WIDE_COLUMNS: Final = (
    ("Queue", "string", ".spec.queue"),
    ("Type", "string", ".spec.jobType"),
    ("Failed", "integer", ".status.failed"),
)
"""Shown with -o wide alone."""


class NotStructural(Exception):
    """A model says what the API server would not take."""


def definition() -> Schema:
    """The whole resource definition."""
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"jobschedules.{GROUP}"},
        "spec": {
            "group": GROUP,
            "scope": "Namespaced",
            "names": {
                "kind": "JobSchedule",
                "listKind": "JobScheduleList",
                "plural": "jobschedules",
                "singular": "jobschedule",
                "shortNames": ["jsched", "jobsched"],
                "categories": ["wakeboard"],
            },
            "versions": [
                {
                    "name": VERSION,
                    "served": True,
                    "storage": True,
                    "subresources": {"status": {}},
                    "selectableFields": [{"jsonPath": f".spec.{name}"} for name in SELECTABLE],
                    "additionalPrinterColumns": list(_columns()),
                    "schema": {"openAPIV3Schema": with_rules(explained(resource_schema()))},
                }
            ],
        },
    }


def _columns() -> Iterator[Schema]:
    for name, kind, path in COLUMNS:
        yield {"name": name, "type": kind, "jsonPath": path}
    for name, kind, path in WIDE_COLUMNS:
        yield {"name": name, "type": kind, "jsonPath": path, "priority": 1}


# ------------------------------------------------------------------------------------------------ the schema


def resource_schema() -> Schema:
    """The structural schema of the resource, descriptions as the models have them, examples still beside them."""
    name = Metadata.model_json_schema()["properties"]["name"]
    return {
        "type": "object",
        "description": inspect.cleandoc(JobSchedule.__doc__ or ""),
        "required": ["metadata", "spec"],
        "properties": {
            "apiVersion": {"type": "string"},  # kubectl has words of its own for these three
            "kind": {"type": "string"},
            # Of metadata the API server lets a definition say nothing but what names may be.
            "metadata": {"type": "object", "properties": {"name": {"type": "string", "maxLength": name["maxLength"]}}},
            "spec": _schema_of(JobScheduleSpec),
            # A new resource gets a status too: -1 means that the operator has not observed it yet.
            "status": {**_schema_of(JobScheduleStatus), "default": {}},
        },
    }


class _AbsentNotNull(GenerateJsonSchema):
    """An optional field is its type, absent or not."""

    def nullable_schema(self, schema: Any) -> Any:
        return self.generate_inner(schema["schema"])


def _schema_of(model: type[BaseModel]) -> Schema:
    whole = model.model_json_schema(schema_generator=_AbsentNotNull)
    return structural(whole, whole.get("$defs", {}), model.__name__)


def structural(node: Mapping[str, Any], models: Mapping[str, Any], place: str) -> Schema:
    """`node` as the API server takes it, with what it refers to in its place.

    `models` are the schemas that a `$ref` may name. Raises NotStructural, with the place, for what has no translation.
    """
    if "$ref" in node:
        return structural({**models[node["$ref"].rpartition("/")[2]], **_without(node, "$ref")}, models, place)
    if unknown := set(node) - {*KEPT} - TRANSLATED - DROPPED:
        raise NotStructural(f"{place} says {', '.join(sorted(unknown))}, which a structural schema cannot")
    kept = {key: node[key] for key in (*KEPT, "examples") if node.get(key) is not None}
    if "items" in node:
        kept["items"] = structural(node["items"], models, f"{place}[]")
    if "properties" in node:
        required = node.get("required", ())
        kept["properties"] = {
            name: _field(field, models, f"{place}.{name}", required=name in required)
            for name, field in node["properties"].items()
        }
    elif node.get("additionalProperties"):
        kept["x-kubernetes-preserve-unknown-fields"] = _any_keys(node, place)
    return kept


def _any_keys(node: Mapping[str, Any], place: str) -> bool:
    if node["additionalProperties"] is not True:
        raise NotStructural(f"{place} says what its keys stand for; here they stand for anything or are fields")
    return True


def _field(node: Mapping[str, Any], models: Mapping[str, Any], place: str, *, required: bool) -> Schema:
    """A field of an object. An object with defaults inside has the default {}: they are filled in one by one."""
    field = structural(node, models, place)
    if field.get("type") == "object" and not required and node.get("default", {}) is not None:
        field["default"] = {}
    return field


def _without(node: Mapping[str, Any], key: str) -> Schema:
    return {name: value for name, value in node.items() if name != key}


# ------------------------------------------------------------------------------------------------ words and rules


def explained(node: Schema) -> Schema:
    """`node` with default, bounds and example in its description, because `kubectl explain` shows nothing else."""
    described = {name: value for name, value in node.items() if name != "examples"}
    if "description" in node:
        described["description"] = " ".join([*node["description"].split(), *_facts(node)])
    if "properties" in node:
        described["properties"] = {name: explained(field) for name, field in node["properties"].items()}
    if "items" in node:
        described["items"] = explained(node["items"])
    return described


def _facts(node: Schema) -> Iterator[str]:
    if node.get("type") == "integer" and "format" not in node:
        yield f"From {node['minimum']} to {node['maximum']}."
    if node.get("default", {}) != {}:
        yield f"Default: {json.dumps(node['default'])}."
    if "examples" in node:
        yield f"Example: {json.dumps(node['examples'][0])}."


def with_rules(schema: Schema) -> Schema:
    """`schema` with the admission rules where they belong. Raises NotStructural for a rule of a field that is not."""
    for place, rules in RULES.items():
        node = schema
        for name in place.split("."):
            node = node.get("properties", {}).get(name)
            if node is None:
                raise NotStructural(f"there is a rule for {place}, but no such field")
        node["x-kubernetes-validations"] = rules
    return schema


# ------------------------------------------------------------------------------------------------ the file


class _Readable(yaml.SafeDumper):
    """Text of several lines as a block, and what occurs twice written twice."""

    def represent_text(self, text: str) -> yaml.ScalarNode:
        """`text` on a line or, if it has several, as they are."""
        return yaml.ScalarNode("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)

    def ignore_aliases(self, data: object) -> bool:  # noqa: ARG002 - asked of each value
        """No references."""
        return True


_Readable.add_representer(str, _Readable.represent_text)


def page() -> str:
    """The file."""
    return MADE + yaml.dump(definition(), Dumper=_Readable, sort_keys=False, width=120, allow_unicode=True)


if __name__ == "__main__":
    sys.stdout.write(page())
