"""A proxy of our own in front of PostgreSQL or PgBouncer: every connection of the cast goes through one, by name.

A connection says in its first message who opened it (application_name), so that a fault can meet the one over which a
worker claims, or tells outcomes, or beats. It knows where an answer ends (ReadyForQuery), and so can lose exactly one.
"""

from __future__ import annotations

import asyncio
import struct
import threading
from contextlib import suppress
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

ENCRYPTION_REQUESTS: Final = {80877103, 80877104}  # SSLRequest, GSSENCRequest
CHUNK: Final = 1 << 16


class Loss(Enum):
    """What becomes of the next statement that carries a pattern."""

    UNSENT = "the connection breaks before the server has it"
    HALF = "the connection breaks when the server has half of it"
    ANSWER = "the server has done it, and the connection breaks before the answer is through"
    HELD = "its answer is held back"


@dataclass(eq=False)
class Trap:
    """Waits for a statement that carries `pattern`, on lines with `purpose` in their name; `sprung` when it came.

    `also`: what it must carry besides, such as a value.
    """

    purpose: str
    pattern: bytes
    loss: Loss
    also: bytes = b""
    sprung: threading.Event = field(default_factory=threading.Event)

    def waits_for(self, name: str, chunk: bytes) -> bool:
        """Whether this is what it waits for."""
        return not self.sprung.is_set() and self.purpose in name and self.pattern in chunk and self.also in chunk


