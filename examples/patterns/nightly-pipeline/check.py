"""Compares the days with what the sources have and what was reported. See ../check.py."""

from __future__ import annotations

import json
import os
import sys
from collections import Counter
from pathlib import Path

import psycopg
from provider import rows_of

UNFINISHED = 75


def main() -> None:
    """Prints one line; the exit code is 0 (all right), 1 (lost, doubled or wrong) or 75 (not finished)."""
    days = int(os.environ.get("PIPELINE_DAYS", "30"))
    with psycopg.connect(os.environ["WAKEBOARD_DSN"]) as conn:
        counts = "select count(*) filter (where status = 'dead'), count(*) from wakeboard.job_runs"
        dead, live = conn.execute(counts).fetchone() or (0, 0)
        ended = dict(conn.execute("select job_type, count(*) from wakeboard.job_run_history group by 1").fetchall())
        if dead or live or ended.get("report", 0) < days:
            print(f"{ended} ended, {live} runs left, {dead} dead")
            sys.exit(1 if dead else UNFINISHED)
        daily = {str(day): cents for day, cents in conn.execute("select day, cents from daily").fetchall()}
    lines = (Path(os.environ["PATTERN_OUT"]) / "reports.jsonl").read_text(encoding="utf-8").splitlines()
    reports = [json.loads(line) for line in lines]
    times = Counter(report["day"] for report in reports)
    lost, doubled = daily.keys() - times.keys(), sum(count > 1 for count in times.values())
    wrong = sum(report["cents"] != cents_of(report["day"]) for report in reports)
    wrong += sum(cents != cents_of(day) for day, cents in daily.items())
    print(f"{len(daily)} days of {days}: {len(times)} reported, {len(lost)} lost, {doubled} doubled, {wrong} wrong;")
    print(f"runs: {ended}")
    sys.exit(bool(lost or doubled or wrong or len(daily) != days or ended.get("add_up") != days))


def cents_of(day: str) -> int:
    """Orders minus refunds, by the sources."""
    orders, refunds = (sum(row["cents"] for row in rows_of(source, day)) for source in ("orders", "refunds"))
    return orders - refunds


if __name__ == "__main__":
    main()
