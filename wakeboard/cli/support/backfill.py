"""Plans, declares and shows backfills for the command `wakeboard backfill`."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from wakeboard.backfills.rules import FOUND, counts_in_words
from wakeboard.cli.support.output import print_json, print_message
from wakeboard.cli.support.session import query_store, with_session
from wakeboard.cli.support.tables import Column
from wakeboard.errors import WakeboardError
from wakeboard.process.display_zone import in_zone, zone_label
from wakeboard.text.humanize import counted, relative
from wakeboard.text.sanitize import one_line

if TYPE_CHECKING:
    from datetime import datetime

    from rich.text import Text

    from wakeboard.backfills.rules import BackfillPlan, BackfillRow, DeclaredBackfill
    from wakeboard.cli.support.session import CommandSession

TICKS_SHOWN: Final = 10
WATCH_EVERY_S: Final = 1.0
ALWAYS_RUN: Final = frozenset({"new", "skipped"})
RUN_AGAIN: Final = frozenset({"dead", "ran", "discarded"})


class NoTickLeft(WakeboardError):
    """No tick of the range is left to run. `found`: how many are in each state."""

    def __init__(self, name: str, found: Mapping[str, int]) -> None:
        super().__init__(
            f"no tick of {name} is left to run: {counts_in_words(found)}"
            + ("; add --again to run the ticks that have run" if RUN_AGAIN & found.keys() else "")
        )
        self.found = dict(found)


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """What a backfill of a schedule would do. `again`: also to ticks that have run."""

    definition_id: int
    plan: BackfillPlan
    again: bool

    def chosen(self, found: str) -> bool:
        """Whether a tick of which this is known would run."""
        return found in (ALWAYS_RUN | RUN_AGAIN if self.again else ALWAYS_RUN)

    @property
    def runs(self) -> int:
        """How many ticks would run."""
        return sum(self.chosen(each.found) for each in self.plan.ticks)

    @property
    def counts(self) -> dict[str, int]:
        """How many ticks are in each state."""
        known = [each.found for each in self.plan.ticks]
        return {name: count for name in FOUND if (count := known.count(name))}

    @property
    def notes(self) -> list[str]:
        """What a user should know before, in sentences without a full stop."""
        notes: list[str] = []
        if self.plan.shortened:
            end = f"{in_zone(self.plan.range_end):%Y-%m-%d %H:%M}"
            notes.append(f"the range ends in the future; the ticks up to now are meant: {end}")
        begins = self.plan.history_begins
        if begins is not None and any(each.tick < begins and each.found == "new" for each in self.plan.ticks):
            shown = f"{in_zone(begins):%Y-%m-%d %H:%M}"
            notes.append(f"the history begins at {shown}; ticks before may have run, and run once more")
        return notes

    def as_json(self) -> dict[str, Any]:
        """The output of --dry-run --json."""
        return {
            "schedule": self.plan.schedule,
            "range_begin": self.plan.range_begin,
            "range_end": self.plan.range_end,
            "runs": self.runs,
            "found": self.counts,
            "ticks": [
                {"tick": each.tick, "found": each.found, "runs": self.chosen(each.found)} for each in self.plan.ticks
            ],
            "notes": self.notes,
        }


# -- declaring ---------------------------------------------------------------------------------------------------------


async def plan(session: CommandSession, schedule: str, first: str, last: str, *, again: bool) -> Planned:
    """What a backfill of this range would do. Raises WakeboardError."""
    from wakeboard.cli.support.lookup import find_schedule, no_longer_there

    known = await find_schedule(session.listings, schedule, include_removed=True)
    if known.removed:
        raise WakeboardError(f"{known.short} was removed; apply it again, or write another schedule.")
    found = await session.listings.backfill_plan(known.id, first, last)
    if found is None:
        raise no_longer_there(known)
    return Planned(definition_id=known.id, plan=found, again=again)


async def declare(session: CommandSession, planned: Planned, at_once: int, reason: str) -> DeclaredBackfill:
    """Declares the backfill. Raises NoTickLeft."""
    if not planned.runs:
        raise NoTickLeft(planned.plan.schedule, planned.counts)
    made = await session.store.create_backfill(
        planned.definition_id, planned.plan.range, at_once=at_once, again=planned.again, reason=reason
    )
    if made.id is None:  # others have declared it meanwhile
        raise NoTickLeft(planned.plan.schedule, made.found)
    return made if made.found else made._replace(found=planned.counts)


def declared_message(planned: Planned, made: DeclaredBackfill) -> str:
    """What was declared, what was left alone, and how to watch it."""
    runs = ALWAYS_RUN | RUN_AGAIN if planned.again else ALWAYS_RUN
    left = {name: count for name, count in made.found.items() if name not in runs}
    others = f" Left alone: {counts_in_words(left)}." if left else ""
    return (
        f"backfill {made.id}: {counted(made.total, 'tick')} of {planned.plan.schedule}.{others}"
        f" `wakeboard backfill {made.id} --watch` shows how far it is."
    )


def preview_lines(planned: Planned) -> list[Text]:
    """The counts, and the first ticks with what is known about them."""
    from rich.text import Text

    from wakeboard.cli.support.tables import table, terminal_width
    from wakeboard.ticks.upcoming_ticks import local_time

    zone = planned.plan.time_zone
    rows = [
        [
            f"{(local := local_time(zone, each.tick)):%a %Y-%m-%d %H:%M} {local.isoformat()[-6:]}",
            FOUND[each.found],
            "runs" if planned.chosen(each.found) else "left alone",
        ]
        for each in planned.plan.ticks[:TICKS_SHOWN]
    ]
    lines = table((Column("TICK"), Column("STATE", shrinks=True), Column("BACKFILL")), rows, terminal_width())
    more = len(planned.plan.ticks) - TICKS_SHOWN
    total = f"{counted(len(planned.plan.ticks), 'tick')}: {counts_in_words(planned.counts)}"
    return [Text(total), *lines, *([Text(f"… and {counted(more, 'other tick')}")] if more > 0 else [])]


# -- showing -----------------------------------------------------------------------------------------------------------


async def find_backfill(session: CommandSession, number: int) -> BackfillRow:
    """The backfill with this number. Raises WakeboardError."""
    found = await session.listings.backfill(number)
    if found is None:
        raise WakeboardError(f"there is no backfill {number}: `wakeboard backfill` lists them.")
    return found


def print_backfills(schedule: str | None, count: int, as_json: bool) -> None:
    """Lists the newest backfills, of one schedule or of all."""

    async def query(session: CommandSession) -> list[BackfillRow]:
        from wakeboard.cli.support.lookup import find_schedule

        known = await find_schedule(session.listings, schedule, include_removed=True) if schedule is not None else None
        return await session.listings.backfills(count, known.id if known else None)

    rows, now = query_store(query)
    _print_rows(rows, now, as_json)
    if not rows and not as_json:
        print_message("there are no backfills yet." if schedule is None else f"{schedule} has no backfills yet.")


def print_backfill(number: int, as_json: bool) -> None:
    """Shows one backfill."""
    row, now = query_store(lambda session: find_backfill(session, number))
    if as_json:
        print_json(row)
    else:
        _print_rows([row], now, as_json)


def _print_rows(rows: Sequence[BackfillRow], now: datetime, as_json: bool) -> None:
    from wakeboard.cli.support.tables import print_table

    if as_json:
        print_json(rows)
    elif rows:
        print_table(_columns(), [list(_cells(row, now)) for row in rows])


def _columns() -> list[Column]:
    zone = zone_label()
    range_and_state = (Column(name) for name in (f"FROM ({zone})", f"TO ({zone})", "STATE", "PROGRESS", "CREATED"))
    who_and_why = Column("BY", shrinks=True), Column("REASON", shrinks=True)
    return [Column("ID", right=True), Column("SCHEDULE", shrinks=True), *range_and_state, *who_and_why]


def _cells(row: BackfillRow, now: datetime) -> Iterator[str]:
    yield str(row.id)
    yield one_line(row.schedule)
    yield f"{in_zone(row.range_begin):%Y-%m-%d %H:%M}"
    yield f"{in_zone(row.range_end):%Y-%m-%d %H:%M}"
    yield row.state
    yield row.progress
    yield relative(row.created_at, now)
    yield one_line(row.actor)
    yield one_line(row.reason)


def watch(number: int, as_json: bool) -> int:
    """Prints how far the backfill is, each time that changes, until it ends. Returns the exit code."""

    async def follow(session: CommandSession) -> BackfillRow:
        printed = ""
        while True:
            row = await find_backfill(session, number)
            line = f"{row.progress}{'' if row.state == 'running' else f', {row.state}'}"
            if line != printed and not as_json:
                print_message(f"{line}.")
            printed = line
            if not row.unfinished:
                return row
            await asyncio.sleep(max(WATCH_EVERY_S, session.listings.poll_s))

    row = with_session(follow)
    if as_json:
        print_json(row)
    return int(bool(row.dead) or row.state == "cancelled")
