"""The systems around the pipeline, on this machine, which misbehave.

- Rows take up to a second, and one request in ten is answered with 503.
- One report in five is accepted, but the answer comes after the client has given up.
- A report that is sent twice is there twice.

Each report is a line of reports.jsonl.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
from pathlib import Path
from typing import Any

from aiohttp import web

OUT = Path(os.environ.get("PATTERN_OUT") or Path(__file__).with_name("out"))
REPORTS = OUT / "reports.jsonl"
reports: list[dict[str, Any]] = []


def rows_of(source: str, day: str) -> list[dict[str, int]]:
    """The rows of a day, the same whenever they are asked for."""
    chance = random.Random(f"{source} {day}")
    count = chance.randint(20, 40) if source == "orders" else chance.randint(0, 5)
    return [{"id": number, "cents": chance.randint(100, 9999)} for number in range(count)]


async def read(request: web.Request) -> web.Response:
    """GET /orders?day=DAY and GET /refunds?day=DAY."""
    await asyncio.sleep(random.uniform(0.2, 1))
    if random.random() < 0.1:
        return web.json_response({"error": "overloaded"}, status=503)
    return web.json_response(rows_of(request.match_info["source"], request.query["day"]))


async def accept(request: web.Request) -> web.Response:
    """POST /reports."""
    if random.random() < 0.1:
        return web.json_response({"error": "overloaded"}, status=503)
    report = await request.json()
    reports.append(report)
    with REPORTS.open("a", encoding="utf-8") as file:
        file.write(json.dumps(report) + "\n")
    if random.random() < 0.2:
        await asyncio.sleep(5)  # the client waits for two seconds
    return web.json_response({}, status=201)


async def find(request: web.Request) -> web.Response:
    """GET /reports?reference=KEY."""
    return web.json_response([each for each in reports if each["reference"] == request.query.get("reference")])


def main() -> None:
    """Serves until SIGTERM."""
    OUT.mkdir(parents=True, exist_ok=True)
    if REPORTS.exists():
        reports.extend(map(json.loads, REPORTS.read_text(encoding="utf-8").splitlines()))
    app = web.Application()
    app.add_routes(
        [
            web.post("/reports", accept),
            web.get("/reports", find),
            web.get("/{source:orders|refunds}", read),
        ]
    )
    web.run_app(app, host="127.0.0.1", port=int(os.environ["SOURCE_PORT"]), print=None, access_log=None)


if __name__ == "__main__":
    main()
