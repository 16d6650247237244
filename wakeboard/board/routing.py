"""The decorators that register pages and actions, and the request that they receive.

A page answers GET and needs the permission to view. An action answers POST and demands a permission of its own: the
decorator refuses to register one without it, and a test walks all routes.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar
from urllib.parse import parse_qsl, quote, urlencode

from starlette.requests import ClientDisconnect
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import Route

from wakeboard.board import messages
from wakeboard.board.access.address import PARAMETER, AddressAccess
from wakeboard.board.access.viewer import Permission, cookie_name
from wakeboard.board.messages import ActionMessage
from wakeboard.board.paths import asset_paths, path_and_query, path_of, safe_path
from wakeboard.board.templating import render
from wakeboard.errors import (
    CommitLost,
    DatabaseUnavailable,
    Forbidden,
    InvalidValue,
    Locked,
    MissingRight,
    QueryTimedOut,
)
from wakeboard.text.humanize import as_sentence

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Generator, Hashable, Mapping, Sequence

    from starlette.requests import HTTPConnection, Request

    from wakeboard.actions.admin_api import AdminStore
    from wakeboard.board.access.viewer import Viewer
    from wakeboard.board.state import Board
    from wakeboard.store.connection import AsyncConnection

MAX_BODY: Final = 1 << 20  # bytes of a form
MAX_QUERY: Final = 8192  # characters
MAX_FIELDS: Final = 20_000  # of a form
LOGIN_S: Final = 43_200  # how long a browser stays logged in
OWN_LOGIN_S: Final = 30 * 86_400  # the same, with the token of an address

_Result = TypeVar("_Result")


@dataclass(frozen=True, slots=True)
class Page:
    """What a page shows: a template of `templates/`, and the model that it renders as `page`.

    `may`: the permissions for which the page offers actions; the template renders no others.
    """

    template: str
    model: Any
    title: str = ""
    status: int = 200
    may: frozenset[Permission] = frozenset()


@dataclass(frozen=True, slots=True)
class Redirect:
    """The answer to an action: go to `path` (inside the board) and show `message` there.

    `problem`: it did not do what was asked. `link`: a path inside the board that the message names as `label`.
    `answer`: that of the SQL function, for programs. `created`: the path in the API of what has no page of its own.
    """

    path: str
    message: str = ""
    problem: bool = False
    link: str = ""
    label: str = ""
    answer: str = ""
    created: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class BoardRequest:
    """A request to a page or an action.

    `prefix`: the path under which the board is mounted, without a trailing slash. `query`: the parameters of the URL;
    of a repeated one the last. `form`: the fields of an action's form. `parts`: the variable parts of the path.
    `here`: the path inside the board with its query. `message`: what an action has left for this page.
    `secure`: the browser uses HTTPS. `from_own_page`: a page of the board has sent it, and not one of another site.
    `in_dialog`: actions.js has sent a form, and shows what is wrong with it in the dialog. `is_stream`: its answer says
    what changes, so it is read from the primary.
    `connection`: the request as it was received.
    """

    board: Board
    viewer: Viewer
    connection: HTTPConnection
    prefix: str
    path: str
    query: Mapping[str, str]
    parts: Mapping[str, Any]
    form: Mapping[str, list[str]] = field(default_factory=dict[str, list[str]])
    permission: Permission = Permission.VIEW
    here: str = "/"
    message: ActionMessage | None = None
    secure: bool = False
    from_own_page: bool = False
    in_dialog: bool = False
    is_stream: bool = False

    def field(self, name: str) -> str:
        """A field of the form, of a repeated one the last; "" without it."""
        return self.form.get(name, [""])[-1]

    def values(self, name: str) -> list[str]:
        """All values of a parameter of the URL, or of a field of the form."""
        if self.form:
            return self.form.get(name, [])
        return [value for key, value in parse_qsl(self.here.partition("?")[2], keep_blank_values=True) if key == name]

    async def read(
        self, key: Hashable, query: Callable[[AsyncConnection], Awaitable[_Result]], *, scans: bool = False
    ) -> _Result:
        """The result of a read, shared with all viewers that use the same `key`. Raises WakeboardError.

        `scans`: it examines runs one by one, so it uses connections that other pages do not need. What a standby does
        not know (None) may be new, so the primary is asked.
        """
        board = self.board
        fresh = board.fresh_searches if scans else board.fresh_reads
        async with _naming_lock_holders(board):
            if self.is_stream:
                return await fresh.get(key, query)
            found = await (board.searches if scans else board.reads).get(key, query)
            return await fresh.get(key, query) if found is None and board.replica is not None else found

    @asynccontextmanager
    async def acting(
        self, namespaces: Collection[str | None], *, statement_timeout_s: int | None = None
    ) -> AsyncGenerator[AdminStore]:
        """The SQL functions for this action in one transaction, if the viewer has its permission in these namespaces.

        `namespaces`: of what the action changes; None for what belongs to none. `statement_timeout_s`: another one than
        that of actions. Raises Forbidden, and as `ConnectionPool.transaction`. Actions use no other way to the
        functions, so none can leave out the check.
        """
        await self.require(self.permission, namespaces)
        async with (
            _naming_lock_holders(self.board),
            self.board.acting(self.viewer.name, statement_timeout_s=statement_timeout_s) as store,
        ):
            yield store

    async def reveal(
        self, what: str, namespace: str | None, *, run_id: int | None = None, definition_id: int | None = None
    ) -> bool:
        """Whether the viewer may see masked values of a run or a schedule in this namespace. A yes is audited.

        A request that another site has sent, such as that for an image, shows nothing and is not audited. Nothing is
        shown of a run that was deleted after it was read: the audit log cannot name it.
        """
        if not self.from_own_page or not await self.viewer.may(Permission.REVEAL, namespace):
            return False
        with _explaining_the_acting_role():
            async with self.board.acting(self.viewer.name) as store:
                return await store.reveal(what, run_id=run_id, definition_id=definition_id)

    async def read_cached(
        self, key: Hashable, query: Callable[[AsyncConnection], Awaitable[_Result]], *, scans: bool = False
    ) -> _Result:
        """As `read`, for counts and names: the result may be 10 s old. An action on this board clears it."""
        async with _naming_lock_holders(self.board):
            return await (self.board.cached_searches if scans else self.board.cached_reads).get(key, query)

    async def require(self, permission: Permission, namespaces: Collection[str | None]) -> None:
        """Raises Forbidden unless the viewer has the permission in each of these namespaces, or if none is given."""
        for namespace in sorted(set(namespaces), key=lambda name: name or ""):
            if not await self.viewer.may(permission, namespace):
                where = f" in the namespace {namespace}" if namespace else ""
                raise Forbidden(f"the user {self.viewer.name} may not do this{where} (permission: {permission})")
        if not namespaces:
            raise Forbidden(f"the user {self.viewer.name} may do this in no namespace (permission: {permission})")

    async def permitted_namespaces(self, permission: Permission) -> frozenset[str] | None:
        """Where the viewer has a permission; None: everywhere, also for what belongs to no namespace."""
        visible = self.viewer.namespaces
        if visible is None and await self.viewer.may(permission, None):
            return None
        names = sorted(visible) if visible is not None else await self.board.known_namespaces()
        answers = await asyncio.gather(*(self.viewer.may(permission, name) for name in names))
        return frozenset(name for name, allowed in zip(names, answers, strict=True) if allowed)

    async def permissions(self, namespace: str | None) -> frozenset[Permission]:
        """What the viewer may do in a namespace; None: to what belongs to none."""
        answers = await asyncio.gather(*(self.viewer.may(each, namespace) for each in Permission))
        return frozenset(each for each, allowed in zip(Permission, answers, strict=True) if allowed)

    def url(self, path: str, **query: Any) -> str:
        """A link inside the board; parameters that are None or "" are left out."""
        return self.prefix + self.link(path, **query)

    def link(self, path: str, **query: Any) -> str:
        """As `url`, without the prefix: for redirects."""
        given = {name: value for name, value in query.items() if value not in {None, ""}}
        return quote(path, safe="/:@,~") + (f"?{urlencode(given)}" if given else "")


@dataclass(frozen=True, slots=True, kw_only=True)
class NotDone:
    """The model of the page for an action that the database did not execute.

    `certain`: nothing was changed; otherwise it is not known. `path`, `fields`: the form, to be sent again. `back`: the
    page to return to.
    """

    problem: str
    certain: bool
    path: str
    fields: Sequence[tuple[str, str]]
    back: str


Act: TypeAlias = "Callable[[BoardRequest], Awaitable[Redirect | Page]]"


def page(path: str) -> Callable[[Callable[[BoardRequest], Awaitable[Page]]], Route]:
    """Registers a page: GET `path`. The function is called for viewers who have logged in."""

    def register(function: Callable[[BoardRequest], Awaitable[Page]]) -> Route:
        async def endpoint(request: Request) -> Response:
            board_request = await read_request(request)
            if isinstance(board_request, Response):
                return board_request
            return _rendered(board_request, await function(board_request))

        return Route(path, endpoint, methods=["GET"], name=function.__name__)

    return register


def stream(path: str) -> Callable[[Callable[[BoardRequest], Awaitable[Response]]], Route]:
    """Registers a GET `path` that answers with something else than a page, such as a stream or a download."""

    def register(function: Callable[[BoardRequest], Awaitable[Response]]) -> Route:
        async def endpoint(request: Request) -> Response:
            board_request = await read_request(request)
            if isinstance(board_request, Response):
                return board_request
            answer = await function(board_request)
            if request.method == "HEAD" and isinstance(answer, StreamingResponse):
                return Response(media_type=answer.media_type)  # a stream without a reader would not end
            return answer

        return Route(path, endpoint, methods=["GET"], name=function.__name__)

    return register


def action(
    path: str, permission: Permission
) -> Callable[[Callable[[BoardRequest], Awaitable[Redirect | Page]]], Route]:
    """Registers an action: POST `path`. The function changes the store through `BoardRequest.acting` only."""

    def register(function: Callable[[BoardRequest], Awaitable[Redirect | Page]]) -> Route:
        async def endpoint(request: Request) -> Response:
            board_request = await read_request(request, permission, read_form)
            if isinstance(board_request, Response):
                return board_request
            answer = await answer_of(function, board_request)
            return (
                _redirected(board_request, answer) if isinstance(answer, Redirect) else _rendered(board_request, answer)
            )

        route = Route(path, endpoint, methods=["POST"], name=function.__name__)
        route.permission, route.act = permission, function  # type: ignore[attr-defined]
        return route

    return register


async def answer_of(act: Act, request: BoardRequest) -> Redirect | Page:
    """What an action answers. If the database did not execute it, this is a page with `NotDone`."""
    try:
        with _explaining_the_acting_role():
            answer = await act(request)
    except DatabaseUnavailable as exc:
        answer = _not_done(request, exc)
    request.board.forget_reads()
    return answer


def _not_done(request: BoardRequest, error: DatabaseUnavailable) -> Page:
    """The page that keeps what the user typed, so that the action can be tried again."""
    certain = not isinstance(error, CommitLost)
    shown = NotDone(
        problem=as_sentence(error.with_hint),
        certain=certain,
        path=request.path,
        fields=[(name, value) for name, values in request.form.items() for value in values],
        back=safe_path(request.field("next")),
    )
    title = "Nothing was changed" if certain else "It is not known what was changed"
    return Page("actions/not_done.html", shown, title, 504 if isinstance(error, QueryTimedOut) else 503)


@asynccontextmanager
async def _naming_lock_holders(board: Board) -> AsyncGenerator[None]:
    """Adds to the error of a statement that waited for a lock in vain who keeps it. Only viewers read that."""
    try:
        yield
    except Locked as exc:
        exc.hint = await board.lock_holders() or exc.hint
        raise


@contextmanager
def _explaining_the_acting_role() -> Generator[None]:
    """Turns a missing right of the database role into a sentence that says how to let the board act."""
    try:
        yield
    except MissingRight as exc:
        raise Forbidden(
            f"nothing was done, because {exc} To act, give the board the operator's role (WAKEBOARD_BOARD_ACTING_DSN)."
        ) from exc


async def read_form(request: Request) -> dict[str, list[str]] | Response:
    """The fields that a form of the board has sent."""
    body = await body_of(request, MAX_BODY)
    if body is None:
        return PlainTextResponse("413: the form is larger than 1 MiB.\n", 413)
    if body.count(b"&") >= MAX_FIELDS:
        return PlainTextResponse(f"413: the form has more than {MAX_FIELDS} fields.\n", 413)
    form: dict[str, list[str]] = {}
    for name, value in parse_qsl(body.decode("utf-8", "replace"), keep_blank_values=True):
        form.setdefault(name, []).append(value)
    return form


async def read_request(
    request: Request,
    permission: Permission | None = None,
    read_fields: Callable[[Request], Awaitable[dict[str, list[str]] | Response]] | None = None,
) -> BoardRequest | Response:
    """The request of a viewer. `permission`: of an action, whose fields `read_fields` reads."""
    board: Board = request.app.state.board
    board.bulk_actions.start()  # a board that is mounted in another application has no lifespan
    if isinstance(board.options.access, AddressAccess) and PARAMETER in request.query_params:
        return _without_token(request, board.options.access)
    viewer = await board.viewer(request)
    if viewer is None:
        return _login(request, board)
    if viewer.namespaces is not None and not viewer.namespaces:
        raise Forbidden(f"the user {viewer.name} may see the runs of no namespace")
    if len(request.url.query) > MAX_QUERY:
        return PlainTextResponse(f"414: the search is longer than {MAX_QUERY} characters.\n", 414)
    form: dict[str, list[str]] = {}
    if read_fields is not None:
        fields = await read_fields(request)
        if isinstance(fields, Response):
            return fields
        form = fields
    root = request.scope.get("root_path", "")
    here = path_and_query(request)
    is_navigation = request.method == "GET" and "hx-request" not in request.headers
    secure = board.is_secure(request)
    return BoardRequest(
        board=board,
        viewer=viewer,
        connection=request,
        prefix=root,
        path=path_of(request),
        query=dict(request.query_params),
        parts=request.path_params,
        form=form,
        permission=permission or Permission.VIEW,
        here=here,
        message=messages.find(request.cookies, root + here, secure=secure) if is_navigation else None,
        secure=secure,
        from_own_page=_is_from_own_page(request),
        in_dialog="wakeboard-dialog" in request.headers,
    )


def _is_from_own_page(request: Request) -> bool:
    """Whether a page of the board has sent a GET, or a program with a token.

    Over plain HTTP browsers say only for localhost where a request comes from. There, htmx's header shows it: another
    site cannot send one.
    """
    sites = request.headers.getlist("sec-fetch-site")
    if sites:
        return sites == ["same-origin"]
    return "hx-request" in request.headers or request.headers.get("authorization", "").lower().startswith("bearer ")


async def body_of(request: Request, most: int) -> bytes | None:
    """The body of a request; None: it has more than `most` bytes. Raises InvalidValue if its sender went away."""
    body = bytearray()
    try:
        async for chunk in request.stream():
            body += chunk
            if len(body) > most:
                return None
    except ClientDisconnect:
        raise InvalidValue("the request ended before its form was complete, so nothing was done") from None
    return bytes(body)


def _without_token(request: Request, access: AddressAccess) -> Response:
    """Exchanges the token in an address for the cookie, and leads to the address without it."""
    rest = [(name, value) for name, value in request.query_params.multi_items() if name != PARAMETER]
    wanted = safe_path(path_of(request) + (f"?{urlencode(rest)}" if rest else ""))
    answer = RedirectResponse(request.scope.get("root_path", "") + wanted, 303)
    if access.accepts(token := request.query_params[PARAMETER]):
        set_login_cookie(answer, request, token)
    return answer


def set_login_cookie(answer: Response, request: Request, token: str) -> None:
    """Logs a browser in with a token that is valid."""
    board: Board = request.app.state.board
    access, secure = board.options.access, board.is_secure(request)
    content, lasts_s = (access.cookie, OWN_LOGIN_S) if isinstance(access, AddressAccess) else (token, LOGIN_S)
    answer.set_cookie(
        cookie_name(request, secure=secure),
        content,
        path=f"{request.scope.get('root_path', '')}/",
        secure=secure,
        httponly=True,
        samesite="strict",
        max_age=lasts_s,
    )


def _login(request: Request, board: Board) -> Response:
    """Sends a browser to the login page, and refuses everything else."""
    if not board.options.access.asks_for_token:
        return PlainTextResponse("401: this board is reached through a proxy that logs you in.\n", 401)
    if request.method != "GET" or "text/html" not in request.headers.get("accept", ""):
        return PlainTextResponse("401: log in first.\n", 401, {"WWW-Authenticate": "Bearer"})
    root = request.scope.get("root_path", "")
    return RedirectResponse(f"{root}/login?{urlencode({'next': safe_path(path_and_query(request))})}", 303)


def _rendered(request: BoardRequest, shown: Page) -> Response:
    html = render(
        shown.template,
        page=shown.model,
        title=shown.title,
        request=request,
        url=request.url,
        asset=asset_paths(request.prefix),
        board_name=request.board.options.name,
        replica=request.board.replica,
        viewer=request.viewer,
        may=shown.may,
        logs_out=request.board.options.access.asks_for_token,
    )
    answer = HTMLResponse(html, shown.status)
    if request.message is not None:
        messages.clear(answer, secure=request.secure)
    return answer


def _redirected(request: BoardRequest, answer: Redirect) -> Response:
    response: Response = RedirectResponse(request.prefix + answer.path, 303)
    if request.in_dialog:  # a script cannot see where a redirect leads
        response = Response(status_code=204, headers={"Wakeboard-Location": response.headers["location"]})
    if answer.message:
        message = ActionMessage(text=answer.message, problem=answer.problem, link=answer.link, label=answer.label)
        messages.leave(response, message, request.prefix + answer.path, secure=request.secure)
    return response
