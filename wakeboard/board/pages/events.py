"""GET /events: the stream of server-sent events that notifies a page of changes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from starlette.responses import PlainTextResponse, StreamingResponse

from wakeboard.board.change_feed import News, Subscriber, message
from wakeboard.board.routing import stream

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from starlette.responses import Response

    from wakeboard.board.change_feed import ChangeFeed
    from wakeboard.board.routing import BoardRequest

RETRY_AFTER: Final = {"Retry-After": "10"}


@stream("/events")
async def events(request: BoardRequest) -> Response:
    """Answers with `changed` events; ChangeFeed.messages has the others.

    A `source` event says from where changes come: `listen` or `poll`.
    """
    feed, subscriber = request.board.changes, Subscriber(request.viewer.name)
    if not feed.has_room(subscriber):
        return PlainTextResponse("503: this board has too many open pages: close some.\n", 503, RETRY_AFTER)
    return event_stream(feed.messages(subscriber, _changes(feed)))


def event_stream(messages: AsyncIterator[str]) -> StreamingResponse:
    """The answer with the messages of a stream, which no proxy keeps back."""
    headers = {"X-Accel-Buffering": "no", "Cache-Control": "no-store"}
    return StreamingResponse(messages, media_type="text/event-stream", headers=headers)


def _changes(feed: ChangeFeed) -> Callable[[], Awaitable[News]]:
    source = ""

    async def news() -> News:
        nonlocal source
        changed = message("changed") if source else ""  # the page has just loaded
        if source != feed.source:
            source = feed.source
            changed += message("source", source)
        return News(changed)

    return news
