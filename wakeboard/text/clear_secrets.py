"""Finds secrets in clear text in JSON values, by the keys of secret_keys.py and the patterns of mask_rules.py."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, cast

from wakeboard.text.redact import redact
from wakeboard.text.secret_keys import is_secret_key

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
            if is_secret_key(key) and _may_be_secret(key, item):
                yield inner
            else:
                yield from clear_secrets(item, inner)
    elif isinstance(value, str) and redact(value) != value:
        yield path


def _may_be_secret(key: str, value: Any) -> bool:
    """As mask_json.py: truth values and empty texts are none, and numbers under `tokens` are counts."""
    if isinstance(value, bool) or value is None:
        return False
    is_count = isinstance(value, int | float) and key.lower().endswith("tokens")
    return isinstance(value, str | int | float) and value != "" and not is_count
