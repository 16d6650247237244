"""Ownership: which database runs a JobSchedule, where an operator finds one that another database has written.

A status is written by whoever has the right to, so `status.installation` alone decides nothing:

    this database has a live row for this very object (uid)          ours, whatever the status says
    the status names this installation, or none                      ours
    the status names another one, and this very release wrote it     ours: the release has been given another database
    WAKEBOARD_ADOPT                                                  ours
    otherwise                                                        the other installation's

Of the other installation's schedules, one is asked: its status is written once, as not Ready. An operator that runs it
repairs that within a second, and from then on all of them are left alone. If no answer comes, nobody runs them: each
says so in its status, in an event and in the metrics, with what to type.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from wakeboard_operator.problems import FOREIGN, Problem

if TYPE_CHECKING:
    from collections.abc import Iterable

    from wakeboard.store.board import KnownDefinition
    from wakeboard_operator.resources import Key, Resource

ANSWER_WITHIN_S: Final = 15.0  # of an operator that runs: its stream shows a foreign write in well under a second
ASK_AGAIN_S: Final = 3600.0  # an installation that has answered


class Ownership:
    """What belongs to one installation. Moments are monotonic seconds."""

    def __init__(self, installation: str, release: str, *, adopt: bool) -> None:
        self._installation, self._release, self._adopt = installation, release, adopt
        self._rows: dict[Key, str] = {}  # the uid of each live row of this database
        self._claims: dict[Key, str] = {}  # schedules of other installations, and which
        self._taken: Counter[str] = Counter()
        self.others = Others()

    def rows(self, known: Iterable[KnownDefinition]) -> None:
        """What this database has."""
        self._rows = {(each.namespace, each.name): each.uid for each in known if not each.removed}

    def problem(self, found: Resource) -> Problem | None:
        """Why this operator leaves the schedule alone; None: it is ours."""
        theirs = self._owner(found)
        if theirs is None:
            self._claims.pop(found.key, None)
            return None
        self._claims[found.key] = theirs
        return Problem(
            FOREIGN,
            f"It was run by another database (installation {theirs}), and this operator stands before installation"
            f" {self._installation}: it does not run here. If that database is gone or is not to run it any more, take"
            " it over: helm upgrade with --set operator.adopt=true (WAKEBOARD_ADOPT=true).",
        )

    def forget(self, key: Key) -> None:
        """The resource is gone."""
        self._claims.pop(key, None)

    def claim(self, key: Key) -> str:
        """The other installation that a schedule belongs to."""
        return self._claims[key]

    def taken_over(self) -> Counter[str]:
        """How many schedules were taken over since the last call, by the installation that ran them."""
        taken, self._taken = self._taken, Counter()
        return taken

    def counts(self) -> dict[str, int]:
        """Schedules of other installations: those whose operator `answers`, and those whose is `silent`."""
        answers = sum(self.others.answers(each) for each in self._claims.values())
        return {"answers": answers, "silent": len(self._claims) - answers}

    def _owner(self, found: Resource) -> str | None:
        """The other installation that it belongs to; None: it is ours."""
        theirs = found.status.get("installation")
        if not theirs or theirs == self._installation or self._rows.get(found.key) == found.uid:
            return None
        if self._adopt or (self._release and found.status.get("release") == self._release):
            self._taken[theirs] += found.key not in self._rows
            return None
        return str(theirs)


class Others:
    """The other installations, and whether an operator of theirs answers."""

    def __init__(self) -> None:
        self._asked: dict[str, tuple[Key, float]] = {}  # the schedule that was asked for, and when
        self._answered: dict[str, float] = {}

    def answers(self, installation: str) -> bool:
        """Whether an operator of this installation has answered lately."""
        return installation in self._answered

    def has_answered(self, installation: str, now: float) -> None:
        """A status that this operator wrote was repaired."""
        self._answered[installation] = now

    def wait_s(self, installation: str, key: Key, now: float) -> float:
        """In how many seconds the status of a schedule of theirs may be written; 0: now."""
        answered_at = self._answered.get(installation)
        if answered_at is not None:
            if now < answered_at + ASK_AGAIN_S:
                return answered_at + ASK_AGAIN_S - now
            del self._answered[installation], self._asked[installation]
        asked, asked_at = self._asked.setdefault(installation, (key, now))
        return 0.0 if asked == key else max(0.0, asked_at + ANSWER_WITHIN_S - now)
