"""The limits of limit keys as a file declares them: their fields and bounds, and the messages for mistakes.

    apiVersion: wakeboard.dev/v1alpha1
    kind: Limits
    limits:
      openai-api: {rate: 60/minute, burst: 10, atOnce: 5}
      printer: {atOnce: 2}

A declared key has exactly these limits: without `rate` it has no rate limit, without `atOnce` the default, which is any
number beside a rate. docs/handlers.md describes what the limits do.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Annotated, Any, Final, Literal, cast

from pydantic import BeforeValidator, Field, ValidationError

from wakeboard.declared.model import Declared
from wakeboard.declared.validation_messages import Place, problems_of, refusal
from wakeboard.errors import InvalidSchedule, InvalidValue
from wakeboard.limits.rules.rate import EXAMPLES, Rate
from wakeboard.text.name_patterns import IN_WORDS, WORD
from wakeboard.text.sanitize import one_line

API_VERSION: Final = "wakeboard.dev/v1alpha1"
KIND: Final = "Limits"
MAX_KEYS: Final = 1000
MAX_RUNS: Final = 1_000_000
_LONGEST_KEY: Final = 128
_SHOWN: Final = 60  # characters of a value


def _rate(written: object) -> object:
    if not isinstance(written, str):
        raise refusal(f"rate is {one_line(str(written))[:_SHOWN]}; {EXAMPLES}")
    try:
        return Rate.parse(written)
    except InvalidValue as error:
        raise refusal(f"rate is {one_line(written)[:_SHOWN]}: {_without_none(error)}") from None


def _without_none(error: InvalidValue) -> str:
    """The sentence of a file: it leaves the rate out, where a command line has `none`."""
    text = str(error)
    if EXAMPLES in text:
        return EXAMPLES
    return text.replace(", or `none`", " runs, or leave rate out")


class Limit(Declared):
    """The limits of one key: `rate` runs may start, `burst` of them after a pause, and `at_once` run at once."""

    rate: Annotated[Rate, BeforeValidator(_rate)] | None = Field(default=None, examples=["60/minute"])
    burst: Annotated[int, Field(ge=1, le=MAX_RUNS)] | None = Field(default=None, examples=[10])
    at_once: Annotated[int, Field(ge=0, le=MAX_RUNS)] | None = Field(default=None, examples=[5])


class Limits(Declared):
    """A document with limits, by limit key."""

    api_version: Literal["wakeboard.dev/v1alpha1"]
    kind: Literal["Limits"]
    metadata: dict[str, Any] = Field(default_factory=dict)
    limits: dict[str, Limit] = Field(examples=[{"openai-api": {"rate": "60/minute"}}])

    def rows(self) -> list[dict[str, object]]:
        """The limits as `declare_limits` takes them, in the order of their keys."""
        return [
            {
                "key": key,
                "max_running": limit.at_once,
                "rate_count": limit.rate.count if limit.rate else None,
                "rate_period_s": limit.rate.period_s if limit.rate else None,
                "rate_burst": (limit.burst or 1) if limit.rate else None,
            }
            for key, limit in sorted(self.limits.items())
        ]


NO_LIMITS: Final = Limits.model_construct(api_version=API_VERSION, kind=KIND, metadata={}, limits={})


def load_limits(document: object, where: Callable[[Place], str]) -> Limits:
    """The limits that `document` declares. `where` returns file and line of a part of it, which begin each sentence.

    Raises InvalidSchedule with a sentence for each problem.
    """
    if not isinstance(document, Mapping):
        raise InvalidSchedule(f'{where(())}: these are not limits; begin with "apiVersion: {API_VERSION}"')
    try:
        limits = Limits.model_validate(cast("Mapping[str, object]", document))
    except ValidationError as error:
        problems = problems_of(error, Limits.model_json_schema(mode="validation"))
        raise InvalidSchedule(*(f"{where(place)}: {sentence}" for place, sentence in problems)) from None
    if problems := list(_problems(limits)):
        raise InvalidSchedule(*(f"{where(place)}: {sentence}" for place, sentence in problems))
    return limits


def _problems(limits: Limits) -> Iterator[tuple[Place, str]]:
    """What is wrong with limits whose fields are right, each with its place."""
    if len(limits.limits) > MAX_KEYS:
        yield ("limits",), f"limits has {len(limits.limits)} keys, which is too many; write at most {MAX_KEYS}"
    for key, limit in limits.limits.items():
        place = ("limits", key)
        if len(key) > _LONGEST_KEY or not re.fullmatch(WORD, key):
            shown = one_line(key)[:_SHOWN]
            yield place, f"limits has the key {shown!r}; write at most {_LONGEST_KEY} {IN_WORDS[WORD]}"
        elif limit.rate is None and limit.burst is not None:
            yield place, f"limits.{key} has burst without rate; write for example rate: 60/minute"
        elif limit.rate is None and limit.at_once is None:
            yield place, f"limits.{key} has neither rate nor atOnce; write for example rate: 60/minute, or remove it"
