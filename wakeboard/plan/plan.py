"""The plan: what differs between two states of declared schedules in the next days, and what is wrong with the new one.

`wakeboard plan` shows it, and `wakeboard check FILES` its findings, compared with nothing. It computes ticks with the
functions of the scheduler, and pile-ups with those of the board's calendar, so that they cannot disagree.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from wakeboard.plan.findings import findings
from wakeboard.plan.rules.changes import ScheduleChange, TickChange, schedule_changes
from wakeboard.plan.rules.comparison import Comparison
from wakeboard.ticks.ticks import moment_of, second_after

if TYPE_CHECKING:
    from datetime import datetime

    from wakeboard.health.findings import Finding
    from wakeboard.plan.rules.state import State, StateTicks

DAYS: Final = 30
_DAY: Final = 86_400  # seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan(TickChange):
    """What a change does to the ticks from `begin` (a whole minute) on, before `end`, and what is wrong.

    `before` and `after`: the names of the states. The numbers are those of all schedules together; `schedules` has
    those that differ, and `unchanged` counts the others. Both leave out the schedules whose declaration is wrong in one
    of the states, and those that run after them: `not_compared` counts these. `findings`: as of `wakeboard check`; they
    name what is wrong.
    """

    before: str
    after: str
    begin: datetime
    end: datetime
    unchanged: int
    not_compared: int
    schedules: list[ScheduleChange]
    findings: list[Finding]


def plan(before: State, after: State, since: datetime, days: int) -> Plan:
    """The plan for this number of days from the first whole minute on that is not before `since`."""
    begin = -(-(second_after(since) - (since.microsecond == 0)) // 60) * 60
    compared = Comparison(before, after, begin, begin + days * _DAY)
    changes = list(schedule_changes(compared))
    return Plan(
        before=before.name,
        after=after.name,
        begin=moment_of(begin),
        end=moment_of(compared.end),
        ticks_before=_count(compared, before, compared.old),
        ticks_after=_count(compared, after, compared.new),
        gained=sum(each.gained for each in changes),
        lost=sum(each.lost for each in changes),
        moved=sum(each.moved for each in changes),
        unchanged=len(after.schedules.keys() - compared.unknown) - sum(each.change != "removed" for each in changes),
        not_compared=len(compared.unknown),
        schedules=changes,
        findings=findings(compared),
    )


def _count(compared: Comparison, state: State, ticks: StateTicks) -> int:
    return sum(ticks.count(key) for key in state.schedules.keys() - compared.unknown)
