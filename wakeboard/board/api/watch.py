"""GET /api/v1/watch/TOKEN: one run for any browser that has a token for it, without a login.

It shows what `WatchedRun` has and nothing else. The errors are three sentences of its own: those of the store may name
hosts, and any process on the internet may ask.
"""

from __future__ import annotations

import logging
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from wakeboard.board.api.endpoints import EVENTS, JSON, Endpoint, json_answer
from wakeboard.board.api.events import RENEW, followed, news_of_run, only_new
from wakeboard.board.change_feed import Subscriber
from wakeboard.board.pages.errors import NotFound
from wakeboard.board.pages.events import RETRY_AFTER
from wakeboard.board.problem_details import problem
from wakeboard.errors import WakeboardError
from wakeboard.process.failure_log import FailureLog
from wakeboard.views.queries.watched_run import WatchedRun, read_watched_run

if TYPE_CHECKING:
    from collections.abc import Mapping

    from starlette.requests import Request
    from starlette.responses import Response

    from wakeboard.board.access.run_tokens import RunTokenAccess
    from wakeboard.board.change_feed import News
    from wakeboard.board.state import Board
    from wakeboard.engine.run_tokens import RunToken

_failures: Final = FailureLog(logging.getLogger(__name__), what="the board's")


async def _watch(request: Request, _: Mapping[str, Any]) -> Any:
    board: Board = request.app.state.board
    access = board.options.run_tokens
    if access is None:
        raise NotFound("this board accepts no run tokens (WAKEBOARD_BOARD_WATCH_SECRETS_FILE)")
    try:
        token = access.verified(request.path_params["token"])
        if token is None:
            return problem(403, "the token is wrong or has expired: ask the application for another one")
        if EVENTS in request.headers.get("accept", ""):
            answer = await _stream(request, board, access, token)
        else:
            answer = json_answer(await _read(board, token))
    except NotFound:
        raise
    except WakeboardError as error:
        _failures.failed("reading for run tokens", error)
        return problem(503, "this is not available now: try again later", RETRY_AFTER)
    _failures.succeeded("reading for run tokens")
    return answer


async def _stream(request: Request, board: Board, access: RunTokenAccess, token: RunToken) -> Response:
    written = only_new("run")

    async def news() -> News:
        if access.verified(request.path_params["token"]) is None:
            return RENEW
        run = await _read(board, token)
        return news_of_run(written(run), run.status)

    subscriber = Subscriber(str(token.uuid), has_run_token=True)
    lasts_s = (token.expires - datetime.now(UTC)).total_seconds()
    return await followed(board.changes, request, subscriber, news, lasts_s)


async def _read(board: Board, token: RunToken) -> WatchedRun:
    key = ("watch", token.id, token.uuid)
    found = await board.fresh_reads.get(key, lambda conn: read_watched_run(conn, token.id, token.uuid))
    if found is None:
        raise NotFound("there is no such run any more")
    return found


WATCH_ENDPOINT: Final = Endpoint(
    path="/watch/{token:str}",
    summary="The run of a run token: its progress, steps and result, without a login."
    " With `Accept: text/event-stream`, server-sent events.",
    kind=WatchedRun,
    media=(JSON, EVENTS),
    is_public=True,
    answer=_watch,
)
