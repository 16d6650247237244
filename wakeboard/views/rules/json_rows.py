"""Reads the rows that json_types.py has written, for programs that get them from the API."""

from __future__ import annotations

import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, fields
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Any, Final, Literal, TypeVar, Union, cast, get_args, get_origin, get_type_hints
from uuid import UUID

from wakeboard.backfills.rules import BackfilledTicks
from wakeboard.errors import WakeboardError
from wakeboard.jobs.rules import KubernetesJob
from wakeboard.text.facts import Fact
from wakeboard.views.rules.audit_rows import AuditRow
from wakeboard.views.rules.run_rows import RunRow

_Row = TypeVar("_Row")

# Row types import these for type checkers only.
ROW_NAMES: Final[Mapping[str, Any]] = {
    each.__name__: each
    for each in (
        *(datetime, timedelta, UUID, Mapping, Sequence),
        *(Fact, RunRow, AuditRow, BackfilledTicks, KubernetesJob),
    )
}
_PLAIN: Final = frozenset({Any, object, str, int, float, bool})
_SCALARS: Final[Mapping[Any, Callable[[Any], Any]]] = {
    datetime: datetime.fromisoformat,
    timedelta: lambda seconds: timedelta(seconds=seconds),
    UUID: UUID,
}


def row_of(kind: type[_Row], value: Any) -> _Row:
    """The row of a dataclass. Members that its type lacks are left out. Raises WakeboardError if one is missing."""
    try:
        return _row(kind, value)
    except (ValueError, TypeError, KeyError, AttributeError) as exc:
        raise WakeboardError(
            f"the answer is no {kind.__name__} ({type(exc).__name__}: {exc}): the board may be of another release"
        ) from exc


def _row(kind: Any, value: Any) -> Any:
    if kind is Fact:
        return _fact(value)
    given: dict[str, Any] = {}
    for name, (hint, is_needed) in _members(kind).items():
        if name in value or is_needed:
            given[name] = _value(hint, value[name])
    return kind(**given)


@lru_cache(maxsize=64)
def _members(kind: Any) -> dict[str, tuple[Any, bool]]:
    """The type of each field, and whether it has no default."""
    hints = get_type_hints(kind, localns=dict(ROW_NAMES))
    return {each.name: (hints[each.name], each.default is MISSING) for each in fields(kind)}


def _value(hint: Any, value: Any) -> Any:
    origin, inner = get_origin(hint), get_args(hint)
    if origin in {Union, types.UnionType}:
        (hint,) = (each for each in inner if each is not type(None))
        return None if value is None else _value(hint, value)
    if origin in {list, Sequence}:
        return [_value(inner[0], each) for each in value]
    if origin in {dict, Mapping}:
        return {name: _value(inner[1], each) for name, each in cast("dict[str, Any]", value).items()}
    if origin is Literal or hint in _PLAIN:
        return value
    return _SCALARS[hint](value) if hint in _SCALARS else _row(hint, value)


def _fact(value: Mapping[str, Any]) -> Fact:
    """The fact, whose time can be shown in another way again."""
    name, text, at = value["fact"], value["text"], value["at"]
    before, found, after = text.partition(f" {at}") if at else (text, "", "")
    return Fact(name, before, datetime.fromisoformat(at), after) if found else Fact(name, text)
