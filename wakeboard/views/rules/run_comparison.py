"""Compares two runs: how long their steps took, and where payload and result differ. Pure functions."""

from __future__ import annotations

import json
from dataclasses import dataclass
from decimal import Decimal
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

from wakeboard.text.mask_json import mask_json

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

MOST_DIFFERENCES: Final = 200  # of payload, and of result
MASK: Final = '"***"'


class TimedStep(NamedTuple):
    """A step of a run, and how many seconds it took; None: it runs, or it is unknown."""

    name: str
    state: str
    seconds: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedStep:
    """A step of either run. `before_state`, `after_state`: null if the run has no such step.

    `before_s`, `after_s`: how many seconds it took, or null.
    """

    name: str
    before_state: str | None
    after_state: str | None
    before_s: float | None
    after_s: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """A value that differs. `path`: the keys down to it. `before`, `after`: its JSON texts; null: there is none."""

    path: str
    before: str | None
    after: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunComparison:
    """Two runs, of which `before` is the older. `before_s`, `after_s`: the seconds of their last attempts, or null.

    `payload`, `result`: the first 200 values that differ in each. Values of secret keys are masked.
    """

    before: int
    after: int
    before_status: str
    after_status: str
    before_s: float | None
    after_s: float | None
    steps: list[ComparedStep]
    payload: list[Difference]
    result: list[Difference]


def compared_steps(before: Sequence[TimedStep], after: Sequence[TimedStep]) -> list[ComparedStep]:
    """In the order of the newer run; steps that only the older one has come last."""
    old, new = {step.name: step for step in before}, {step.name: step for step in after}
    pairs = [(name, old.get(name), new.get(name)) for name in dict.fromkeys([*new, *old])]
    return [
        ComparedStep(
            name=name,
            before_state=was.state if was else None,
            after_state=became.state if became else None,
            before_s=was.seconds if was else None,
            after_s=became.seconds if became else None,
        )
        for name, was, became in pairs
    ]


def differences(before: str | None, after: str | None) -> list[Difference]:
    """The first values that differ between two JSON texts. A secret one that differs is listed, and masked."""
    old, new = _leaves(before), _leaves(after)
    changed = (path for path in dict.fromkeys([*new, *old]) if old.get(path) != new.get(path))
    paths = list(islice(changed, MOST_DIFFERENCES))
    if not paths:
        return []
    old_shown, new_shown = _leaves(before and mask_json(before).text), _leaves(after and mask_json(after).text)
    return [
        Difference(path=path, before=_shown(path, old, old_shown), after=_shown(path, new, new_shown)) for path in paths
    ]


def _shown(path: str, stored: Mapping[str, str], masked: Mapping[str, str]) -> str | None:
    return masked.get(path, MASK) if path in stored else None


def _leaves(text: str | None) -> dict[str, str]:
    """Each value that is no object or list, or an empty one, by its path."""
    return {} if text is None else dict(_walk("", json.loads(text, parse_float=Decimal)))


def _walk(path: str, value: Any) -> Iterator[tuple[str, str]]:
    if isinstance(value, dict) and value:
        for key, part in cast("dict[str, Any]", value).items():
            yield from _walk(f"{path}.{key}" if path else key, part)
    elif isinstance(value, list) and value:
        for place, part in enumerate(cast("list[Any]", value)):
            yield from _walk(f"{path}[{place}]", part)
    else:
        yield path, f"{value.normalize():f}" if isinstance(value, Decimal) else json.dumps(value, ensure_ascii=False)
