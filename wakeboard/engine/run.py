"""`Run`: the object that a handler gets, and everything that it does for the handler.

The worker and `wakeboard.testing` each have a subclass. A subclass only defines how steps and effects are recorded, in
the store or in memory. All rules that a handler can observe are in this module, so a test sees what a worker does.
"""

from __future__ import annotations

import inspect
import json
import logging
from abc import ABC, abstractmethod
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Generic, Literal, NamedTuple, Self, TypeAlias, get_args
from uuid import UUID, uuid5

from wakeboard.errors import (
    DatabaseUnavailable,
    EffectHeld,
    EffectRepeated,
    InvalidValue,
    LeaseLost,
    Snooze,
    StepRepeated,
)
from wakeboard.store.pg_timestamp import from_pg_timestamp
from wakeboard.text.name_patterns import check_utf8

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Generator, Mapping
    from datetime import datetime
    from types import TracebackType

    from typing_extensions import TypeVar

    from wakeboard.store.callers_connection import CallersConnection

    PayloadT = TypeVar("PayloadT", default=Any)
else:
    from typing import TypeVar

    PayloadT = TypeVar("PayloadT")

_ENCODED: Final = object()  # in place of a payload that is not decoded yet

# Why an attempt is stopped before its handler ends.
CANCELLED: Final = "cancelled"  # by a user, or by a newer tick (concurrencyPolicy Replace)
TIMED_OUT: Final = "timed out"
LEASE_LOST: Final = "lease lost"  # another worker may run it: the outcome is dropped
UNREACHABLE: Final = "unreachable"  # the database is unreachable: the worker dropped the lease, and releases it later
SHUTDOWN: Final = "shutdown"  # of the worker


class ClaimedRow(NamedTuple):
    """A row of the SQL type `claimed_run` in its binary form.

    `payload`: JSON after one version byte. `scheduled_for`, `run_at`: see store/pg_timestamp.py. `uuid`: 16 bytes.
    """

    id: int
    lease_epoch: int
    job_type: str
    payload: bytes
    attempts: int
    max_attempts: int
    timeout_s: int
    scheduled_for: int
    run_at: int
    queue: str
    priority: int
    crash_count: int
    uuid: bytes
    definition_id: int | None
    schedule: str | None


class Progress(NamedTuple):
    """How much of a run or of a step is done, from 0 to 1, and in words."""

    fraction: float
    message: str = ""


Reported: TypeAlias = "Mapping[str | None, Progress]"
"""The progress that an attempt reported last: of its run (None), and of its steps by name."""


class KnownEffect(NamedTuple):
    """What was known of an effect: 'new', 'begun' (here), 'in doubt', 'done', or 'held' by a run that is executing it.

    `first_run_uuid`: of an effect once for ever, the run that began it first.
    """

    state: str
    first_run_uuid: UUID | None = None
    held_by: int | None = None


class OnceCall(NamedTuple):
    """A call of `once`: its answer, the id of its transaction, and the connection that it was sent over."""

    is_first: bool
    transaction: str | None = None  # xid8
    over: CallersConnection | None = None


Once: TypeAlias = Literal["per_run", "forever"]
"""How often an effect happens: once for each run, or once for its key, whatever run, schedule or job type has it."""
EVERY_RUN: Final = UUID(int=0)  # of an effect once for ever, in place of the run's uuid
MAX_UNITS: Final = 1_000_000  # of one call of `consume`
_log: Final = logging.getLogger("wakeboard.run")
_json: Final = json.JSONDecoder()


