"""What must hold when everything has drained. Reads the tables, the effects, and what the applications were told."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from chaos.applications import LIMITS
from chaos.chaotic_handlers import GOOD
from chaos.results import Violation, bucket
from chaos.tick_checker import check_ticks

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import psycopg

    from chaos.applications import Told
    from chaos.results import Result

SHOWN: Final = 10  # of the rows that break one promise
PROMISES: Final = Path(__file__).with_name("invariants.sql")


def check(conn: psycopg.Connection[Any], told: Told) -> list[Violation]:
    """Every promise that did not hold."""
    found = [
        Violation(sort, promise, ", ".join(map(str, row)))
        for sort, promise, query in promises()
        for row in conn.execute(query.encode(), {"decided": list(told.decided)}).fetchmany(SHOWN)
    ]
    found += check_ticks(conn)
    found += _first(_effects(conn))
    found += _first(_told(conn, told))
    found += _first(_limits_by_history(conn))
    return found


def promises() -> list[tuple[str, str, str]]:
    """(sort, promise, query) of each one in invariants.sql."""
    text = PROMISES.read_text(encoding="utf-8")
    return [
        (sort, promise, query.replace("%'", "%%'"))  # psycopg reads % as a place for a value
        for sort, promise, query in re.findall(r"^-- (lost|doubled|other): (.+)\n([^;]+);", text, re.MULTILINE)
    ]


def _first(violations: Iterable[Violation]) -> list[Violation]:
    """The first few of each promise."""
    seen: Counter[str] = Counter()
    kept: list[Violation] = []
    for violation in violations:
        seen[violation.promise] += 1
        if seen[violation.promise] <= SHOWN:
            kept.append(violation)
    return kept


def _effects(conn: psycopg.Connection[Any]) -> Iterator[Violation]:
    """Each run that succeeded has had each of its effects, once."""
    for job_type, keys in GOOD.items():
        for key in keys:
            query = (
                "select run.id, count(effect) from wakeboard.job_run_history as run"
                "  left join chaos.effects as effect on effect.run_uuid = run.uuid and effect.key = %s"
                " where run.status = 'succeeded' and run.job_type = %s group by 1 having count(effect) <> 1"
            )
            for run, count in conn.execute(query.encode(), (key, job_type)).fetchall():
                sort = "doubled" if count else "lost"
                yield Violation(sort, "effects of succeeded runs happened exactly once", f"run {run}, {key}: {count}")


def _told(conn: psycopg.Connection[Any], told: Told) -> Iterator[Violation]:
    """What was acknowledged is there; what was not is there at most once; bulks are whole; keys name one run."""
    runs: dict[str, list[int]] = {}
    rows = conn.execute(
        "select payload ->> 'tag', id from wakeboard.all_runs where payload ? 'tag' and trigger <> 'replay'"
    )
    for tag, run in rows.fetchall():
        runs.setdefault(tag, []).append(run)
    for tag, run in told.acknowledged.items():
        if run not in runs.get(tag, []):
            yield Violation("lost", "an acknowledged enqueue is never lost", f"{tag}: run {run}")
    for tag, found in runs.items():
        if len(found) > 1:
            yield Violation("doubled", "an enqueue happens at most once", f"{tag}: runs {found}")
    for tags in told.bulks:
        if (there := len(tags & runs.keys())) not in {0, len(tags)}:
            yield Violation("lost", "enqueue_many is all or none", f"{there} of {sorted(tags)}")
    for key, named in told.by_key.items():
        if len(named) > 1 or told.created[key] > 1:
            yield Violation("doubled", "an idempotency key names one run", f"{key}: {named}")


def _limits_by_history(conn: psycopg.Connection[Any]) -> Iterator[Violation]:
    """Leases of each limit key, counted along the log of transitions."""
    running: Counter[str] = Counter()
    holding: set[int] = set()
    rows = conn.execute(
        "select run_id, what, limit_key, at from chaos.transitions where limit_key is not null order by at, place"
    )
    for run, what, key, at in rows.fetchall():
        if what == "claimed":
            holding.add(run)
            running[key] += 1
            if running[key] > LIMITS.get(key, 1):
                yield Violation("other", "limits are never exceeded", f"{key}: {running[key]} at {at} with run {run}")
        elif run in holding and what in {"gone", "ended", "taken back"}:
            holding.discard(run)
            running[key] -= 1


def describe(conn: psycopg.Connection[Any], result: Result) -> None:
    """How much there was, and how late it was."""
    for name, query in COUNTS.items():
        row = conn.execute(query.encode()).fetchone()
        result.counts[name] += int(row[0] if row and row[0] is not None else 0)
    for histogram, query in (
        (result.run_lateness, _RUN_LATENESS),
        (result.tick_lateness, _TICK_LATENESS),
        (result.lapse_lateness, _LAPSE_LATENESS),
    ):
        for (late,) in conn.execute(query.encode()).fetchall():
            histogram[bucket(float(late))] += 1
    row = conn.execute(_CLOCK_OFF_H.encode()).fetchone()
    result.clock_off_h = round(float(row[0] or 0), 1) if row else 0.0
    for row in conn.execute(_LONG_LAPSES.encode()).fetchall():
        result.remarks["a lapsed lease was taken back late: " + ", ".join(map(str, row))] += 1


COUNTS: Final = {
    "runs": "select count(*) from wakeboard.all_runs where status <> 'skipped'",
    "succeeded": "select count(*) from wakeboard.all_runs where status = 'succeeded'",
    "cancelled": "select count(*) from wakeboard.all_runs where status = 'cancelled'",
    "dead": "select count(*) from wakeboard.all_runs where status = 'dead'",
    "ticks made into runs": "select count(*) from wakeboard.all_runs where trigger = 'tick' and status <> 'skipped'",
    "ticks recorded as skipped": "select sum(skipped_count) from wakeboard.job_run_history where status = 'skipped'",
    "effects": "select count(*) from chaos.effects",
    "leases": "select count(*) from chaos.transitions where what = 'claimed'",
    "leases taken back": "select count(*) from chaos.transitions where what = 'taken back'",
    "attempts that failed": "select count(*) from wakeboard.job_attempts where outcome = 'failed'",
    "attempts that timed out": "select count(*) from wakeboard.job_attempts where outcome = 'timed_out'",
    "worker processes": "select count(*) from chaos.workers_seen",
}
_RUN_LATENESS: Final = """
select greatest(0, extract(epoch from min(claim.at) - greatest(made.run_at, made.at)))
  from chaos.transitions as made
  join chaos.transitions as claim on claim.run_id = made.run_id and claim.what = 'claimed'
 where made.what = 'made' and made.limit_key is null
 group by made.run_id, made.run_at, made.at
"""
_CLOCK_OFF_H: Final = "select max(abs(extract(epoch from worker_clock - at))) / 3600 from chaos.effects"
_LAPSE_LATENESS: Final = "select extract(epoch from at - lapsed_at) from chaos.transitions where what = 'taken back'"
_LONG_LAPSES: Final = """
select step.run_id, step.at, round(extract(epoch from step.at - lapsed_at), 1), worker.name
  from chaos.transitions as step left join chaos.workers_seen as worker on worker.worker_id = step.holder
 where what = 'taken back' and step.at - lapsed_at > interval '9 s' order by 3 desc limit 10
"""
_TICK_LATENESS: Final = """
select extract(epoch from run.created_at - run.scheduled_for)
  from wakeboard.all_runs as run join wakeboard.job_definitions as def on def.id = run.definition_id
 where run.trigger = 'tick' and run.status <> 'skipped' and run.scheduled_for > def.created_at
"""
