"""Masks and formats JSON as text, without parsing a number: 2^63, 1.10 and 1e400 stay as they are stored.

`mask_json` replaces the values whose key looks like that of a credential (secret_keys.py), at any depth.
redact.py finds credentials in free text. The text must be valid JSON, as Postgres writes it.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple

from wakeboard.text.redact import MASK
from wakeboard.text.sanitize import escaped
from wakeboard.text.secret_keys import is_secret_key

if TYPE_CHECKING:
    from collections.abc import Iterator

_TOKEN: Final = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\]:,]|[^\s"{}\[\]:,]+|\s+', re.DOTALL)
_NOTHING: Final = frozenset({"null", "true", "false", '""'})


class MaskedJson(NamedTuple):
    """JSON text in which `masked` values were replaced by "***"."""

    text: str
    masked: int


def mask_json(text: str) -> MaskedJson:
    """The same text with "***" for each value under a secret key, whether text, number, object or list.

    Null, true, false and empty text stay. So do numbers under `tokens`, which are counts.
    """
    parts = _TOKEN.findall(text)
    out: list[str] = []
    masked = at = 0
    key: str | None = None  # the key whose value follows
    while at < len(parts):
        part = parts[at]
        if part == ":":
            key = next(previous for previous in reversed(out) if not previous.isspace())
        elif key is not None and not part.isspace():
            if is_secret(_plain(key), part):
                out.append(f'"{MASK}"')
                masked += 1
                key, at = None, _end_of_value(parts, at)
                continue
            key = None
        out.append(part)
        at += 1
    return MaskedJson("".join(out), masked)


def _plain(key: str) -> str:
    """The text of a key without its quotes. Escapes are read, so that they hide nothing."""
    return re.sub(r"\\u([0-9a-fA-F]{4})", lambda found: chr(int(found[1], 16)), key[1:-1])


def is_secret(key: str, value: str) -> bool:
    """Whether a value, written as JSON, has a secret key and is not null, a truth value, an empty text or a count."""
    is_count = value[0] in "-0123456789" and key.lower().endswith("tokens")
    return is_secret_key(key) and value not in _NOTHING and not is_count


def _end_of_value(parts: list[str], start: int) -> int:
    """The position behind the value that begins at `start`."""
    depth = 0
    for at in range(start, len(parts)):
        depth += (parts[at] in "{[") - (parts[at] in "}]")
        if not depth:
            return at + 1
    return len(parts)


def pretty_json(text: str) -> str:
    """The text with a line for each value, indented by two spaces. Numbers and strings stay as they are.

    Characters that could reorder or hide text are shown as escapes, which mean the same.
    """
    return escaped("".join(_pretty([part for part in _TOKEN.findall(text) if not part.isspace()])))


def _pretty(parts: list[str]) -> Iterator[str]:
    depth = 0
    for at, part in enumerate(parts):
        after = parts[at + 1] if at + 1 < len(parts) else ""
        before = parts[at - 1] if at else ""
        if part in {"{", "["}:
            depth += 1
            yield part if after in {"}", "]"} else f"{part}\n{'  ' * depth}"
        elif part in {"}", "]"}:
            depth -= 1
            yield part if before in {"{", "["} else f"\n{'  ' * depth}{part}"
        elif part == ",":
            yield f",\n{'  ' * depth}"
        else:
            yield ": " if part == ":" else part
