"""What can go wrong, as one tree.

WakeboardError
├── InvalidSchedule     a JobSchedule, cron line or time zone that cannot be honoured as written
├── InvalidSettings     a setting that cannot be honoured as written
├── InvalidValue        an argument that cannot be honoured as written
├── BrokenHandlers      a module of handlers that cannot be imported, or handlers that contradict each other
├── DatabaseUnavailable no connection, for now
│   ├── LoginRefused    the server refuses this login
│   └── Locked          another transaction keeps a lock that this needs: try again
├── SchemaMismatch      the database's schema and this release do not fit
├── Refused             a move said no
├── LeadershipLost      another operator leads by now
├── LeaseLost           the run belongs to somebody else by now: stop, write nothing
├── StepRepeated        a handler gave two steps one name
└── KeyReused           an idempotency key came back with another payload
RequestedOutcome                 what a handler may raise to decide about its run
├── Discard             dead now, without further attempts
├── RetryAfter          try again after so many seconds
└── Snooze              not yet: back to the queue, the attempt is given back
"""


class WakeboardError(Exception):
    """Anything wakeboard says no to. Its text is one sentence for the person who asked."""


class InvalidSchedule(WakeboardError):
    """Something a person declared cannot be honoured: each sentence names the field, its value and a valid example."""

    def __init__(self, *problems: str) -> None:
        self.problems = problems
        super().__init__("\n".join(problems))


class InvalidSettings(WakeboardError):
    """A setting cannot be honoured: the sentence names the environment variable and a valid example."""


class InvalidValue(WakeboardError):
    """An argument of a command or a function is invalid. The message says what to write instead."""


class BrokenHandlers(WakeboardError):
    """Handlers cannot be used as they are: the sentence names the module or the function, and what is wrong with it."""


class DatabaseUnavailable(WakeboardError):
    """There is no connection to the database, for now or for a reason that the sentence gives (never the password)."""


class LoginRefused(DatabaseUnavailable):
    """The server refuses this user, password or way to connect. An administrator must change something."""


class Locked(DatabaseUnavailable):
    """Another transaction holds a lock that this statement needs. The connection is usable; try again later."""


class SchemaMismatch(WakeboardError):
    """The schema is missing, too old for this release, or needs a newer release."""


class Refused(WakeboardError):
    """The board refused a move: the run or schedule is not in a state that allows it."""


class LeadershipLost(WakeboardError):
    """The term of this operator is over: another one leads, or may at any moment. Stop acting, write nothing."""


class LeaseLost(WakeboardError):
    """The lease of this run is lost: another worker may have it. Stop, and roll back what is not committed."""


class StepRepeated(WakeboardError):
    """A handler gave two steps of one attempt the same name."""

    def __init__(self, name: str) -> None:
        super().__init__(
            f"this attempt already has a step {name!r}. The result of a step is stored under its name, so each step of"
            " a run needs its own name (in a loop, put the item into it)."
        )


class KeyReused(WakeboardError):
    """The idempotency key belongs to a run with another payload."""


class RequestedOutcome(Exception):
    """What a handler may raise to decide about its run."""


class Discard(RequestedOutcome):
    """The run is dead now; its reason is shown to people."""


class RetryAfter(RequestedOutcome):
    """The attempt failed; the next one comes after `seconds` instead of the run's backoff."""

    def __init__(self, seconds: float, reason: str = "") -> None:
        self.seconds = seconds
        super().__init__(reason or f"retry after {seconds:g} s")


class Snooze(RequestedOutcome):
    """Not yet: the run is due again after `seconds`, and its attempt is given back."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        super().__init__(f"snooze for {seconds:g} s")
