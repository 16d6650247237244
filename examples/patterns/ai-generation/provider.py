"""A streaming model on this machine that misbehaves.

- It answers one request in ten with 429 and Retry-After, and one in twenty with 503.
- One stream in ten breaks off without its last event.
- It counts every token that it has sent, also of streams that a client has left.

Each stream is a line of streams.jsonl: its prompt, the tokens sent, and whether the client stayed to the end.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
from pathlib import Path

from aiohttp import web

OUT = Path(os.environ.get("PATTERN_OUT") or Path(__file__).with_name("out"))
TOKEN_S = 0.02


async def generate(request: web.Request) -> web.StreamResponse:
    """POST /generate: lines of JSON, `token` or `done`."""
    prompt = (await request.json())["prompt"]
    if random.random() < 0.1:
        return web.json_response({"error": "rate limit"}, status=429, headers={"Retry-After": "0.5"})
    if random.random() < 0.05:
        return web.json_response({"error": "overloaded"}, status=503)
    length = random.randint(20, 40)
    breaks_at = random.randint(1, length) if random.random() < 0.1 else length + 1
    response = web.StreamResponse()
    await response.prepare(request)
    sent, complete = 0, False
    try:
        while sent < length and sent < breaks_at:
            await response.write(json.dumps({"token": f"word{sent}"}).encode() + b"\n")
            sent += 1
            await asyncio.sleep(TOKEN_S)
        if sent == length:
            await response.write(b'{"done": true}\n')
            complete = True
    finally:
        with (OUT / "streams.jsonl").open("a", encoding="utf-8") as file:
            file.write(json.dumps({"prompt": prompt, "tokens": sent, "complete": complete}) + "\n")
    return response


def main() -> None:
    """Serves until SIGTERM. The handler of a request is cancelled when its client is gone."""
    OUT.mkdir(parents=True, exist_ok=True)
    app = web.Application()
    app.add_routes([web.post("/generate", generate)])
    port = int(os.environ["AI_PORT"])
    web.run_app(app, host="127.0.0.1", port=port, print=None, access_log=None, handler_cancellation=True)


if __name__ == "__main__":
    main()
