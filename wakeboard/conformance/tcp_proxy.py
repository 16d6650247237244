"""A TCP proxy in front of PostgreSQL or PgBouncer, which injects network faults into single connections.

Each connection names itself in its startup message (application_name). A fault can therefore choose the connection on
which a worker claims, reports outcomes or sends heartbeats. The proxy knows the statements that a client has prepared,
so a fault meets the execution of a statement, not its preparation. It recognises the end of a reply (ReadyForQuery), so
it can drop exactly one.
"""

from __future__ import annotations

import asyncio
import re
import struct
import threading
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

ENCRYPTION_REQUESTS: Final = {80877103, 80877104}  # SSLRequest, GSSENCRequest
CHUNK: Final = 1 << 16
FUNCTION: Final = re.compile(rb"wakeboard\.(\w+)")
HEADER: Final = 5  # bytes of a message: its type, and the length of the rest with these four bytes


class Action(Enum):
    """What the proxy does to the next statement that matches."""

    DROP_REQUEST = "breaks the connection before the server has the statement"
    SEND_HALF = "breaks the connection when the server has half of it"
    DROP_REPLY = "breaks the connection after the server has run it, before the reply is through"
    HOLD_REPLY = "holds the reply back"


@dataclass(eq=False)
class Intercept:
    """Applies `action` once, to an executed statement that contains `pattern`; `matched` is set then.

    `connection`: part of the connection's name. `also`: other bytes that the statement must contain, such as a value.
    `reply`: bytes of a reply to which DROP_REPLY or HOLD_REPLY is applied, in place of a statement.
    """

    connection: str
    pattern: bytes
    action: Action
    also: bytes = b""
    reply: bytes = b""
    matched: threading.Event = field(default_factory=threading.Event)

    def matches(self, name: str, executed: Sequence[bytes]) -> bool:
        """Whether it is one of these statements of the connection `name`."""
        return (
            not self.matched.is_set()
            and not self.reply
            and self.connection in name
            and any(self.pattern in statement and self.also in statement for statement in executed)
        )

    def matches_reply(self, name: str, chunk: bytes) -> bool:
        """Whether this chunk of replies to the connection `name` contains the reply."""
        return bool(self.reply) and not self.matched.is_set() and self.connection in name and self.reply in chunk


