"""Prints what a command returns: messages and errors for users, or JSON for programs.

The keys of the JSON are the fields of the row types. Times are ISO 8601 in UTC, durations are seconds, and missing
values are null.
"""

from __future__ import annotations

import sys
from dataclasses import fields, is_dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, cast
from uuid import UUID

from wakeboard.cli.support.time_args import iso
from wakeboard.process.output import write_error, write_line
from wakeboard.text.sanitize import json_text, one_line

if TYPE_CHECKING:
    from collections.abc import Sequence

    from _typeshed import DataclassInstance


def print_json(value: Any) -> None:
    """Prints rows, lists and plain values as JSON."""
    sys.stdout.write(json_text(to_json_types(value), indent=2) + "\n")


class JsonList:
    """Prints a list of rows as JSON, a row a line, so that it need not be in memory and takes little time."""

    def __init__(self) -> None:
        self._begun = False

    def add(self, rows: Sequence[DataclassInstance]) -> None:
        """Prints the next rows, whose fields are scalars or lists of texts."""
        names = [field.name for field in fields(rows[0])] if rows else []
        for row in rows:
            text = json_text({name: getattr(row, name) for name in names}, default=_scalar)
            sys.stdout.write(f",\n{text}" if self._begun else f"[\n{text}")
            self._begun = True

    def end(self) -> None:
        """Ends the list."""
        sys.stdout.write("\n]\n" if self._begun else "[]\n")


def to_json_types(value: Any) -> Any:
    """The same value in types that JSON has."""
    if hasattr(value, "_asdict"):
        return to_json_types(value._asdict())
    if is_dataclass(value):
        return {field.name: to_json_types(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, dict):
        return {key: to_json_types(item) for key, item in cast("dict[str, Any]", value).items()}
    if isinstance(value, list | tuple):
        return [to_json_types(item) for item in cast("list[Any]", value)]
    return _scalar(value)


def _scalar(value: Any) -> Any:
    match value:
        case datetime():
            return iso(value)
        case timedelta():
            return value.total_seconds()
        case UUID():
            return str(value)
        case _:
            return value


def print_message(sentence: str) -> None:
    """Prints one line on standard output."""
    write_line(one_line(sentence))


def print_error(sentence: str) -> None:
    """Prints one line on standard error, after "wakeboard: "."""
    write_error("wakeboard", sentence)
