"""The OpenAPI document, which follows from the list of endpoints."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from wakeboard import __version__
from wakeboard.board.api.endpoints import JSON
from wakeboard.board.api.json_schema import Schemas
from wakeboard.board.problem_details import API, MEDIA_TYPE

if TYPE_CHECKING:
    from wakeboard.board.api.endpoints import Endpoint

_INTEGER: Final = {"type": "integer", "minimum": 1, "maximum": 2**53 - 1}
_PROBLEM: Final[dict[str, Any]] = {
    "type": "object",
    "description": "What went wrong (RFC 9457).",
    "properties": {
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string", "description": "A sentence that says what to do."},
        "answer": {"type": "string", "description": "Of a refused action: as in --json of the command line."},
        "certain": {"type": "boolean", "description": "Of an action: nothing was changed; otherwise it is not known."},
    },
    "required": ["title", "status", "detail"],
}


@lru_cache(maxsize=8)
def document(endpoints: tuple[Endpoint, ...], prefix: str) -> dict[str, Any]:
    """The document. `prefix`: the path under which the board is mounted."""
    schemas = Schemas()
    schemas.components["Problem"] = _PROBLEM
    paths: dict[str, dict[str, Any]] = {}
    for endpoint in endpoints:
        paths.setdefault(endpoint.shown_path, {})[endpoint.method.lower()] = _operation(endpoint, schemas)
    return {
        "openapi": "3.1.0",
        "info": {"title": "wakeboard", "version": __version__, "license": {"name": "Apache-2.0"}},
        "servers": [{"url": prefix + API}],
        "security": [{"bearer": []}],
        "paths": paths,
        "components": {
            "schemas": dict(sorted(schemas.components.items())),
            "securitySchemes": {"bearer": {"type": "http", "scheme": "bearer"}},
        },
    }


def _operation(endpoint: Endpoint, schemas: Schemas) -> dict[str, Any]:
    problem = {"schema": {"$ref": "#/components/schemas/Problem"}}
    operation: dict[str, Any] = {
        "operationId": endpoint.name,
        "summary": endpoint.summary,
        "parameters": _parameters(endpoint),
        "responses": {
            "200": _answer(endpoint, schemas),
            "default": {"description": "A problem.", "content": {MEDIA_TYPE: problem}},
        },
    }
    if endpoint.is_public:
        operation["security"] = []
    if endpoint.method == "POST":
        operation["description"] = f"Needs the permission to {endpoint.permission}."
        operation["requestBody"] = {"content": {JSON: {"schema": _body(endpoint)}}}
    return operation


def _answer(endpoint: Endpoint, schemas: Schemas) -> dict[str, Any]:
    schema = schemas.of(endpoint.kind)
    if endpoint.is_list:
        schema = {
            "type": "object",
            "properties": {
                "items": {"type": "array", "items": schema},
                "next": {"type": ["string", "null"], "description": "`after` of the next page; null: there is none."},
            },
            "required": ["items", "next"],
        }
    content = {form: {"schema": schema if form == JSON else {"type": "string"}} for form in endpoint.media}
    return {"description": endpoint.summary, "content": content}


def _parameters(endpoint: Endpoint) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = [
        {"name": name, "in": "path", "required": True, "schema": _INTEGER if kind == "int" else {"type": "string"}}
        for name, kind in re.findall(r"\{(\w+):(\w+)\}", endpoint.path)
    ]
    if endpoint.method == "GET":
        found += [
            {
                "name": each.name,
                "in": "query",
                "required": each.required,
                "description": each.text,
                "schema": each.schema(),
            }
            for each in endpoint.parameters
        ]
    return found


def _body(endpoint: Endpoint) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {each.name: {**each.schema(), "description": each.text} for each in endpoint.parameters},
        "required": [each.name for each in endpoint.parameters if each.required],
        "additionalProperties": False,
    }
