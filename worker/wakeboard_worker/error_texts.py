"""The texts of errors as the store keeps them: cut, without credentials, and only of characters that it can store."""

from __future__ import annotations

import traceback
from typing import TYPE_CHECKING, Any, Final

from wakeboard.errors import RetryAfter
from wakeboard.text.redact import redact

if TYPE_CHECKING:
    from types import TracebackType

MAX_ERROR: Final = 2_000  # characters
MAX_STACK: Final = 16_000  # characters
MAX_FRAMES: Final = 30  # the innermost, of each exception of a chain
CALLERS: Final = frozenset({"asyncio", "concurrent", "contextvars", "threading", "wakeboard", "wakeboard_worker"})


def storable(text: str, longest: int) -> str:
    """Return `text` as Postgres can store it. A longer text loses its middle, to fit into `longest` characters."""
    if len(text) > longest:
        half = longest // 2 - 20
        text = f"{text[:half]} …({len(text) - 2 * half} left out)… {text[-half:]}"
    return text.replace("\0", "\N{REPLACEMENT CHARACTER}").encode("utf-8", "replace").decode("utf-8")


def cause_of(error: BaseException) -> BaseException:
    """Return what made a handler raise RetryAfter: it counts and groups failures. Any other error is its own cause.

    So is a subclass of RetryAfter, because its name says why the attempt failed.
    """
    if type(error) is not RetryAfter:
        return error
    cause = error.__context__ if error.__cause__ is None and not error.__suppress_context__ else error.__cause__
    return error if cause is None else cause


def text_with_cause(error: BaseException) -> str:
    """Return the message of the error's cause, and in brackets that of RetryAfter unless it repeats the cause."""
    requested, cause = error_text(error), _without_credentials(text_of(cause_of(error)).strip(), MAX_ERROR)
    return requested if cause in requested else storable(f"{cause} ({requested})", MAX_ERROR)


def error_line(error: BaseException) -> str:
    """Return the type of an error, or of its cause, and its message."""
    return storable(f"{type_name(cause_of(error))}: {text_with_cause(error)}", MAX_ERROR)


def error_text(error: BaseException) -> str:
    """Return the message of an error, or else its type."""
    return _without_credentials(text_of(error).strip() or type_name(error), MAX_ERROR)


def stack_of(error: BaseException) -> str:
    """Return the stack of an error; empty if it cannot be shown."""
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


def type_name(value: Any) -> str:
    """Return the name of the type of a value."""
    try:
        return str(type(value).__name__)
    except BaseException:  # noqa: BLE001 - a metaclass may raise anything
        return "object"


def text_of(value: Any) -> str:
    """Return the text of a value, whatever its methods raise."""
    try:
        return str(value)
    except BaseException:  # noqa: BLE001 - __str__ may raise anything
        return f"<{type_name(value)} that cannot be shown>"
