"""What an endpoint of the API is, and the route that serves one.

`ENDPOINTS` of `registry.py` lists them all. Routing, the OpenAPI document, the page and the tests follow from that
list. An endpoint answers 400 for a parameter that it does not know.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, cast

from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from wakeboard.board.access.viewer import Permission
from wakeboard.board.problem_details import API, as_problem
from wakeboard.board.routing import MAX_BODY, body_of, read_request
from wakeboard.errors import InvalidValue
from wakeboard.text.humanize import counted
from wakeboard.text.sanitize import json_text, one_line
from wakeboard.views.rules.json_types import to_json_types

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from starlette.requests import Request

Kind: TypeAlias = Literal["string", "integer", "boolean", "json"]
LONGEST_TEXT: Final = 1000  # characters of a parameter
JSON: Final = "application/json"
EVENTS: Final = "text/event-stream"
LARGEST_INTEGER: Final = 2**53 - 1  # up to here every JSON parser reads integers exactly
_DIGITS: Final = re.compile(r"-?[0-9]{1,16}")


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of the query, or a member of the body of an action. `text`: what it is, in a sentence."""

    name: str
    text: str
    kind: Kind = "string"
    required: bool = False
    choices: tuple[str, ...] = ()
    least: int = 0
    most: int = LARGEST_INTEGER
    longest: int = LONGEST_TEXT

    def schema(self) -> dict[str, Any]:
        """Its JSON Schema."""
        match self.kind:
            case "string" if self.choices:
                return {"type": "string", "enum": list(self.choices)}
            case "string":
                return {"type": "string", "maxLength": self.longest}
            case "integer":
                return {"type": "integer", "minimum": self.least, "maximum": self.most}
            case "boolean":
                return {"type": "boolean"}
            case "json":
                return {"type": ["object", "array"]}

    def of_query(self, text: str) -> Any:
        """The value in a query. Raises InvalidValue."""
        return self.checked(int(text) if self.kind == "integer" and _DIGITS.fullmatch(text) else text)

    def checked(self, value: Any) -> Any:
        """The value, if it is one of this parameter. Raises InvalidValue."""
        match self.kind:
            case "string" if isinstance(value, str) and (not self.choices or value in self.choices):
                if len(value) <= self.longest and "\0" not in value and not _has_surrogates(value):
                    return value
            case "integer" if isinstance(value, int) and not isinstance(value, bool):
                if self.least <= value <= self.most:
                    return value
            case "boolean" if isinstance(value, bool):
                return value
            case "json" if isinstance(value, dict | list):
                return cast("Any", value)
            case _:
                pass
        raise InvalidValue(f"{self.name} is {one_line(repr(value))[:60]}: write {self._expected()}")

    def _expected(self) -> str:
        if self.choices:
            return f"one of {', '.join(map(repr, self.choices))}"
        if self.kind == "integer":
            return f"a whole number from {self.least} to {self.most}"
        if self.kind == "string":
            return f"a text without NUL, of at most {counted(self.longest, 'character')}"
        return "true or false" if self.kind == "boolean" else "an object or a list"


DEFAULT_LIMIT: Final = 50
LIMIT: Final = Parameter("limit", "Maximum number of items; 50 without it.", "integer", least=1, most=200)
AFTER: Final = Parameter("after", "The member next of the page before.", longest=2000)


@dataclass(frozen=True, slots=True)
class Items:
    """A page of a list. `next`: the value of `after` for the next page, or null."""

    items: Sequence[Any]
    next: str | None = None


Answer: TypeAlias = "Callable[[Any, Mapping[str, Any]], Awaitable[Any]]"  # of a BoardRequest and its parameters


