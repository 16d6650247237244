"""The JSON Schema of a row type, as views/rules/json_types.py writes it."""

from __future__ import annotations

import types
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from datetime import datetime, timedelta
from typing import Any, Final, Literal, Union, get_args, get_origin, get_type_hints
from uuid import UUID

from wakeboard.text.facts import Fact
from wakeboard.ticks.tick_load import ClockChange
from wakeboard.views.rules.json_rows import ROW_NAMES
from wakeboard.views.rules.run_detail_rows import RunDetails, StepRow

# Row types import these for type checkers only.
_NAMES: Final = {**ROW_NAMES, "ClockChange": ClockChange}
# JSON texts of the database, which `with_values` makes into values.
_JSON: Final = {(RunDetails, "payload"), (RunDetails, "result"), (StepRow, "result")}
_SCALARS: Final[Mapping[Any, dict[str, Any]]] = {
    str: {"type": "string"},
    int: {"type": "integer"},
    float: {"type": "number"},
    bool: {"type": "boolean"},
    type(None): {"type": "null"},
    datetime: {"type": "string", "format": "date-time"},
    timedelta: {"type": "number"},
    UUID: {"type": "string", "format": "uuid"},
    Any: {},
    object: {},
}
_FACT: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {"fact": _SCALARS[str], "text": _SCALARS[str], "at": {"type": ["string", "null"]}},
    "required": ["fact", "text", "at"],
}


class Schemas:
    """Collects the schemas of row types as components of an OpenAPI document."""

    def __init__(self) -> None:
        self.components: dict[str, dict[str, Any]] = {}

    def of(self, kind: Any) -> dict[str, Any]:
        """The schema of a type: a reference for a row type."""
        if kind in _SCALARS:
            return dict(_SCALARS[kind])
        origin, inner = get_origin(kind), get_args(kind)
        if origin in {Union, types.UnionType}:
            return {"anyOf": [self.of(each) for each in inner]}
        if origin is Literal:
            return {"enum": list(inner)}
        if origin in {list, tuple, Sequence}:
            return {"type": "array", "items": self.of(inner[0])}
        if origin in {dict, Mapping}:
            return {"type": "object", "additionalProperties": self.of(inner[1])}
        if kind is Fact or is_dataclass(kind) or hasattr(kind, "_fields"):
            return self._reference(kind)
        raise TypeError(f"the API has no JSON for {kind}")

    def _reference(self, kind: Any) -> dict[str, Any]:
        name: str = kind.__name__
        if name not in self.components:
            self.components[name] = {}  # a type may contain itself
            self.components[name] = _FACT if kind is Fact else self._object(kind)
        return {"$ref": f"#/components/schemas/{name}"}

    def _object(self, kind: Any) -> dict[str, Any]:
        hints = get_type_hints(kind, localns=_NAMES)
        names = [field.name for field in fields(kind)] if is_dataclass(kind) else list(kind._fields)
        return {
            "type": "object",
            "description": " ".join((kind.__doc__ or "").split()),
            "properties": {name: {} if (kind, name) in _JSON else self.of(hints[name]) for name in names},
            "required": names,
        }
