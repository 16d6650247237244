"""Compares the tables with what provider.py reports. See ../check.py."""

from __future__ import annotations

import json
import os
import sys
from collections import Counter
from pathlib import Path
from statistics import median, quantiles

import psycopg

UNFINISHED = 75
ANSWER_MS = float(os.environ.get("WEBHOOK_ANSWER_MS", "50"))  # half of the answers must be faster


def main() -> None:
    """Prints one line; the exit code is 0 (all right), 1 (lost or doubled) or 75 (not finished)."""
    truth_file = Path(os.environ["PATTERN_OUT"]) / "truth.json"
    with psycopg.connect(os.environ["WAKEBOARD_DSN"]) as conn:
        counts = "select count(*) filter (where status = 'dead'), count(*) from wakeboard.job_runs"
        dead, live = conn.execute(counts).fetchone() or (0, 0)
        events = conn.execute("select count(*) from wakeboard.all_runs where job_type = 'stripe_event'").fetchone()
        finished = truth_file.exists() and not live
        if dead or not finished:
            print(f"{(events or (0,))[0]} events, {live} runs left, {dead} dead")
            sys.exit(1 if dead else UNFINISHED)
        subscriptions = dict(conn.execute("select id, status from subscriptions").fetchall())
        credits_given = conn.execute("select invoice, cents from credits").fetchall()
    truth = json.loads(truth_file.read_text(encoding="utf-8"))
    wrong = sum(subscriptions.get(name) != status for name, status in truth["subscriptions"].items())
    due, given = Counter[tuple[str, int]](truth["invoices"].items()), Counter[tuple[str, int]](credits_given)
    lost, doubled = due - given, given - due
    answers = truth["answers_ms"]
    print(f"{len(answers)} deliveries of {(events or (0,))[0]} events, answered in {median(answers):.0f} ms (median),")
    print(f"{quantiles(answers, n=100)[98]:.0f} ms (99 %); {len(subscriptions)} subscriptions, {wrong} of them stale;")
    print(f"{len(credits_given)} credits, {len(lost)} lost, {len(doubled)} doubled or wrong;", end=" ")
    print(f"{truth['forged_accepted']} forged accepted")
    sys.exit(bool(wrong or lost or doubled or truth["forged_accepted"] or median(answers) >= ANSWER_MS))


if __name__ == "__main__":
    main()
