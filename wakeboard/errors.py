"""All exceptions, as one tree.

WakeboardError
├── InvalidSchedule     an invalid JobSchedule, cron expression or time zone
├── InvalidSettings     an invalid setting
├── InvalidValue        an invalid argument
├── BrokenHandlers      a handler module that cannot be imported, or handlers that conflict
├── DatabaseUnavailable no connection at the moment
│   ├── LoginRefused    the server rejects this login
│   ├── Locked          another transaction has a lock that this needs: try again
│   ├── QueryTimedOut   a statement of the board took too long and was stopped
│   └── CommitLost      the connection broke in a commit: the change may have been made
├── SchemaMismatch      the database's schema and this release do not fit
├── Refused             the store refused an operation
├── LeadershipLost      another operator is the leader
├── LeaseLost           another worker may have the run: stop, write nothing
├── StepRepeated        a handler gave two steps one name
├── EffectRepeated      a handler gave two effects one key
├── EffectInDoubt       an effect that happens once for ever was begun, and its end is unknown: roll back
└── KeyReused           an idempotency key was used with another payload
RequestedOutcome        what a handler raises to request an outcome
├── Discard             dead, without further attempts
├── RetryAfter          failed; retry after this many seconds
├── TimedOut            failed, because it took too long
└── Snooze              back to the queue; the attempt does not count
    └── EffectHeld      another run is executing an effect that happens once for ever
"""

import math
from typing import Any, Final

MIN_SNOOZE_S: Final = 0.1
HELD_SNOOZE_S: Final = 5.0


class _Picklable(Exception):
    """An exception that can be copied and sent to another process, whatever its constructor takes."""

    def __reduce__(self) -> tuple[Any, ...]:
        return _restored, (type(self), self.args), self.__dict__


def _restored(kind: type[Exception], args: tuple[Any, ...]) -> Exception:
    return kind.__new__(kind, *args)  # it stores the args; the constructor would take others


class WakeboardError(_Picklable):
    """Base class. The message is one sentence for the user. `hint`: what to do; "": the message says it, or nothing."""

    hint: str = ""

    @property
    def with_hint(self) -> str:
        """The message, and what to do."""
        return f"{str(self).removesuffix('.')}. {self.hint}" if self.hint else str(self)


class InvalidSchedule(WakeboardError):
    """A declared schedule is invalid. Each sentence names the field, its value and a valid example."""

    def __init__(self, *problems: str) -> None:
        self.problems = problems
        super().__init__("\n".join(problems))


class InvalidSettings(WakeboardError):
    """A setting is invalid. The message names the environment variable and a valid example."""


class InvalidValue(WakeboardError):
    """An argument of a command or a function is invalid. The message says what to write instead."""


class BrokenHandlers(WakeboardError):
    """Handlers are invalid. The message names the module or the function, and the error."""


class DatabaseUnavailable(WakeboardError):
    """The database cannot be reached. The message has the reason, never the password."""


class LoginRefused(DatabaseUnavailable):
    """The server refuses this user, password or way to connect. An administrator must change something."""


class Locked(DatabaseUnavailable):
    """Another transaction holds a lock that this statement needs. The connection is usable; try again later."""


class Forbidden(WakeboardError):
    """A viewer of the board may not see or do this. The message names the permission."""


class MissingRight(WakeboardError):
    """The database role of the connection has no right to do this."""


class QueryTimedOut(DatabaseUnavailable):
    """A statement of the board took too long and was stopped. It has changed nothing."""


class CommitLost(DatabaseUnavailable):
    """The connection broke while a transaction of the board committed: its change may have been made, or not."""


class SchemaMismatch(WakeboardError):
    """The schema is missing, too old for this release, or needs a newer release."""


class Refused(WakeboardError):
    """The store refused an operation: the state of the run, schedule or transaction does not allow it."""


class LeadershipLost(WakeboardError):
    """This operator is no longer the leader, or may lose the leadership at any moment. Stop, write nothing."""


class LeaseLost(WakeboardError):
    """The lease of this run is lost: another worker may have it. Stop, and roll back what is not committed."""


class StepRepeated(WakeboardError):
    """A handler gave two steps of one attempt the same name."""

    def __init__(self, name: str) -> None:
        super().__init__(
            f"this attempt already has a step {name!r}. The result of a step is stored under its name, so each step of"
            " a run needs its own name (in a loop, put the item into it)."
        )


class EffectRepeated(WakeboardError):
    """A handler gave two effects of one attempt the same key."""

    def __init__(self, key: str) -> None:
        super().__init__(
            f"this attempt already had the effect {key!r}. An effect happens once for each key, so each effect of a run"
            " needs its own key (in a loop, put the item into it)."
        )


class EffectInDoubt(WakeboardError):
    """A run began an effect once for ever, and its end is not recorded: roll back. `run.effect` settles it."""


class KeyReused(WakeboardError):
    """The idempotency key belongs to a run with another payload."""


class RequestedOutcome(_Picklable):
    """What a handler raises to request an outcome other than success and failure."""


class Discard(RequestedOutcome):
    """The run is dead, without further attempts. The reason is shown to users."""


class InvalidPayload(Discard):
    """The payload of the run does not have the type in `Run[…]`. The message has the path of each problem."""


class RetryAfter(RequestedOutcome):
    """The attempt failed; the next one is due after `seconds` instead of the run's backoff.

    `limit`: until then, at most for a day, no other run with the run's limit key starts either. Use it for a provider
    that answers 429 to all callers of one account. A run without a limitKey pauses none.
    Raises InvalidValue, which fails the attempt, if `seconds` is NaN or infinite.
    """

    # Of a subclass whose constructor does not call this one.
    seconds: float | None = None  # the run's backoff
    limit: bool = False

    def __init__(self, seconds: float, reason: str = "", *, limit: bool = False) -> None:
        self.seconds = _finite(seconds, "RetryAfter")
        self.limit = limit
        super().__init__(reason or f"retry after {seconds:g} s")


class TimedOut(RequestedOutcome):
    """The attempt failed, because what it waited for took too long. The run is retried with its backoff."""


class Snooze(RequestedOutcome):
    """The run is due again after `seconds`, at least 0.1 s. The attempt does not count.

    Nothing else bounds how often a run snoozes, so without the minimum it could keep a worker busy without end.
    Raises InvalidValue, which fails the attempt, if `seconds` is NaN or infinite.
    """

    seconds: float = MIN_SNOOZE_S  # of a subclass whose constructor does not call this one

    def __init__(self, seconds: float) -> None:
        self.seconds = max(MIN_SNOOZE_S, _finite(seconds, "Snooze"))
        super().__init__(f"snooze for {self.seconds:g} s")


class EffectHeld(Snooze):
    """Another run is executing the effect `key`, which happens once for ever. The run is due again soon.

    `run_id`: the other run. If its attempt ends without the effect, the next attempt finds the effect in doubt.
    """

    def __init__(self, key: str, run_id: int) -> None:
        super().__init__(HELD_SNOOZE_S)
        self.run_id = run_id
        self.args = (f"run {run_id} is executing the effect {key!r}; {self}",)


def _finite(seconds: float, name: str) -> float:
    if not isinstance(seconds, int | float) or not math.isfinite(seconds):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InvalidValue(f"{name} is given {seconds!r} as its seconds; write a number, such as {name}(60)")
    return seconds
