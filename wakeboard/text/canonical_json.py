"""Payloads: their bounds, and their canonical form, which is the same JSON for the same meaning.

The database refuses every payload beyond the bounds, from any client (check_payload.sql). This module checks the same
bounds, so that a schedule is refused earlier, with the path of the invalid value.

Null equals absent in objects, keys are sorted, whole numbers are integers. What another language would read differently
(integers beyond 2^53) or Postgres cannot store (NUL) is refused, with the place and what to write instead.
"""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Final, TypeAlias, cast

from wakeboard.errors import InvalidSchedule, InvalidValue
from wakeboard.text.humanize import counted
from wakeboard.text.sanitize import shortened

if TYPE_CHECKING:
    from collections.abc import Mapping

Json: TypeAlias = "str | int | float | bool | list[Json] | dict[str, Json] | None"

MAX_BYTES: Final = 65_536
_MAX_DEPTH: Final = 32
_MAX_INTEGER: Final = 2**53  # up to here a double, and so JavaScript and jq, represents every integer
_SHOWN: Final = 60  # characters of a refused value
_WRONG_JSON: Final = {  # the messages of Python's parser, in words that do not need Python
    "Expecting property name enclosed in double quotes": "a key in double quotes is expected",
    "Expecting ':' delimiter": "a colon is expected",
    "Expecting ',' delimiter": "a comma or the end of the object or list is expected",
    "Expecting value": "a value is expected; text needs double quotes",
    "Extra data": "there is text after the end of the payload",
    "Illegal trailing comma before end of object": "the last entry has a comma",
    "Illegal trailing comma before end of array": "the last entry has a comma",
    "Invalid control character at": "a line end or control character in a text is written as an escape",
    "Unterminated string starting at": "the closing quote of this text is missing",
    "Invalid \\escape": "after a backslash only an escape of JSON may follow",
}
PAYLOAD_EXAMPLE: Final = """write for example '{"segment": "active"}'"""


def canonical_payload(payload: Mapping[str, object]) -> dict[str, Json]:
    """The canonical form of `payload`.

    Raises InvalidSchedule, naming the place as `payload.key[index]`, for what is not JSON, not portable, deeper than
    32 levels or larger than 64 KiB.
    """
    canonical = _Reader().read_object(payload, "payload", 1)
    _check_size(canonical)
    return canonical


def check_payload(payload: object) -> None:
    """Raises InvalidValue, naming the place, for a payload that the database or other languages cannot represent."""
    if not isinstance(payload, dict | list):
        is_json = payload is None or isinstance(payload, str | bool)
        shown = shortened(json.dumps(payload, ensure_ascii=False) if is_json else str(payload), _SHOWN)
        raise InvalidValue(f'payload is {shown}, neither an object nor a list; write for example {{"report_id": 42}}')
    try:
        _check_size(_Reader().read(cast("object", payload), "payload", 1))
    except InvalidSchedule as problem:
        raise InvalidValue(str(problem)) from None


def parse_payload(text: str | bytes) -> Json:
    """Reads a payload from JSON. Raises InvalidValue with the place of the error and a valid example."""
    try:
        text = text.decode() if isinstance(text, bytes) else text
        payload: Json = json.loads(text)
    except UnicodeDecodeError:
        raise InvalidValue(f"the payload is not UTF-8; {PAYLOAD_EXAMPLE}.") from None
    except json.JSONDecodeError as exc:
        place = f"line {exc.lineno}, column {exc.colno}"
        found = f" ({_WRONG_JSON[exc.msg]})" if exc.msg in _WRONG_JSON else ""
        raise InvalidValue(f"the payload is not JSON at {place}{found}; {PAYLOAD_EXAMPLE}.") from None
    except RecursionError:
        raise InvalidValue(f"the payload is nested too deeply; {PAYLOAD_EXAMPLE}.") from None
    except ValueError:  # Python parses no integer of more than 4,300 digits
        raise InvalidValue(f"the payload has a number with too many digits; quote it; {PAYLOAD_EXAMPLE}.") from None
    check_payload(payload)
    return payload


def check_text(text: str, name: str) -> None:
    """Raises InvalidValue for a text that Postgres cannot store."""
    try:
        _check_text(text, name)
    except InvalidSchedule as problem:
        raise InvalidValue(str(problem)) from None


def _check_size(payload: Json) -> None:
    """The size as Postgres counts it: the length of the text with a space after each comma and colon."""
    size = len(json.dumps(payload, ensure_ascii=False).encode())
    if size > MAX_BYTES:
        raise _too_large(counted(size, "byte"))


def canonical_json(value: Json) -> str:
    """The text of a canonical value: sorted keys, no spaces, only the escapes that JSON requires."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


class _Reader:
    """Reads one payload. Counts its values, because a few lines of YAML with aliases can expand to billions."""

    def __init__(self) -> None:
        self._values = 0

    def read_object(self, value: Mapping[str, object], place: str, depth: int) -> dict[str, Json]:
        for key in value:
            _check_key(key, place)
        items = ((key, value[key]) for key in sorted(value))
        return {key: self.read(item, f"{place}.{key}", depth + 1) for key, item in items if item is not None}

    def read(self, value: object, place: str, depth: int) -> Json:
        self._values += 1
        if self._values > MAX_BYTES:
            raise _too_large(f"more than {MAX_BYTES} values")
        match value:
            case None | bool():
                return value
            case str():
                return _check_text(value, place)
            case int() | float():
                return _canonical_number(value, place)
            case dict() | list() if depth > _MAX_DEPTH:
                raise InvalidSchedule(
                    f'{place} is nested deeper than {_MAX_DEPTH} levels; pass ids, for example {{"report_id": 42}}'
                )
            case dict():
                return self.read_object(cast("dict[str, object]", value), place, depth)
            case list():
                items = cast("list[object]", value)
                return [self.read(item, f"{place}[{index}]", depth + 1) for index, item in enumerate(items)]
            case _:
                shown = str(value)[:_SHOWN]
                raise InvalidSchedule(
                    f'{place} is {shown}, which JSON cannot represent; write it in quotes as "{shown}"'
                )


def _too_large(size: str) -> InvalidSchedule:
    return InvalidSchedule(
        f'payload is {size}, more than 64 KiB ({MAX_BYTES}); pass ids, not blobs, for example {{"report_id": 42}}'
    )


def _check_key(key: object, place: str) -> None:
    if isinstance(key, str):
        _check_text(key, f"a key of {place}")
        return
    why, example = "", key
    if isinstance(key, bool):
        why, example = " (YAML reads on, off, yes and no as true and false)", "on" if key else "off"
    raise InvalidSchedule(
        f'{place} has the key {key}, which is not text{why}; write it in quotes, for example "{example}"'
    )


def _canonical_number(number: float, place: str) -> int | float:
    if abs(number) > _MAX_INTEGER and number not in (math.inf, -math.inf):
        raise InvalidSchedule(
            f"{place} is beyond 2^53, where other languages lose digits; "
            'write numbers like this as strings, for example "9007199254740993"'
        )
    if not math.isfinite(number):
        raise InvalidSchedule(f'{place} is {number}, which JSON cannot represent; write it in quotes as "{number}"')
    return int(number) if number == int(number) else number


def _check_text(text: str, place: str) -> str:
    if "\0" in text:
        raise InvalidSchedule(f"{place} holds a NUL character, which Postgres cannot store; leave it out")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise InvalidSchedule(f"{place} holds half of a surrogate pair, which is not text; leave it out") from None
    return text
