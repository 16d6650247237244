"""GET /events: the stream of server-sent events that notifies a page of changes."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from starlette.responses import PlainTextResponse, StreamingResponse

from wakeboard.board.change_feed import DEBOUNCE_S
from wakeboard.board.routing import stream

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from starlette.responses import Response

    from wakeboard.board.change_feed import ChangeFeed
    from wakeboard.board.routing import BoardRequest

HEARTBEAT_S: Final = 15.0


@stream("/events")
async def events(request: BoardRequest) -> Response:
    """Answers with `changed` events, and with a comment every 15 s, so that proxies keep the connection.

    A `source` event says from where changes come: `listen` or `poll`.
    """
    feed = request.board.changes
    if feed.is_full:
        return PlainTextResponse("503: this board has too many open pages: close some.\n", 503, {"Retry-After": "10"})
    headers = {"X-Accel-Buffering": "no", "Cache-Control": "no-store"}
    return StreamingResponse(_events(feed), media_type="text/event-stream", headers=headers)


async def _events(feed: ChangeFeed) -> AsyncIterator[str]:
    changed = feed.subscribe()
    try:
        yield "retry: 2000\n\n"
        sent = ""
        while not feed.closed:
            if sent != feed.source:
                sent = feed.source
                yield f"event: source\ndata: {sent}\n\n"
            try:
                async with asyncio.timeout(HEARTBEAT_S):
                    await changed.wait()
            except TimeoutError:
                yield ": still here\n\n"
                continue
            changed.clear()
            if not feed.closed:
                yield "event: changed\ndata:\n\n"
                await asyncio.sleep(DEBOUNCE_S)
    finally:
        feed.unsubscribe(changed)
