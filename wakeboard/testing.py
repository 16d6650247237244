"""Runs a handler in a test, without a database and without a worker.

    from wakeboard.testing import FakeRun, run_handler

    run = FakeRun({"segment": "active"})
    first = await run_handler(send_weekly_report, run)     # the first attempt
    second = await run_handler(send_weekly_report, run)    # the second attempt: completed steps are not repeated
    assert second.result == {"sent": 3}

The handler gets a `wakeboard.Run` that follows the same rules as in a worker. Its records are kept in memory. There is
one difference: a FakeRun cannot see whether a transaction was committed, and assumes that it was.
`run.effects.pop(key)` simulates a rollback.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import logging
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import count
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias
from uuid import UUID, uuid4

from wakeboard.engine.handlers import Handler, checked, load_handlers, validating
from wakeboard.engine.run import CANCELLED, EVERY_RUN, LEASE_LOST, ClaimedRow, KnownEffect, OnceCall, Run
from wakeboard.engine.typed_payloads import plain_payload
from wakeboard.errors import (
    BrokenHandlers,
    Discard,
    EffectInDoubt,
    InvalidValue,
    LeaseLost,
    RetryAfter,
    Snooze,
    WakeboardError,
)
from wakeboard.store.pg_timestamp import to_pg_timestamp
from wakeboard.text.canonical_json import MAX_BYTES, check_payload
from wakeboard.text.name_patterns import check_key

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping

Status: TypeAlias = Literal["succeeded", "failed", "discarded", "snoozed", "cancelled", "lease lost"]

A_MONDAY: Final = datetime(2026, 1, 5, 8, 0, tzinfo=UTC)  # a constant: a test gives the same result every day
TIMEOUT_S: Final = 3600  # a FakeRun never times out
MIDDLE_PRIORITY: Final = 3
EFFECT_STATES: Final = ("begun", "done")
_ids: Final = count(1)
# These fail an attempt. The exceptions of pytest itself propagate.
_caught: Final = (Exception, SystemExit, asyncio.CancelledError)


@dataclass
class FakeRun:
    """A run in memory, through all its attempts. Times are time zone aware.

    `steps` (name → result) and `effects` (key → 'begun' or 'done') hold what its attempts have recorded. A test may
    start with some, and change them. `forever_effects` holds those that happen once for ever: give several runs the
    same dictionary. 'held' there: another run is executing the effect. What a worker could not have recorded raises
    InvalidValue, here or at the start of the next attempt.
    """

    payload: Any = field(default_factory=dict[str, Any])
    job_type: str = "fake"
    attempt: int = 1  # the next one
    max_attempts: int = 5
    queue: str = "default"
    schedule: str | None = None
    scheduled_for: datetime = A_MONDAY
    run_at: datetime = A_MONDAY
    steps: dict[str, Any] = field(default_factory=dict[str, Any])
    effects: dict[str, Literal["begun", "done"]] = field(default_factory=dict[str, Literal["begun", "done"]])
    forever_effects: dict[str, Literal["begun", "done", "held"]] = field(
        default_factory=dict[str, Literal["begun", "done", "held"]]
    )
    results: list[Any] = field(default_factory=list[Any])  # of the runs that it waited for
    id: int = field(default_factory=lambda: next(_ids))
    uuid: UUID = field(default_factory=uuid4)

    def __post_init__(self) -> None:
        self.payload = plain_payload(self.payload)
        check_payload(self.payload)
        self.payload = _as_json(self.payload)
        self.check()
        self.stopped_because: str | None = None
        self.running: _FakeAttempt | None = None

    def check(self) -> None:
        """Raise InvalidValue for a field that no run in the store has."""
        for name in self.steps:
            check_key(name, "step name")
        _check_effects("effects", self.effects, EFFECT_STATES)
        _check_effects("forever_effects", self.forever_effects, (*EFFECT_STATES, "held"))
        for field_name in ("attempt", "max_attempts"):
            if getattr(self, field_name) < 1:
                raise InvalidValue(f"{field_name} is {getattr(self, field_name)}; the first attempt is 1.")
        for field_name in ("scheduled_for", "run_at"):
            if getattr(self, field_name).tzinfo is None:
                raise InvalidValue(
                    f"{field_name} has no time zone; write for example datetime(2031, 1, 1, tzinfo=UTC)."
                )

    def cancel(self) -> None:
        """Cancel the current attempt, or the next one, as `wakeboard cancel` does. Call it from any thread."""
        self._stop(CANCELLED)

    def lose_lease(self) -> None:
        """Give the current attempt, or the next one, to another worker.

        Its handler is cancelled, and its steps and effects raise LeaseLost.
        """
        self._stop(LEASE_LOST)

    def _stop(self, because: str) -> None:
        self.stopped_because = because
        if self.running is not None:
            self.running.stop(because)


@dataclass(frozen=True)
class Outcome:
    """The result of one attempt."""

    status: Status
    attempt: int
    returned: Any  # as the store keeps it: the value that JSON gives back, or a text
    error: BaseException | None  # what the handler raised
    dead: bool  # there is no further attempt: discarded, or the last one failed
    delay_s: float | None  # until the next attempt; None: the run's own backoff, or there is none
    called: list[str]  # steps whose function this attempt called
    happened: list[str]  # effects that this attempt had
    progress: list[float]  # all values that it reported of the run
    consumed: int  # units that it took of its rate limit by `run.consume`
    log: list[str]  # messages

    @property
    def result(self) -> Any:
        """What the handler returned. Raises what it raised, and LeaseLost if the lease was lost."""
        if self.error is not None:
            raise self.error
        if self.status == LEASE_LOST:
            raise LeaseLost("the lease was lost: a worker drops what such an attempt returns")
        return self.returned


async def run_handler(handler: Callable[[Any], Any] | Handler | str, run: Any = None, **fields: Any) -> Outcome:
    """Execute one attempt: an async handler in this event loop, a plain one in a thread.

    `handler` is a function or the name of a declared job type. `run` is a FakeRun, or the payload (or an instance of
    its type) of a new one with these `fields` (attempt=3, schedule="billing/report", …). If the handler raises,
    `Outcome.result` raises the same.
    Raises BrokenHandlers if there is no such handler.
    """
    found = _find(handler)
    fake = _fake_run(found, run, fields)
    if found.is_async:
        return await _FakeAttempt(fake, in_thread=False).run(found)
    return await asyncio.to_thread(_FakeAttempt(fake, in_thread=True).run_plain, found)


def run_handler_blocking(handler: Callable[[Any], Any] | Handler | str, run: Any = None, **fields: Any) -> Outcome:
    """As `run_handler`, where no event loop runs: a plain handler runs in this thread, an async one in a new loop."""
    found = _find(handler)
    fake = _fake_run(found, run, fields)
    if found.is_async:
        return asyncio.run(run_handler(found, fake))
    return _FakeAttempt(fake, in_thread=True).run_plain(found)


class _FakeAttempt(Run):
    """One attempt of a FakeRun, recorded there."""

    def __init__(self, fake: FakeRun, *, in_thread: bool) -> None:
        fake.check()
        payload = b"\x01" + json.dumps(fake.payload).encode()
        scheduled_for, run_at = to_pg_timestamp(fake.scheduled_for), to_pg_timestamp(fake.run_at)
        super().__init__(
            ClaimedRow(
                *(fake.id, 1, fake.job_type, payload, fake.attempt, fake.max_attempts, TIMEOUT_S, scheduled_for),
                *(run_at, fake.queue, MIDDLE_PRIORITY, 0, fake.uuid.bytes, None, fake.schedule),
            )
        )
        self.in_thread = in_thread
        self.stopped_because = fake.stopped_because
        self._fake = fake
        self._task: asyncio.Task[Any] | None = None
        self._called: list[str] = []
        self._happened: list[str] = []
        self._begun: set[tuple[str, bool]] = set()  # effects that this attempt has begun, and whether once for ever
        self._progress: list[float] = []
        self._consumed = 0
        self._messages = _Messages()
        self.logger = logging.Logger(Run.logger.name, logging.DEBUG)  # noqa: LOG001 - one for each attempt
        self.logger.parent = Run.logger  # so that pytest shows its records, too
        self.logger.addHandler(self._messages)
        fake.running = self

    async def run(self, handler: Handler) -> Outcome:
        """Call an async handler. If the test itself is cancelled, so is the handler."""
        self._task = task = asyncio.create_task(self._call(handler))
        if self.cancelled:
            task.cancel()
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError:
            task.cancel()
            await asyncio.wait({task})
            raise
        return self.end(*((None, asyncio.CancelledError()) if task.cancelled() else task.result()))

    async def _call(self, handler: Handler) -> tuple[Any, BaseException | None]:
        try:
            return await handler.function(self), None
        except _caught as error:
            return None, error

    def run_plain(self, handler: Handler) -> Outcome:
        """Call a plain handler."""
        try:
            return self.end(handler.function(self), None)
        except _caught as error:
            return self.end(None, error)

    def stop(self, because: str) -> None:
        """Stop the attempt; may be called from any thread."""
        self.stopped_because = because
        if self._task is not None:
            self._task.get_loop().call_soon_threadsafe(self._task.cancel)

    def end(self, returned: Any, error: BaseException | None) -> Outcome:
        """Return the outcome, and prepare the FakeRun for its next attempt."""
        fake, status = self._fake, _status(error, self.stopped_because)
        fake.stopped_because = fake.running = None
        if status != "snoozed":  # a snoozed attempt does not count
            fake.attempt += 1
        last = status == "failed" and self.attempt >= self.max_attempts
        seconds = error.seconds if isinstance(error, RetryAfter | Snooze) else None
        return Outcome(
            status,
            self.attempt,
            _as_stored(returned),
            error,
            dead=status == "discarded" or last,
            delay_s=None if last or seconds is None else float(seconds),
            called=self._called,
            happened=self._happened,
            progress=self._progress,
            consumed=self._consumed,
            log=self._messages.texts,
        )

    def progress(self, fraction: float, message: str = "", *, step: str | None = None) -> None:
        super().progress(fraction, message, step=step)
        if step is None and self.reported:
            self._progress.append(self.reported[None].fraction)

    async def _read_results(self) -> list[Any]:
        self._raise_if_lost()
        return _as_json(self._fake.results)

    async def _consume(self, units: int) -> None:
        self._raise_if_lost()
        self._consumed += units

    async def _record_step(self, name: str, result: str | None = None) -> tuple[bool, Any]:
        self._raise_if_lost()
        check_key(name, "step name")
        if result is not None:
            if len(result.encode()) > MAX_BYTES:
                raise WakeboardError("a step result is at most 64 KiB")
            self._fake.steps[name] = json.loads(result)
        elif name not in self._fake.steps:
            self._called.append(name)
            return False, None
        return True, _as_json(self._fake.steps[name])

    async def _record_failed_step(self, name: str, error: Exception) -> None:
        pass  # it is called again in the next attempt

    def _effects_of(self, *, forever: bool) -> dict[str, Any]:
        return self._fake.forever_effects if forever else self._fake.effects

    async def _begin_effect(self, key: str, *, forever: bool) -> KnownEffect:
        self._raise_if_lost()
        check_key(key, "effect key")
        effects = self._effects_of(forever=forever)
        state, first = effects.get(key, "new"), EVERY_RUN if forever else None
        if state == "held":
            return KnownEffect(state, first, self._fake.id + 1)
        if state == "new":
            effects[key] = "begun"
            self._begun.add((key, forever))
        return KnownEffect("in doubt" if state == "begun" and (key, forever) not in self._begun else state, first)

    async def _finish_effect(self, key: str, *, forever: bool) -> None:
        self._raise_if_lost()
        self._effects_of(forever=forever)[key] = "done"
        self._happened.append(key)

    def _record_once(self, conn: Any, key: str, *, forever: bool) -> Any:
        once = self._once(key, forever=forever)
        return once if self._is_async(conn) else self._wait_for(once)

    def _is_async(self, conn: Any) -> bool:
        execute = getattr(conn, "execute", None)
        return not self.in_thread if execute is None else inspect.iscoroutinefunction(execute)

    def _end_of_once(self, conn: Any, call: OnceCall) -> Any:  # noqa: ARG002 - as in Run
        end = self._committed()
        return end if self._is_async(conn) else self._wait_for(end)

    async def _committed(self) -> str:
        return "committed"

    async def _once(self, key: str, *, forever: bool) -> OnceCall:
        check_key(key, "effect key")
        state = self._effects_of(forever=forever).get(key)
        if forever and state in ("begun", "held"):
            raise EffectInDoubt(
                f"a run began the effect {key}, and its end is not recorded: roll this transaction back"
            )
        if state is None:
            await self._finish_effect(key, forever=forever)
        return OnceCall(state is None)

    def _wait_for(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        try:
            coroutine.send(None)
        except StopIteration as end:
            return end.value
        raise AssertionError("records in memory never wait")


def _check_effects(name: str, effects: Mapping[str, str], states: tuple[str, ...]) -> None:
    for key, state in effects.items():
        check_key(key, "effect key")
        if state not in states:
            raise InvalidValue(f"{name}[{key!r}] is {state!r}; write {' or '.join(map(repr, states))}.")


class _Messages(logging.Handler):
    """Keeps the texts of log records."""

    def __init__(self) -> None:
        super().__init__()
        self.texts: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.texts.append(record.getMessage())


def _find(handler: Callable[[Any], Any] | Handler | str) -> Handler:
    if isinstance(handler, Handler):
        return handler
    if not isinstance(handler, str):
        return validating(checked(Handler("fake", handler)))
    known = load_handlers((), {})
    if handler not in known:
        raise BrokenHandlers(f"no function handles {handler!r}: import the module that declares it.")
    return known[handler]


def _fake_run(handler: Handler, run: Any, fields: dict[str, Any]) -> FakeRun:
    if not isinstance(run, FakeRun):
        fields.setdefault("job_type", handler.job_type)
        return FakeRun({} if run is None else run, **fields)
    if fields:
        raise TypeError(f"pass {', '.join(fields)} to FakeRun(…): this call has a FakeRun already")
    return run


def _status(error: BaseException | None, stopped_because: str | None) -> Status:
    """As the worker classifies it: a success wins over a late cancellation, but not over a lost lease."""
    if stopped_because == LEASE_LOST or isinstance(error, LeaseLost):
        return LEASE_LOST
    match error:
        case None:
            return "succeeded"
        case Discard():
            return "discarded"
        case Snooze():
            return "snoozed"
        case _:
            return "failed" if stopped_because is None else CANCELLED


def _as_json(value: Any) -> Any:
    return json.loads(json.dumps(value, ensure_ascii=False))


def _as_stored(value: Any) -> Any:
    try:
        return json.loads(json.dumps(value, ensure_ascii=False, allow_nan=False))
    except (TypeError, ValueError, RecursionError):
        return str(value)
