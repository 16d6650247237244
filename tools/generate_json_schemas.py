"""Prints a description of JSON: the JSON Schema of a kind of document, their catalog, or the OpenAPI of the board."""

from __future__ import annotations

import json
import sys
from typing import Any, Final

from wakeboard.board.api.openapi import document
from wakeboard.board.api.registry import ENDPOINTS
from wakeboard.declared.json_schema import json_schema
from wakeboard.manifests import DOCUMENTS

URL: Final = "https://json.schemastore.org"


def catalog() -> dict[str, Any]:
    """The entries for src/api/json/catalog.json of SchemaStore. Files with other names say which schema they have."""
    return {
        "$schema": f"{URL}/schema-catalog.json",
        "version": 1,
        "schemas": [
            {
                "name": f"wakeboard {model.__name__}",
                "description": (model.__doc__ or "").strip().splitlines()[0],
                "fileMatch": [f"*.{name}.{ending}" for ending in ("yaml", "yml")],
                "url": f"{URL}/wakeboard-{name}.json",
            }
            for name, model in DOCUMENTS.items()
        ],
    }


def main() -> None:
    """Prints the file that the argument names."""
    name = sys.argv[1]
    if name == "openapi":
        value = document(ENDPOINTS, "")
    else:
        value = catalog() if name == "catalog" else json_schema(DOCUMENTS[name], f"wakeboard-{name}")
    sys.stdout.write(json.dumps(value, indent=2, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
