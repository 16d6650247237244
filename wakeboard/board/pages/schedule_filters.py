"""Reads the filters of schedules from a URL. The list and the calendar share them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeVar

from wakeboard.errors import InvalidValue
from wakeboard.text.sanitize import one_line
from wakeboard.views.queries.schedule_list import HEALTHS, STATES
from wakeboard.views.queries.schedule_selection import ScheduleFilter

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wakeboard.board.routing import BoardRequest

FILTERS: Final = ("q", "namespace", "job_type", "queue", "label", "state", "health")  # parameters of the URL
MAX_WORDS: Final = 10

_Word = TypeVar("_Word", bound=str)


def schedule_filter(request: BoardRequest) -> ScheduleFilter:
    """The filter that the URL asks for, within what the viewer may see. Raises InvalidValue for an unknown value."""
    return ScheduleFilter(
        namespaces=request.viewer.namespaces,
        words=tuple(request.query.get("q", "").split()[:MAX_WORDS]),
        namespace=request.query.get("namespace") or None,
        job_type=request.query.get("job_type") or None,
        queue=request.query.get("queue") or None,
        label=_label(request.query.get("label", "").strip()),
        state=one_of("state", request.query.get("state") or None, STATES),
        health=one_of("health", request.query.get("health") or None, HEALTHS),
    )


def _label(text: str) -> tuple[str, str | None] | None:
    """The label that `NAME=VALUE` or `NAME` (with any value) selects; None for an empty text."""
    name, has_value, value = text.partition("=")
    return (name, value if has_value else None) if name else None


def filter_query(request: BoardRequest) -> dict[str, Any]:
    """The parameters of the URL that filter, to be kept in links; "" for those that are absent."""
    return {name: request.query.get(name, "") for name in FILTERS}


def one_of(name: str, value: str | None, known: Sequence[_Word]) -> _Word | None:
    """`value` if it is known, None for None. Raises InvalidValue otherwise."""
    if value is None:
        return None
    for each in known:
        if each == value:
            return each
    raise InvalidValue(f"{name} is {one_line(value)[:60]!r}: choose one of {', '.join(known)}")
