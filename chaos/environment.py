"""The environment of a campaign: a server on a small disk or a Patroni cluster, a pooler, proxies, and processes."""

from __future__ import annotations

import asyncio
import signal
import threading
import time
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import psycopg

from chaos.applications import LIMITS, RATES
from chaos.connection import connect
from chaos.disk import SmallDisk
from chaos.held_locks import DECLARED, set_up
from chaos.other_release import extract_first_release
from chaos.patroni_servers import PatroniServers
from chaos.postgres_server import ROLES, ChaosServer
from chaos.processes import Slot, Supervisor
from chaos.wal_archive import WalArchive
from testbed.pgbouncer import PgBouncer, find_pgbouncer
from wakeboard.conformance.tcp_proxy import TcpProxy
from wakeboard.store.migrate import migrate

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

AUDIT: Final = Path(__file__).with_name("audit.sql")
MAIN_THREAD_TIMEOUT_S: Final = 200.0
QUERY_TIMEOUT_S: Final = (
    90.0  # a cluster may have no primary for longer than Patroni's lease, if its standbys were away
)
POOLER_INTERVAL_S: Final = 1.0  # between two looks of its supervisor
ALERTS: Final = "{apiVersion: wakeboard.dev/v1alpha1, kind: AlertRules, spec: {rules: [{name: dead, dead: 1}]}}"
LIMITS_FILE: Final = f"{{apiVersion: wakeboard.dev/v1alpha1, kind: Limits, limits: {{{DECLARED}: {{atOnce: 2}}}}}}"


