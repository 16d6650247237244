"""Finds secrets in clear text in JSON values, by the keys of mask_json.py and the patterns of redact.py."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final, cast

from wakeboard.text.mask_json import is_secret
from wakeboard.text.redact import redact

if TYPE_CHECKING:
    from collections.abc import Iterator

_REFERENCE: Final = "$secret"


def clear_secrets(value: Any, path: str) -> Iterator[str]:
    """The paths of texts and numbers below `path` that look like secrets. A {"$secret": NAME} is none."""
    if isinstance(value, list):
        for place, item in enumerate(cast("list[Any]", value)):
            yield from clear_secrets(item, f"{path}[{place}]")
    elif isinstance(value, dict):
        fields = cast("dict[str, Any]", value)
        if _REFERENCE in fields:
            return
        for key, item in fields.items():
            inner = f"{path}.{redact(key)}"
            if not isinstance(item, dict | list) and is_secret(key, json.dumps(item)):
                yield inner
            else:
                yield from clear_secrets(item, inner)
    elif isinstance(value, str) and redact(value) != value:
        yield path
