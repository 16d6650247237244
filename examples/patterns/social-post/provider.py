"""A social network on this machine that misbehaves.

- It answers one request in ten with 503.
- One post in five is published, but the answer comes after the client has given up.
- It publishes a text as often as it is sent: a reference is stored, but does not prevent a second post.

Each post is a line of posts.jsonl.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import time
from pathlib import Path

from aiohttp import web

OUT = Path(os.environ.get("PATTERN_OUT") or Path(__file__).with_name("out"))
POSTS = OUT / "posts.jsonl"
posts: list[dict[str, str]] = []


async def publish(request: web.Request) -> web.Response:
    """POST /posts."""
    if random.random() < 0.1:
        return web.json_response({"error": "overloaded"}, status=503, headers={"Retry-After": "1"})
    post = {**await request.json(), "url": f"/posts/{len(posts) + 1}"}
    posts.append(post)
    with POSTS.open("a", encoding="utf-8") as file:
        file.write(json.dumps({**post, "at": time.time()}) + "\n")
    if random.random() < 0.2:
        await asyncio.sleep(3)  # the client waits for one second
    return web.json_response(post, status=201)


async def find(request: web.Request) -> web.Response:
    """GET /posts?reference=KEY."""
    return web.json_response([post for post in posts if post["reference"] == request.query.get("reference")])


def main() -> None:
    """Serves until SIGTERM."""
    OUT.mkdir(parents=True, exist_ok=True)
    if POSTS.exists():
        posts.extend(map(json.loads, POSTS.read_text(encoding="utf-8").splitlines()))
    app = web.Application()
    app.add_routes([web.post("/posts", publish), web.get("/posts", find)])
    web.run_app(app, host="127.0.0.1", port=int(os.environ["SOCIAL_PORT"]), print=None, access_log=None)


if __name__ == "__main__":
    main()
