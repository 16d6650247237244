"""What a command answers: JSON for programs, with keys that stay, or lines for people.

JSON keys are the fields of the row types; moments are ISO 8601 in UTC, lengths of time in seconds, absent values null.
"""

from __future__ import annotations

import sys
from dataclasses import fields, is_dataclass
from datetime import datetime, timedelta
from typing import Annotated, Any, cast
from uuid import UUID

import typer

from wakeboard.cli.time_args import iso
from wakeboard.output import write_error, write_line
from wakeboard.rules.sanitize import json_text, one_line

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for programs.", show_default=False)]


def print_json(answer: Any) -> None:
    """Prints an answer of rows, lists and plain values."""
    sys.stdout.write(json_text(plain(answer), indent=2) + "\n")


def plain(answer: Any) -> Any:
    """The same in values that JSON has."""
    if hasattr(answer, "_asdict"):
        return plain(answer._asdict())
    if is_dataclass(answer):
        return {field.name: plain(getattr(answer, field.name)) for field in fields(answer)}
    if isinstance(answer, dict):
        return {key: plain(value) for key, value in cast("dict[str, Any]", answer).items()}
    if isinstance(answer, list | tuple):
        return [plain(item) for item in cast("list[Any]", answer)]
    return _plain_value(answer)


def _plain_value(value: Any) -> Any:
    match value:
        case datetime():
            return iso(value)
        case timedelta():
            return value.total_seconds()
        case UUID():
            return str(value)
        case _:
            return value


def say(sentence: str) -> None:
    """A sentence for people, on standard output."""
    write_line(one_line(sentence))


def complain(sentence: str) -> None:
    """A sentence on standard error, with who says it."""
    write_error("wakeboard", sentence)