class Environment:
    """Everything that faults are injected into, in `folder`.

    `in_own_namespaces`: disks are small, and the network between several servers can be cut. It needs root, and
    namespaces of mounts and, with several servers, of the network that are ours alone. `failover`: a Patroni cluster in
    place of one server. `asynchronous`: no commit waits for its standbys.
    The kernel ends the servers and the pooler with the thread that started them, so the main thread starts them.
    """

    def __init__(self, folder: Path, *, in_own_namespaces: bool, failover: bool, asynchronous: bool = False) -> None:
        self.folder, self.in_own_namespaces = folder, in_own_namespaces
        self.logs = folder / "logs"
        self.logs.mkdir()
        self.disk = SmallDisk(folder / "disk") if in_own_namespaces and not failover else None
        log = self.logs / "postgres.log"
        home = (self.disk.folder if self.disk else folder) / "server"
        cluster = partial(PatroniServers, synchronous=not asynchronous, in_own_namespaces=in_own_namespaces)
        servers = cluster if failover else ChaosServer
        self.may_lose = asynchronous  # what was acknowledged just before a failover
        self.archive = WalArchive(folder / "wal")
        self.server = servers(home, log, self.archive)
        self.server_lock = threading.Lock()  # one fault of the server at a time
        self.pooler: PgBouncer | None = None
        self.pooler_ends = 0  # by itself
        self._stopping = threading.Event()
        self.first_release = extract_first_release(folder / "first-release")
        self.dsn = ""
        self.proxies: list[TcpProxy] = []
        self.supervisor = Supervisor(self.logs)

    def start(self) -> None:
        """Starts the server, the pooler and the proxies, creates the schema and the audit log, starts the processes."""
        self.dsn = self.own(self.server.start)
        with psycopg.connect(self.dsn, autocommit=True) as conn:
            for role in set(ROLES.named().values()):
                conn.execute(f"create role {role} login".encode())
        asyncio.run(migrate(self.dsn, roles=ROLES))
        with psycopg.connect(self.dsn, autocommit=True) as conn:
            conn.execute(AUDIT.read_bytes())
            for key, limit in LIMITS.items():
                conn.execute("select wakeboard.set_limit(%s, %s)", (key, limit))
            for key, rate in RATES.items():
                conn.execute("select wakeboard.set_rate_limit(%s, %s, %s, %s)", (key, *rate))
            set_up(conn)
        self.direct = pooled = [self._start_proxy(target) for target in self.server.targets]
        if program := find_pgbouncer():
            options = self._pooler_options()
            self.pooler = PgBouncer(program, self._dsn_of_pooler(), self.folder, "transaction", options=options)
            self.own(self.pooler.start)
            pooled = [self._start_proxy(self.pooler.port)]
            threading.Thread(target=self._supervise_pooler, name="pooler", daemon=True).start()
        self.supervisor.start(self._slots(pooled), self.dsn_through(self.direct, "chaos_app"))

    def stop(self) -> None:
        """Ends everything."""
        self._stopping.set()
        self.supervisor.stop()
        for proxy in self.proxies:
            proxy.stop()
        if self.pooler is not None:
            self.pooler.end(signal.SIGKILL)
        if self.disk is not None:
            self.disk.free()
        self.server.end("fast")

    def dsn_through(self, proxies: Sequence[TcpProxy], role: str) -> str:
        """The DSN of a connection that faults are injected into. Of several servers, it leads to the primary."""
        hosts = ",".join(f"127.0.0.1:{proxy.port}" for proxy in proxies)
        primary = "&target_session_attrs=read-write" if len(proxies) > 1 else ""
        return f"postgresql://{role}@{hosts}/wakeboard?sslmode=disable&gssencmode=disable{primary}"

    def _dsn_of_pooler(self) -> str:
        """The DSN of PgBouncer's server: in a cluster a load balancer, which follows the primary."""
        if not isinstance(self.server, PatroniServers):
            return self.dsn
        return f"postgresql:///wakeboard?host=127.0.0.1&port={self.server.cluster.start_load_balancer().port}"

    def _start_proxy(self, target: str | int | tuple[str, int]) -> TcpProxy:
        proxy = TcpProxy(target)
        proxy.start()
        self.proxies.append(proxy)
        return proxy

    def _supervise_pooler(self) -> None:
        while not self._stopping.wait(POOLER_INTERVAL_S):
            with suppress(RuntimeError, TimeoutError, AssertionError):  # the campaign has ended, or the machine is busy
                self.own(self._restart_pooler)

    def _restart_pooler(self) -> None:
        """Starts PgBouncer again if it has ended by itself, as its supervisor would. Call it in the main thread."""
        if self.pooler is not None and self.pooler.ended and not self._stopping.is_set():
            self.pooler_ends += 1
            self.pooler.start()

    def _pooler_options(self) -> str:
        users = self.folder / "users.txt"
        users.write_text("".join(f'"{name}" ""\n' for name in set(ROLES.named().values())))
        return (
            f"auth_type = trust\nauth_file = {users}\nmax_client_conn = 500\ndefault_pool_size = 30\n"
            "server_login_retry = 0.2\nserver_connect_timeout = 3\nlogfile ="
        )

    def _slots(self, pooled_proxies: Sequence[TcpProxy]) -> list[Slot]:
        worker = "wakeboard_worker"
        direct, pooled = (self.dsn_through(proxies, "chaos_worker") for proxies in (self.direct, pooled_proxies))
        operator = self.dsn_through(self.direct, "chaos_operator")
        unprepared, not_listening = {"prepared_statements": "false"}, {"listen": "false"}
        slots = [
            Slot("forever", (worker, "--forever"), direct, unprepared),
            Slot("prepares", (worker, "--forever"), direct, {"prepared_statements": "true"}),
            Slot("poolforever", (worker, "--forever"), pooled, not_listening),
            Slot("lingers", (worker, "--linger", "6"), direct, unprepared, restart_delay_s=1.0),
            Slot("drains", (worker, "--drain"), direct, unprepared, restart_delay_s=2.5),
            Slot("pooldrains", (worker, "--drain"), pooled, not_listening, restart_delay_s=3.0),
            Slot("maintenance", ("chaos.maintenance_process",), operator, self._operator_files()),
        ]
        for slot in slots:
            slot.settings = {**slot.settings, "queues": f"default,only-{slot.name}"}
        return slots

    def _operator_files(self) -> dict[str, str]:
        alerts, limits = self.folder / "alerts.yaml", self.folder / "limits.yaml"
        alerts.write_text(ALERTS)
        limits.write_text(LIMITS_FILE)
        return {"alerts_file": str(alerts), "limits_file": str(limits)}

    async def run_in_thread(self, campaign: Callable[[], None]) -> None:
        """In the main thread: runs the campaign in another one, and meanwhile the calls of `own`."""
        self._loop, ended = asyncio.get_running_loop(), asyncio.Event()

        def run() -> None:
            try:
                campaign()
            finally:
                self._loop.call_soon_threadsafe(ended.set)

        threading.Thread(target=run, name="campaign", daemon=True).start()
        await ended.wait()

    def own(self, do: Callable[[], Any]) -> Any:
        """Calls `do` in the main thread, and returns its result."""

        async def call() -> Any:
            return do()

        return asyncio.run_coroutine_threadsafe(call(), self._loop).result(MAIN_THREAD_TIMEOUT_S)

    def connect(self) -> psycopg.Connection[Any]:
        """A superuser's connection straight to the server. Raises psycopg.OperationalError while it is away."""
        return connect(self.dsn, "chaos observer")

    def query(self, query: str, *values: Any, timeout_s: float = QUERY_TIMEOUT_S) -> list[tuple[Any, ...]]:
        """The rows of a query. Repeats it while the server is away."""
        deadline = time.monotonic() + timeout_s
        while True:
            try:
                with self.connect() as conn:
                    cursor = conn.execute(query.encode(), values or None)
                    return cursor.fetchall() if cursor.description else []
            except (psycopg.OperationalError, psycopg.errors.ReadOnlySqlTransaction):
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.05)

    def restore(self) -> None:
        """Undoes what faults left: frees the disk, starts the server, continues processes, releases connections."""
        if self.disk is not None:
            self.disk.free()
        if self.server.pid is None:
            self.own(self.server.start)
        for process in self.supervisor.running():
            with suppress(ProcessLookupError):
                process.send(signal.SIGCONT)
        for proxy in self.proxies:
            for connection in proxy.connections(""):
                proxy.release(connection)
