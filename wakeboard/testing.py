"""Running a handler in a test of your own, without a database and without a worker.

    from wakeboard.testing import TrialRun, run_handler

    run = TrialRun({"segment": "active"})
    first = await run_handler(send_weekly_report, run)     # the first attempt
    second = await run_handler(send_weekly_report, run)    # the second one: what the first one did stays done
    assert second.result == {"sent": 3}

It keeps the promises that a worker keeps to a handler, but for one: it cannot know whether a transaction of yours was
committed. It takes each for committed; `run.effects.pop(key)` plays a rollback.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import logging
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import count
from typing import TYPE_CHECKING, Any, Final, Literal, Self, TypeAlias
from uuid import UUID, uuid4, uuid5

from wakeboard.errors import BrokenHandlers, Discard, LeaseLost, RetryAfter, Snooze, WakeboardError
from wakeboard.handlers import Handler, checked, load_handlers, unique_step
from wakeboard.rules.canonical_json import MAX_BYTES, check_payload
from wakeboard.rules.name_patterns import check_key

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from wakeboard.handlers import Run

Verdict: TypeAlias = Literal["succeeded", "failed", "discarded", "snoozed", "cancelled", "lease lost"]

A_MONDAY: Final = datetime(2026, 1, 5, 8, 0, tzinfo=UTC)  # no clock: a test is the same every day
_ids: Final = count(1)
_caught: Final = (Exception, SystemExit, asyncio.CancelledError)  # what fails an attempt; pytest's own go through


@dataclass
class FakeRun:
    """A run on trial, through all its attempts.

    `steps` (name → result) and `effects` (key → 'begun' or 'done') hold what its attempts have left behind. A test may
    begin with some, and change them.
    """

    payload: Any = field(default_factory=dict[str, Any])
    job_type: str = "on-trial"
    attempt: int = 1  # the next one
    max_attempts: int = 5
    queue: str = "default"
    schedule: str | None = None
    scheduled_for: datetime = A_MONDAY
    run_at: datetime = A_MONDAY
    steps: dict[str, Any] = field(default_factory=dict[str, Any])
    effects: dict[str, Literal["begun", "done"]] = field(default_factory=dict[str, Literal["begun", "done"]])
    id: int = field(default_factory=lambda: next(_ids))
    uuid: UUID = field(default_factory=uuid4)

    def __post_init__(self) -> None:
        check_payload(self.payload)  # what no payload can hold is found here
        self.payload = _as_json(self.payload)
        self.stopping = _Stopping()

    def cancel(self) -> None:
        """Cancels the attempt that runs, as `wakeboard cancel` does: from a step, an effect, or beside the handler."""
        self.stopping.stop("cancelled")

    def lose_lease(self) -> None:
        """Gives the attempt that runs to another worker: it is cancelled, its steps and effects raise LeaseLost."""
        self.stopping.stop("lease lost")


@dataclass(frozen=True)
class Outcome:
    """What became of one attempt."""

    verdict: Verdict
    attempt: int
    returned: Any  # as the board stores it: what JSON gives back, or a text
    error: BaseException | None  # what the handler raised
    dead: bool  # there is no further attempt: discarded, or the last one failed
    delay_s: float | None  # until the next attempt; None: the run's own backoff, or there is none
    called: list[str]  # steps whose function this attempt called
    happened: list[str]  # effects that this attempt had
    progress: list[float]
    log: list[str]  # messages

    @property
    def result(self) -> Any:
        """What the handler returned. Where the attempt did not succeed, raises what the handler raised."""
        if self.error is not None:
            raise self.error
        if self.verdict == "lease lost":
            raise LeaseLost("the lease was lost: a worker drops what such an attempt returns")
        return self.returned


async def run_handler(handler: Callable[[Any], Any] | Handler | str, run: Any = None, **about: Any) -> Outcome:
    """Makes one attempt: an async handler runs in this event loop, a plain one in a thread.

    `handler` is a function or the name of a declared job type; `run` a TrialRun, or a payload for a new one that takes
    `about` (attempt=3, schedule="billing/report", …). What a handler raises is in the Outcome; its `result` raises it.
    """
    found = _found(handler)
    trial = _trial(found, run, about)
    if not found.is_async:
        return await asyncio.to_thread(_attempt_in_thread, found, trial)
    attempt = _Attempt(trial, in_loop=True)
    task = asyncio.create_task(_awaited(found, attempt))
    trial.stopping.watch(task)
    return attempt.outcome(*await _end_of(task))


def run_handler_blocking(handler: Callable[[Any], Any] | Handler | str, run: Any = None, **about: Any) -> Outcome:
    """The same where there is no event loop: a plain handler is simply called, an async one has a loop of its own."""
    found = _found(handler)
    trial = _trial(found, run, about)
    return asyncio.run(run_handler(found, trial)) if found.is_async else _attempt_in_thread(found, trial)


class _Stopping:
    """Why the attempt is to stop, and the task that is cancelled then."""

    def __init__(self) -> None:
        self.why: Literal["cancelled", "lease lost"] | None = None
        self._task: asyncio.Task[Any] | None = None

    def stop(self, why: Literal["cancelled", "lease lost"]) -> None:
        """From any thread."""
        self.why = why
        if self._task is not None:
            self._task.get_loop().call_soon_threadsafe(self._task.cancel)

    def watch(self, task: asyncio.Task[Any]) -> None:
        """Cancels this task when the attempt is to stop; at once if it is already."""
        self._task = task
        if self.why:
            task.cancel()


class _Attempt:
    """What the handler is given; implements `wakeboard.Run`, which says what each part promises."""

    def __init__(self, trial: FakeRun, *, in_loop: bool) -> None:
        self.id, self.uuid, self.job_type, self.queue = trial.id, trial.uuid, trial.job_type, trial.queue
        self.schedule, self.payload = trial.schedule, _as_json(trial.payload)
        self.scheduled_for, self.run_at = trial.scheduled_for, trial.run_at
        self.attempt, self.max_attempts = trial.attempt, trial.max_attempts
        self.in_loop = in_loop
        self._trial = trial
        self._called: list[str] = []
        self._steps: set[str] = set()  # that this attempt has begun
        self._happened: list[str] = []
        self._begun: set[str] = set()  # effects that this attempt has begun
        self._progress: list[float] = []
        self._lines = _Lines()
        self.log = logging.Logger("wakeboard.run", logging.DEBUG)  # noqa: LOG001 - one for each attempt
        self.log.parent = logging.getLogger("wakeboard.run")  # so that pytest shows the lines, too
        self.log.addHandler(self._lines)

    @property
    def cancelled(self) -> bool:
        return self._trial.stopping.why is not None

    def progress(self, fraction: float) -> None:
        self._progress.append(min(1.0, max(0.0, float(fraction))))

    def step(self, name: str, function: Callable[..., Any], *args: Any) -> Any:
        if self.in_loop:
            return self._step_async(name, function, args)
        with unique_step(self._steps, name):
            if self._is_new(name):
                self._keep(name, function(*args))
            return _as_json(self._trial.steps[name])

    def once(self, conn: Any, key: str) -> Any:
        execute = getattr(conn, "execute", None)
        is_async = self.in_loop if execute is None else inspect.iscoroutinefunction(execute)
        return self._once_async(key) if is_async else self._once(key)

    def effect(self, key: str) -> FakeEffect:
        return FakeEffect(self, key)

    def outcome(self, returned: Any, error: BaseException | None) -> Outcome:
        """The attempt is over; the run is ready for the next one."""
        trial, verdict = self._trial, _verdict(error, self._trial.stopping.why)
        trial.stopping = _Stopping()
        if verdict != "snoozed":  # a snooze gives the attempt back
            trial.attempt += 1
        last = verdict == "failed" and self.attempt >= self.max_attempts
        return Outcome(
            verdict,
            self.attempt,
            _as_stored(returned),
            error,
            dead=verdict == "discarded" or last,
            delay_s=float(error.seconds) if isinstance(error, RetryAfter | Snooze) and not last else None,
            called=self._called,
            happened=self._happened,
            progress=self._progress,
            log=self._lines.messages,
        )

    def begin(self, key: str) -> str:
        """Records an outside effect as begun, and says what is known of it: new, begun, in doubt or done."""
        self._raise_if_lost()
        check_key(key, "effect key")
        known = self._trial.effects.get(key)
        if known is None:
            self._trial.effects[key] = "begun"
            self._begun.add(key)
            return "new"
        return "in doubt" if known == "begun" and key not in self._begun else known

    def finish(self, key: str) -> None:
        """Records an effect as done, by this attempt."""
        self._raise_if_lost()
        self._trial.effects[key] = "done"
        self._happened.append(key)

    def _once(self, key: str) -> bool:
        self._raise_if_lost()
        check_key(key, "effect key")
        if key in self._trial.effects:
            return False
        self.finish(key)
        return True

    async def _once_async(self, key: str) -> bool:
        return self._once(key)

    async def _step_async(self, name: str, function: Callable[..., Any], args: tuple[Any, ...]) -> Any:
        with unique_step(self._steps, name):
            if self._is_new(name):
                result = function(*args)
                self._keep(name, await result if inspect.isawaitable(result) else result)
            return _as_json(self._trial.steps[name])

    def _is_new(self, step: str) -> bool:
        self._raise_if_lost()
        check_key(step, "step name")
        if step in self._trial.steps:
            return False
        self._called.append(step)
        return True

    def _keep(self, step: str, result: Any) -> None:
        self._raise_if_lost()
        stored = json.dumps(result, ensure_ascii=False)
        if len(stored.encode()) > MAX_BYTES:
            raise WakeboardError("a step result is at most 64 KiB")
        self._trial.steps[step] = json.loads(stored)

    def _raise_if_lost(self) -> None:
        if self._trial.stopping.why == "lease lost":
            raise LeaseLost(f"the lease of run {self.id} is lost")


class FakeEffect:
    """`with run.effect(key)`, plain or async: see `wakeboard.handlers.Effect`."""

    def __init__(self, attempt: _Attempt, key: str) -> None:
        self.key = key
        self.provider_key = str(uuid5(attempt.uuid, key))
        self.done = self.in_doubt = False
        self._attempt = attempt

    async def __aenter__(self) -> Self:
        return self._enter()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._exit(kind)

    def __enter__(self) -> Self:
        if self._attempt.in_loop:
            raise TypeError("an async handler writes `async with run.effect(…)`")
        return self._enter()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._exit(kind)

    def _enter(self) -> Self:
        known = self._attempt.begin(self.key)
        self.done, self.in_doubt = known == "done", known == "in doubt"
        return self

    def _exit(self, kind: type[BaseException] | None) -> None:
        if kind is None and not self.done:
            self._attempt.finish(self.key)


class _Lines(logging.Handler):
    """Keeps messages."""

    def __init__(self) -> None:
        super().__init__()
        self.messages: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.messages.append(record.getMessage())


def _found(handler: Callable[[Any], Any] | Handler | str) -> Handler:
    if isinstance(handler, Handler):
        return handler
    if not isinstance(handler, str):
        return checked(Handler("on-trial", handler))
    known = load_handlers((), {})
    if handler not in known:
        raise BrokenHandlers(f"no function handles {handler!r}: import the module that declares it.")
    return known[handler]


def _trial(handler: Handler, run: Any, about: dict[str, Any]) -> FakeRun:
    if not isinstance(run, FakeRun):
        about.setdefault("job_type", handler.job_type)
        return FakeRun({} if run is None else run, **about)
    if about:
        raise TypeError(f"a TrialRun says {', '.join(about)} itself")
    return run


async def _awaited(handler: Handler, run: Run) -> tuple[Any, BaseException | None]:
    try:
        return await handler.function(run), None
    except _caught as error:
        return None, error


def _attempt_in_thread(handler: Handler, trial: FakeRun) -> Outcome:
    attempt = _Attempt(trial, in_loop=False)
    try:
        return attempt.outcome(handler.function(attempt), None)
    except _caught as error:
        return attempt.outcome(None, error)


async def _end_of(task: asyncio.Task[tuple[Any, BaseException | None]]) -> tuple[Any, BaseException | None]:
    """What the attempt returned or raised; when the test itself is cancelled, the attempt goes with it."""
    try:
        await asyncio.wait({task})
    except asyncio.CancelledError:
        task.cancel()
        await asyncio.wait({task})
        raise
    return (None, asyncio.CancelledError()) if task.cancelled() else task.result()


def _verdict(error: BaseException | None, stopped: Literal["cancelled", "lease lost"] | None) -> Verdict:
    """As the worker decides it: a success wins over a cancellation that came too late, not over a lost lease."""
    if stopped == "lease lost" or isinstance(error, LeaseLost):
        return "lease lost"
    match error:
        case None:
            return "succeeded"
        case Discard():
            return "discarded"
        case Snooze():
            return "snoozed"
        case _:
            return stopped or "failed"


def _as_json(value: Any) -> Any:
    return json.loads(json.dumps(value, ensure_ascii=False))


def _as_stored(value: Any) -> Any:
    try:
        return json.loads(json.dumps(value, ensure_ascii=False, allow_nan=False))
    except (TypeError, ValueError, RecursionError):
        return str(value)
