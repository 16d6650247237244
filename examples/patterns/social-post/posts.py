"""What a web application does with posts: each function is one transaction of a request.

In a second terminal, `python posts.py write TEXT SECONDS`, `edit POST TEXT` and `withdraw POST` call them.
"""

from __future__ import annotations

import json
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psycopg

import wakeboard


def write(conn: psycopg.Connection[Any], text: str, publish_at: datetime) -> int:
    """Creates a post and the schedule of its publication. Returns its id."""
    with conn.transaction():
        insert = "insert into posts (text, publish_at) values (%s, %s) returning id"
        (post,) = conn.execute(insert, (text, publish_at)).fetchone() or (0,)
        schedule(conn, post, publish_at)
    return post


def edit(conn: psycopg.Connection[Any], post: int, text: str) -> bool:
    """Changes the text. False: it is too late."""
    update = "update posts set text = %s where id = %s and status = 'scheduled'"
    return conn.execute(update, (text, post)).rowcount == 1


def move(conn: psycopg.Connection[Any], post: int, publish_at: datetime) -> bool:
    """Changes the time. False: it is too late."""
    with conn.transaction():
        update = "update posts set publish_at = %s where id = %s and status = 'scheduled'"
        if conn.execute(update, (publish_at, post)).rowcount == 0:
            return False
        schedule(conn, post, publish_at)
    return True


def withdraw(conn: psycopg.Connection[Any], post: int) -> bool:
    """The post is not published. False: it is too late."""
    update = "update posts set status = 'withdrawn' where id = %s and status = 'scheduled'"
    return conn.execute(update, (post,)).rowcount == 1


def schedule(conn: psycopg.Connection[Any], post: int, publish_at: datetime) -> None:
    """Schedules a post, or moves it. A moment that has passed is due now."""
    at = max(publish_at, datetime.now(UTC))
    wakeboard.schedule(conn, f"posts/{post}", "publish_post", {"post": post}, at=at, max_attempts=10)


def main(words: list[str]) -> str:
    """Does what a user typed, in the database that `wakeboard up` has started here. Returns what to print."""
    settings = Path(".wakeboard/up.json")
    if not settings.exists():
        return "No wakeboard runs in this folder. In another terminal, type: wakeboard up ."
    with psycopg.connect(json.loads(settings.read_text(encoding="utf-8"))["dsn"]) as conn:
        match words:
            case ["write", text, seconds] if seconds.isdecimal():
                due = datetime.now(UTC) + timedelta(seconds=int(seconds))
                return f"post {write(conn, text, due)} is due at {due:%H:%M:%S} UTC"
            case ["edit", post, text] if post.isdecimal():
                return "edited" if edit(conn, int(post), text) else "too late"
            case ["withdraw", post] if post.isdecimal():
                return "withdrawn" if withdraw(conn, int(post)) else "too late"
            case _:
                return "Type: python posts.py write TEXT SECONDS, or edit POST TEXT, or withdraw POST"


if __name__ == "__main__":
    print(main(sys.argv[1:]))
