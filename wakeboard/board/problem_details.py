"""Errors of the API as problem details (RFC 9457), instead of the pages that browsers get."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final

from starlette.responses import Response

from wakeboard.text.humanize import as_sentence
from wakeboard.text.sanitize import json_text

if TYPE_CHECKING:
    from collections.abc import Mapping

    from starlette.types import Scope

API: Final = "/api/v1"
WATCH: Final = f"{API}/watch/"
MEDIA_TYPE: Final = "application/problem+json"
_KEPT: Final = ("www-authenticate", "allow", "retry-after")  # headers of the answer that a problem replaces


def is_of_api(scope: Scope) -> bool:
    """Whether a request is for the API."""
    path = _path(scope)
    return path == API or path.startswith(f"{API}/")


def is_of_watchers(scope: Scope) -> bool:
    """Whether a request is for what pages of other sites may read with a run token."""
    return _path(scope).startswith(WATCH)


def _path(scope: Scope) -> str:
    return scope["path"].removeprefix(scope.get("root_path", ""))


def problem(status: int, detail: str, headers: Mapping[str, str] | None = None, **more: Any) -> Response:
    """The answer for an error. `more`: members that say what a program can use."""
    body = {"title": HTTPStatus(status).phrase, "status": status, "detail": as_sentence(detail), **more}
    return Response(json_text(body), status, dict(headers or {}), MEDIA_TYPE)


def as_problem(answer: Response) -> Response:
    """An error that is plain text, such as `403: …`, as a problem; another answer as it is."""
    if answer.status_code < HTTPStatus.BAD_REQUEST or answer.media_type != "text/plain":
        return answer
    text = bytes(answer.body).decode().removeprefix(f"{answer.status_code}: ").strip()
    return problem(answer.status_code, text, {name: answer.headers[name] for name in _KEPT if name in answer.headers})
