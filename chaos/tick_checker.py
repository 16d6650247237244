"""Checks that each tick between a schedule's first and last became a run or was recorded as skipped, exactly once.

The schedules of a campaign tick every minute or every two minutes, so this module computes the expected ticks without
the product's code.
"""

from __future__ import annotations

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
    return found


def _check_one(
    definition: int, first: int, every_s: int, last: int, ranges: list[tuple[int, int, int]]
) -> Iterator[Violation]:
    expected = set(range(first, last + 1, every_s)) if last > 0 else set[int]()
    seen: set[int] = set()
    for since, until, count in ranges:
        ticks = set(range(since, until + 1, every_s))
        if len(ticks) != count:
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
