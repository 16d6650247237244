"""The companion process of this pattern: an editor who writes posts, and changes some before and while they are due.

Of six posts one is edited, one moved, one withdrawn. editor.json has what the answers confirmed: the ids of
the withdrawn posts, and the accepted texts.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import posts
import psycopg

OUT = Path(os.environ.get("PATTERN_OUT") or Path(__file__).with_name("out"))
FIRST_S, LAST_S = 1.5, 5.0  # after the start, posts are due


def main() -> None:
    """Writes and changes the posts, then waits for SIGTERM."""
    OUT.mkdir(parents=True, exist_ok=True)
    texts: dict[int, str] = {}
    withdrawn: list[int] = []
    with psycopg.connect(os.environ["WAKEBOARD_DSN"], autocommit=True) as conn:
        conn.execute(Path(__file__).with_name("schema.sql").read_bytes())
        provider = subprocess.Popen([sys.executable, "provider.py"])
        start = datetime.now(UTC)
        count = int(os.environ["SOCIAL_POSTS"])
        for number in range(count):
            due = start + timedelta(seconds=random.uniform(FIRST_S, LAST_S))
            post = posts.write(conn, f"Post {number} of {start:%H:%M:%S}", due)
            texts[post] = f"Post {number} of {start:%H:%M:%S}"
        for post in random.sample(sorted(texts), count):
            time.sleep(random.uniform(0, LAST_S / count))
            change = post % 6
            if change == 0 and posts.edit(conn, post, f"{texts[post]}, edited"):
                texts[post] += ", edited"
            elif change == 1:
                posts.move(conn, post, datetime.now(UTC) + timedelta(seconds=random.uniform(0, 5)))
            elif change == 2 and posts.withdraw(conn, post):
                withdrawn.append(post)
    (OUT / "editor.new").write_text(json.dumps({"texts": texts, "withdrawn": withdrawn}), encoding="utf-8")
    (OUT / "editor.new").replace(OUT / "editor.json")
    print(f"{count} posts are written, {len(withdrawn)} of them withdrawn", flush=True)
    provider.wait()


if __name__ == "__main__":
    main()