class Run(ABC, Generic[PayloadT]):
    """One attempt of a run, as its handler sees it. `Run[SendReport]`: its payload is an instance of SendReport."""

    __slots__ = (
        "_effects",
        "_encoded_payload",
        "_payload",
        "_run_at",
        "_scheduled_for",
        "_steps",
        "_uuid",
        "attempt",
        "crash_count",
        "definition_id",
        "effect_conn",
        "epoch",
        "id",
        "job_type",
        "max_attempts",
        "priority",
        "queue",
        "reported",
        "schedule",
        "stopped_because",
        "timeout_s",
    )

    id: int
    """The run's number, for users. Other systems should refer to `uuid`."""
    job_type: str
    """The name in `@handler(…)`."""
    attempt: int
    """1 for the first attempt."""
    max_attempts: int
    """The run is dead if the attempt with this number fails."""
    timeout_s: int
    """Seconds after which the worker stops the attempt."""
    queue: str
    """The queue that the run was claimed from."""
    priority: int
    """5 is claimed first, 1 last."""
    schedule: str | None
    """The JobSchedule as namespace/name; None: an application enqueued the run."""
    definition_id: int | None
    """The stored schedule; None: an application enqueued the run."""
    epoch: int
    """The lease epoch: it grows with each claim, by a random number."""
    crash_count: int
    """How many workers have crashed while they executed this run."""
    in_thread: bool
    """Whether the handler is a plain function, which runs in a thread."""
    logger: logging.Logger = _log

    def __init__(self, row: ClaimedRow) -> None:
        (
            self.id,
            self.epoch,
            self.job_type,
            self._encoded_payload,
            self.attempt,
            self.max_attempts,
            self.timeout_s,
            self._scheduled_for,
            self._run_at,
            self.queue,
            self.priority,
            self.crash_count,
            self._uuid,
            self.definition_id,
            self.schedule,
        ) = row
        self._payload: Any = _ENCODED
        self.stopped_because: str | None = None
        self.reported: dict[str | None, Progress] | None = None
        self.effect_conn: Any = None  # the connection that `once` was called with last
        self._steps: set[str] | None = None  # the names of the steps of this attempt
        # Its effects by key and whether they happen once for ever, with the last call of `once`.
        self._effects: dict[tuple[str, bool], OnceCall | None] | None = None

    # -- facts ---------------------------------------------------------------------------------------------------------

    @property
    def payload(self) -> PayloadT:
        """The payload that was declared or enqueued. It is decoded from JSON at the first use."""
        if self._payload is _ENCODED:
            text = str(self._encoded_payload[1:], "utf-8")
            self._payload = _json.raw_decode(text)[0]  # json.loads would also detect an encoding and check for an end
        return self._payload

    def parse_payload(self, parse: Callable[[bytes], Any]) -> None:
        """Let `payload` be what `parse` makes of its JSON."""
        self._payload = parse(bytes(self._encoded_payload[1:]))

    @property
    def uuid(self) -> UUID:
        """The run's globally unique name, the same in every attempt. Derive idempotency keys from it."""
        return UUID(bytes=bytes(self._uuid))

    @property
    def scheduled_for(self) -> datetime:
        """The tick that this run executes, in UTC. It does not change when the run is late or retried."""
        return from_pg_timestamp(self._scheduled_for)

    @property
    def run_at(self) -> datetime:
        """When this attempt became due, in UTC."""
        return from_pg_timestamp(self._run_at)

    @property
    def log(self) -> logging.LoggerAdapter[logging.Logger]:
        """A logger whose records carry the run's id, job type, schedule and attempt."""
        return logging.LoggerAdapter(self.logger, self.log_fields())

    @property
    def cancelled(self) -> bool:
        """True once this attempt should stop: cancelled, timed out, lease lost, or the worker shuts down.

        An async handler is also cancelled (asyncio.CancelledError). A plain handler has to check this.
        """
        return self.stopped_because is not None

    @property
    def lost(self) -> bool:
        """Whether the attempt no longer has a lease. Its handler may still be running; its outcome is dropped."""
        return self.stopped_because in (LEASE_LOST, UNREACHABLE)

    def log_fields(self) -> dict[str, Any]:
        """The fields that each log record of this attempt carries."""
        return {"run": self.id, "job_type": self.job_type, "schedule": self.schedule, "attempt": self.attempt}

    # -- operations ----------------------------------------------------------------------------------------------------

    def progress(self, fraction: float, message: str = "", *, step: str | None = None) -> None:
        """Report how much is done, from 0 to 1, and in words such as "page 4 of 10"; of a step that runs, by its name.

        A fraction outside is clamped, and 200 characters of the message are kept. The last report wins. It stays in
        memory, and is visible within a second. Raises InvalidValue if the attempt has not begun such a step.
        """
        latest = Progress(min(1.0, max(0.0, float(fraction))), str(message))
        if step is not None and step not in (self._steps or ()):
            raise InvalidValue(f"there is no step {step!r}; call progress while run.step({step!r}, …) executes")
        if self.reported is None:
            self.reported = {}
        if self.reported.get(step) != latest:  # what is equal is not sent again
            self.reported[step] = latest

    @property
    def keeps_log(self) -> bool:
        """Whether the log of this run is kept. A handler need not read output for `log_output` that is not kept."""
        return False

    def log_output(self, text: str, source: str = "output") -> None:
        """Keep what a program wrote in the log of this run. `source`: which program, or which of its streams."""

    def step(self, name: str, function: Callable[..., Any], *args: Any) -> Any:
        """Call `function(*args)` at most once successfully per run, and return its result as JSON gives it back.

        Await it in an async handler; in a plain one it returns the result. A step that an earlier attempt completed
        returns its stored result without a call. Raises LeaseLost, and StepRepeated for a second step of the same name
        in one attempt.
        """
        return (self._step_in_thread if self.in_thread else self._step)(name, function, args)

    def consume(self, units: int) -> Any:
        """Take `units` more units (1 to 1,000,000) of the rate limit of the run's limitKey; the start took one.

        Await it in an async handler. It never waits for free units: the next runs of the key start later, at most by an
        hour or a burst. Without a rate limit it does nothing. Raises InvalidValue and LeaseLost.
        """
        if not 1 <= units <= MAX_UNITS:
            raise InvalidValue(f"units is {units}: write a whole number from 1 to 1000000")
        taken = self._consume(int(units))
        return self._wait_for(taken) if self.in_thread else taken

    def results(self) -> Any:
        """The results of the runs that this one waited for, in the order of `after`; [] if it waited for none.

        Await it in an async handler. A run without a result gives None, and an entry with `ticks: All` a list with the
        result of each tick. Raises LeaseLost.
        """
        results = self._read_results()
        return self._wait_for(results) if self.in_thread else results

    def once(self, conn: Any, key: str, *, once: Once = "per_run") -> Any:
        """Guard an effect that happens in the transaction of `conn`, a connection as for `enqueue`; await an async one.

        Returns True if this transaction has to perform the effect, False if an earlier attempt committed it: of this
        run or, with `once="forever"`, of any run. It waits for another transaction that has the effect. Raises
        LeaseLost (roll back), EffectRepeated if this attempt has had an effect of this key already, and EffectInDoubt
        (roll back) if a run began it by `effect` and its end is unknown. The key may be used again after a rollback,
        and after a commit whose connection was lost: the answer then says if it was done.
        """
        self._raise_if_lost()
        self.effect_conn = conn
        check_utf8(key)
        name = key, _is_forever(once)
        call = self._record_once(conn, key, forever=name[1])
        if inspect.isawaitable(call):
            return self._note_once_later(conn, name, call)
        former = self._former_once(name, call)
        return self._note_once(name, call, former, former and self._end_of_once(conn, former))

    def effect(self, key: str, *, once: Once = "per_run") -> Effect:
        """Record an effect outside the database: `async with run.effect("charge") as effect: …`.

        A plain handler writes `with run.effect(…)`. `once="forever"`: the key names what the effect stands for, such as
        `invoice:812`, and no other run has the effect either. Its start raises EffectHeld, a Snooze, while another run
        is executing it, and EffectRepeated if this attempt has had an effect of this key already. A key whose block
        raised may be used again.
        """
        check_utf8(key)
        forever = _is_forever(once)
        begin = partial(self._begin_effect, key, forever=forever)
        finish = partial(self._finish_effect, key, forever=forever)
        return Effect(self, key, forever, begin, finish, self._wait_for if self.in_thread else None)

    # -- records, defined by subclasses --------------------------------------------------------------------------------

    @abstractmethod
    async def _record_step(self, name: str, result: str | None = None) -> tuple[bool, Any]:
        """Begin a step, or complete it with its result as JSON text. Returns (already completed, its stored result)."""

    @abstractmethod
    async def _record_failed_step(self, name: str, error: Exception) -> None:
        """Record that the function of a step raised `error`. Raises nothing that would hide it."""

    @abstractmethod
    async def _consume(self, units: int) -> None:
        """Take units of the rate limit."""

    @abstractmethod
    async def _read_results(self) -> list[Any]:
        """Read the results of the runs that this one waited for."""

    @abstractmethod
    async def _begin_effect(self, key: str, *, forever: bool) -> KnownEffect:
        """Record an effect as begun. Returns what was known of it."""

    @abstractmethod
    async def _finish_effect(self, key: str, *, forever: bool) -> Any:
        """Record an effect as done."""

    @abstractmethod
    def _record_once(self, conn: Any, key: str, *, forever: bool) -> Any:
        """Record an effect in the transaction of `conn`; see `once`. Returns an OnceCall, or an awaitable of it."""

    @abstractmethod
    def _end_of_once(self, conn: Any, call: OnceCall) -> Any:
        """How the transaction of a call ended, as pg_xact_status says; an awaitable of it as of `_record_once`."""

    @abstractmethod
    def _wait_for(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        """Run `coroutine` to its end from the thread of a plain handler, and return its result."""

    # ------------------------------------------------------------------------------------------------------------------

    async def _step(self, name: str, function: Callable[..., Any], args: tuple[Any, ...]) -> Any:
        with self._unique_step(name):
            done, stored = await self._record_step(name)
            if done:
                return stored
            try:
                result = function(*args)
                if inspect.isawaitable(result):
                    result = await result
                text = _step_text(name, result)
                await self._record_step(name, text)
            except Exception as error:
                if self._has_failed(error):
                    await self._record_failed_step(name, error)
                raise
            return json.loads(text)

    def _step_in_thread(self, name: str, function: Callable[..., Any], args: tuple[Any, ...]) -> Any:
        with self._unique_step(name):
            done, stored = self._wait_for(self._record_step(name))
            if done:
                return stored
            try:
                text = _step_text(name, function(*args))
                self._wait_for(self._record_step(name, text))
            except Exception as error:
                if self._has_failed(error):
                    self._wait_for(self._record_failed_step(name, error))
                raise
            return json.loads(text)

    def _has_failed(self, error: Exception) -> bool:
        """Whether a step that raised `error` has failed. Otherwise it was interrupted, and the attempt says by what."""
        return not (self.cancelled or isinstance(error, DatabaseUnavailable | LeaseLost | Snooze))

    @contextmanager
    def _unique_step(self, name: str) -> Generator[None]:
        """Raise StepRepeated if this attempt has completed or begun a step of this name. A failed one may be repeated.

        Otherwise a second step of the same name would get the result of the first.
        """
        if self._steps is None:
            self._steps = set()
        if name in self._steps:
            raise StepRepeated(name)
        self._steps.add(name)
        try:
            yield
        except BaseException:
            self._steps.discard(name)
            raise
        finally:
            if self.reported:
                self.reported.pop(name, None)

    async def _note_once_later(self, conn: Any, name: tuple[str, bool], answer: Awaitable[OnceCall]) -> bool:
        call = await answer
        former = self._former_once(name, call)
        return self._note_once(name, call, former, former and await self._end_of_once(conn, former))

    def _former_once(self, name: tuple[str, bool], call: OnceCall) -> OnceCall | None:
        """The former call with this key if its transaction decides whether `call` repeats it.

        It does not if this transaction has the effect (a former one rolled back), or if the former connection broke.
        """
        former = None if call.is_first or not self._effects else self._effects.get(name)
        return None if former is None or (former.over and former.over.broken) else former

    def _note_once(self, name: tuple[str, bool], call: OnceCall, former: OnceCall | None, end: str | None) -> bool:
        """The answer. Raises EffectRepeated if the former call committed, or had the effect and did not roll back.

        An effect that was done before is not repeated by a call in the same transaction: a savepoint may lie between.
        """
        if former is not None and (end == "committed" or (former.is_first and end != "aborted")):
            raise EffectRepeated(name[0])
        if call.is_first or (self._effects and self._effects.get(name)):
            self.free_key(name)
        self.begin_key(name, call)
        return call.is_first

    def begin_key(self, name: tuple[str, bool], call: OnceCall | None = None) -> None:
        """Raise EffectRepeated if this attempt has had an effect of this key, or is in one."""
        if self._effects is None:
            self._effects = {}
        if name in self._effects:
            raise EffectRepeated(name[0])
        self._effects[name] = call

    def free_key(self, name: tuple[str, bool]) -> None:
        """Let the attempt use a key again whose effect failed."""
        if self._effects is not None:
            self._effects.pop(name, None)

    def _raise_if_lost(self) -> None:
        if self.lost:
            raise LeaseLost(f"the lease of run {self.id} is lost")


def _is_forever(once: str) -> bool:
    if once not in get_args(Once):
        raise InvalidValue(f"once is {once!r}; write 'per_run' or 'forever'")
    return once == "forever"


class Effect:
    """An effect outside the database, within `with run.effect(key)`.

    It is recorded as begun on entry, and as done when the block ends without an error. Such effects are at-least-once:
    a worker may crash between the effect and its record. The next attempt then finds it `in_doubt`, and has to ask the
    provider, or to repeat it under the same `provider_key`. So does another run, if the effect happens once for ever.
    """

    def __init__(
        self,
        run: Run,
        key: str,
        forever: bool,  # noqa: FBT001 - as Run.effect passes it
        begin: Callable[[], Awaitable[KnownEffect]],
        finish: Callable[[], Awaitable[Any]],
        wait_for: Callable[[Coroutine[Any, Any, Any]], Any] | None,
    ) -> None:
        self._attempt = run
        self.key = key
        self.provider_key = str(uuid5(run.uuid, key))
        """Pass it as the provider's idempotency key: the same in every attempt of the run.

        Of an effect once for ever it is known within the block, and the same for every run."""
        self.done = False
        """An earlier attempt completed the effect: skip it."""
        self.in_doubt = False
        """An earlier attempt began the effect, and whether it happened is unknown."""
        self._name = key, forever
        self._begin, self._finish, self._wait_for = begin, finish, wait_for

    async def __aenter__(self) -> Self:
        self._attempt.begin_key(self._name)
        try:
            self._note(await self._begin())
        except BaseException:
            self._attempt.free_key(self._name)
            raise
        return self

    def _note(self, known: KnownEffect) -> None:
        if known.held_by is not None:
            held = EffectHeld(self.key, known.held_by)
            self._attempt.log.info("%s", held)  # a snooze has no error
            raise held
        self.done, self.in_doubt = known.state == "done", known.state == "in doubt"
        if known.first_run_uuid is not None:
            self.provider_key = str(uuid5(known.first_run_uuid, self.key))

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            self._attempt.free_key(self._name)
        elif not self.done:
            await self._finish()

    def __enter__(self) -> Self:
        return self._run(self.__aenter__())

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._run(self.__aexit__(kind, error, trace))

    def _run(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        if self._wait_for is None:
            coroutine.close()
            raise TypeError("an async handler writes `async with run.effect(…)`")
        return self._wait_for(coroutine)


def _step_text(name: str, result: Any) -> str:
    try:
        return json.dumps(result, ensure_ascii=False)
    except (TypeError, ValueError) as error:
        raise InvalidValue(f"the result of the step {name!r} cannot be stored as JSON: {error}") from error
