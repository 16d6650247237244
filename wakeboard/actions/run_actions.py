"""The actions on runs, one entry each, for the command line and the board."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence

    from wakeboard.actions.admin_api import RunActionName
    from wakeboard.backfills.rules import BackfillChange, BackfillRange, DeclaredBackfill
    from wakeboard.engine.answers import Answer, Replayed


class RunActor(Protocol):
    """Acts on runs and backfills: the database, or for `kubectl wakeboard` the board. Each action writes an audit row.

    An answer that begins with "refused" says why nothing was done.
    """

    async def cancel(self, ids: Iterable[int], reason: str = ...) -> list[Answer]:
        """Cancels runs."""
        ...

    async def retry(self, ids: Iterable[int], reason: str = ...) -> list[Answer]:
        """Queues dead or failed runs again."""
        ...

    async def revoke(self, ids: Iterable[int], reason: str = ...) -> list[Answer]:
        """Takes running runs from their workers."""
        ...

    async def discard(self, ids: Iterable[int], reason: str = ...) -> list[Answer]:
        """Moves dead runs to history."""
        ...

    async def replay(self, ids: Iterable[int], payload: Any = ..., reason: str = ...) -> list[Replayed]:
        """Enqueues copies of finished runs."""
        ...

    async def discard_and_replay(self, ids: Iterable[int], payload: Any = ..., reason: str = ...) -> list[Replayed]:
        """Moves dead runs to history, and enqueues copies of them."""
        ...

    async def run_now(self, definition_id: int, payload: Any = ..., reason: str = ...) -> tuple[int | None, str]:
        """Enqueues a run of a schedule: its id, or None and why not."""
        ...

    async def create_backfill(
        self, definition_id: int, wanted: BackfillRange, *, at_once: int = ..., again: bool = ..., reason: str = ...
    ) -> DeclaredBackfill:
        """Declares that these ticks run, each once. `again`: also those that have run."""
        ...

    async def change_backfill(self, backfill_id: int, change: BackfillChange, reason: str = ...) -> str | None:
        """Pauses, resumes or cancels a backfill: what it is now, in words; None: nothing changed."""
        ...


@dataclass(frozen=True, slots=True)
class RunAction:
    """An action on runs.

    - `parts`: the actions that it consists of. Each needs its permission.
    - `takes`: the statuses of runs that it accepts.
    - `effect`: what it does to one run, in sentences.
    - `done`: what is said of a run for each answer of the store, except refusals.
    - `apply`: gets the ids of the runs, the payload of the runs that it creates (None: that of the old run), the
      reason.
    - `danger`: runs that wait or run end by it.
    """

    parts: tuple[RunActionName, ...]
    takes: tuple[str, ...]
    effect: str
    done: Mapping[str, str]
    apply: Callable[[RunActor, Sequence[int], Any, str], Awaitable[Sequence[Answer | Replayed]]]
    danger: bool = False

    @property
    def title(self) -> str:
        """Its name as a heading: "Discard and replay"."""
        return " and ".join(self.parts).capitalize()

    @property
    def path(self) -> str:
        """Its name in an URL: "discard-and-replay"."""
        return "-and-".join(self.parts)

    @property
    def name(self) -> RunActionName:
        """The name of its last part."""
        return self.parts[-1]

    @property
    def creates_runs(self) -> bool:
        """Whether the payload of `apply` is used."""
        return self.name == "replay"


BULK_ACTIONS: Final[Mapping[RunActionName, RunAction]] = {
    each.name: each
    for each in (
        RunAction(
            ("retry",),
            takes=("dead", "failed"),
            effect="It is queued again, due now, with all its attempts. Its finished steps and effects are not"
            " repeated.",
            done={"queued": "is queued again, due now"},
            apply=lambda store, ids, _, reason: store.retry(ids, reason),
        ),
        RunAction(
            ("cancel",),
            takes=("queued", "failed", "running"),
            effect="A waiting run does not start any more. A running one is asked to stop, and may still succeed.",
            done={"cancelled": "is cancelled", "requested": "was asked to stop"},
            apply=lambda store, ids, _, reason: store.cancel(ids, reason or "Cancelled"),
            danger=True,
        ),
        RunAction(
            ("discard",),
            takes=("dead",),
            effect="It will not run again. It stays in the history, from which you can run it again.",
            done={"discarded": "is discarded"},
            apply=lambda store, ids, _, reason: store.discard(ids, reason or "Discarded"),
            danger=True,
        ),
        RunAction(
            ("replay",),
            takes=("succeeded", "cancelled", "discarded"),
            effect="A new run is created from it, due now. Its steps and effects happen again, but for effects that"
            " happen once for ever.",
            done={"queued": "is replayed"},
            apply=lambda store, ids, payload, reason: store.replay(ids, payload, reason),
        ),
    )
}
RELEASE: Final = RunAction(
    ("release",),
    takes=("running",),
    effect="It is taken from its worker at once and queued again, also if the worker hangs. What the worker still"
    " reports about it is refused. Until the worker notices, two handlers may execute the run.",
    done={"queued": "is taken from its worker and queued again", "cancelled": "is cancelled"},
    apply=lambda store, ids, _, reason: store.revoke(ids, reason),
    danger=True,
)
RUN_ACTIONS: Final[Mapping[RunActionName, RunAction]] = {**BULK_ACTIONS, "release": RELEASE}
DISCARD_AND_REPLAY: Final = RunAction(
    ("discard", "replay"),
    takes=("dead",),
    effect="It is discarded: it moves to the history. A new run is created from it, due now. Its steps and effects"
    " happen again, but for effects that happen once for ever.",
    done={"queued": "is discarded, and replayed"},
    apply=lambda store, ids, payload, reason: store.discard_and_replay(ids, payload, reason),
)
