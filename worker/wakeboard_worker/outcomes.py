"""Turns what a handler returned or raised into the result or error to store. Pure functions.

No result and no error may break the worker. Parts of results that JSON cannot express become text.
"""

from __future__ import annotations

import json
import math
import re
from datetime import date, time
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Final, cast

from wakeboard.engine.run import CANCELLED, SHUTDOWN, TIMED_OUT
from wakeboard.engine.worker_api import DISCONNECTED, NOT_STARTED, SNOOZED, WORKER_STOPPED, Failure, Release
from wakeboard.errors import (
    MIN_SNOOZE_S,
    DatabaseUnavailable,
    Discard,
    LeaseLost,
    RequestedOutcome,
    RetryAfter,
    Snooze,
    TimedOut,
)
from wakeboard_worker.error_texts import (
    MAX_ERROR,
    cause_of,
    error_text,
    stack_of,
    storable,
    text_of,
    text_with_cause,
    type_name,
)

if TYPE_CHECKING:
    from wakeboard_worker.attempt import Attempt

MAX_RESULT: Final = 16_384  # characters of JSON
MAX_RESULT_LEVELS: Final = 32  # of nested lists and objects
_NUL: Final = r"(?<!\\)(?:\\\\)*\\u0000"  # the escape of a NUL in JSON; after another backslash it is text
MAX_DELAY_S: Final = 31 * 86_400.0
DISCONNECTED_DELAY_S: Final = 5.0  # until a run is due again after its handler lost the connection to the database


def result_json(value: Any) -> str:
    """Return the result of a handler as JSON text.

    Parts that JSON cannot express and parts below 32 levels become text (dates and times in ISO 8601). A result that is
    too long becomes one text.
    """
    text = _json_text(value)
    if text is None or _levels(text) > MAX_RESULT_LEVELS:
        try:
            text = _json_text(_to_json_types(value, 1))
        except BaseException:  # noqa: BLE001 - the methods of a handler's class may raise anything
            text = None
    return text or json.dumps(storable(text_of(value), MAX_RESULT // 2), ensure_ascii=False)


def _json_text(value: Any) -> str | None:
    """Return the value as JSON text, or None if Postgres cannot store it or it is too long."""
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False)
        text.encode("utf-8")
    except BaseException:  # noqa: BLE001 - the methods of a handler's class may raise anything
        return None
    has_nul = "\\u0000" in text and re.search(_NUL, text)
    return None if len(text) > MAX_RESULT or has_nul else text


def _levels(text: str) -> int:
    """Return an upper bound of the levels in a JSON text. Brackets in strings count, too."""
    if text.count("[") + text.count("{") <= MAX_RESULT_LEVELS:
        return 1  # the exact number does not matter below the limit
    return max(accumulate({"[": 1, "{": 1, "]": -1, "}": -1}.get(character, 0) for character in text))


def _to_json_types(value: Any, depth: int) -> Any:
    """Return `value` with all parts converted to types that JSON has."""
    if value is None or isinstance(value, bool | int) or (isinstance(value, float) and math.isfinite(value)):
        return value
    if isinstance(value, dict) and depth <= MAX_RESULT_LEVELS:
        items = cast("dict[Any, Any]", value).items()
        return {storable(text_of(key), MAX_RESULT): _to_json_types(item, depth + 1) for key, item in items}
    if isinstance(value, list | tuple | set | frozenset) and depth <= MAX_RESULT_LEVELS:
        return [_to_json_types(item, depth + 1) for item in cast("list[Any]", value)]
    return storable(value.isoformat() if isinstance(value, date | time) else text_of(value), MAX_RESULT)


def failure(attempt: Attempt, error: BaseException) -> Failure | Release:
    """Return the outcome of an attempt whose handler raised `error`. An invalid request fails the attempt."""
    try:
        return _outcome(attempt, error)
    except BaseException as problem:  # noqa: BLE001 - the attributes of a handler's exception may be or raise anything
        name = type_name(error)
        wrong = f"{name} requests no valid outcome: {type_name(problem)}: {error_text(problem)}"
        text = storable(f"{error_text(error)} ({wrong})", MAX_ERROR)
        return Failure(attempt.id, attempt.epoch, "failed", storable(name, 200), text, stack_of(error))


def _outcome(attempt: Attempt, error: BaseException) -> Failure | Release:
    # A handler that is stopped by a shutdown may raise anything. Only an outcome that it requests explicitly counts.
    if attempt.stopped_because == SHUTDOWN and not isinstance(error, RequestedOutcome):
        return Release(attempt.id, attempt.epoch, reason=WORKER_STOPPED if attempt.started else NOT_STARTED)
    if isinstance(error, TimedOut):
        return timed_out(attempt, error_text(error))
    if attempt.stopped_because == TIMED_OUT:
        return timed_out(attempt)
    if isinstance(error, Snooze):
        return Release(attempt.id, attempt.epoch, _clamped_delay(error.seconds, MIN_SNOOZE_S), SNOOZED)
    # Raised by a step, an effect, or in the transaction of run.once. An outage is not the handler's failure, nor is its
    # connection to a server that does not know the lease, such as a former primary. A lost lease refuses the release.
    conn = attempt.effect_conn
    if isinstance(error, DatabaseUnavailable | LeaseLost) or (conn is not None and conn.was_lost_in(error)):
        return Release(attempt.id, attempt.epoch, DISCONNECTED_DELAY_S, DISCONNECTED)
    delay_s = error.seconds if isinstance(error, RetryAfter) else None
    return Failure(
        id=attempt.id,
        epoch=attempt.epoch,
        outcome="discarded" if isinstance(error, Discard) else "failed",
        error_type=storable(type_name(cause_of(error)), 200),
        error=text_with_cause(error),
        stack=stack_of(error),
        delay_s=_clamped_delay(delay_s) if delay_s is not None else None,
        pauses_limit=isinstance(error, RetryAfter) and bool(error.limit),
        cancelled=attempt.stopped_because == CANCELLED,
    )


def timed_out(attempt: Attempt, message: str = "") -> Failure:
    """Return the outcome of an attempt that exceeded its timeout, perhaps because it does not stop when cancelled."""
    message = message or f"it ran longer than its timeout of {attempt.timeout_s} s"
    cancelled = attempt.stopped_because == CANCELLED
    return Failure(attempt.id, attempt.epoch, "timed_out", "Timeout", message, cancelled=cancelled)


def _clamped_delay(seconds: float, if_nan: float = 0.0) -> float:
    """Return a delay that the store accepts, in whole milliseconds: a tiny one would be no `real` of SQL."""
    seconds = float(seconds)
    return if_nan if math.isnan(seconds) else round(min(max(0.0, seconds), MAX_DELAY_S), 3)
