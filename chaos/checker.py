"""Checks the invariants after everything has drained: in the tables, the effects, the audit log, the client record."""

from __future__ import annotations

import math
import re
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from chaos.applications import LIMITS, RATES
from chaos.chaotic_handlers import GOOD
from chaos.held_locks import LIMITS as HELD_LIMITS
from chaos.results import Violation, bucket
from chaos.tick_checker import check_ticks

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import psycopg

    from chaos.applications import ClientRecord
    from chaos.results import Result

SHOWN: Final = 10  # violations of one invariant
INVARIANTS: Final = Path(__file__).with_name("invariants.sql")


def check(conn: psycopg.Connection[Any], record: ClientRecord, ledger: Path) -> list[Violation]:
    """Each violation of an invariant. `ledger`: the effects whose commits were acknowledged."""
    found = [
        Violation(category, invariant, ", ".join(map(str, row)))
        for category, invariant, query in invariants()
        for row in conn.execute(query.encode(), {"changed_by_users": list(record.changed_by_users)}).fetchmany(SHOWN)
    ]
    found += check_ticks(conn)
    found += _effects(conn)
    found += _ledger(conn, ledger)
    found += _client_record(conn, record)
    found += _limits_in_audit_log(conn)
    found += _rates_in_audit_log(conn)
    return found


def invariants() -> list[tuple[str, str, str]]:
    """(category, invariant, query) of each one in invariants.sql."""
    text = INVARIANTS.read_text(encoding="utf-8")
    return [
        (category, invariant, query.replace("%'", "%%'"))  # psycopg reads % as a placeholder
        for category, invariant, query in re.findall(r"^-- (lost|doubled|other): (.+)\n([^;]+);", text, re.MULTILINE)
    ]


def first(violations: Iterable[Violation]) -> list[Violation]:
    """The first few of each invariant."""
    seen: Counter[str] = Counter()
    kept: list[Violation] = []
    for violation in violations:
        seen[violation.invariant] += 1
        if seen[violation.invariant] <= SHOWN:
            kept.append(violation)
    return kept


def _effects(conn: psycopg.Connection[Any]) -> Iterator[Violation]:
    """Each run that succeeded has had each of its effects exactly once."""
    for job_type, keys in GOOD.items():
        for key in keys:
            query = (
                "select run.id, count(effect) from wakeboard.job_run_history as run"
                "  left join chaos.effects as effect on effect.run_uuid = run.uuid and effect.key = %s"
                " where run.status = 'succeeded' and run.job_type = %s group by 1 having count(effect) <> 1"
            )
            for run, count in conn.execute(query.encode(), (key, job_type)).fetchall():
                category = "doubled" if count else "lost"
                yield Violation(
                    category, "effects of succeeded runs happened exactly once", f"run {run}, {key}: {count}"
                )


def _ledger(conn: psycopg.Connection[Any], ledger: Path) -> Iterator[Violation]:
    """Each effect that a handler noted outside the database, when its commit was acknowledged, is there; noted once."""
    noted = Counter(ledger.read_text().splitlines() if ledger.exists() else [])
    kept = {f"{uuid} {key}" for uuid, key in conn.execute("select run_uuid, key from chaos.effects").fetchall()}
    for effect, times in noted.items():
        if effect not in kept:
            yield Violation("lost", "an acknowledged effect is never lost", effect)
        if times > 1:
            yield Violation("doubled", "an effect is acknowledged once", f"{effect}: {times} times")


def _client_record(conn: psycopg.Connection[Any], record: ClientRecord) -> Iterator[Violation]:
    """Acknowledged runs exist, others exist at most once, bulks are complete."""
    runs: dict[str, list[int]] = {}
    rows = conn.execute(
        "select payload ->> 'tag', id from wakeboard.all_runs where payload ? 'tag' and trigger <> 'replay'"
    )
    for tag, run in rows.fetchall():
        runs.setdefault(tag, []).append(run)
    for tag, run in record.acknowledged.items():
        if run not in runs.get(tag, []):
            yield Violation("lost", "an acknowledged enqueue is never lost", f"{tag}: run {run}")
    for tag, found in runs.items():
        if len(found) > 1:
            yield Violation("doubled", "an enqueue happens at most once", f"{tag}: runs {found}")
    for contradiction in record.contradicted:
        yield Violation("doubled", "a unique window has one run", contradiction)
    for refusal in record.refused:
        yield Violation("other", "a circuit affects no requested run", refusal)
    for tags in record.bulks:
        if (found_tags := len(tags & runs.keys())) not in {0, len(tags)}:
            yield Violation("lost", "enqueue_many is all or none", f"{found_tags} of {sorted(tags)}")


def _limits_in_audit_log(conn: psycopg.Connection[Any]) -> Iterator[Violation]:
    """The leases of each limit key, counted along the audit log."""
    running: Counter[str] = Counter()
    leased: set[int] = set()
    limits = {**LIMITS, **HELD_LIMITS, **dict.fromkeys(RATES, sys.maxsize)}
    limits |= {
        f"backfill:{job}": at_once for job, at_once in conn.execute("select id, at_once from wakeboard.backfills")
    }
    rows = conn.execute(
        "select run_id, what, limit_key, at from chaos.transitions where limit_key is not null order by at, position"
    )
    for run, what, key, at in rows.fetchall():
        if what == "claimed":
            leased.add(run)
            running[key] += 1
            if running[key] > limits.get(key, 1):
                yield Violation("other", "limits are never exceeded", f"{key}: {running[key]} at {at} with run {run}")
        elif run in leased and what in {"removed", "ended", "reaped"}:
            leased.discard(run)
            running[key] -= 1


