"""Backfills as users see them, and the range of one: which ticks `--from 2026-01-01 --to 2026-02-01` means.

The range begins at the first time and ends before the second one. Dates, and times without an offset, are local times
of the schedule's zone. A local time that does not exist because of a clock change is the first instant after the gap;
one that occurs twice is the first of the two. The ticks are those of the schedule's rules as they are now.

All functions are pure. Their errors are sentences that say what to write.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, TypeAlias

from wakeboard.errors import InvalidSchedule, InvalidValue
from wakeboard.text.humanize import counted
from wakeboard.text.sanitize import one_line

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from wakeboard.ticks.ticks import Ticks

BackfillChange: TypeAlias = Literal["pause", "resume", "cancel"]

MOST_TICKS: Final = 100_000  # of one backfill
CONFIRM_ABOVE: Final = 1000  # runs of one backfill
MOST_AT_ONCE: Final = 1_000_000

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_NAIVE_EPOCH: Final = datetime(1970, 1, 1)  # noqa: DTZ001 - a local time
_JUST_BEFORE: Final = timedelta(microseconds=1)
_LONGEST_OFFSET: Final = 26 * 3600  # seconds; more than any zone's distance from UTC
_EXAMPLE: Final = "2026-01-01, 2026-01-01T06:00 (in the schedule's time zone) or 2026-01-01T05:00Z"
_ANNOTATION_EXAMPLE: Final = "2026-01-01/2026-02-01, and after it, if you need them, the words at-once=2, again and yes"
FOUND: Final = {  # what `plan_backfill` knows about a tick
    "new": "has not run",
    "skipped": "was skipped",
    "ran": "has run",
    "dead": "has a dead run",
    "discarded": "has a dead run that was discarded",
    "unfinished": "has an unfinished run",
    "waiting": "waits in another backfill",
    "scheduled": "is left to the schedule",
}
_PLURALS: Final = {
    "new": "have not run",
    "skipped": "were skipped",
    "ran": "have run",
    "dead": "have a dead run",
    "discarded": "have a dead run that was discarded",
    "unfinished": "have an unfinished run",
    "waiting": "wait in another backfill",
    "scheduled": "are left to the schedule",
}


@dataclass(frozen=True, slots=True)
class TickRules:
    """What decides the ticks of a stored schedule. `name`: namespace/name. `cron_fields` None: it has no ticks."""

    name: str
    cron_fields: str | None
    time_zone: str
    dst_gap: str
    dst_overlap: str


@dataclass(frozen=True, slots=True)
class BackfillRange:
    """The ticks from `begin` on that are before `end`, in UTC, oldest first. `shortened`: the end was in the future."""

    begin: datetime
    end: datetime
    ticks: Sequence[datetime]
    shortened: bool = False


@dataclass(frozen=True, slots=True)
class BackfillWords:
    """What the annotation wakeboard.dev/backfill says. `confirmed`: also more than 1,000 runs are wanted."""

    first: str
    last: str
    at_once: int = 1
    again: bool = False
    confirmed: bool = False


def backfill_range(rules: TickRules, first: str, last: str, now: datetime) -> BackfillRange:
    """The ticks that a user means. `now`: the database's clock. Raises InvalidValue."""
    if rules.cron_fields is None:
        raise InvalidValue(
            f"{rules.name} has no ticks of its own: backfill the schedules that it runs"
            f" after, or create a run with `wakeboard run-now {rules.name}`"
        )
    try:
        from wakeboard.ticks.compiled_ticks import ticks_for  # late: it reads time zones

        tick_schedule = ticks_for(rules.cron_fields, rules.time_zone, rules.dst_gap, rules.dst_overlap)  # pyright: ignore[reportArgumentType]  the table's CHECK guarantees it
    except InvalidSchedule as error:
        raise InvalidValue(f"the ticks of {rules.name} cannot be computed: {error}") from None
    begin, end = _moment(first, tick_schedule.zone), _moment(last, tick_schedule.zone)
    if begin == end:
        raise InvalidValue(
            f"the range from {_shown(first)} to {_shown(last)} is empty, because its end is not part of it; write a"
            " later end"
        )
    if begin > end:
        raise InvalidValue(
            f"the range ends before it begins: from {_shown(first)} to {_shown(last)}; write the earlier time first"
        )
    if begin >= now:
        raise InvalidValue(
            f"the range begins in the future, at {_shown(first)}, and the schedule runs those ticks itself; write a"
            " range of the past"
        )
    cut = min(end, now)
    ticks = _ticks_between(tick_schedule, begin, cut)
    if not ticks:
        raise InvalidValue(
            f"{rules.name} has no tick from {_shown(first)} to {_shown(last)}{'' if end == cut else ' that is due'};"
            " write a longer range"
        )
    return BackfillRange(begin, cut, ticks, shortened=end > now)


def parse_annotation(text: str) -> BackfillWords:
    """The value of the annotation: 2026-01-01/2026-02-01 [at-once=2] [again] [yes]. Raises InvalidValue."""
    span, *words = text.split() or [""]
    first, slash, last = span.partition("/")
    at_once, again, confirmed = 1, False, False
    for word in words:
        name, _, value = word.partition("=")
        if word == "again":
            again = True
        elif word == "yes":
            confirmed = True
        elif name == "at-once" and value.isascii() and value.isdecimal() and 1 <= int(value[:9]) <= MOST_AT_ONCE:
            at_once = int(value[:9])
        else:
            raise InvalidValue(f"{_shown(word)} is not understood; write {_ANNOTATION_EXAMPLE}")
    if not (first and slash and last):
        raise InvalidValue(f"{_shown(text)} is not a range; write {_ANNOTATION_EXAMPLE}")
    return BackfillWords(first, last, at_once, again, confirmed)


