"""Error messages for invalid declarations: each names the field, its value, and what to write instead."""

from __future__ import annotations

import json
import reprlib
from datetime import date
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast

from pydantic_core import PydanticCustomError

from wakeboard.text.durations import INTERVAL_IN_WORDS
from wakeboard.text.durations import PATTERN as DURATION
from wakeboard.text.humanize import counted
from wakeboard.text.name_patterns import IN_WORDS
from wakeboard.text.sanitize import shortened
from wakeboard.text.similar_names import closest, letters

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pydantic import ValidationError
    from pydantic_core import ErrorDetails

Schema: TypeAlias = "Mapping[str, Any]"
Place: TypeAlias = "tuple[int | str, ...]"  # the keys and indexes that lead to a part of a document

_REFUSED: Final = "refused"
_SHOWN: Final = 60  # characters of a value
_MEANT: Final = {  # names from CronJob, and other likely guesses
    "activedeadlineseconds": "timeoutSeconds",
    "args": "payload",
    "backofflimit": "maxAttempts",
    "cron": "schedule",
    "handler": "jobType",
    "on": "outcome",
    "retries": "maxAttempts",
    "tz": "timeZone",
}


def refusal(sentence: str) -> PydanticCustomError:
    """The error that a validator raises to report `sentence` unchanged.

    The sentence begins with the name of the field in the object that contains the validated value.
    """
    return PydanticCustomError(_REFUSED, "{sentence}", {"sentence": sentence})


def problems_of(error: ValidationError, schema: Schema) -> list[tuple[Place, str]]:
    """The location and the message of each problem that pydantic found in a document of `schema`."""
    return [(problem["loc"], _sentence(problem, schema)) for problem in error.errors(include_url=False)]


def _sentence(problem: ErrorDetails, schema: Schema) -> str:
    place, given = problem["loc"], problem["input"]
    match problem["type"]:
        case "refused":
            return _path((*place[:-1], problem.get("ctx", {})["sentence"]))
        case "missing":
            return f"{_path(place)} is missing; write {wanted(part_of(place, schema))}"
        case "extra_forbidden":
            return f"{_path(place)} is not known; {_advice(str(place[-1]), part_of(place[:-1], schema), schema)}"
        case "too_long" if isinstance(given, list):
            count = counted(len(cast("list[object]", given)), "element")
            return f"{_path(place)} has {count}; write at most {problem.get('ctx', {})['max_length']}"
        case "string_type" if isinstance(given, int | float | date):
            return f'{_path(place)} is {_shown(given)}, which is not text; write it in quotes: "{given}"'
        case _:
            return f"{_path(place)} is {_shown(given)}; write {wanted(part_of(place, schema))}"


def _path(place: Sequence[int | str]) -> str:
    return ".".join(str(step) for step in place) or "the document"


def _shown(value: object) -> str:
    """A short text of a value, in YAML notation; deep nesting is cut."""
    nested = isinstance(value, dict | list)
    text = reprlib.repr(cast("object", value)) if nested else json.dumps(value, default=str, ensure_ascii=False)
    return shortened(text, _SHOWN)


def part_of(place: Sequence[int | str], schema: Schema) -> Schema:
    """The part of `schema` that describes `place`."""
    node = schema
    for step in place:
        field = node.get("items") if isinstance(step, int) else node.get("properties", {}).get(step)
        node = _resolved(field or node.get("additionalProperties") or {}, schema)
    return node


def _resolved(node: Schema, schema: Schema) -> Schema:
    """`node` with its `$ref` resolved, and without the null that means absent."""
    if "anyOf" in node:
        node = {**node, **next(branch for branch in node["anyOf"] if branch.get("type") != "null")}
    if "$ref" in node:
        return {**schema["$defs"][node["$ref"].rpartition("/")[2]], **node}
    return node


def wanted(node: Schema) -> str:
    """What to write, with an example unless the values are listed."""
    example = next(iter(node.get("examples", ())), node.get("default"))
    choice = "enum" in node or node.get("type") == "boolean"
    return _kind(node) + (f", for example {json.dumps(example)}" if example is not None and not choice else "")


def _kind(node: Schema) -> str:  # noqa: PLR0911 - a table
    match node:
        case {"const": value}:
            return str(value)
        case {"enum": [*others, last]}:
            return f"{', '.join(others)} or {last}"
        case {"type": "integer", "minimum": low, "maximum": high}:
            return f"a whole number from {low} to {high}"
        case {"type": "boolean"}:
            return "true or false"
        case {"type": "array"}:
            return "a list"
        case {"type": "string", "pattern": pattern} if pattern == f"^{DURATION}$":
            return INTERVAL_IN_WORDS
        case {"type": "string", "maxLength": longest, "pattern": pattern}:
            return f"{IN_WORDS[pattern]}, at most {longest}"
        case {"type": "string", "maxLength": longest}:
            return f"text of 1 to {counted(longest, 'character')}"
        case {"type": "string"}:
            return "text"
        case _:
            return "a mapping of keys to values"


def _advice(word: str, node: Schema, schema: Schema) -> str:
    """What to write instead of the unknown field `word` of an object."""
    fields = node.get("properties", {})
    word = word.rpartition(".")[2]
    meant = _MEANT.get(letters(word))
    if meant not in fields:
        inner = [*_inner_fields(fields, schema)]
        near = closest(word, [name for name, _ in inner])
        meant = closest(word, list(fields)) or " or ".join(place for name, place in inner if name == near)
    return f"did you mean {meant}?" if meant else f"the fields here are {', '.join(fields)}"


def _inner_fields(fields: Schema, schema: Schema) -> Iterator[tuple[str, str]]:
    """The fields of the objects among `fields`: "gap" and "dst.gap"."""
    for name, field in fields.items():
        for inner in _resolved(field, schema).get("properties", {}):
            yield inner, f"{name}.{inner}"
