"""Registers handlers: the function that executes each job type.

    @wakeboard.handler("send_weekly_report")
    async def send_weekly_report(run: wakeboard.Run) -> dict[str, int]:
        ...

An `async def` runs in the worker's event loop, a plain `def` in one of its threads. What a handler returns is stored as
the run's result (JSON, else text). An exception fails the attempt, which is retried with backoff. `Discard`,
`RetryAfter` and `Snooze` request another outcome. wakeboard/engine/run.py defines `Run`.
"""

from __future__ import annotations

import inspect
import re
import sys
from dataclasses import dataclass, replace
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypeVar, get_args

from wakeboard.errors import BrokenHandlers
from wakeboard.text.name_patterns import IN_WORDS, WORD

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

ENTRY_POINTS = "wakeboard.handlers"  # the group in which an installed package names its handler modules
LONGEST_JOB_TYPE = 128  # characters
BUILT_IN = ("ping", "http", "command", "job", "wakeboard.alert")  # job types, also where settings do not enable them

KeptLogs: TypeAlias = Literal["all", "failed", "off"]
"""Which logs of runs are kept in the database: of all attempts, of those that fail, or none."""

_Declared = TypeVar("_Declared", bound="Callable[[Any], Any]")


@dataclass(frozen=True, slots=True)
class Handler:
    """The function that executes a job type: an `async def` or a plain function with one parameter, the Run."""

    job_type: str
    function: Callable[[Any], Any]
    stop_grace_s: float = 2.0
    """Seconds after its timeout in which it has to stop. Then its attempt ends without it. The lease holds for 10."""
    logs: KeptLogs | None = None
    """Which logs of its runs are kept; None: as WAKEBOARD_RUN_LOGS says."""

    @property
    def is_async(self) -> bool:
        """Whether it runs in the event loop; otherwise in a thread."""
        call = getattr(self.function, "__call__", None)  # noqa: B004 - an object may have an async __call__
        return inspect.iscoroutinefunction(self.function) or inspect.iscoroutinefunction(call)

    @property
    def qualified_name(self) -> str:
        """The function as module.name, for messages."""
        module = getattr(self.function, "__module__", "?")
        return f"{module}.{getattr(self.function, '__qualname__', type(self.function).__qualname__)}"


_declared: dict[str, Handler] = {}


def handler(job_type: str, *, logs: KeptLogs | None = None) -> Callable[[_Declared], _Declared]:
    """Register the decorated function as the handler of `job_type`. The function itself is unchanged.

    `logs`: which logs of its runs are kept, instead of what WAKEBOARD_RUN_LOGS says, unless that is off.

    Raises BrokenHandlers if the job type is built in or has another handler, or if the function or the name is invalid.
    """

    def declare(function: _Declared) -> _Declared:
        declared = checked(Handler(job_type, function, logs=logs))
        if job_type in BUILT_IN:
            raise BrokenHandlers(
                f"{declared.qualified_name} handles {job_type!r}, which is built in; choose another name."
            )
        before = _declared.get(job_type)
        if before is not None and before.qualified_name != declared.qualified_name:
            raise BrokenHandlers(
                f"two functions handle {job_type!r}: {before.qualified_name} and {declared.qualified_name}; rename one."
            )
        _declared[job_type] = declared
        return function

    return declare


def checked(declared: Handler) -> Handler:
    """Returns the handler if it is valid. Raises BrokenHandlers otherwise."""
    if len(declared.job_type) > LONGEST_JOB_TYPE or not re.fullmatch(WORD, declared.job_type):
        rule = f"{IN_WORDS[WORD]}, at most {LONGEST_JOB_TYPE}"
        raise BrokenHandlers(f"{declared.qualified_name} handles {declared.job_type!r}: a job type is {rule}.")
    if declared.logs not in (None, *get_args(KeptLogs)):
        raise BrokenHandlers(
            f"{declared.qualified_name} has logs={declared.logs!r}; write {', '.join(get_args(KeptLogs))}."
        )
    if inspect.isgeneratorfunction(declared.function) or inspect.isasyncgenfunction(declared.function):
        raise BrokenHandlers(f"{declared.qualified_name} is a generator: a handler returns, it does not yield.")
    return declared


def validating(declared: Handler) -> Handler:
    """The handler, called after its payload was validated if its parameter is annotated `Run[…]`."""
    from wakeboard.engine.typed_payloads import with_validation  # not needed to declare handlers

    function = with_validation(declared.function, declared.qualified_name, is_async=declared.is_async)
    return replace(declared, function=function)


def load_handlers(modules: Iterable[str], builtin: Mapping[str, Handler]) -> dict[str, Handler]:
    """All handlers: the built-in ones, those of `modules`, and those of installed packages (entry points).

    A handler of `Run[SendReport]` is called after its payload was validated.

    Raises BrokenHandlers with the module and the error.
    """
    for module in modules:
        _import(module, "WAKEBOARD_HANDLERS names")
    for module in _entry_point_modules():
        _import(module, f"the entry-point group {ENTRY_POINTS} names")
    return {**builtin, **{job_type: validating(declared) for job_type, declared in _declared.items()}}


def _entry_point_modules() -> list[str]:
    from importlib.metadata import entry_points

    return sorted({entry.module for entry in entry_points(group=ENTRY_POINTS)})


def _import(module: str, named_by: str) -> None:
    try:
        import_module(module)
    except BrokenHandlers:
        raise
    except (Exception, SystemExit) as exc:
        error = f"{type(exc).__name__}: {exc}"[:500]
        raise BrokenHandlers(f"{named_by} {module!r}, which cannot be imported: {error}{_line_of(exc)}.") from exc


def _line_of(exc: BaseException) -> str:
    """' (jobs.py, line 3)': the line of the user's code in which an import failed; '' if it failed before."""
    if isinstance(exc, SyntaxError):
        return ""  # its message contains the line
    trace, place = exc.__traceback__, ""
    while trace is not None:
        name = trace.tb_frame.f_code.co_filename
        if not name.startswith("<frozen") and name not in {__file__, sys.modules["importlib"].__file__}:
            place = f" ({name}, line {trace.tb_lineno})"
        trace = trace.tb_next
    return place
