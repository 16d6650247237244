"""A connection to the API server of a kubeconfig, for one command that sends a few requests one after the other.

It uses http.client, which such a short process imports 0.2 s sooner than aiohttp (kube/client.py).
"""

from __future__ import annotations

import http.client
import socket
import ssl
import threading
from contextlib import suppress
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from wakeboard import __version__
from wakeboard.errors import InvalidValue, WakeboardError
from wakeboard.text.sanitize import one_line

if TYPE_CHECKING:
    from wakeboard.cli.kubectl.kubeconfig import ClusterLogin

LARGEST_ANSWER: Final = 64 << 20  # bytes
HTTPS_PORT: Final = 443
_LONGEST: Final = 300  # characters of an error


class ApiConnection:
    """Sends requests with the user's token. `now`: the time of the API server, as of its last answer."""

    def __init__(self, login: ClusterLogin, timeout_s: float) -> None:
        self._login, self._timeout_s = login, timeout_s
        self._connection: http.client.HTTPSConnection | None = None
        self.now = datetime.now(UTC)

    def send(self, method: str, path: str, body: bytes | None = None, *, passes_token: bool) -> tuple[int, bytes]:
        """The status and the answer. `passes_token`: whatever the API server passes the request to gets the token, too.

        A GET is sent again if its connection was closed meanwhile. Raises WakeboardError without an answer.
        """
        is_new = self._connection is None
        deadline = _Deadline(self._timeout_s)
        try:
            with deadline:
                return self._exchange(method, path, body, self._headers(body, passes_token=passes_token), deadline)
        except (OSError, http.client.HTTPException) as failure:
            self.close()
            late = f"there is no whole answer within {self._timeout_s:g} s"
            error = TimeoutError(late) if deadline.is_over else failure
            if method == "GET" and not is_new and not isinstance(error, TimeoutError):
                return self.send(method, path, body, passes_token=passes_token)
            unsure = " It is not known whether that was done." if method == "POST" and not is_new else ""
            raise WakeboardError(f"{self._unreachable(error)}.{unsure}") from None

    def close(self) -> None:
        """Closes the connection. Another request opens one."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _headers(self, body: bytes | None, *, passes_token: bool) -> dict[str, str]:
        token = f"Bearer {self._login.token}"
        return {
            "Accept": "application/json",
            "Authorization": token,
            "User-Agent": f"kubectl-wakeboard/{__version__}",
            **({"X-Wakeboard-Authorization": token} if passes_token else {}),
            **({} if body is None else {"Content-Type": "application/json"}),
        }

    def _exchange(
        self, method: str, path: str, body: bytes | None, headers: dict[str, str], deadline: _Deadline
    ) -> tuple[int, bytes]:
        self._connection = self._connection or _opened(self._login, self._timeout_s)
        if self._connection.sock is None:
            self._connection.connect()
        assert self._connection.sock is not None
        deadline.ends(self._connection.sock)
        self._connection.request(method, urlsplit(self._login.server).path + path, body=body, headers=headers)
        answer = self._connection.getresponse()
        text = answer.read(LARGEST_ANSWER + 1)
        if deadline.is_over:
            raise TimeoutError
        if len(text) > LARGEST_ANSWER:
            raise WakeboardError(f"the answer is longer than {LARGEST_ANSWER >> 20} MiB: narrow the search")
        with suppress(ValueError, TypeError):
            self.now = parsedate_to_datetime(answer.headers["Date"])
        return answer.status, text

    def _unreachable(self, error: Exception) -> str:
        server = self._login.server
        if isinstance(error, ssl.SSLCertVerificationError):
            return f"the API server {server} is not trusted: {error.verify_message}"
        return f"the API server {server} does not answer: {one_line(str(error))[:_LONGEST] or type(error).__name__}"


class _Deadline:
    """Ends a connection that still answers after `timeout_s`. A timeout of the socket begins again with each byte."""

    def __init__(self, timeout_s: float) -> None:
        self.is_over = False
        self._socket: socket.socket | None = None
        self._timer = threading.Timer(timeout_s, self._end)
        self._timer.daemon = True

    def __enter__(self) -> None:
        self._timer.start()

    def __exit__(self, *_: object) -> None:
        self._timer.cancel()

    def ends(self, connection: socket.socket) -> None:
        """Names the connection."""
        self._socket = connection

    def _end(self) -> None:
        self.is_over = True
        if self._socket is not None:
            with suppress(OSError):
                socket.socket.shutdown(self._socket, socket.SHUT_RDWR)  # below TLS: another thread reads


class _Connection(http.client.HTTPSConnection):
    """A connection whose certificate may have another name than the address."""

    def __init__(self, host: str, port: int, login: ClusterLogin, timeout_s: float) -> None:
        super().__init__(host, port, timeout=timeout_s, context=login.context)
        self._login = login

    def connect(self) -> None:
        http.client.HTTPConnection.connect(self)
        name = self._login.server_name or urlsplit(self._login.server).hostname
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.sock = self._login.context.wrap_socket(self.sock, server_hostname=name)


def _opened(login: ClusterLogin, timeout_s: float) -> http.client.HTTPSConnection:
    """A connection to the server, through the proxy of the kubeconfig or of the environment if there is one."""
    server = urlsplit(login.server)
    host, port = server.hostname or "", server.port or HTTPS_PORT
    proxy = login.proxy or ("" if proxy_bypass(host) else getproxies().get("https", ""))
    if not proxy:
        return _Connection(host, port, login, timeout_s)
    through = urlsplit(proxy if "://" in proxy else f"http://{proxy}")
    if through.scheme != "http" or not through.hostname:
        raise InvalidValue(f"the proxy {through.scheme}://{through.hostname} cannot be used: only http:// proxies can.")
    connection = _Connection(through.hostname, through.port or 80, login, timeout_s)
    connection.set_tunnel(host, port)
    return connection
