"""A fact: one sentence about a run or a schedule, with a name for programs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from wakeboard.text.humanize import counted
from wakeboard.text.sanitize import one_line

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import datetime

IDS_SHOWN = 5
_PREPOSITIONS = frozenset({"before", "from", "of", "since", "to", "until"})


@dataclass(frozen=True, slots=True)
class Fact:
    """A sentence. `moment`: shown in the middle, where `before` ends and `after` begins. Stored texts are one line."""

    name: str
    before: str
    moment: datetime | None = None
    after: str = ""

    @property
    def names_moment(self) -> bool:
        """Whether the sentence needs the time itself: "since 5 min ago" and "until in 2 h" are not English."""
        return self.before.rpartition(" ")[2] in _PREPOSITIONS

    def text(self, show: Callable[[datetime], str]) -> str:
        """The sentence with its moment as `show` writes it."""
        moment = f" {show(self.moment)}" if self.moment else ""
        return f"{self.before}{moment}{self.after}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Pause:
    """A pause. `kind`: all, queue or schedule. `name`: the name of the queue or schedule, or null.

    `actor`: who paused; null if the audit row is older than its retention. `until`: when it ends by itself, or null.
    """

    kind: str
    name: str | None
    reason: str
    paused_at: datetime
    actor: str | None = None
    until: datetime | None = None

    @property
    def label(self) -> str:
        """For users: all, queue NAME or schedule NAMESPACE/NAME."""
        return f"{self.kind} {self.name}" if self.name else self.kind


def pause_fact(pause: Pause, schedule: str) -> Fact:
    """What is paused, by whom, until or since when and why. `schedule`: how the sentence calls the schedule."""
    what = {"all": "Everything", "queue": f"The queue {one_line(pause.name or '')}", "schedule": schedule}[pause.kind]
    by = f" by {one_line(pause.actor)}" if pause.actor else ""
    reason = f": {one_line(pause.reason).rstrip('.')}" if pause.reason else ""
    when = "until" if pause.until else "since"
    return Fact("paused", f"{what} is paused{by} {when}", pause.until or pause.paused_at, f"{reason}.")


def unserved_fact(
    queue: str, job_type: str, *, queue_served: bool, type_served: bool, meant: str | None
) -> Fact | None:
    """That no worker serves the queue, or that none of them has the job type; None: a worker has both.

    `meant`: a similar job type, which workers of the queue know.
    """
    if not queue_served:
        return Fact("no_worker", f"No worker has served the queue {one_line(queue)} in the last 10 minutes.")
    if not type_served:
        types = f"a handler for {one_line(job_type)} in the last 10 minutes.{did_you_mean(meant)}"
        return Fact("unknown_job_type", f"No worker of the queue {one_line(queue)} has had {types}")
    return None


def did_you_mean(name: str | None) -> str:
    """A question that follows a sentence; empty if there is no similar name."""
    return f" Did you mean {one_line(name)}?" if name else ""


def listed_runs(ids: Sequence[int], count: int) -> str:
    """The first of `count` runs: "run 12", "runs 12, 15", "runs 1, 2, 3, 4, 5 and 20 more"."""
    shown = sorted(ids)[:IDS_SHOWN]
    more = f" and {count - len(shown):,} more" if count > len(shown) else ""
    return f"{'run' if count == 1 else 'runs'} {', '.join(map(str, shown))}{more}"


def skipped_fact(count: int, first: datetime, last: datetime | None, reason: str) -> Fact:
    """That ticks were skipped, and why. `last`: of several ticks the last one."""
    why = f": {reason}" if reason else ""
    if count == 1:
        return Fact("skipped", "The tick of", first, f" was skipped{why}.")
    return Fact("skipped", f"{counted(count, 'tick')} up to", last or first, f" were skipped{why}.")
