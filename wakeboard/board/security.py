"""Checks and headers that apply to every request, before any page or action.

- The Host must be one of the allowed ones (421 otherwise). A page of another site that resolves its own name to this
  address cannot talk to the board (DNS rebinding). Requests of `kubectl wakeboard` have the Host of an API server: with
  the login `kubernetes` a request to the API may have any, if it brings a token in a header that no browser sends.
- An unsafe method must come from the board's own pages (403 otherwise): Sec-Fetch-Site is same-origin, or without that
  header the Origin is the board's. A request with neither is refused unless it carries a bearer token.
- A request that repeats Host, Origin or Sec-Fetch-Site is refused: a proxy may have checked the other one.
- A path has at most 2,000 characters (414 otherwise), so that no number in it is too long to be read.
- No request is decided by the URL that the client claims: only `scope["path"]` and the Host header count.
- Every answer carries a Content-Security-Policy without inline code. No answer carries a CORS header, but for the
  address that a run token opens, for pages of the origins in an allow-list, and never for requests with cookies.
- A path without its slash, or with one too many, leads to the page by a path alone: behind a proxy that ends TLS, the
  scheme and the Host of the request are not those of the browser.
- `GET /healthz` says that the process answers, for any Host: kubelets and load balancers ask by the address. It says
  nothing about the database, because pages say what is wrong with it, and a restart would not help.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from urllib.parse import quote, urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import HTTPConnection
from starlette.responses import PlainTextResponse, RedirectResponse

from wakeboard.board.access.kubernetes import KubernetesAccess
from wakeboard.board.access.viewer import passed_token
from wakeboard.board.paths import host_name
from wakeboard.board.problem_details import as_problem, is_of_api, is_of_watchers

if TYPE_CHECKING:
    from starlette.responses import Response
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from wakeboard.board.state import BoardOptions

SAFE_METHODS: Final = frozenset({"GET", "HEAD"})
HEALTH_PATH: Final = "/healthz"
MAX_PATH: Final = 2000  # characters; Python refuses to read numbers of more than 4,300 digits
HEADERS: Final = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:;"
    " connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}


class Security:
    """ASGI middleware with these checks and headers."""

    def __init__(self, app: ASGIApp, options: BoardOptions) -> None:
        self._app = app
        self._hosts = frozenset(host.lower() for host in options.hosts)
        self._origin = options.origin.rstrip("/").lower()
        self._prefix = options.prefix.rstrip("/")
        self._takes_passed_tokens = isinstance(options.access, KubernetesAccess)
        self._watchers = options.run_tokens.origins if options.run_tokens else frozenset[str]()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: D102 - ASGI
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        if self._prefix:
            scope = under_prefix(scope, self._prefix)
        respond: ASGIApp = (
            PlainTextResponse("ok\n")
            if _asks_for_health(scope)
            else self._refusal(scope) or _redirect_to_page(scope) or self._app
        )

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers[name] = value
                headers.setdefault("Cache-Control", "no-store")
                if is_of_watchers(scope):
                    self._allow_watchers(scope, headers)
            await send(message)

        await respond(scope, receive, send_with_headers)

    def _allow_watchers(self, scope: Scope, headers: MutableHeaders) -> None:
        """Lets a page of an allowed origin read the answer. It sends no cookie and no header that needs a preflight."""
        origins = Headers(scope=scope).getlist("origin")
        headers["Vary"] = "Accept, Origin"
        if len(origins) == 1 and origins[0].lower() in self._watchers:
            headers["Access-Control-Allow-Origin"] = origins[0]
            headers["Cross-Origin-Resource-Policy"] = "cross-origin"

    def _refusal(self, scope: Scope) -> Response | None:
        refused = self._refused(scope)
        return as_problem(refused) if refused and is_of_api(scope) else refused

    def _refused(self, scope: Scope) -> PlainTextResponse | None:
        headers = Headers(scope=scope)
        host = headers.get("host", "").lower()
        is_passed = self._takes_passed_tokens and passed_token(HTTPConnection(scope)) is not None
        if len(headers.getlist("host")) != 1 or (host_name(host) not in self._hosts and not is_passed):
            return PlainTextResponse(
                f"421: this board does not answer for the host {host[:100]!r}. Name it in WAKEBOARD_BOARD_HOSTS.\n", 421
            )
        if len(scope["path"]) > MAX_PATH:
            return PlainTextResponse(f"414: the path is longer than {MAX_PATH} characters.\n", 414)
        if scope["method"] in SAFE_METHODS or is_passed:
            return None
        expected = self._origin or f"{scope['scheme']}://{host}"
        came = headers.get("sec-fetch-site") or headers.get("origin")
        if self._is_same_origin(headers, expected):
            return None
        return PlainTextResponse(
            f"403: an action must come from a page of this board. Expected the origin {expected}, got {came!r:.200}.\n",
            403,
        )

    def _is_same_origin(self, headers: Headers, expected: str) -> bool:
        sites, origins = headers.getlist("sec-fetch-site"), headers.getlist("origin")
        if len(sites) > 1 or len(origins) > 1:
            return False
        if sites:
            return sites[0] == "same-origin"
        if origins:
            return same_origin(origins[0], expected)
        return headers.get("authorization", "").lower().startswith("bearer ")


def _asks_for_health(scope: Scope) -> bool:
    return scope["method"] in SAFE_METHODS and scope["path"] == scope.get("root_path", "") + HEALTH_PATH


def _redirect_to_page(scope: Scope) -> RedirectResponse | None:
    """The redirect to the page that a path means: the first page has a slash at the end, and no other page has.

    None: the path is that of a page as it is.
    """
    root, query = scope.get("root_path", ""), scope["query_string"].decode("latin-1")
    inside = scope["path"].removeprefix(root)
    if inside and (inside == "/" or not inside.endswith("/") or "//" in inside):
        return None
    if scope["method"] not in SAFE_METHODS:
        return None
    path = quote(root + (inside.rstrip("/") or "/"), safe="/:@,~")
    return RedirectResponse(path + (f"?{query}" if query else ""), 307)


def under_prefix(scope: Scope, prefix: str) -> Scope:
    """The scope of a request behind a proxy that shows the board under `prefix`, which it may have stripped."""
    root, path = scope.get("root_path", ""), scope["path"]
    inside = path.removeprefix(root)
    kept = inside == prefix or inside.startswith(f"{prefix}/")
    return {**scope, "root_path": root + prefix, "path": path if kept else root + prefix + inside}


def same_origin(origin: str, expected: str) -> bool:
    """Whether two origins have the same scheme, host and port."""
    try:
        return _parts(origin) == _parts(expected)
    except ValueError:
        return False


def _parts(origin: str) -> tuple[str, str | None, int | None]:
    parts = urlsplit(origin.lower())
    return parts.scheme, parts.hostname, parts.port or {"http": 80, "https": 443}.get(parts.scheme)
