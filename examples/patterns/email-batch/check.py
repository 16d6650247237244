"""Compares the campaigns in the database with the mails that the provider accepted. See ../check.py."""

from __future__ import annotations

import json
import os
import sys
from collections import Counter
from pathlib import Path

import psycopg

UNFINISHED = 75


def main() -> None:
    """Prints one line; the exit code is 0 (all right), 1 (lost or doubled) or 75 (not finished)."""
    with psycopg.connect(os.environ["WAKEBOARD_DSN"]) as conn:
        try:
            left = conn.execute("select count(*) from wakeboard.job_runs where status <> 'dead'").fetchone() or (0,)
            dead = conn.execute("select count(*) from wakeboard.job_runs where status = 'dead'").fetchone() or (0,)
            query = "select address, status from mails join customers on customers.id = customer"
            wanted = dict(conn.execute(query).fetchall())
        except psycopg.errors.UndefinedTable:
            wanted, left, dead = dict[str, str](), (1,), (0,)
    file = Path(os.environ["PATTERN_OUT"]) / "mails.jsonl"
    lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
    mails = Counter(json.loads(line)["to"] for line in lines)
    bounced = {address for address, status in wanted.items() if status == "bounced"}
    lost = wanted.keys() - mails.keys() - bounced
    doubled = sum(count > 1 for count in mails.values())
    wrong = sum(address.startswith(("gone-", "full-")) != (status == "bounced") for address, status in wanted.items())
    print(f"{len(wanted)} customers: {len(mails)} got the mail, {len(bounced)} bounced, {len(lost)} lost,", end=" ")
    print(f"{doubled} doubled, {wrong} with a wrong status, {dead[0]} dead runs, {left[0]} runs left")
    if doubled or dead[0]:
        sys.exit(1)
    if left[0] or len(wanted) < int(os.environ.get("EMAIL_RECIPIENTS", "10000")):
        sys.exit(UNFINISHED)
    sys.exit(bool(lost or wrong))


if __name__ == "__main__":
    main()