def _ticks_between(tick_schedule: Ticks, begin: datetime, end: datetime) -> list[datetime]:
    """The ticks from `begin` on that are before `end`. Raises InvalidValue if there are too many."""
    after, until = begin - _JUST_BEFORE, end - _JUST_BEFORE
    count = tick_schedule.missed(after, until, 0).skipped
    if count > MOST_TICKS:
        raise InvalidValue(
            f"these are {counted(count, 'tick')}, and a backfill has at most {MOST_TICKS:,}; write a shorter range"
        )
    return tick_schedule.upcoming(after, count)


def _moment(text: str, zone: str) -> datetime:
    """The instant that the text names, in UTC. Raises InvalidValue."""
    try:
        given = datetime.fromisoformat(text.strip())
        moment = given.astimezone(UTC) if given.tzinfo else None
    except (ValueError, OverflowError):
        raise InvalidValue(f"{_shown(text)} is neither a date nor a time; write for example {_EXAMPLE}") from None
    if moment is None:
        moment = _of_zone(given, zone) if given >= _NAIVE_EPOCH else datetime.min.replace(tzinfo=UTC)
    if moment < _EPOCH:
        raise InvalidValue(f"{_shown(text)} is before 1970; write a time from 1970-01-01 UTC on")
    return moment


def _of_zone(local: datetime, zone: str) -> datetime:
    """The first instant at which clocks in the zone show `local`, or have passed it."""
    since = local - _NAIVE_EPOCH
    seconds = since.days * 86_400 + since.seconds
    from wakeboard.ticks.ticks import moment_of
    from wakeboard.ticks.zones import periods_from

    for period in periods_from(zone, seconds - _LONGEST_OFFSET):
        instant = seconds - period.offset
        if instant < period.start:  # the clocks jumped over it
            return moment_of(period.start)
        if instant < period.end:
            return moment_of(instant) + timedelta(microseconds=since.microseconds)
    raise InvalidValue(f"{local.isoformat()} is too late; write a time before the year 9999")


def _shown(text: str) -> str:
    return f'"{one_line(text)[:60]}"'


def counts_in_words(found: Mapping[str, int]) -> str:
    """How many ticks are in each state: 28 have not run, 3 were skipped."""
    return ", ".join(
        f"{found[name]:,} {_PLURALS[name] if found[name] > 1 else text}"
        for name, text in FOUND.items()
        if name in found
    )


@dataclass(frozen=True, slots=True)
class BackfilledTicks:
    """How many of the ticks of a skipped row a backfill runs or has run."""

    backfill_id: int
    ticks: int

    @property
    def sentence(self) -> str:
        """For users, without a full stop."""
        return f"{counted(self.ticks, 'tick')} of it in backfill {self.backfill_id}"


# -- rows, whose fields are the keys of `--json` and of the board's API ------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class BackfillRow:
    """A backfill, and how far it is.

    `state`: running, paused, finished or cancelled. `total`: its ticks, of which `waiting` have no run yet, `queued`,
    `running` and `failed` (to be retried) are unfinished, `dead` wait for a retry or a discard, and `done` have ended.
    Of a cancelled one, `waiting` are the ticks that did not run. The ticks are those from `range_begin` on that are
    before `range_end`.
    """

    id: int
    definition_id: int
    schedule: str
    range_begin: datetime
    range_end: datetime
    state: str
    total: int
    waiting: int
    queued: int
    running: int
    failed: int
    dead: int
    done: int
    at_once: int
    again: bool
    reason: str
    actor: str
    source: str
    created_at: datetime
    paused_at: datetime | None
    cancelled_at: datetime | None
    finished_at: datetime | None

    @property
    def unfinished(self) -> int:
        """How many of its ticks will run, as things are."""
        return 0 if self.cancelled_at else self.waiting + self.queued + self.running + self.failed

    @property
    def progress(self) -> str:
        """In words: 12 of 31 done, 1 dead."""
        dead = f", {self.dead:,} dead" if self.dead else ""
        return f"{self.done:,} of {self.total:,} done{dead}"


class DeclaredBackfill(NamedTuple):
    """A new backfill and the number of its runs. `id` None: no tick is left to run.

    `found`: how many ticks were in each state: see `plan_backfill` in docs/sql-functions.md.
    """

    id: int | None
    total: int
    found: dict[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedTick:
    """A tick of the range, and what is known about it: see `plan_backfill` in docs/sql-functions.md."""

    tick: datetime
    found: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BackfillPlan:
    """What is known about the ticks from `range_begin` on that are before `range_end`, oldest first.

    `shortened`: the end was in the future. `history_begins`: ticks before this time may have run, as the history has
    them no longer; null: there are none.
    """

    schedule: str
    time_zone: str
    range_begin: datetime
    range_end: datetime
    shortened: bool
    history_begins: datetime | None
    ticks: Sequence[PlannedTick]

    @property
    def range(self) -> BackfillRange:
        """The range, to declare a backfill of it."""
        return BackfillRange(self.range_begin, self.range_end, [each.tick for each in self.ticks], self.shortened)


def backfill_plan(
    rules: TickRules, wanted: BackfillRange, found: Mapping[datetime, str], history_begins: datetime | None
) -> BackfillPlan:
    """The plan of a range. `found`: of `plan_backfill`."""
    return BackfillPlan(
        schedule=rules.name,
        time_zone=rules.time_zone,
        range_begin=wanted.begin,
        range_end=wanted.end,
        shortened=wanted.shortened,
        history_begins=history_begins,
        ticks=[PlannedTick(tick=tick, found=known) for tick, known in found.items()],
    )
