"""JSON Schemas of what users declare in YAML, for editors and for SchemaStore (draft 7)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pydantic.json_schema import GenerateJsonSchema

if TYPE_CHECKING:
    from wakeboard.declared.model import Declared


class AbsentNotNull(GenerateJsonSchema):
    """Generates an optional field as its type: it may be absent, but not null."""

    def nullable_schema(self, schema: Any) -> Any:
        """The schema of a type that may be None."""
        return self.generate_inner(schema["schema"])


def json_schema(model: type[Declared], name: str) -> dict[str, Any]:
    """The schema of a document. `name`: of the file that it is published as, without its ending."""
    whole = model.model_json_schema(schema_generator=AbsentNotNull, ref_template="#/definitions/{model}")
    properties = whole.pop("properties")
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "$id": f"https://json.schemastore.org/{name}.json",
        **{key: value for key, value in whole.items() if key not in {"$defs", "required"}},
        "required": whole["required"],
        "properties": properties,
        "definitions": whole.get("$defs", {}),
    }