class ProxiedConnection:
    """One connection. `name` is its application_name. A blocked connection drops everything and stays open."""

    def __init__(
        self,
        name: str,
        intercepts: set[Intercept],
        statements: Counter[str],
        client: asyncio.StreamWriter,
        server: asyncio.StreamWriter,
    ) -> None:
        self.name = name
        self._statements = statements
        self.blocked = False
        self.replies_pass = asyncio.Event()
        self.replies_pass.set()
        self._drops_reply = False
        self._intercepts, self._client, self._server = intercepts, client, server

    def cut(self) -> None:
        """Breaks it at both ends."""
        for end in (self._client, self._server):
            end.transport.abort()
        self.replies_pass.set()

    async def forward_requests(self, reader: asyncio.StreamReader) -> None:
        """Client to server, until one of them closes or an intercept breaks the connection."""
        requests = _RequestParser()
        while chunk := await reader.read(CHUNK):
            executed = requests.executed_in(chunk)
            self._statements.update(map(_function_of, executed))
            found = next((each for each in list(self._intercepts) if each.matches(self.name, executed)), None)
            if found is not None and self._breaks(found, chunk):
                return
            if not self.blocked:
                self._server.write(chunk)
                await self._server.drain()

    def _breaks(self, intercept: Intercept, chunk: bytes) -> bool:
        """Applies the intercept. Returns whether the connection is broken now."""
        action = intercept.action
        if action is Action.HOLD_REPLY:
            self.replies_pass.clear()
        elif action is Action.DROP_REPLY:
            self._drops_reply = True
        else:
            if action is Action.SEND_HALF:
                self._server.write(chunk[: len(chunk) // 2])
            self.cut()
        intercept.matched.set()
        return action in {Action.DROP_REQUEST, Action.SEND_HALF}

    async def forward_replies(self, reader: asyncio.StreamReader) -> None:
        """Server to client, until one of them closes."""
        replies = _ReplyParser()
        while chunk := await reader.read(CHUNK):
            ended = replies.end_in(chunk)
            for intercept in list(self._intercepts):
                if intercept.matches_reply(self.name, chunk):
                    self._breaks(intercept, chunk)
            if self._drops_reply:
                if ended:
                    return
                continue
            await self.replies_pass.wait()
            if not self.blocked:
                self._client.write(chunk)
                await self._client.drain()


def _function_of(statement: bytes) -> str:
    """The function of the schema that a statement calls, or else the statement's first word."""
    found = FUNCTION.search(statement)
    return (found[1] if found else statement.strip().partition(b" ")[0][:20]).decode(errors="replace")


class _RequestParser:
    """Finds the statements that a client executes. A message is a type (1 byte), a length (4) and its content."""

    def __init__(self) -> None:
        self._unread = b""
        self._prepared: dict[bytes, bytes] = {}  # the text of each prepared statement, by its name

    def executed_in(self, chunk: bytes) -> list[bytes]:
        """The statements whose message ends in this chunk, each with its parameters."""
        self._unread += chunk
        executed: list[bytes] = []
        while len(self._unread) >= HEADER and len(self._unread) > (size := struct.unpack("!I", self._unread[1:5])[0]):
            kind, content = self._unread[:1], self._unread[HEADER : size + 1]
            self._unread = self._unread[size + 1 :]
            if kind == b"Q":  # a simple query
                executed.append(content)
            elif kind == b"P":  # Parse: name, text
                name, _, text = content.partition(b"\0")
                self._prepared[name] = text
            elif kind == b"B":  # Bind: portal, name, parameters
                _, _, rest = content.partition(b"\0")
                name, _, parameters = rest.partition(b"\0")
                executed.append(self._prepared.get(name, b"") + parameters)
        return executed


class _ReplyParser:
    """Finds the end of each reply (ReadyForQuery). A message is a type (1 byte), a length (4) and its content."""

    def __init__(self) -> None:
        self._header = b""
        self._skip = 0

    def end_in(self, chunk: bytes) -> bool:
        """Whether a reply ends in this chunk."""
        ended, position = False, 0
        while position < len(chunk):
            if self._skip:
                step = min(self._skip, len(chunk) - position)
                self._skip -= step
                position += step
                continue
            taken = chunk[position : position + HEADER - len(self._header)]
            self._header += taken
            position += len(taken)
            if len(self._header) == HEADER:
                self._skip = struct.unpack("!I", self._header[1:])[0] - 4
                ended = ended or self._header[:1] == b"Z"
                self._header = b""
        return ended


class TcpProxy:
    """Listens on loopback from `start` to `stop`, in its own thread.

    `target` is a socket's path, a port, or an address with a port. `statements` counts what has been executed, by the
    function that is called.
    """

    def __init__(self, target: str | int | tuple[str, int]) -> None:
        self.target = target  # of later connections
        self.statements = Counter[str]()
        self._connections: set[ProxiedConnection] = set()
        self._relays: set[asyncio.Task[None]] = set()
        self._intercepts: set[Intercept] = set()
        self._blocked: set[str] = set()
        self._listens = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()), name="proxy", daemon=True)
        self.port = 0

    def start(self) -> None:
        """Accepts connections at `port`."""
        self._thread.start()
        if not self._listens.wait(10):
            raise RuntimeError("the proxy does not listen")

    def stop(self) -> None:
        """Cuts every connection."""
        self._call(self._stopping.set)
        self._thread.join(5)

    def connections(self, suffix: str, part: str = "") -> list[ProxiedConnection]:
        """The open connections whose name ends with `suffix` (a worker's name) and contains `part` (their purpose)."""
        return [each for each in list(self._connections) if each.name.endswith(suffix) and part in each.name]

    def add(self, intercept: Intercept) -> None:
        """Sets the intercept."""
        self._intercepts.add(intercept)

    def remove(self, intercept: Intercept) -> None:
        """Removes it, whether it has matched or not."""
        self._intercepts.discard(intercept)

    def hold(self, connection: ProxiedConnection) -> None:
        """Holds replies back until `release`."""
        self._call(connection.replies_pass.clear)

    def release(self, connection: ProxiedConnection) -> None:
        """Sends the replies that were held back."""
        self._call(connection.replies_pass.set)

    def cut(self, connection: ProxiedConnection) -> None:
        """Breaks a connection."""
        self._call(connection.cut)

    def block(self, suffix: str) -> None:
        """Drops everything on connections with this suffix, present and future, and leaves them open."""
        self._blocked.add(suffix)
        for connection in self.connections(suffix):
            connection.blocked = True

    def unblock(self, suffix: str) -> None:
        """Cuts the blocked connections. New ones work again."""
        self._blocked.discard(suffix)
        for connection in self.connections(suffix):
            if connection.blocked:
                self.cut(connection)

    # -- in the event loop ---------------------------------------------------------------------------------------------

    def _call(self, call: Callable[[], object]) -> None:
        with suppress(RuntimeError):  # the loop has stopped
            self._loop.call_soon_threadsafe(call)

    async def _serve(self) -> None:
        self._loop, self._stopping = asyncio.get_running_loop(), asyncio.Event()
        server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.port = int(server.sockets[0].getsockname()[1])
        self._listens.set()
        await self._stopping.wait()
        for listener in server.sockets:
            self._loop.remove_reader(listener.fileno())
        await asyncio.sleep(0.01)  # what was accepted last begins; after `close` it would stay open
        server.close()
        for task in self._relays:
            task.cancel()
        await asyncio.gather(*self._relays, return_exceptions=True)
        await asyncio.sleep(0.01)  # the loop closes what was cut

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = self._loop.create_task(self._relay(reader, writer))
        self._relays.add(task)
        task.add_done_callback(self._relays.discard)
        task.add_done_callback(lambda _: writer.transport.abort())

    async def _relay(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, asyncio.IncompleteReadError):
            startup = await self._startup_message(reader, writer)
            server_reader, server_writer = await self._connect()
            server_writer.write(startup)
            connection = ProxiedConnection(
                _application_name(startup), self._intercepts, self.statements, writer, server_writer
            )
            connection.blocked = any(connection.name.endswith(suffix) for suffix in self._blocked)
            self._connections.add(connection)
            try:
                await self._forward(connection, reader, server_reader)
            finally:
                connection.cut()
                self._connections.discard(connection)

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if isinstance(self.target, str):
            return await asyncio.open_unix_connection(self.target)
        host, port = ("127.0.0.1", self.target) if isinstance(self.target, int) else self.target
        return await asyncio.open_connection(host, port)

    async def _forward(
        self, connection: ProxiedConnection, client: asyncio.StreamReader, server: asyncio.StreamReader
    ) -> None:
        tasks = [
            asyncio.create_task(connection.forward_requests(client)),
            asyncio.create_task(connection.forward_replies(server)),
        ]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _startup_message(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes:
        while True:
            head = await reader.readexactly(8)
            length, code = struct.unpack("!II", head)
            if code not in ENCRYPTION_REQUESTS:
                return head + await reader.readexactly(length - 8)
            writer.write(b"N")


def _application_name(startup: bytes) -> str:
    words = startup[8:].split(b"\0")
    values = dict(zip(words[::2], words[1::2], strict=False))
    return values.get(b"application_name", b"").decode(errors="replace")
