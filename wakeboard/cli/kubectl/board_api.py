"""The API of the board, through the proxy of the API server for Services."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final, NoReturn, cast
from urllib.parse import quote, urlencode

from wakeboard.errors import InvalidValue, WakeboardError
from wakeboard.text.humanize import counted
from wakeboard.text.sanitize import one_line

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from datetime import datetime

    from wakeboard.cli.kubectl.api_connection import ApiConnection

MOST_ITEMS: Final = 200  # of a page
PORT: Final = "http"  # its name in the Service of the chart
API: Final = "/api/v1"
NO_OBJECT: Final = "There is no "  # how each 404 of the API for an object begins
ROLE: Final = "docs/kubectl.md has the Role"
LABELS: Final = "app.kubernetes.io/name=wakeboard,app.kubernetes.io/component=board"
ERROR, UNAUTHORIZED, FORBIDDEN, NOT_FOUND, CONFLICT, MISDIRECTED = 400, 401, 403, 404, 409, 421
NOT_READY: Final = frozenset({502, 503, 504})
_LONGEST: Final = 500  # characters of a message


class BoardRefused(WakeboardError):
    """The board itself refused a request. `status`: of HTTP. `answer`: of an action, as in `--json`."""

    def __init__(self, detail: str, status: int, answer: str) -> None:
        self.status, self.answer = status, answer
        super().__init__(detail)


def find_board(connection: ApiConnection, namespace: str) -> str:
    """The name of the Service of the only board in this namespace. Raises WakeboardError.

    Other namespaces are not searched: who may create a Service in one of them would get the tokens of all users.
    """
    path = f"{_services(namespace)}?{urlencode({'labelSelector': LABELS})}"
    status, text = connection.send("GET", path, passes_token=False)
    answer = _json(text)
    if status == FORBIDDEN:
        raise WakeboardError(
            f"you may not `list services` in the namespace {namespace}, where the board is looked for. {ROLE}. Or name"
            " another namespace with --board-namespace, or the Service with --board"
        )
    if status >= ERROR:
        _refused_by_api_server(status, answer or {}, f"services in the namespace {namespace}", "list services")
    try:
        names = [str(each["metadata"]["name"]) for each in answer["items"]]
    except (TypeError, LookupError):
        raise WakeboardError(
            f"what answers with {status} is no API server of Kubernetes: a login page may be before it"
        ) from None
    if not names:
        raise WakeboardError(
            f"there is no board with a Service in the namespace {namespace}. Name its namespace with --board-namespace"
            " or WAKEBOARD_BOARD_NAMESPACE; the Service needs board.service.enabled=true in the chart's values"
        )
    if len(names) > 1:
        choices = " or ".join(f"--board {name}" for name in names)
        raise InvalidValue(f"there are {counted(len(names), 'board')} in the namespace {namespace}: write {choices}.")
    return names[0]


class BoardApi:
    """The API of one board. Each request raises WakeboardError."""

    def __init__(self, connection: ApiConnection, namespace: str, service: str) -> None:
        self._connection = connection
        name = service if ":" in service else f"{service}:{PORT}"
        self._where = f"{name} in the namespace {namespace}"
        self._base = f"{_services(namespace)}/{quote(name, safe=':')}/proxy{API}"

    @property
    def now(self) -> datetime:
        """The time of the cluster."""
        return self._connection.now

    def get(self, path: str, **query: Any) -> Any:
        """The answer to a GET. Parameters that are None are left out."""
        given = {name: value for name, value in query.items() if value is not None}
        return self._answer("GET", path + (f"?{urlencode(given)}" if given else ""))

    def found(self, path: str, **query: Any) -> Any:
        """As `get`; None: there is no such object, or the user may not see it."""
        try:
            return self.get(path, **query)
        except BoardRefused as refused:
            if refused.status != NOT_FOUND:
                raise
            return None

    def get_list(self, path: str, **query: Any) -> list[Any]:
        """The items of a list that has one page."""
        return self._items(self.get(path, **query))[0]

    def listed(self, path: str, **query: Any) -> list[Any]:
        """The items of a list that has one page; none if that of which they are is not there."""
        found = self.found(path, **query)
        return [] if found is None else self._items(found)[0]

    def items(self, path: str, most: int, **query: Any) -> Iterator[Any]:
        """At most `most` items of a list, page by page."""
        after: str | None = None
        while most > 0:
            items, after = self.page(path, limit=min(most, MOST_ITEMS), after=after, **query)
            yield from items[:most]
            most -= len(items)
            if after is None:
                return

    def page(self, path: str, **query: Any) -> tuple[list[Any], str | None]:
        """The items of one page of a list, and the `after` of the next page or None."""
        return self._items(self.get(path, **query))

    def _items(self, page: Any) -> tuple[list[Any], str | None]:
        found = cast("dict[str, Any]", page) if isinstance(page, dict) else {}
        items = found.get("items")
        if not isinstance(items, list) or "next" not in found:
            raise self._no_board()
        return cast("list[Any]", items), found["next"]

    def _no_board(self) -> WakeboardError:
        return WakeboardError(f"what answers as {self._where} is no board of wakeboard")

    def post(self, path: str, **members: Any) -> Any:
        """The answer to an action. Members that are None are left out. BoardRefused with 409: nothing was changed."""
        given = {name: value for name, value in members.items() if value is not None}
        return self._answer("POST", path, json.dumps(given).encode())

    def _answer(self, method: str, path: str, body: bytes | None = None) -> Any:
        status, text = self._connection.send(method, self._base + path, body, passes_token=True)
        answer = _json(text)
        if status >= ERROR:
            problem = cast("dict[str, Any]", answer) if isinstance(answer, dict) else {}
            if "detail" in problem and problem.get("status") == status:  # of the board (RFC 9457)
                if status == NOT_FOUND and not str(problem["detail"]).startswith(NO_OBJECT):
                    where = f"{self._where} has no {API}{path.partition('?')[0]}"
                    raise WakeboardError(f"{where}: it is no board, or one that is older than this plugin")
                _refused_by_board(status, problem)
            verb = "create" if method == "POST" else "get"
            _refused_by_api_server(status, problem, self._where, f"{verb} services/proxy")
        if answer is None:
            raise self._no_board()
        return answer


def _services(namespace: str) -> str:
    return f"/api/v1/namespaces/{quote(namespace, safe='')}/services"


def _json(text: bytes) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _refused_by_board(status: int, problem: Mapping[str, Any]) -> NoReturn:
    if status == UNAUTHORIZED:
        raise WakeboardError(
            "the board does not know your token. It needs the login `kubernetes`, and a token that its API server"
            " knows; one of Rancher, Teleport or another proxy before the API server is none"
        )
    if status == MISDIRECTED:
        raise WakeboardError(
            "the board takes no users of `kubectl wakeboard`: it needs the login `kubernetes`, and to be as new as this"
            " plugin"
        )
    detail = one_line(str(problem["detail"]))[:_LONGEST]
    raise BoardRefused(detail, status, str(problem.get("answer") or f"refused: {detail.rstrip('.')}"))


def _refused_by_api_server(status: int, answer: Mapping[str, Any], where: str, what: str) -> NoReturn:
    said = one_line(str(answer.get("message", "")))[:_LONGEST]
    if status == UNAUTHORIZED:
        raise WakeboardError("the API server refuses your token: log in again")
    if status == FORBIDDEN:
        raise WakeboardError(f"you may not `{what}` on {where}. {ROLE}")
    if status == NOT_FOUND:
        raise WakeboardError(f"there is no {where}: name the board with --board and --board-namespace")
    if status in NOT_READY:
        raise WakeboardError(f"the board is not ready: no pod answers as {where}. {said}")
    raise WakeboardError(f"the API server answered {status} for {where}. {said}")
