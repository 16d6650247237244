"""An application whose users start an export, watch it, and download it.

`wakeboard up examples/export` runs it, and the worker that executes handlers.py. The browser gets a run token: with it,
the page reads the progress from the board, and the download checks in Python that it is for this export.
"""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg
import uvicorn
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.responses import FileResponse, JSONResponse, Response
from starlette.routing import Route

import wakeboard

if TYPE_CHECKING:
    from starlette.requests import Request

HERE = Path(__file__).parent
LASTS = timedelta(hours=1)
PAGES = ("page.html", "page.js", "watch.js")


def secrets() -> list[str]:
    """The secrets that the board accepts, of which the first signs. The file is the board's, or a copy of it."""
    return Path(os.environ["WAKEBOARD_BOARD_WATCH_SECRETS_FILE"]).read_text(encoding="utf-8").split()


async def start(request: Request) -> JSONResponse:
    """Enqueues an export. The user who is logged in here may watch this run, and no other."""
    rows = int((await request.json()).get("rows", 10))
    async with await psycopg.AsyncConnection.connect(os.environ["WAKEBOARD_DSN"]) as conn:
        run = await wakeboard.enqueue(conn, "export_orders", {"rows": rows})
    token = wakeboard.run_token(run, secrets()[0], expires=datetime.now(UTC) + LASTS)
    board = os.environ["WAKEBOARD_BOARD_URL"].rstrip("/")
    return JSONResponse({"watch": f"{board}/api/v1/watch/{token}", "file": f"/exports/{token}"}, 201)


async def download(request: Request) -> Response:
    """The file of the export whose token the address has."""
    token = wakeboard.verify_run_token(request.path_params["token"], secrets(), datetime.now(UTC))
    if token is None:
        raise HTTPException(403, "this link is wrong or has expired")
    async with await psycopg.AsyncConnection.connect(os.environ["WAKEBOARD_DSN"]) as conn:
        query = "select result from wakeboard.get_run(%s, %s) where status = 'succeeded'"
        found: Any = await (await conn.execute(query, (token.id, token.uuid))).fetchone()
    if found is None:
        raise HTTPException(404, "there is no file yet")
    lines = "".join(f"{row}\n" for row in range(found[0]["rows"]))
    return Response(lines, media_type="text/csv", headers={"Content-Disposition": 'attachment; filename="orders.csv"'})


async def page(request: Request) -> FileResponse:
    """A page or a script."""
    name = request.path_params.get("name", PAGES[0])
    if name not in PAGES:
        raise HTTPException(404)
    return FileResponse(HERE / name)


app = Starlette(
    routes=[
        Route("/", page),
        Route("/exports", start, methods=["POST"]),
        Route("/exports/{token}", download),
        Route("/{name}", page),
    ]
)

if __name__ == "__main__":
    uvicorn.run(app, host="127.0.0.1", port=int(os.environ["PORT"]), log_level="warning")
