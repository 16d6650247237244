"""Streams of what changes in one run, in its log or in a search, over the feed that the pages follow.

Each stream begins with everything, so a client that was away has missed nothing; that of a log goes on behind the event
that the client names. It reads what GET reads, with the permissions that its viewer has at that moment.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from starlette.responses import Response

from wakeboard.board.api.endpoints import EVENTS, LIMIT, Endpoint
from wakeboard.board.api.logs import MOST_SENT, MOST_SENT_BYTES, LogPlaces, new_lines
from wakeboard.board.api.reads import SEARCH, found_runs, shown_run
from wakeboard.board.change_feed import LIFETIME_S, News, Subscriber, message
from wakeboard.board.pages.errors import NotFound
from wakeboard.board.pages.events import RETRY_AFTER, event_stream
from wakeboard.board.problem_details import problem
from wakeboard.text.sanitize import json_text
from wakeboard.views.rules.json_types import to_json_types
from wakeboard.views.rules.run_rows import ENDED

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from starlette.requests import HTTPConnection

    from wakeboard.board.change_feed import ChangeFeed
    from wakeboard.board.routing import BoardRequest

END_ID: Final = "end"
END: Final = News(f"id: {END_ID}\n{message('end')}", last=True)
RENEW: Final = News(message("renew"), last=True)


async def followed(
    feed: ChangeFeed,
    connection: HTTPConnection,
    subscriber: Subscriber,
    news: Callable[[], Awaitable[News]],
    lasts_s: float = LIFETIME_S,
) -> Response:
    """The stream of these news, if the first of them can be read. Raises WakeboardError.

    A browser that opens an ended stream again gets 204, after which it does not ask once more.
    """
    if connection.headers.get("last-event-id") == END_ID:
        return Response(status_code=204)
    if not feed.has_room(subscriber):
        return problem(503, "there are too many open streams: try again later", RETRY_AFTER)
    first: News | None = await news()

    async def next_news() -> News:
        nonlocal first
        taken, first = first, None
        try:
            return taken or await news()
        except NotFound:  # it was deleted: the answer to the next request says so
            return RENEW

    return event_stream(feed.messages(subscriber, next_news, lasts_s=lasts_s))


def only_new(event: str) -> Callable[[Any], str]:
    """Makes a message of a value that differs from the one before; "" otherwise."""
    sent = ""

    def written(value: Any) -> str:
        nonlocal sent
        text = json_text(to_json_types(value))
        if text == sent:
            return ""
        sent = text
        return message(event, text)

    return written


def news_of_run(text: str, status: str) -> News:
    """A message about a run with this status, which ends its stream if the run has ended."""
    return News(text + END.text, last=True) if status in ENDED else News(text)


async def _run_events(request: BoardRequest, given: Mapping[str, Any]) -> Response:
    written = only_new("run")

    async def said(request: BoardRequest) -> News:
        run = await shown_run(request, given)
        return news_of_run(written(run), run.status)

    return await _of_viewer(request, said)


async def _log_events(request: BoardRequest, _: Mapping[str, Any]) -> Response:
    given = request.connection.headers.get("last-event-id", "")
    sent = LogPlaces("" if given == END_ID else given)

    async def said(request: BoardRequest) -> News:
        rows, ended = await new_lines(request, sent)
        if not rows:
            return END if ended else News()
        texts: list[str] = []
        size = 0
        for row in rows:
            text = json_text(to_json_types(row))
            size += len(text.encode()) + len(", ")
            if texts and size > MOST_SENT_BYTES:
                break
            texts.append(text)
        sent.add(rows[: len(texts)])
        more = len(texts) < len(rows) or len(rows) >= MOST_SENT
        event = message("lines", f"[{', '.join(texts)}]")
        return News(f"id: {sent.text()}\n{event}", more=more)

    return await _of_viewer(request, said)


async def _search_events(request: BoardRequest, given: Mapping[str, Any]) -> Response:
    sent: dict[int, str] | None = None

    async def said(request: BoardRequest) -> News:
        nonlocal sent
        rows = {row["id"]: row for row in (await found_runs(request, given)).items}
        texts = {run_id: json_text(row) for run_id, row in rows.items()}
        before, sent, is_first = sent or {}, texts, sent is None
        changed = [row for run_id, row in rows.items() if before.get(run_id) != texts[run_id]]
        gone = [run_id for run_id in before if run_id not in rows]
        anything = changed or gone or is_first
        return News(message("runs", json_text({"changed": changed, "gone": gone})) if anything else "")

    return await _of_viewer(request, said)


async def _of_viewer(request: BoardRequest, said: Callable[[BoardRequest], Awaitable[News]]) -> Response:
    """The stream of a viewer. It ends when the login or the last permission does."""

    async def news() -> News:
        viewer = await request.board.viewer(request.connection)
        if viewer is None or viewer.namespaces == frozenset():
            return RENEW
        return await said(replace(request, viewer=viewer, is_stream=True))

    return await followed(request.board.changes, request.connection, Subscriber(request.viewer.name), news)


EVENT_ENDPOINTS: Final = [
    Endpoint(
        path="/runs/events",
        summary="What changes among the newest runs of a search, as server-sent events.",
        kind=str,
        media=(EVENTS,),
        answer=_search_events,
        parameters=(SEARCH, LIMIT),
    ),
    Endpoint(
        path="/runs/{id:int}/events",
        summary="A run at each of its changes, as server-sent events.",
        kind=str,
        media=(EVENTS,),
        answer=_run_events,
    ),
    Endpoint(
        path="/runs/{id:int}/log/events",
        summary="The lines of a run's log as they are stored, as server-sent events: all its attempts from their first"
        " lines on, or behind the event that Last-Event-ID names.",
        kind=str,
        media=(EVENTS,),
        answer=_log_events,
    ),
]