FIRST_TICK: Final = Parameter("first", "The beginning of the range, in the time zone of the schedule.", required=True)
LAST_TICK: Final = Parameter("last", "Its end, which is not part of it.", required=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """A method on a path. `path`: below /api/v1. `kind`: the type of the answer, or of the items of a list.

    `parameters`: of the query for GET, of the body for POST. `permission`: the one that an action needs.
    `media`: the forms of the answer. `is_public`: without a login; its function gets the request as it was received.
    """

    path: str
    summary: str
    kind: type
    answer: Answer
    method: Literal["GET", "POST"] = "GET"
    parameters: tuple[Parameter, ...] = ()
    permission: Permission = Permission.VIEW
    is_list: bool = False
    media: tuple[str, ...] = (JSON,)
    is_public: bool = False

    @property
    def shown_path(self) -> str:
        """The path without the kinds of its parts: /runs/{id}."""
        return re.sub(r"\{(\w+):\w+\}", r"{\1}", self.path)

    @property
    def name(self) -> str:
        """A name for generated clients: get_runs_id_steps."""
        return "_".join([self.method.lower(), *re.findall(r"[a-z]+", self.shown_path)])

    @property
    def route(self) -> Route:
        """Serves it."""
        return Route(API + self.path, self._respond, methods=[self.method], name=self.name)

    async def _respond(self, request: Request) -> Response:
        given: dict[str, Any] = {}

        async def read_fields(sent: Request) -> dict[str, list[str]] | Response:
            found = await body_members(sent)
            if isinstance(found, Response):
                return found
            given.update(self._checked(found, lambda parameter, value: parameter.checked(value)))
            return _as_form(given)

        is_action = self.method == "POST"
        viewed = (
            request
            if self.is_public
            else await read_request(request, self.permission, read_fields if is_action else None)
        )
        if isinstance(viewed, Response):
            return as_problem(viewed)
        query = dict(request.query_params)
        if is_action and query:
            raise InvalidValue("an action takes no query: write its parameters into the body")
        if len(request.query_params.multi_items()) > len(query):
            raise InvalidValue("a parameter comes twice: write each once")
        if not is_action:
            given = self._checked(query, lambda parameter, value: parameter.of_query(value))
        value = await self.answer(viewed, given)
        if isinstance(value, StreamingResponse) and request.method == "HEAD":
            return Response(media_type=value.media_type)  # a stream without a reader would not end
        return value if isinstance(value, Response) else json_answer(value)

    def _checked(self, given: Mapping[str, Any], check: Callable[[Parameter, Any], Any]) -> dict[str, Any]:
        known = {parameter.name: parameter for parameter in self.parameters}
        for name in given:
            if name not in known:
                takes = f"write one of {', '.join(known)}" if known else "leave it out"
                raise InvalidValue(f"there is no parameter {one_line(name)[:60]!r}: {takes}")
        for parameter in self.parameters:
            if parameter.required and parameter.name not in given:
                raise InvalidValue(f"{parameter.name} is missing: {parameter.text}")
        return {name: check(known[name], value) for name, value in given.items()}


def json_answer(value: Any, headers: Mapping[str, str] | None = None) -> Response:
    """The answer with a value of the read model."""
    return Response(json_text(to_json_types(value)), headers=dict(headers or {}), media_type=JSON)


async def body_members(request: Request) -> dict[str, Any] | Response:
    """The members of the object that the body of a request is; none for an empty body. Raises InvalidValue."""
    body = await body_of(request, MAX_BODY)
    if body is None:
        return PlainTextResponse("413: the body is larger than 1 MiB.\n", 413)
    if not body.strip():
        return {}
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != JSON:
        return PlainTextResponse("415: send JSON with Content-Type: application/json.\n", 415)
    try:
        members = json.loads(body.decode(), parse_constant=_refuse_constant, object_pairs_hook=_object_of)
    except (ValueError, RecursionError) as exc:
        why = "it is nested too deeply" if isinstance(exc, RecursionError) else one_line(str(exc))[:100]
        raise InvalidValue(f"the body is not valid JSON: {why}") from None
    if not isinstance(members, dict):
        raise InvalidValue("the body is no JSON object: write an object with the parameters")
    return cast("dict[str, Any]", members)


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def _object_of(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) < len(pairs):
        raise ValueError("an object has the same key twice")
    return members


def _has_surrogates(text: str) -> bool:
    return any("\ud800" <= char <= "\udfff" for char in text)


def _as_form(given: Mapping[str, Any]) -> dict[str, list[str]]:
    """The members as the fields of the form that the page of the action has; true is the name of its field."""
    form = {"reason": [""]}
    for name, value in given.items():
        if isinstance(value, bool):
            form[name] = [name if value else ""]
        elif name == "payload":
            form[name] = [json.dumps(value, ensure_ascii=True)]
        else:
            form[name] = [str(value)]
    return form
