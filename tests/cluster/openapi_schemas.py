"""JSON schemas for kubeconform, from what a running API server says of its own kinds, our custom resources included."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

    from testbed.cluster.cluster import Cluster

TIMEOUT_S = 30.0  # seconds until the API server must have published a new kind
POLL_INTERVAL_S = 0.2  # seconds
WHOLE = "definitions.json"
OF_MANY = 3  # kinds; what belongs to more, such as DeleteOptions, is no object that one writes down
TEXT_OR_WHOLE_NUMBER = {"oneOf": [{"type": "string"}, {"type": "integer"}]}
TEXT_OR_NUMBER = {"oneOf": [{"type": "string"}, {"type": "number"}]}
LOOSE = {  # what OpenAPI 2 can only call a string
    "io.k8s.apimachinery.pkg.api.resource.Quantity": TEXT_OR_NUMBER,
    "io.k8s.apimachinery.pkg.util.intstr.IntOrString": TEXT_OR_WHOLE_NUMBER,
}


def write_schemas(cluster: Cluster, folder: Path, kind: str) -> str:
    """One file for each kind, as soon as this kind is among them; returns kubeconform's `-schema-location`.

    They are strict: a field that the API server does not know is a mistake.
    """
    definitions = _definitions_with(cluster, kind)
    strict = {name: _strict(definition) for name, definition in definitions.items()} | LOOSE
    (folder / WHOLE).write_text(json.dumps({"definitions": strict}))
    for name, definition in definitions.items():
        for each in _kinds(definition):
            file = f"{each['group'] or each['version']}_{each['version']}_{each['kind'].lower()}.json"
            (folder / file).write_text(json.dumps({"$ref": f"file://{folder / WHOLE}#/definitions/{name}"}))
    return f"{folder}/{{{{.Group}}}}_{{{{.ResourceAPIVersion}}}}_{{{{.ResourceKind}}}}.json"


def _definitions_with(cluster: Cluster, kind: str) -> dict[str, dict[str, Any]]:
    until = time.monotonic() + TIMEOUT_S
    while True:
        definitions: dict[str, dict[str, Any]] = cluster.call("GET", "/openapi/v2")["definitions"]
        if any(each["kind"] == kind for definition in definitions.values() for each in _kinds(definition)):
            return definitions
        assert time.monotonic() < until, f"The API server does not publish {kind}."
        time.sleep(POLL_INTERVAL_S)


def _kinds(definition: dict[str, Any]) -> list[dict[str, str]]:
    kinds: list[dict[str, str]] = definition.get("x-kubernetes-group-version-kind", [])
    return kinds if len(kinds) <= OF_MANY else []


def _strict(schema: dict[str, Any]) -> dict[str, Any]:
    if "$ref" in schema:
        return {"$ref": schema["$ref"]}
    if schema.get("x-kubernetes-int-or-string"):
        return TEXT_OR_WHOLE_NUMBER
    stricter = dict(schema)
    for key in ("items", "additionalProperties"):
        if isinstance(schema.get(key), dict):
            stricter[key] = _strict(schema[key])
    if "properties" in schema:
        stricter["properties"] = {name: _strict(value) for name, value in schema["properties"].items()}
        if not schema.get("x-kubernetes-preserve-unknown-fields"):
            stricter.setdefault("additionalProperties", False)
    return stricter
