"""Compares the sections with the model's streams, and looks for prompts where none may be. See ../check.py."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import psycopg

UNFINISHED = 75
SECTIONS = 4


def main() -> None:
    """Prints one line; the exit code is 0 (all right), 1 (lost, doubled or leaked) or 75 (not finished)."""
    out = Path(os.environ["PATTERN_OUT"])
    with psycopg.connect(os.environ["WAKEBOARD_DSN"]) as conn:
        counts = "select count(*) filter (where status = 'dead'), count(*) from wakeboard.job_runs"
        dead, live = conn.execute(counts).fetchone() or (0, 0)
        ended = dict(conn.execute("select payload ->> 'article', status from wakeboard.job_run_history").fetchall())
        if dead or live or len(ended) < int(os.environ.get("AI_ARTICLES", "24")):
            print(f"{len(ended)} articles ended, {live} runs left, {dead} dead")
            sys.exit(1 if dead else UNFINISHED)
        query = "select article::text, count(*), sum(tokens) from sections group by article"
        written = {article: count for article, count, _ in conn.execute(query).fetchall()}
        billed = (conn.execute("select sum(tokens) from sections").fetchone() or (0,))[0]
        leaks = "select count(*) from wakeboard.all_runs as run where run::text like '%confidential%'"
        leaked = (conn.execute(leaks).fetchone() or (0,))[0]
    cancelled = {article for article, status in ended.items() if status == "cancelled"}
    incomplete = [article for article in ended if article not in cancelled and written.get(article) != SECTIONS]
    streams = [json.loads(line) for line in (out / "streams.jsonl").read_text(encoding="utf-8").splitlines()]
    complete = sum(stream["complete"] for stream in streams)
    log = out / "up.log"  # of ../check.py
    leaked += log.exists() and "confidential" in log.read_text(encoding="utf-8", errors="replace")
    print(f"{len(ended)} articles, {len(cancelled)} cancelled, {len(incomplete)} incomplete;", end=" ")
    print(f"{sum(written.values())} sections of {complete} complete and {len(streams) - complete} broken streams;")
    print(f"{billed} tokens billed of {sum(stream['tokens'] for stream in streams)} sent; {leaked} leaks of prompts")
    sys.exit(bool(incomplete or leaked or len(cancelled) != 1 or sum(written.values()) > complete))


if __name__ == "__main__":
    main()
