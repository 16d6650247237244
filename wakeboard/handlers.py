"""Which function runs which job type, and the object that it is given.

    @wakeboard.handler("send_weekly_report")
    async def send_weekly_report(run: wakeboard.Run) -> dict[str, int]:
        ...

An `async def` runs in the worker's event loop, a plain `def` in one of its threads. What a handler returns is stored as
the run's result (JSON, else text). Raising anything fails the attempt, which is tried again with backoff; raising
`Discard`, `RetryAfter` or `Snooze` says what to do instead.
"""

from __future__ import annotations

import inspect
import re
import sys
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol, Self, TypeVar

from wakeboard.errors import BrokenHandlers, StepRepeated
from wakeboard.rules.name_patterns import IN_WORDS, WORD

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Mapping
    from datetime import datetime
    from logging import Logger, LoggerAdapter
    from types import TracebackType
    from uuid import UUID

ENTRY_POINTS = "wakeboard.handlers"  # the group in which an installed package names its modules of handlers
LONGEST_JOB_TYPE = 128  # characters

_Declared = TypeVar("_Declared", bound="Callable[[Any], Any]")


class Effect(Protocol):
    """An effect outside the database, within `with run.effect(key)`: begun on entry, done when the block ends well.

    Effects like this are at-least-once: between the effect and its record a worker may die. Then the next attempt finds
    it `in_doubt`, and must ask the provider, or repeat it under the same `provider_key`.
    """

    key: str
    provider_key: str  # the same in every attempt of the run, for a provider's idempotency header
    done: bool  # an earlier attempt has done it: skip it
    in_doubt: bool  # an earlier attempt began it and never said that it was done

    def __enter__(self) -> Self: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...
    async def __aenter__(self) -> Self: ...
    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


class Run(Protocol):
    """One attempt of a run, as its handler sees it."""

    @property
    def id(self) -> int:
        """Its number, for people. What lies outside refers to `uuid`."""
        ...

    @property
    def uuid(self) -> UUID:
        """Its name for the world: the same in every attempt, never used again. Idempotency keys derive from it."""
        ...

    @property
    def job_type(self) -> str:
        """The name in `@handler(…)`."""
        ...

    @property
    def queue(self) -> str:
        """The queue it came from."""
        ...

    @property
    def schedule(self) -> str | None:
        """The JobSchedule it is a tick of, as namespace/name; None: an application enqueued it."""
        ...

    @property
    def payload(self) -> Any:
        """What was declared or enqueued, decoded from JSON when it is first asked for."""
        ...

    @property
    def scheduled_for(self) -> datetime:
        """The tick: the moment that the run stands for, however late it runs. Aware, in UTC."""
        ...

    @property
    def run_at(self) -> datetime:
        """The moment from which on it was due, for this attempt. Aware, in UTC."""
        ...

    @property
    def attempt(self) -> int:
        """1 for the first attempt."""
        ...

    @property
    def max_attempts(self) -> int:
        """The attempt after which a failed run is dead."""
        ...

    @property
    def log(self) -> Logger | LoggerAdapter[Any]:
        """A logger whose lines carry the run's id, schedule and attempt."""
        ...

    @property
    def cancelled(self) -> bool:
        """True once this attempt is to stop: cancelled, timed out, lease lost, or the worker leaves.

        An async handler is cancelled as well; a plain one has to look.
        """
        ...

    def progress(self, fraction: float) -> None:
        """Says how far it is, 0 to 1; people see it with the next heartbeat."""
        ...

    def step(self, name: str, function: Callable[..., Any], *args: Any) -> Any:
        """Calls `function(*args)` once in the life of the run, and returns its result as JSON gives it back.

        To be awaited in an async handler; in a plain one it returns the result itself. A step that completed in an
        earlier attempt returns its stored result without calling the function. Raises LeaseLost, and StepRepeated for a
        second step of the same name in one attempt.
        """
        ...

    def once(self, conn: Any, key: str) -> Any:
        """The guard of an effect in the transaction of `conn`, a psycopg connection; awaited if that is an async one.

        True: this transaction is the one. False: an earlier attempt committed it. Raises LeaseLost: roll back.
        """
        ...

    def effect(self, key: str) -> Effect:
        """An effect outside the database: `async with run.effect("charge") as effect: …` (plain `with` in a thread)."""
        ...


