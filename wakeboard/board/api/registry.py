"""All endpoints of the API, and the page that shows them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from starlette.responses import Response
from starlette.routing import Route

from wakeboard.board.api.actions import ACTION_ENDPOINTS
from wakeboard.board.api.bulk import BULK_ENDPOINTS
from wakeboard.board.api.endpoints import json_answer
from wakeboard.board.api.events import EVENT_ENDPOINTS
from wakeboard.board.api.logs import LOG_ENDPOINTS
from wakeboard.board.api.openapi import document
from wakeboard.board.api.reads import READ_ENDPOINTS, SCHEDULE_BY_NAME
from wakeboard.board.api.watch import WATCH_ENDPOINT
from wakeboard.board.problem_details import API, as_problem
from wakeboard.board.routing import BoardRequest, Page, page, read_request

if TYPE_CHECKING:
    from starlette.requests import Request

    from wakeboard.board.api.endpoints import Endpoint

ENDPOINTS: Final[tuple[Endpoint, ...]] = (
    *READ_ENDPOINTS,
    *LOG_ENDPOINTS,
    *BULK_ENDPOINTS,
    *EVENT_ENDPOINTS,
    WATCH_ENDPOINT,
    *ACTION_ENDPOINTS,
    SCHEDULE_BY_NAME,
)


@dataclass(frozen=True, slots=True)
class ApiModel:
    """The model of the page. `base`: the path before those of the endpoints."""

    base: str
    endpoints: tuple[Endpoint, ...] = ENDPOINTS


async def _openapi(request: Request) -> Response:
    """The OpenAPI document, for viewers who have logged in."""
    viewed = await read_request(request)
    if isinstance(viewed, Response):
        return as_problem(viewed)
    return json_answer(document(ENDPOINTS, viewed.prefix))


@page("/api")
async def api(request: BoardRequest) -> Page:
    """Shows the endpoints."""
    return Page("api.html", ApiModel(request.prefix + API), "API")


API_ROUTES: Final = [
    api,
    Route(f"{API}/openapi.json", _openapi, methods=["GET"]),
    *(endpoint.route for endpoint in ENDPOINTS),
]
