"""Turns what a handler returned or raised into the result or error to store. Pure functions.

No result and no error may break the worker. Parts of results that JSON cannot express become text. Messages and stacks
are cut, and credentials in them are masked. Characters that Postgres cannot store are replaced.
"""

from __future__ import annotations

import json
import math
import re
import traceback
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
from wakeboard.text.redact import redact

if TYPE_CHECKING:
    from types import TracebackType

    from wakeboard_worker.attempt import Attempt

MAX_RESULT: Final = 16_384  # characters of JSON
MAX_RESULT_LEVELS: Final = 32  # of nested lists and objects
_NUL: Final = r"(?<!\\)(?:\\\\)*\\u0000"  # the escape of a NUL in JSON; after another backslash it is text
MAX_ERROR: Final = 2_000  # characters
MAX_STACK: Final = 16_000  # characters
MAX_FRAMES: Final = 30  # the innermost, of each exception of a chain
CALLERS: Final = frozenset({"asyncio", "concurrent", "contextvars", "threading", "wakeboard", "wakeboard_worker"})
MAX_DELAY_S: Final = 31 * 86_400.0
DISCONNECTED_DELAY_S: Final = 5.0  # until a run is due again after its handler lost the connection to the database


def storable(text: str, longest: int) -> str:
    """Return `text` as Postgres can store it. A longer text loses its middle, to fit into `longest` characters."""
    if len(text) > longest:
        half = longest // 2 - 20
        text = f"{text[:half]} …({len(text) - 2 * half} left out)… {text[-half:]}"
    return text.replace("\0", "\N{REPLACEMENT CHARACTER}").encode("utf-8", "replace").decode("utf-8")


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
    return text or json.dumps(storable(_str(value), MAX_RESULT // 2), ensure_ascii=False)


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
        return {storable(_str(key), MAX_RESULT): _to_json_types(item, depth + 1) for key, item in items}
    if isinstance(value, list | tuple | set | frozenset) and depth <= MAX_RESULT_LEVELS:
        return [_to_json_types(item, depth + 1) for item in cast("list[Any]", value)]
    return storable(value.isoformat() if isinstance(value, date | time) else _str(value), MAX_RESULT)


def failure(attempt: Attempt, error: BaseException) -> Failure | Release:
    """Return the outcome of an attempt whose handler raised `error`. An invalid request fails the attempt."""
    try:
        return _outcome(attempt, error)
    except BaseException as problem:  # noqa: BLE001 - the attributes of a handler's exception may be or raise anything
        name = _type_name(error)
        wrong = f"{name} requests no valid outcome: {_type_name(problem)}: {_error_text(problem)}"
        text = storable(f"{_error_text(error)} ({wrong})", MAX_ERROR)
        return Failure(attempt.id, attempt.epoch, "failed", storable(name, 200), text, _stack(error))


def _outcome(attempt: Attempt, error: BaseException) -> Failure | Release:
    # A handler that is stopped by a shutdown may raise anything. Only an outcome that it requests explicitly counts.
    if attempt.stopped_because == SHUTDOWN and not isinstance(error, RequestedOutcome):
        return Release(attempt.id, attempt.epoch, reason=WORKER_STOPPED if attempt.started else NOT_STARTED)
    if isinstance(error, TimedOut):
        return timed_out(attempt, _error_text(error))
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
        error_type=storable(_type_name(_cause(error)), 200),
        error=_text_with_cause(error),
        stack=_stack(error),
        delay_s=_clamped_delay(delay_s) if delay_s is not None else None,
        pauses_limit=isinstance(error, RetryAfter) and bool(error.limit),
        cancelled=attempt.stopped_because == CANCELLED,
    )


def timed_out(attempt: Attempt, message: str = "") -> Failure:
    """Return the outcome of an attempt that exceeded its timeout, perhaps because it does not stop when cancelled."""
    message = message or f"it ran longer than its timeout of {attempt.timeout_s} s"
    cancelled = attempt.stopped_because == CANCELLED
    return Failure(attempt.id, attempt.epoch, "timed_out", "Timeout", message, cancelled=cancelled)


def _cause(error: BaseException) -> BaseException:
    """Return what made a handler raise RetryAfter: it counts and groups failures. Any other error is its own cause.

    So is a subclass of RetryAfter, because its name says why the attempt failed.
    """
    if type(error) is not RetryAfter:
        return error
    cause = error.__context__ if error.__cause__ is None and not error.__suppress_context__ else error.__cause__
    return error if cause is None else cause


def _text_with_cause(error: BaseException) -> str:
    """Return the message of the error's cause, and in brackets that of RetryAfter unless it repeats the cause."""
    requested, cause = _error_text(error), _without_credentials(_str(_cause(error)).strip(), MAX_ERROR)
    return requested if cause in requested else storable(f"{cause} ({requested})", MAX_ERROR)


def error_line(error: BaseException) -> str:
    """Return the type of an error, or of its cause, and its message."""
    return storable(f"{_type_name(_cause(error))}: {_text_with_cause(error)}", MAX_ERROR)


def _error_text(error: BaseException) -> str:
    return _without_credentials(_str(error).strip() or _type_name(error), MAX_ERROR)


def _stack(error: BaseException) -> str:
    try:
        lines = traceback.format_exception(type(error), error, _of_the_handler(error.__traceback__), limit=-MAX_FRAMES)
        return _without_credentials("".join(lines), MAX_STACK)
    except BaseException:  # noqa: BLE001 - an exception whose __str__ raises must not end the worker
        return ""


def _of_the_handler(frames: TracebackType | None) -> TracebackType | None:
    """Leave out the frames of wakeboard and of Python that led to the handler, unless the error is theirs."""
    frame = frames
    while frame is not None and str(frame.tb_frame.f_globals.get("__name__")).split(".")[0] in CALLERS:
        frame = frame.tb_next
    return frame or frames


def _without_credentials(text: str, longest: int) -> str:
    return storable(redact(text, longest), longest)


def _type_name(value: Any) -> str:
    try:
        return str(type(value).__name__)
    except BaseException:  # noqa: BLE001 - a metaclass may raise anything
        return "object"


def _str(value: Any) -> str:
    try:
        return str(value)
    except BaseException:  # noqa: BLE001 - __str__ may raise anything
        return f"<{_type_name(value)} that cannot be shown>"


def _clamped_delay(seconds: float, if_nan: float = 0.0) -> float:
    """Return a delay that the store accepts, in whole milliseconds: a tiny one would be no `real` of SQL."""
    seconds = float(seconds)
    return if_nan if math.isnan(seconds) else round(min(max(0.0, seconds), MAX_DELAY_S), 3)
