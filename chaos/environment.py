"""The stage: a server on a small disk, a pooler, switchboards, the cast, and who watches; put up and taken down."""

from __future__ import annotations

import asyncio
import queue
import threading
import time
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import psycopg

from chaos.disk import SmallDisk
from chaos.other_release import find_other_release
from chaos.pgbouncer import Pooler, find_pgbouncer
from chaos.postgres_server import ChaosServer
from chaos.processes import Cast, Seat
from chaos.roles import ROLES
from chaos.tcp_proxy import TcpProxy
from wakeboard.store.migrate import migrate

if TYPE_CHECKING:
    from collections.abc import Callable

WITNESS: Final = Path(__file__).with_name("audit.sql")
ANSWER_WITHIN_S: Final = 90.0


class Stage:
    """Everything that faults happen to, in `folder`. `on_small_disk`: in a mount namespace of our own, as root.

    What belongs to the main thread (the server and the pooler) is done there, by `serve`, whoever asks for it.
    """

    def __init__(self, folder: Path, *, on_small_disk: bool) -> None:
        self.folder = folder
        self.logs = folder / "logs"
        self.logs.mkdir()
        self.disk = SmallDisk(folder / "disk") if on_small_disk else None
        self.server = ChaosServer((self.disk.folder if self.disk else folder) / "server", self.logs / "postgres.log")
        self.server_turn = threading.Lock()  # one fault of the server at a time
        self.pooler: Pooler | None = None
        self.other_release = find_other_release(folder / "other-release")
        self.dsn = ""
        self._chores: queue.SimpleQueue[tuple[Callable[[], Any], Future[Any]] | None] = queue.SimpleQueue()

    def put_up(self) -> None:
        """Starts server, pooler and switchboards, and makes the schema and the witness's tables."""
        self.dsn = self.server.start()
        with psycopg.connect(self.dsn, autocommit=True) as conn:
            for role in ROLES.named().values():
                conn.execute(f"create role {role} login".encode())
        asyncio.run(migrate(self.dsn, roles=ROLES))
        with psycopg.connect(self.dsn, autocommit=True) as conn:
            conn.execute(WITNESS.read_bytes())
            for key, bound in (("printer", 2), ("api", 4)):
                conn.execute("select wakeboard.set_limit(%s, %s)", (key, bound))
        self.direct = TcpProxy(self.server.socket)
        self.direct.start()
        self.pooled: TcpProxy | None = None
        if program := find_pgbouncer():
            self.pooler = Pooler(program, self.server.socket, self.folder)
            self.pooler.start()
            self.pooled = TcpProxy(self.pooler.port)
            self.pooled.start()
        self.cast = Cast(self.logs, self.dsn_through(self.direct, "chaos_app"))
        self.cast.start(self._seats())

    def take_down(self) -> None:
        """Ends everything that runs here."""
        if hasattr(self, "cast"):
            self.cast.stop()
        for store in (getattr(self, "direct", None), getattr(self, "pooled", None)):
            if store is not None:
                store.stop()
        if self.pooler is not None:
            import signal

            self.pooler.end(signal.SIGKILL)
        if self.disk is not None:
            self.disk.free()
        self.server.end("fast")

    def dsn_through(self, store: TcpProxy, role: str) -> str:
        """A DSN for whoever must meet faults."""
        return f"postgresql://{role}@127.0.0.1:{store.port}/wakeboard?sslmode=disable&gssencmode=disable"

    @property
    def stores(self) -> list[TcpProxy]:
        """Every switchboard."""
        return [store for store in (self.direct, self.pooled) if store is not None]

    def _seats(self) -> list[Seat]:
        worker, direct = "wakeboard_worker", self.dsn_through(self.direct, "chaos_worker")
        pooled = self.dsn_through(self.pooled, "chaos_worker") if self.pooled else direct
        operator = self.dsn_through(self.direct, "chaos_operator")
        unprepared, not_listening = {"prepared_statements": "false"}, {"listen": "false"}
        seats = [
            Seat("stays", (worker, "--forever"), direct, unprepared),
            Seat("prepares", (worker, "--forever"), direct, {"prepared_statements": "true"}),
            Seat("poolstays", (worker, "--forever"), pooled, not_listening),
            Seat("lingers", (worker, "--linger", "6"), direct, unprepared, rest_s=1.0),
            Seat("drains", (worker, "--drain"), direct, unprepared, rest_s=2.5),
            Seat("pooldrains", (worker, "--drain"), pooled, not_listening, rest_s=3.0),
            Seat("duties", ("chaos.maintenance_process",), operator),
        ]
        for seat in seats:
            seat.settings = {**seat.settings, "queues": f"default,only-{seat.name}"}
        return seats

    # -- the main thread -----------------------------------------------------------------------------------------------

    def serve(self) -> None:
        """In the main thread: does what others ask for, until `end_serving`."""
        while (chore := self._chores.get()) is not None:
            do, answer = chore
            try:
                answer.set_result(do())
            except BaseException as error:  # noqa: BLE001 - whoever asked is told
                answer.set_exception(error)

    def end_serving(self) -> None:
        """`serve` returns."""
        self._chores.put(None)

    def in_main_thread(self, do: Callable[[], Any]) -> Any:
        """Does it there, and waits for what comes of it."""
        answer: Future[Any] = Future()
        self._chores.put((do, answer))
        return answer.result(ANSWER_WITHIN_S)

    # -- watching ------------------------------------------------------------------------------------------------------

    def watch(self) -> psycopg.Connection[Any]:
        """A superuser's connection straight to the server. Raises psycopg.OperationalError while it is away."""
        return psycopg.connect(self.dsn, autocommit=True, application_name="chaos watcher", connect_timeout=5)

    def ask(self, query: str, *values: Any, patience_s: float = 30.0) -> list[tuple[Any, ...]]:
        """The rows of a query; asked again while the server is away."""
        deadline = time.monotonic() + patience_s
        while True:
            try:
                with self.watch() as conn:
                    cursor = conn.execute(query.encode(), values or None)
                    return cursor.fetchall() if cursor.description else []
            except psycopg.OperationalError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.05)

    def bring_up(self) -> None:
        """Whatever faults left: the server runs, the disk has room, every process goes on, every line is open."""
        if self.disk is not None:
            self.disk.free()
        if self.server.pid is None:
            self.in_main_thread(self.server.start)
        for actor in self.cast.living():
            import signal

            with suppress(ProcessLookupError):
                actor.send(signal.SIGCONT)
        for store in self.stores:
            for line in store.lines(""):
                store.let_go(line)
