"""Plans, declares and shows backfills for the command `wakeboard backfill`."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from wakeboard.backfills.rules import FOUND, BackfillRange, TickRules, backfill_range, counts_in_words
from wakeboard.cli.support.output import print_json, print_message
from wakeboard.cli.support.session import query_database, with_database
from wakeboard.cli.support.tables import Column
from wakeboard.errors import WakeboardError
from wakeboard.process.display_zone import in_zone, zone_label
from wakeboard.text.humanize import counted, relative
from wakeboard.text.sanitize import one_line

if TYPE_CHECKING:
    from datetime import datetime

    from rich.text import Text

    from wakeboard.actions.admin_api import DeclaredBackfill
    from wakeboard.backfills.queries import BackfillRow
    from wakeboard.cli.support.session import DatabaseSession

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
    """What a backfill would do. `found`: what is known about each tick. `notes`: sentences without a full stop."""

    definition_id: int
    rules: TickRules
    range: BackfillRange
    found: Mapping[datetime, str]
    again: bool
    notes: Sequence[str]

    def chosen(self, tick: datetime) -> bool:
        """Whether the tick would run."""
        return self.found[tick] in (ALWAYS_RUN | RUN_AGAIN if self.again else ALWAYS_RUN)

    @property
    def runs(self) -> int:
        """How many ticks would run."""
        return sum(map(self.chosen, self.found))

    @property
    def counts(self) -> dict[str, int]:
        """How many ticks are in each state."""
        return {name: count for name in FOUND if (count := list(self.found.values()).count(name))}

    def as_json(self) -> dict[str, Any]:
        """The output of --dry-run --json."""
        ticks = [{"tick": tick, "found": found, "runs": self.chosen(tick)} for tick, found in self.found.items()]
        return {
            "schedule": self.rules.name,
            "range_begin": self.range.begin,
            "range_end": self.range.end,
            "runs": self.runs,
            "found": self.counts,
            "ticks": ticks,
            "notes": list(self.notes),
        }


# -- declaring ---------------------------------------------------------------------------------------------------------


async def plan(session: DatabaseSession, schedule: str, first: str, last: str, *, again: bool) -> Planned:
    """What a backfill of this range would do. Raises WakeboardError."""
    from wakeboard.backfills.queries import history_begins
    from wakeboard.cli.support.lookup import find_schedule, no_longer_there
    from wakeboard.views.queries.schedule_page import schedule_row

    known = await find_schedule(session.listings, schedule, include_removed=True)
    if known.removed:
        raise WakeboardError(f"{known.short} was removed; apply it again, or write another schedule.")
    row = await schedule_row(session.conn, known.id, None)
    if row is None:
        raise no_longer_there(known)
    rules = TickRules(known.short, row["cron_fields"], row["time_zone"], row["dst_gap"], row["dst_overlap"])
    wanted = backfill_range(rules, first, last, session.now)
    found = await session.store.plan_backfill(known.id, wanted.ticks)
    notes: list[str] = []
    if wanted.shortened:
        notes.append(
            f"the range ends in the future; the ticks up to now are meant: {in_zone(wanted.end):%Y-%m-%d %H:%M}"
        )
    begins = await history_begins(session.conn, known.id)
    if begins is not None and any(tick < begins and what == "new" for tick, what in found.items()):
        notes.append(
            f"the history begins at {in_zone(begins):%Y-%m-%d %H:%M}; ticks before may have run, and run once more"
        )
    return Planned(definition_id=known.id, rules=rules, range=wanted, found=found, again=again, notes=notes)


async def declare(session: DatabaseSession, planned: Planned, at_once: int, reason: str) -> DeclaredBackfill:
    """Declares the backfill. Raises NoTickLeft."""
    made = await session.store.create_backfill(
        planned.definition_id, planned.range, at_once=at_once, again=planned.again, reason=reason
    )
    if made.id is None:
        raise NoTickLeft(planned.rules.name, made.found)
    return made


def declared_message(planned: Planned, made: DeclaredBackfill) -> str:
    """What was declared, what was left alone, and how to watch it."""
    runs = ALWAYS_RUN | RUN_AGAIN if planned.again else ALWAYS_RUN
    left = {name: count for name, count in made.found.items() if name not in runs}
    others = f" Left alone: {counts_in_words(left)}." if left else ""
    return (
        f"backfill {made.id}: {counted(made.total, 'tick')} of {planned.rules.name}.{others}"
        f" `wakeboard backfill {made.id} --watch` shows how far it is."
    )


def preview_lines(planned: Planned) -> list[Text]:
    """The counts, and the first ticks with what is known about them."""
    from rich.text import Text

    from wakeboard.cli.support.tables import table, terminal_width
    from wakeboard.ticks.upcoming_ticks import local_time

    zone = planned.rules.time_zone
    rows = [
        [
            f"{(local := local_time(zone, tick)):%a %Y-%m-%d %H:%M} {local.isoformat()[-6:]}",
            FOUND[found],
            "runs" if planned.chosen(tick) else "left alone",
        ]
        for tick, found in list(planned.found.items())[:TICKS_SHOWN]
    ]
    lines = table((Column("TICK"), Column("STATE", shrinks=True), Column("BACKFILL")), rows, terminal_width())
    more = len(planned.found) - TICKS_SHOWN
    total = f"{counted(len(planned.found), 'tick')}: {counts_in_words(planned.counts)}"
    return [Text(total), *lines, *([Text(f"… and {counted(more, 'other tick')}")] if more > 0 else [])]


# -- showing -----------------------------------------------------------------------------------------------------------


async def find_backfill(session: DatabaseSession, number: int) -> BackfillRow:
    """The backfill with this number. Raises WakeboardError."""
    from wakeboard.backfills.queries import backfill

    found = await backfill(session.conn, number)
    if found is None:
        raise WakeboardError(f"there is no backfill {number}: `wakeboard backfill` lists them.")
    return found


def print_backfills(schedule: str | None, count: int, as_json: bool) -> None:
    """Lists the newest backfills, of one schedule or of all."""

    async def query(session: DatabaseSession) -> list[BackfillRow]:
        from wakeboard.backfills.queries import backfills
        from wakeboard.cli.support.lookup import find_schedule

        known = await find_schedule(session.listings, schedule, include_removed=True) if schedule is not None else None
        return await backfills(session.conn, count, definition_id=known.id if known else None)

    rows, now = query_database(query)
    _print_rows(rows, now, as_json)
    if not rows and not as_json:
        print_message("there are no backfills yet." if schedule is None else f"{schedule} has no backfills yet.")


def print_backfill(number: int, as_json: bool) -> None:
    """Shows one backfill."""
    row, now = query_database(lambda session: find_backfill(session, number))
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

    async def follow(session: DatabaseSession) -> BackfillRow:
        printed = ""
        while True:
            row = await find_backfill(session, number)
            line = f"{row.progress}{'' if row.state == 'running' else f', {row.state}'}"
            if line != printed and not as_json:
                print_message(f"{line}.")
            printed = line
            if not row.unfinished:
                return row
            await asyncio.sleep(WATCH_EVERY_S)

    row = with_database(follow)
    if as_json:
        print_json(row)
    return int(bool(row.dead) or row.state == "cancelled")
