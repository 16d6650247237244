"""What becomes of an attempt: a pure reading of what its handler returned or raised.

Nothing a handler does may break the worker: parts of results that are no JSON are stored as text, messages and stacks
are cut, credentials in them are masked, and characters that Postgres cannot store are replaced.
"""

from __future__ import annotations

import json
import math
import traceback
from datetime import date, time
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Final, cast

from wakeboard.errors import DatabaseUnavailable, Discard, RequestedOutcome, RetryAfter, Snooze
from wakeboard.rules.redact import redact
from wakeboard.run import SHUTDOWN, TIMED_OUT
from wakeboard.store.connection import is_connection_loss
from wakeboard.store.worker_api import DISCONNECTED, NOT_STARTED, SNOOZED, WORKER_STOPPED, Failure, Release

if TYPE_CHECKING:
    from wakeboard_worker.attempt import Attempt

LONGEST_RESULT: Final = 16_384  # characters of JSON
DEEPEST_RESULT: Final = 32  # levels
LONGEST_ERROR: Final = 2_000  # characters
LONGEST_STACK: Final = 16_000  # characters
LONGEST_READ: Final = 3 * LONGEST_STACK  # characters of an error that are searched for credentials; the rest is dropped
LONGEST_DELAY_S: Final = 31 * 86_400.0
AFTER_CUT_OFF_S: Final = 5.0  # until a run is due again whose handler lost its connection to the database


def storable(text: str, longest: int) -> str:
    """`text` as Postgres can store it, cut in the middle to `longest` characters."""
    if len(text) > longest:
        half = longest // 2 - 20
        text = f"{text[:half]} …({len(text) - 2 * half} left out)… {text[-half:]}"
    return text.replace("\0", "\N{REPLACEMENT CHARACTER}").encode("utf-8", "replace").decode("utf-8")


def result_json(value: Any) -> str:
    """What a handler returned, as JSON text.

    A part that JSON has no word for becomes text, a date or time in ISO 8601, and so does what lies too deep. What is
    too long becomes one text.
    """
    text = _json_text(value)
    if text is None or _levels(text) > DEEPEST_RESULT:
        text = _json_text(_in_json(value, 1))
    return text or json.dumps(storable(_shown(value), LONGEST_RESULT // 2), ensure_ascii=False)


def _json_text(value: Any) -> str | None:
    """The value's JSON text if Postgres can store it and it is short enough."""
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False)
        text.encode("utf-8")
    except Exception:  # noqa: BLE001 - whatever a handler's own class raises when it is read
        return None
    return text if len(text) <= LONGEST_RESULT and "\\u0000" not in text else None


def _levels(text: str) -> int:
    """How many levels a JSON text has at most: brackets in its strings count too."""
    if text.count("[") + text.count("{") <= DEEPEST_RESULT:
        return 1  # or more, and few enough
    return max(accumulate({"[": 1, "{": 1, "]": -1, "}": -1}.get(character, 0) for character in text))


def _in_json(value: Any, depth: int) -> Any:
    """The same in values that JSON has."""
    if value is None or isinstance(value, bool | int) or (isinstance(value, float) and math.isfinite(value)):
        return value
    if isinstance(value, dict) and depth <= DEEPEST_RESULT:
        items = cast("dict[Any, Any]", value).items()
        return {storable(_shown(key), LONGEST_RESULT): _in_json(item, depth + 1) for key, item in items}
    if isinstance(value, list | tuple | set | frozenset) and depth <= DEEPEST_RESULT:
        return [_in_json(item, depth + 1) for item in cast("list[Any]", value)]
    return storable(value.isoformat() if isinstance(value, date | time) else _shown(value), LONGEST_RESULT)


def failure(attempt: Attempt, error: BaseException) -> Failure | Release:
    """What the board is told about an attempt that raised."""
    if attempt.stopped_because == SHUTDOWN and not isinstance(
        error, RequestedOutcome
    ):  # whatever it raised, it was told to stop
        return Release(attempt.id, attempt.epoch, reason=WORKER_STOPPED if attempt.started else NOT_STARTED)
    if attempt.stopped_because == TIMED_OUT:
        return timed_out(attempt)
    if isinstance(error, Snooze):
        return Release(attempt.id, attempt.epoch, _bounded(error.seconds), SNOOZED)
    # Of a step, an effect, or the transaction of run.once: not the handler's fault.
    if isinstance(error, DatabaseUnavailable) or is_connection_loss(attempt.effect_conn, error):
        return Release(attempt.id, attempt.epoch, AFTER_CUT_OFF_S, DISCONNECTED)
    return Failure(
        id=attempt.id,
        epoch=attempt.epoch,
        outcome="discarded" if isinstance(error, Discard) else "failed",
        error_type=storable(type(error).__name__, 200),
        error=_error_text(error),
        stack=_stack(error),
        delay_s=_bounded(error.seconds) if isinstance(error, RetryAfter) else None,
    )


def timed_out(attempt: Attempt) -> Failure:
    """What the board is told about an attempt that ran longer than it may."""
    said = f"it ran longer than its timeout of {attempt.timeout_s} s"
    return Failure(attempt.id, attempt.epoch, "timed_out", "Timeout", said)


def _error_text(error: BaseException) -> str:
    return _without_credentials(_shown(error).strip() or type(error).__name__, LONGEST_ERROR)


def _stack(error: BaseException) -> str:
    try:
        return _without_credentials("".join(traceback.format_exception(error, limit=30)), LONGEST_STACK)
    except Exception:  # noqa: BLE001 - an exception whose __str__ raises must not end the worker
        return ""


def _without_credentials(text: str, longest: int) -> str:
    """Masks credentials, then cuts the text: a credential that is cut in two may not be recognised."""
    return storable(redact(storable(text, LONGEST_READ)), longest)


def _shown(value: Any) -> str:
    try:
        return str(value)
    except Exception:  # noqa: BLE001 - the same
        return f"<{type(value).__name__} that cannot be shown>"


def _bounded(seconds: float) -> float:
    seconds = float(seconds)
    return 0.0 if math.isnan(seconds) else min(max(0.0, seconds), LONGEST_DELAY_S)
