"""The JSON of rows, which `--json` of the command line and the API share.

The keys are the fields of the row types. Times are ISO 8601 in UTC, durations are seconds, and missing values are null.
"""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, cast
from uuid import UUID

from wakeboard.text.facts import Fact

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


def iso(time: datetime) -> str:
    """A time for JSON: 2026-03-29T01:00:00.000Z."""
    return time.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def to_json_types(value: Any) -> Any:
    """The same value in types that JSON has."""
    if isinstance(value, Fact):
        return {"fact": value.name, "text": value.text(iso), "at": scalar(value.moment)}
    if hasattr(value, "_asdict"):
        return to_json_types(value._asdict())
    if is_dataclass(value) and not isinstance(value, type):
        return row_as(type(value), value)
    if isinstance(value, dict):
        return {key: to_json_types(item) for key, item in cast("dict[str, Any]", value).items()}
    if isinstance(value, list | tuple):
        return [to_json_types(item) for item in cast("list[Any]", value)]
    return scalar(value)


def row_as(kind: type[DataclassInstance], row: Any) -> dict[str, Any]:
    """A row with the fields of `kind`, which its own type extends."""
    return {field.name: to_json_types(getattr(row, field.name)) for field in fields(kind)}


def scalar(value: Any) -> Any:
    """A value that is no list and no row, in a type that JSON has."""
    match value:
        case datetime():
            return iso(value)
        case timedelta():
            return value.total_seconds()
        case UUID():
            return str(value)
        case _:
            return value
