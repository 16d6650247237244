"""Compares the answers that the editor got with what the network published. See ../check.py."""

from __future__ import annotations

import json
import os
import sys
from collections import Counter
from pathlib import Path

import psycopg

UNFINISHED = 75


def main() -> None:
    """Prints one line; the exit code is 0 (all right), 1 (lost, doubled or wrong) or 75 (not finished)."""
    out = Path(os.environ["PATTERN_OUT"])
    with psycopg.connect(os.environ["WAKEBOARD_DSN"]) as conn:
        counts = "select count(*) filter (where status = 'dead'), count(*) from wakeboard.job_runs"
        dead, live = conn.execute(counts).fetchone() or (0, 0)
        open_posts = "select count(*) from posts where status in ('scheduled', 'publishing')"
        due = "select text, extract(epoch from publish_at)::float from posts where status = 'published'"
        exists = (conn.execute("select to_regclass('posts')").fetchone() or (None,))[0]
        published = dict(conn.execute(due).fetchall() if exists else ())
        left = (conn.execute(open_posts).fetchone() if exists else None) or (0,)
    if dead or live or left[0] or not (out / "editor.json").exists():
        print(f"{len(published)} published, {left[0]} posts and {live} runs left, {dead} dead")
        sys.exit(1 if dead else UNFINISHED)
    editor = json.loads((out / "editor.json").read_text(encoding="utf-8"))
    found = [json.loads(line) for line in (out / "posts.jsonl").read_text(encoding="utf-8").splitlines()]
    wanted = {text for post, text in editor["texts"].items() if int(post) not in editor["withdrawn"]}
    times = Counter(post["text"] for post in found)
    lost, doubled = wanted - times.keys(), sum(count > 1 for count in times.values())
    wrong = len(times.keys() - wanted) + len(wanted ^ published.keys())
    early = sum(post["at"] < published.get(post["text"], 0) for post in found)
    print(f"{len(editor['texts'])} posts: {len(times)} published, {len(editor['withdrawn'])} withdrawn,", end=" ")
    print(f"{len(lost)} lost, {doubled} doubled, {wrong} withdrawn or outdated but published, {early} too early")
    sys.exit(bool(lost or doubled or wrong or early))


if __name__ == "__main__":
    main()
