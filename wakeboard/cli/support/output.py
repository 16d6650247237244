"""Prints what a command returns: messages and errors for users, or JSON for programs (views/rules/json_types.py)."""

from __future__ import annotations

import sys
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from wakeboard.cli.support.advice import advice
from wakeboard.process.output import write_error, write_line
from wakeboard.text.sanitize import json_text, one_line
from wakeboard.views.rules.json_types import scalar, to_json_types

if TYPE_CHECKING:
    from collections.abc import Sequence

    from _typeshed import DataclassInstance


def print_json(value: Any) -> None:
    """Prints rows, lists and plain values as JSON."""
    sys.stdout.write(json_text(to_json_types(value), indent=2) + "\n")


def print_json_line(value: object) -> None:
    """Prints a value as one line of JSON, of a stream that has no end."""
    sys.stdout.write(json_text(to_json_types(value)) + "\n")


class JsonList:
    """Prints a list of rows as JSON, a row a line, so that it need not be in memory and takes little time."""

    def __init__(self) -> None:
        self._begun = False

    def add(self, rows: Sequence[DataclassInstance]) -> None:
        """Prints the next rows, whose fields are scalars or lists of texts."""
        names = [field.name for field in fields(rows[0])] if rows else []
        for row in rows:
            text = json_text({name: getattr(row, name) for name in names}, default=scalar)
            sys.stdout.write(f",\n{text}" if self._begun else f"[\n{text}")
            self._begun = True

    def end(self) -> None:
        """Ends the list."""
        sys.stdout.write("\n]\n" if self._begun else "[]\n")


def print_answer(value: Any, sentence: str, *, as_json: bool) -> None:
    """Prints what a command did, as JSON or as a sentence."""
    if as_json:
        print_json(value)
    else:
        print_message(sentence)


def print_message(sentence: str) -> None:
    """Prints one line on standard output."""
    write_line(one_line(advice(sentence)))


def print_error(sentence: str) -> None:
    """Prints one line on standard error, after "wakeboard: "."""
    write_error("wakeboard", advice(sentence))