class ProxiedConnection:
    """One connection. `name` is its application_name."""

    def __init__(self, name: str, traps: set[Trap], client: asyncio.StreamWriter, server: asyncio.StreamWriter) -> None:
        self.name = name
        self.swallows = False  # nothing goes through, and nobody is told
        self.loses_answer = False
        self.answers_pass = asyncio.Event()
        self.answers_pass.set()
        self._traps, self._client, self._server = traps, client, server

    def cut(self) -> None:
        """Breaks it at both ends."""
        for end in (self._client, self._server):
            end.transport.abort()
        self.answers_pass.set()

    async def carry_requests(self, reader: asyncio.StreamReader) -> None:
        """From the client to the server, until one of them ends it or a trap springs."""
        while chunk := await reader.read(CHUNK):
            trap = next((trap for trap in list(self._traps) if trap.waits_for(self.name, chunk)), None)
            if trap is not None and self._spring(trap, chunk):
                return
            if not self.swallows:
                self._server.write(chunk)
                await self._server.drain()

    def _spring(self, trap: Trap, chunk: bytes) -> bool:
        """Whether the line is broken now."""
        if trap.loss is Loss.HELD:
            self.answers_pass.clear()
        elif trap.loss is Loss.ANSWER:
            self.loses_answer = True
        else:
            if trap.loss is Loss.HALF:
                self._server.write(chunk[: len(chunk) // 2])
            self.cut()
        trap.sprung.set()
        return trap.loss in {Loss.UNSENT, Loss.HALF}

    async def carry_answers(self, reader: asyncio.StreamReader) -> None:
        """From the server to the client, until one of them ends it."""
        answers = _Answers()
        while chunk := await reader.read(CHUNK):
            ended = answers.end_in(chunk)
            if self.loses_answer:
                if ended:
                    return
                continue
            await self.answers_pass.wait()
            if not self.swallows:
                self._client.write(chunk)
                await self._client.drain()


class _Answers:
    """Where the server's answers end: at each ReadyForQuery. Messages are a type, a length, and as many bytes."""

    def __init__(self) -> None:
        self._header = b""
        self._skip = 0

    def end_in(self, chunk: bytes) -> bool:
        """Whether an answer ends in this chunk."""
        ended, place = False, 0
        while place < len(chunk):
            if self._skip:
                step = min(self._skip, len(chunk) - place)
                self._skip -= step
                place += step
                continue
            taken = chunk[place : place + 5 - len(self._header)]
            self._header += taken
            place += len(taken)
            if len(self._header) == 5:
                self._skip = struct.unpack("!I", self._header[1:])[0] - 4
                ended = ended or self._header[:1] == b"Z"
                self._header = b""
        return ended


class TcpProxy:
    """Listens on loopback from `start` to `stop`, in a thread of its own. `target` is a socket's path, or a port."""

    def __init__(self, target: str | int) -> None:
        self._target = target
        self._lines: set[ProxiedConnection] = set()
        self._traps: set[Trap] = set()
        self._silenced: set[str] = set()
        self._listens = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()), name="switchboard", daemon=True)
        self.port = 0

    def start(self) -> None:
        """Takes connections from now on, at `port`."""
        self._thread.start()
        if not self._listens.wait(10):
            raise RuntimeError("the switchboard does not listen")

    def stop(self) -> None:
        """Cuts every line."""
        self._do(self._over.set)
        self._thread.join(5)

    def lines(self, of: str, purpose: str = "") -> list[ProxiedConnection]:
        """The open lines of whoever is so named (a worker's end with its name), for this purpose."""
        return [line for line in list(self._lines) if line.name.endswith(of) and purpose in line.name]

    def set_trap(self, trap: Trap) -> None:
        """It waits from now on, until it springs once."""
        self._traps.add(trap)

    def remove_trap(self, trap: Trap) -> None:
        """It waits no longer."""
        self._traps.discard(trap)

    def let_go(self, line: ProxiedConnection) -> None:
        """Its answers are held back no longer."""
        self._do(line.answers_pass.set)

    def hold(self, line: ProxiedConnection) -> None:
        """Answers wait from now on."""
        self._do(line.answers_pass.clear)

    def cut(self, line: ProxiedConnection) -> None:
        """Breaks a line."""
        self._do(line.cut)

    def silence(self, name: str) -> None:
        """Nothing goes through for `name` any more, over lines it has and lines it will open; nobody is told."""
        self._silenced.add(name)
        for line in self.lines(name):
            line.swallows = True

    def end_silence(self, name: str) -> None:
        """Its silent lines break, and new ones work again."""
        self._silenced.discard(name)
        for line in self.lines(name):
            if line.swallows:
                self.cut(line)

    # -- in the loop ---------------------------------------------------------------------------------------------------

    def _do(self, call: Callable[[], object]) -> None:
        with suppress(RuntimeError):  # it has stopped
            self._loop.call_soon_threadsafe(call)

    async def _serve(self) -> None:
        self._loop, self._over = asyncio.get_running_loop(), asyncio.Event()
        server = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        self.port = int(server.sockets[0].getsockname()[1])
        self._listens.set()
        await self._over.wait()
        server.close()
        while self._lines:
            for line in list(self._lines):
                line.cut()
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.01)  # for the loop to close what was cut

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, asyncio.IncompleteReadError):
            first = await self._first_message(reader, writer)
            server_reader, server_writer = await self._connect()
            server_writer.write(first)
            line = ProxiedConnection(_name_in(first), self._traps, writer, server_writer)
            line.swallows = any(line.name.endswith(name) for name in self._silenced)
            self._lines.add(line)
            try:
                await self._carry(line, reader, server_reader)
            finally:
                line.cut()
                self._lines.discard(line)
        writer.transport.abort()

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if isinstance(self._target, str):
            return await asyncio.open_unix_connection(self._target)
        return await asyncio.open_connection("127.0.0.1", self._target)

    async def _carry(self, line: ProxiedConnection, client: asyncio.StreamReader, server: asyncio.StreamReader) -> None:
        ways = [asyncio.create_task(line.carry_requests(client)), asyncio.create_task(line.carry_answers(server))]
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for way in ways:
                way.cancel()
            await asyncio.gather(*ways, return_exceptions=True)

    async def _first_message(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes:
        while True:
            head = await reader.readexactly(8)
            length, code = struct.unpack("!II", head)
            if code not in ENCRYPTION_REQUESTS:
                return head + await reader.readexactly(length - 8)
            writer.write(b"N")


def _name_in(first: bytes) -> str:
    words = first[8:].split(b"\0")
    values = dict(zip(words[::2], words[1::2], strict=False))
    return values.get(b"application_name", b"").decode(errors="replace")
