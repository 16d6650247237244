"""The ticks of a schedule whose times SQL has stored or edited, and the scheduler compiles.

Of one that was edited since its last ticks were handled, `due_definitions` gives the times as a JSON array, oldest
first. Each element has the names of the table's columns, and:

    since    of the first one: its ticks are those after this moment
    until    the moment of the edit that ended these times; null: they still count. The next ones begin there

A single moment of an application (`at`) may have passed when it was written: it is due then, if no newer tick was.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from wakeboard.errors import InvalidSchedule
from wakeboard.ticks.compiled_ticks import AT, compile_ticks, ticks_for
from wakeboard.ticks.ticks import Missed, second_after

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from wakeboard.schedules.calls import DueDefinition
    from wakeboard.ticks.ticks import Ticks

_COLUMNS: Final = ("schedule", "time_zone", "dst_gap", "dst_overlap", "starts_at", "ends_at")
_NEVER: Final = datetime(9999, 12, 31, tzinfo=UTC)


class TimesInForce(NamedTuple):
    """Times and when they count: for ticks after `since`, up to and including `until`."""

    ticks: Ticks
    since: datetime
    until: datetime


class EditedTicks:
    """The ticks of periods that do not overlap, and single moments."""

    __slots__ = ("moments", "periods")

    def __init__(self, periods: Sequence[TimesInForce], moments: Iterable[datetime]) -> None:
        self.periods = periods
        self.moments = sorted(moment for moment in set(moments) if not any(map(partial(_has, moment), periods)))

    def next_tick(self, after: datetime) -> datetime | None:
        """The first tick strictly after `after`; None when there is none."""
        ticks = [
            tick
            for ticks, since, until in self.periods
            if until > after and (tick := ticks.next_tick(max(after, since))) is not None and tick <= until
        ]
        return min(ticks + [moment for moment in self.moments if moment > after], default=None)

    def missed(self, after: datetime, until: datetime, newest: int) -> Missed:
        """The ticks after `after`, up to and including `until`: the `newest` in order, those before them counted."""
        found = [
            ticks.missed(max(after, since), min(until, end), newest)
            for ticks, since, end in self.periods
            if max(after, since) < min(until, end)
        ]
        listed = sorted(tick for each in found for tick in each.ticks)
        listed = sorted(listed + [moment for moment in self.moments if after < moment <= until])
        place = max(len(listed) - newest, 0)
        skipped = listed[:place] + [tick for each in found for tick in (each.skipped_first, each.skipped_last) if tick]
        count = place + sum(each.skipped for each in found)
        return Missed(tuple(listed[place:]), count, min(skipped, default=None), max(skipped, default=None))


def compiled_times(due: DueDefinition) -> tuple[str, EditedTicks]:
    """The compiled text of the present times, empty if there are none, and the ticks that wait and those from now on.

    Former times that cannot be computed had no ticks. Raises InvalidSchedule, in one sentence, if the present ones
    cannot.
    """
    times: list[dict[str, Any]]
    if due.schedule is not None and due.schedule.startswith("["):
        times = json.loads(due.schedule)
    else:
        times = [{**{name: getattr(due, name) for name in _COLUMNS}, "until": None, "source": "app"}]
    periods: list[TimesInForce] = []
    moments: list[datetime] = []
    text, since = "", _moment(times[0].get("since")) or due.next_run_at
    for each in times:
        until = _moment(each["until"]) or _NEVER
        text = ""
        if each["schedule"] is not None:
            bounds = {bound: _moment(each[bound]) for bound in ("starts_at", "ends_at")}
            try:
                text = compile_ticks(each["schedule"], name=due.name, **bounds)
                ticks = ticks_for(text, each["time_zone"], each["dst_gap"], each["dst_overlap"])
            except InvalidSchedule:
                if until is _NEVER:
                    raise
                since = until
                continue
            if not each["schedule"].startswith(AT):
                periods.append(TimesInForce(ticks, since, until))
            elif (moment := ticks.next_tick(due.last_tick_at)) and moment <= until:
                moments += [moment] if each.get("source") == "app" or moment > since else []
        since = until
    return text, EditedTicks(periods, moments)


def _has(moment: datetime, period: TimesInForce) -> bool:
    instant = second_after(moment) - 1
    return period.since < moment <= period.until and period.ticks.count(instant, instant + 1) > 0


def _moment(given: datetime | str | None) -> datetime | None:
    return datetime.fromisoformat(given).astimezone(UTC) if isinstance(given, str) else given