def _rates_in_audit_log(conn: psycopg.Connection[Any]) -> Iterator[Violation]:
    """In any t seconds at most burst + rate * t runs of a key start."""
    for key, (starts, period_s, burst) in RATES.items():
        rate, least = starts / period_s, math.inf
        rows = conn.execute(
            "select extract(epoch from started_at)::float8, run_id from chaos.transitions"
            " where what = 'claimed' and limit_key = %s order by 1",
            (key,),
        )
        for number, (at, run) in enumerate(rows.fetchall()):
            least = min(least, number - rate * at)
            if (excess := number + 1 - rate * at - least - burst) > 0.01:
                yield Violation("other", "rates are never exceeded", f"{key}: {excess:.2f} too many with run {run}")


def count(conn: psycopg.Connection[Any], result: Result) -> None:
    """Adds the numbers of runs, ticks, effects and leases, and how late they were, to the result."""
    for name, query in COUNTS.items():
        row = conn.execute(query.encode()).fetchone()
        result.counts[name] += int(row[0] if row and row[0] is not None else 0)
    for histogram, query in (
        (result.run_lateness, _RUN_LATENESS),
        (result.tick_lateness, _TICK_LATENESS),
        (result.reap_lateness, _REAP_LATENESS),
    ):
        for (late,) in conn.execute(query.encode()).fetchall():
            histogram[bucket(float(late))] += 1
    row = conn.execute(_CLOCK_ERROR_H.encode()).fetchone()
    result.clock_error_h = round(float(row[0] or 0), 1) if row else 0.0


COUNTS: Final = {
    "runs": "select count(*) from wakeboard.all_runs where status <> 'skipped'",
    "succeeded": "select count(*) from wakeboard.all_runs where status = 'succeeded'",
    "cancelled": "select count(*) from wakeboard.all_runs where status = 'cancelled'",
    "dead": "select count(*) from wakeboard.all_runs where status = 'dead'",
    "ticks that became runs": "select count(*) from wakeboard.all_runs where trigger = 'tick' and status <> 'skipped'",
    "ticks of schedules from code": (
        "select count(*) from wakeboard.all_runs where trigger = 'tick'"
        " and definition_id in (select definition_id from chaos.generations)"
    ),
    "edits and removals of schedules from code": "select count(*) from chaos.generations where ended_at is not null",
    "ticks recorded as skipped": "select sum(skipped_count) from wakeboard.job_run_history where status = 'skipped'",
    "ticks that became runs after other schedules": (
        "select count(*) from wakeboard.all_runs where trigger = 'tick' and status <> 'skipped'"
        " and definition_id in (select definition_id from wakeboard.schedule_dependencies)"
    ),
    "runs that waited for runs": (
        "select count(distinct run_id) from wakeboard.run_dependencies join wakeboard.all_runs on id = run_id"
        " where definition_id is null"
    ),
    "backfills": "select count(*) from wakeboard.backfills",
    "runs of backfills": "select count(*) from wakeboard.all_runs where trigger = 'backfill'",
    "circuits opened": "select count(*) from chaos.circuits where is_open",
    "starts of rate-limited runs": (
        "select count(*) from chaos.transitions where what = 'claimed' and limit_key = 'metered'"
    ),
    "effects": "select count(*) from chaos.effects",
    "effects once for ever": "select count(*) from wakeboard.job_forever_effects",
    "effects once for ever that another attempt took over": (
        "select count(*) from wakeboard.job_forever_effects where begun_epochs <> '{}'"
    ),
    "runs that waited for an effect once for ever": (
        "select count(distinct run_id) from wakeboard.job_attempts join wakeboard.all_runs on id = run_id"
        " where job_type = 'invoices' and outcome = 'snoozed'"
    ),
    "leases": "select count(*) from chaos.transitions where what = 'claimed'",
    "leases reaped": "select count(*) from chaos.transitions where what = 'reaped'",
    "attempts that failed": "select count(*) from wakeboard.job_attempts where outcome = 'failed'",
    "attempts that timed out": "select count(*) from wakeboard.job_attempts where outcome = 'timed_out'",
    "promotions after which commits may be missing": (
        "select count(*) from wakeboard.server_changes where kind = 'promoted' and (at_risk or lost)"
    ),
    "worker processes": "select count(*) from chaos.workers_seen",
}
_RUN_LATENESS: Final = """
select greatest(0, extract(epoch from min(claim.at) - greatest(created.run_at, created.at)))
  from chaos.transitions as created
  join chaos.transitions as claim on claim.run_id = created.run_id and claim.what = 'claimed'
 where created.what = 'created' and created.limit_key is null
 group by created.run_id, created.run_at, created.at
"""
_CLOCK_ERROR_H: Final = "select max(abs(extract(epoch from worker_clock - at))) / 3600 from chaos.effects"
_REAP_LATENESS: Final = (  # without the leases that a report ended before they expired
    "select extract(epoch from at - expired_at) from chaos.transitions where what = 'reaped' and at > expired_at"
)
_TICK_LATENESS: Final = """
select extract(epoch from run.created_at - run.scheduled_for)
  from wakeboard.all_runs as run join wakeboard.job_definitions as def on def.id = run.definition_id
 where run.trigger = 'tick' and run.status <> 'skipped' and run.scheduled_for > def.created_at
"""
