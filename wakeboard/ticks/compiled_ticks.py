"""What decides the ticks of a schedule, as users write it, compiled, and as the text that the database stores.

`schedule` is a cron expression, `every 90m` or `at 2026-12-01T08:00:00Z`; startsAt and endsAt bound it. Compiled:

    1 1 100 fffffffe 1ffe 2 - -                  a cron expression (`CronFields.to_text`)
    every 5400 0                                 an interval and its anchor, in seconds since 1970
    at 1796112000                                one tick
    every 5400 1796112000 from=1796112000 until=1798704000

An interval is counted from startsAt, or from the beginning of 1970 (UTC): no edit, restart or clock change moves it.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from wakeboard.errors import InvalidSchedule
from wakeboard.text.durations import parse_duration
from wakeboard.text.sanitize import shortened
from wakeboard.ticks.compiled_cron import CronFields
from wakeboard.ticks.dst_ticks import DstTicks, Gap, Overlap
from wakeboard.ticks.interval_ticks import IntervalTicks, SingleTick
from wakeboard.ticks.ticks import Bounds

if TYPE_CHECKING:
    from wakeboard.ticks.ticks import Ticks

EVERY: Final = "every "
AT: Final = "at "
LONGEST_INTERVAL: Final = 366 * 86_400  # seconds
LAST_YEAR: Final = 2099  # of a moment: the database takes no next tick that is more than 100 years away
MOMENTS: Final = range(int(datetime(LAST_YEAR + 1, 1, 1, tzinfo=UTC).timestamp()))  # since 1970
_FIELDS: Final = {"from": "first", "until": "last"}  # of Bounds
_BOUND: Final = re.compile(r" (from|until)=([0-9]{1,12})")


def utc_text(moment: datetime) -> str:
    """A moment in UTC: "2026-12-01T08:00:00Z". Parts of a second are dropped."""
    return f"{moment.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"


def compile_ticks(
    schedule: str, *, name: str, starts_at: datetime | None = None, ends_at: datetime | None = None
) -> str:
    """The compiled text. `name`: namespace/name of the schedule, for `H`. Raises InvalidSchedule, in one sentence."""
    first = None if starts_at is None else -int(-starts_at.timestamp() // 1)
    last = None if ends_at is None else int(ends_at.timestamp() // 1)
    if schedule.startswith(EVERY):
        seconds = parse_duration(schedule.removeprefix(EVERY))
        if seconds is None or seconds > LONGEST_INTERVAL:
            raise InvalidSchedule(
                f'schedule is "{shortened(schedule, 100)}"; write an interval from 1s to 366d, for example every 90m'
            )
        text = f"{EVERY}{seconds} {first or 0}"
    elif schedule.startswith(AT):
        text = f"{AT}{_instant(schedule)}"
    else:
        from wakeboard.ticks.cron_parser import cron_text  # late: it imports croniter

        text = cron_text(schedule, name=name)
    if any(bound not in MOMENTS for bound in (first, last) if bound is not None):
        raise InvalidSchedule(f"startsAt and endsAt are times from 1970 to {LAST_YEAR}; write others")
    return text + (f" from={first}" if first is not None else "") + (f" until={last}" if last is not None else "")


def compiled_or_none(
    schedule: str, *, name: str, starts_at: datetime | None = None, ends_at: datetime | None = None
) -> str | None:
    """What the scheduler will store of a schedule that it has not seen yet; None: it will refuse it."""
    try:
        return compile_ticks(schedule, name=name, starts_at=starts_at, ends_at=ends_at)
    except InvalidSchedule:
        return None


def _instant(schedule: str) -> int:
    try:
        moment = datetime.fromisoformat(schedule.removeprefix(AT))
    except ValueError:
        moment = None
    if moment is None or moment.tzinfo is None or int(moment.timestamp() // 1) not in MOMENTS:
        raise InvalidSchedule(
            f'schedule is "{shortened(schedule, 100)}"; write a time with an offset up to {LAST_YEAR}, for example'
            " at 2026-12-01T08:00:00Z"
        )
    return int(moment.timestamp() // 1)


@lru_cache(maxsize=16_384)
def ticks_for(compiled: str, zone: str, gap: Gap, overlap: Overlap) -> Ticks:
    """The ticks of a stored schedule, cached by its arguments.

    Raises InvalidSchedule when the text is not one of `compile_ticks`, or the zone is not known.
    """
    kind, bounds = _split(compiled)
    word, *numbers = kind.split(" ")
    try:
        match word:
            case "every":
                every, anchor = map(int, numbers)
                return IntervalTicks(every, anchor, zone, bounds)
            case "at":
                (at,) = map(int, numbers)
                return SingleTick(at, zone, bounds)
            case _:
                return DstTicks(CronFields.from_text(kind), zone, gap, overlap, bounds)
    except ValueError:
        raise InvalidSchedule(
            f'cron_fields "{compiled[:80]}" were not written by this version of wakeboard; apply the schedule again'
        ) from None


def _split(compiled: str) -> tuple[str, Bounds]:
    found = {_FIELDS[name]: int(number) for name, number in _BOUND.findall(compiled)}
    return _BOUND.sub("", compiled), Bounds(**found)
