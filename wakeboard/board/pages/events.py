"""GET /events: the stream of server-sent events that notifies a page of changes."""

from __future__ import annotations

import asyncio
import time
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
LIFETIME_S: Final = 600.0  # of a stream. A client that does not read takes all that is sent in this time.


@stream("/events")
async def events(request: BoardRequest) -> Response:
    """Answers with `changed` events, and after 15 s without one with `alive`: the page knows that the board answers.

    A `source` event says from where changes come: `listen` or `poll`. A `renew` event ends the stream after ten
    minutes, and the page opens another one: so it must still be logged in, and a client that is gone holds no stream.
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
        end = time.monotonic() + LIFETIME_S
        while not feed.closed:
            if time.monotonic() >= end:
                yield "event: renew\ndata:\n\n"
                return
            if sent != feed.source:
                sent = feed.source
                yield f"event: source\ndata: {sent}\n\n"
            try:
                async with asyncio.timeout(HEARTBEAT_S):
                    await changed.wait()
            except TimeoutError:
                yield "event: alive\ndata:\n\n"
                continue
            changed.clear()
            if not feed.closed:
                yield "event: changed\ndata:\n\n"
                await asyncio.sleep(DEBOUNCE_S)
    finally:
        feed.unsubscribe(changed)