@dataclass(frozen=True, slots=True)
class Handler:
    """What runs a job type: an `async def` or a plain function of one Run."""

    job_type: str
    function: Callable[[Any], Any]

    @property
    def is_async(self) -> bool:
        """Whether it runs in the event loop; otherwise in a thread."""
        call = getattr(self.function, "__call__", None)  # noqa: B004 - an object may have an async __call__
        return inspect.iscoroutinefunction(self.function) or inspect.iscoroutinefunction(call)

    @property
    def place(self) -> str:
        """Where the function is, for people: module.name."""
        module = getattr(self.function, "__module__", "?")
        return f"{module}.{getattr(self.function, '__qualname__', type(self.function).__qualname__)}"


_declared: dict[str, Handler] = {}


def handler(job_type: str) -> Callable[[_Declared], _Declared]:
    """Declares the function below it as what runs `job_type`; the function stays as it is.

    Raises BrokenHandlers when another function runs that job type already, or when this one cannot run anything.
    """

    def declare(function: _Declared) -> _Declared:
        declared = checked(Handler(job_type, function))
        before = _declared.get(job_type)
        if before is not None and before.place != declared.place:
            raise BrokenHandlers(f"two functions handle {job_type!r}: {before.place} and {declared.place}; rename one.")
        _declared[job_type] = declared
        return function

    return declare


@contextmanager
def unique_step(begun: set[str], name: str) -> Generator[None]:
    """Wraps a step; `begun` are the names of the attempt's steps. Raises StepRepeated for a name that is among them.

    A second step of the same name would get the result of the first. A step that fails may be repeated.
    """
    if name in begun:
        raise StepRepeated(name)
    begun.add(name)
    try:
        yield
    except BaseException:
        begun.discard(name)
        raise


def checked(declared: Handler) -> Handler:
    """The handler itself, if it can run anything; BrokenHandlers otherwise."""
    if len(declared.job_type) > LONGEST_JOB_TYPE or not re.fullmatch(WORD, declared.job_type):
        rule = f"{IN_WORDS[WORD]}, at most {LONGEST_JOB_TYPE}"
        raise BrokenHandlers(f"{declared.place} handles {declared.job_type!r}: a job type is {rule}.")
    if inspect.isgeneratorfunction(declared.function) or inspect.isasyncgenfunction(declared.function):
        raise BrokenHandlers(f"{declared.place} is a generator: a handler returns, it does not yield.")
    return declared


def load_handlers(modules: Iterable[str], builtin: Mapping[str, Handler]) -> dict[str, Handler]:
    """Every handler there is: the built-in ones, those of `modules`, and those that installed packages offer.

    Raises BrokenHandlers in one sentence that says which module is wrong, and how.
    """
    for module in modules:
        _import(module, "WAKEBOARD_HANDLERS names")
    for module in _offered_modules():
        _import(module, f"the entry-point group {ENTRY_POINTS} names")
    for job_type in builtin.keys() & _declared.keys():
        raise BrokenHandlers(
            f"{_declared[job_type].place} handles {job_type!r}, which is built in; choose another name."
        )
    return {**builtin, **_declared}


def _offered_modules() -> list[str]:
    from importlib.metadata import entry_points

    return sorted({entry.module for entry in entry_points(group=ENTRY_POINTS)})


def _import(module: str, who_names_it: str) -> None:
    try:
        import_module(module)
    except BrokenHandlers:
        raise
    except (Exception, SystemExit) as exc:
        said = f"{type(exc).__name__}: {exc}"[:500]
        raise BrokenHandlers(f"{who_names_it} {module!r}, which cannot be imported: {said}{_place_of(exc)}.") from exc


def _place_of(exc: BaseException) -> str:
    """' (jobs.py, line 3)': the line of the user's code in which an import failed; '' if it never got that far."""
    if isinstance(exc, SyntaxError):
        return ""  # its text says it
    trace, place = exc.__traceback__, ""
    while trace is not None:
        name = trace.tb_frame.f_code.co_filename
        if not name.startswith("<frozen") and name not in {__file__, sys.modules["importlib"].__file__}:
            place = f" ({name}, line {trace.tb_lineno})"
        trace = trace.tb_next
    return place
