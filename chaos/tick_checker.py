"""Checks that each tick between a schedule's first and last became a run or was recorded as skipped, exactly once.

The schedules of a campaign tick every minute or every two minutes, those from code at an interval since 1970, so this
module computes the expected ticks without the product's code.
"""

from __future__ import annotations

from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final

from chaos.results import Violation

if TYPE_CHECKING:
    from collections.abc import Iterator

    import psycopg

BEHIND_S: Final = 90  # a schedule whose next tick is older is stuck

_SCHEDULES: Final = """
select def.id, extract(epoch from first.at)::bigint, first.every_s, extract(epoch from def.last_tick_at)::bigint,
       extract(epoch from def.next_run_at)::bigint, extract(epoch from now())::bigint, def.schedule_error
  from wakeboard.job_definitions as def join chaos.first_ticks as first on first.definition_id = def.id
 order by def.id
"""
_GENERATIONS: Final = """
select definition_id, every_s, extract(epoch from written_at)::float8, extract(epoch from last_tick_at)::float8,
       continues, extract(epoch from ended_at)::float8, was_removed, extract(epoch from done_until)::float8,
       extract(epoch from reached)::float8, was_seen
  from chaos.generations order by 1, generation
"""
_TICKS: Final = """
select definition_id, extract(epoch from scheduled_for)::bigint,
       extract(epoch from coalesce(skipped_until, scheduled_for))::bigint, coalesce(skipped_count, 1), status::text
  from wakeboard.all_runs where trigger = 'tick' order by 1, 2
"""


def check_ticks(conn: psycopg.Connection[Any]) -> list[Violation]:
    """Every tick that is lost or doubled, and every schedule that is stuck."""
    ranges: dict[int, list[tuple[int, int, int]]] = {}
    for definition, since, until, count, _ in conn.execute(_TICKS.encode()).fetchall():
        ranges.setdefault(definition, []).append((since, until, count))
    found: list[Violation] = []
    for definition, first, every_s, last, cursor, now, error in conn.execute(_SCHEDULES.encode()).fetchall():
        found += _check_one(definition, first, every_s, last, ranges.get(definition, []))
        expected = last + every_s if last > 0 else first
        if cursor != expected or cursor < now - BEHIND_S or error:
            detail = f"schedule {definition}: cursor {cursor}, last tick {last}, now {now}, {error}"
            found.append(Violation("lost", "the cursor is at the next tick", detail))
    for definition, generations in groupby(conn.execute(_GENERATIONS.encode()).fetchall(), key=itemgetter(0)):
        found += _check_from_code(definition, [row[1:] for row in generations], ranges.get(definition, []))
    return found


def _check_from_code(
    definition: int, generations: list[tuple[Any, ...]], ranges: list[tuple[int, int, int]]
) -> Iterator[Violation]:
    """A removal drops what is due behind the next tick, which there is after an outage; an edit drops nothing."""
    expected, begins_s = set[int](), 0.0
    for every_s, written, last_tick, continues, ended, was_removed, done_until, reached, was_seen in generations:
        if ended is None or reached is None or reached < ended - BEHIND_S:
            yield Violation("lost", "the cursor is at the next tick", f"schedule {definition}: {reached}, {ended}")
            return
        begins_s = max(last_tick, begins_s if continues else written)
        expected |= _moments(every_s, begins_s, max(ended, done_until))
        if was_removed:
            until = max(done_until, reached if reached <= ended and was_seen else reached - 0.000001)
            expected = {tick for tick in expected if tick <= until}
    yield from _compare(definition, expected, ranges)


def _moments(every_s: int, after: float, until: float) -> set[int]:
    return set(range(int(after // every_s + 1) * every_s, int(until) + 1, every_s))


def _check_one(
    definition: int, first: int, every_s: int, last: int, ranges: list[tuple[int, int, int]]
) -> Iterator[Violation]:
    expected = set(range(first, last + 1, every_s)) if last > 0 else set[int]()
    yield from _compare(definition, expected, ranges)


def _compare(definition: int, expected: set[int], ranges: list[tuple[int, int, int]]) -> Iterator[Violation]:
    """A skipped range has its count of ticks, at one interval. A wrong one lacks a tick, or has one too many."""
    seen: set[int] = set()
    for since, until, count in ranges:
        step, rest = divmod(until - since, max(count - 1, 1))
        ticks = set(range(since, until + 1, step or 1))
        if rest or len(ticks) != count:
            yield Violation(
                "lost", "a skipped range counts its ticks", f"schedule {definition}: {since} to {until}: {count}"
            )
        if twice := seen & ticks:
            yield Violation("doubled", "no tick twice", f"schedule {definition}: {sorted(twice)[:5]}")
        seen |= ticks
    if lost := expected - seen:
        yield Violation("lost", "no tick is lost", f"schedule {definition}: {sorted(lost)[:5]} of {len(expected)}")
    if unexpected := seen - expected:
        yield Violation(
            "doubled", "a tick is a moment of its schedule", f"schedule {definition}: {sorted(unexpected)[:5]}"
        )
