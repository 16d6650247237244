"""A Patroni cluster: three PostgreSQL servers, each with a Patroni that keeps it, and the etcd they share.

It is on loopback, or each server is in a network of its own (`ServerNetwork`), from which it can be cut off.

Patroni chooses the primary. It lets the others follow, promotes one of them when the primary has not renewed its lease
in etcd, and turns a former primary into a standby when that comes back. All processes of a node are descendants of a
subreaper of ours, so they end with the node, and with this process.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from http.client import HTTPException
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import psycopg

from testbed.cluster import component_flags
from testbed.cluster.processes import ManagedProcess, free_port
from testbed.processes import ROOT, TIMEOUT_S, descendants, wait_for
from testbed.server_network import ADDRESS
from wakeboard.conformance.tcp_proxy import TcpProxy
from wakeboard.local.postgres import find_binaries
from wakeboard.local.postgres_data import DATABASE, SUPERUSER
from wakeboard.local.postgres_user import make_private_folder, server_account

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from testbed.server_network import ServerNetwork

NAMES: Final = ("one", "two", "three")
SUBREAPER: Final = ROOT / "worker" / "wakeboard_worker" / "builtin" / "subreaper.py"
POSTGRES: Final = "15"  # the newest that Debian's Patroni knows
STOP_S: Final = 10.0  # then a node is killed
THAWED_S: Final = 1.0  # for which a former primary that was frozen goes on
ANSWER_S: Final = 1.0  # of a Patroni
LOOK_EVERY_S: Final = 0.2  # for the primary, by a load balancer
START_S: Final = 150.0
REINITIALIZE_AFTER_S: Final = 30.0  # of a standby that does not come back by itself
LOOPBACK: Final = "127.0.0.1"
_STREAMS: Final = """
select from pg_stat_replication
 where application_name = any (%s) and state = 'streaming' and (sync_state in ('sync', 'quorum')) = %s
"""
LATEST: Final = 3000  # characters of a log
CANNOT_FOLLOW: Final = re.compile("has already been removed|out-of-sequence timeline ID")  # a standby by itself
# Patroni promotes a standby so many seconds after the last sign of life of the primary. In production it is 30.
TTL_S: Final = 5
LARGEST_LAG: Final = 1 << 30  # bytes of WAL that an asynchronous standby may lack when it is promoted
TIMES: Final = {"ttl": TTL_S, "loop_wait": 1, "retry_timeout": 2}
SETTINGS: Final = {
    "max_connections": "150",
    "shared_buffers": "32MB",
    "max_wal_size": "128MB",
    "wal_keep_size": "192MB",
    # A standby asks the new primary at once, which has no slot for it yet. After 5 s, the default, it would ask again.
    "wal_retrieve_retry_interval": "500ms",
    "wal_sender_timeout": "5s",  # of a standby that the network has lost
    "wal_receiver_timeout": "5s",
}


def find_patroni() -> str | None:
    """The path of the program, or None if it is not installed."""
    return shutil.which("patroni")


class PatroniNode:
    """One server and its Patroni. Call `start` in the main thread: the kernel ends both with the thread."""

    def __init__(self, folder: Path, name: str, etcd_port: int, dcs: Any, network: ServerNetwork | None = None) -> None:
        self.name, self.port, self._api_port = name, free_port(), free_port()
        self.host = network.address(name) if network is not None else LOOPBACK
        self._network, self._etcd_port = network, etcd_port
        self._folder = folder / name
        make_private_folder(self._folder, server_account())
        self.log = folder / f"{name}.log"
        self._process: subprocess.Popen[bytes] | None = None
        self._frozen = self._is_cut = self._is_behind = False
        self._config_file = self._folder / "patroni.json"
        self._config_file.write_text(json.dumps(self._config(dcs)))
        self._command = [*_as_server_account(), find_patroni() or "patroni", str(self._config_file)]

    def start(self) -> None:
        """Starts it, unless it runs."""
        if self._process is not None and self._process.poll() is None:
            return
        with self.log.open("ab") as log:
            words = [str(os.getpid()), str(log.fileno()), str(STOP_S)]
            command = [sys.executable, "-I", "-S", str(SUBREAPER), *words, *self._command]
            self._process = subprocess.Popen(
                self._network.command(self.name, command) if self._network is not None else command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                pass_fds=[log.fileno()],
                cwd=self._folder,
                env={"PATH": os.environ["PATH"], "HOME": str(self._folder), "LC_ALL": "C"},
                start_new_session=True,
            )
        self._frozen = self._is_behind = False

    def kill(self) -> None:
        """Kills the server and its Patroni at once, as a loss of power does."""
        self._signal(signal.SIGKILL)
        self._wait()

    def freeze(self) -> None:
        """Stops all processes as they are. Their connections stay open, and new ones are not answered."""
        self._frozen = True
        self._signal(signal.SIGSTOP)

    def stop_sending(self) -> None:
        """Stops what sends its commits to the standbys, until it is killed."""
        self._signal(signal.SIGSTOP, only=b"walsender")

    def stop_receiving(self) -> None:
        """Stops what receives commits from the primary, so that this standby falls behind."""
        self._is_behind = True
        self._signal(signal.SIGSTOP, only=b"walreceiver")

    def receive(self) -> None:
        """Ends `stop_receiving`."""
        if self._is_behind:
            self._signal(signal.SIGCONT)
        self._is_behind = False

    def cut(self, *, keeping_clients: bool) -> None:
        """Cuts it off from the other servers and from etcd, or from everything, until `mend`."""
        assert self._network is not None, "the servers have no network of their own"
        self._is_cut = not keeping_clients
        self._network.cut(self.name, keeping_clients=keeping_clients, port=self._etcd_port)

    def mend(self) -> None:
        """Ends a cut."""
        if self._network is not None:
            self._network.mend(self.name)
        self._is_cut = False

    def thaw(self) -> None:
        """Lets the server go on for a moment. Its Patroni is killed, and the server ends then, as by a watchdog.

        Without one, Patroni 3.0 takes the lease in etcd away from the new primary, and is a second one.
        """
        if not self._frozen:
            return
        self._signal(signal.SIGKILL, only=str(self._config_file).encode())
        self._signal(signal.SIGCONT)
        with suppress(subprocess.TimeoutExpired):
            self._wait(THAWED_S)
        self.kill()
        self._frozen = False

    def begin_stop(self) -> None:
        """Ends both at once, so that they leave no shared memory. `stop` waits for it."""
        self._signal(signal.SIGCONT)
        if (server := self.postmaster) is not None:
            with suppress(ProcessLookupError):
                os.kill(server, signal.SIGQUIT)
        self._signal(signal.SIGKILL, only=str(self._config_file).encode())

    def stop(self) -> None:
        """Waits for the end."""
        with suppress(subprocess.TimeoutExpired):
            self._wait()
        self.kill()

    @property
    def postmaster(self) -> int | None:
        """The pid of the server, or None while it does not run."""
        with suppress(OSError, ValueError, IndexError):
            pid = int((self._folder / "data" / "postmaster.pid").read_text().split()[0])
            return pid if pid in self._processes() else None
        return None

    def dsn(self, database: str = DATABASE) -> str:
        """The superuser's DSN of this server alone."""
        return f"postgresql://{SUPERUSER}@{self.host}:{self.port}/{database}"

    def is_primary(self) -> bool:
        """Whether it is the primary: it has the lease in etcd, and has been promoted."""
        if self._frozen or self._is_cut:
            return False
        status, answer = self.ask("GET", "/primary")
        return status == 200 and json.loads(answer).get("role") in {"master", "primary"}

    def ask(self, method: str, path: str, body: Any = None, within_s: float = ANSWER_S) -> tuple[int, Any]:
        """The status and the answer of its Patroni; (0, None) if it does not answer."""
        content = None if body is None else json.dumps(body).encode()
        request = Request(f"http://{self.host}:{self._api_port}{path}", content, method=method)
        try:
            with urlopen(request, timeout=within_s) as answer:
                return answer.status, answer.read()
        except HTTPError as refused:
            return refused.code, refused.read()
        except (OSError, HTTPException):
            return 0, None

    def _wait(self, seconds: float = 3 * STOP_S) -> None:
        if self._process is not None:
            self._process.wait(seconds)

    def _signal(self, number: signal.Signals, only: bytes = b"") -> None:
        """Sends it to all processes, or to those whose command line contains `only`."""
        for pid in self._processes():
            with suppress(OSError):  # it has ended
                if not only or only in Path(f"/proc/{pid}/cmdline").read_bytes():
                    os.kill(pid, number)

    def _processes(self) -> list[int]:
        return descendants(self._process.pid) if self._process is not None and self._process.poll() is None else []

    def _config(self, dcs: Any) -> dict[str, Any]:
        etcd_host, clients = (LOOPBACK, f"{LOOPBACK}/32") if self._network is None else (ADDRESS, "samenet")
        return {
            "scope": DATABASE,
            "name": self.name,
            "restapi": dict.fromkeys(("listen", "connect_address"), f"{self.host}:{self._api_port}"),
            "etcd3": {"host": f"{etcd_host}:{self._etcd_port}"},
            "bootstrap": {"dcs": dcs, "initdb": [{"encoding": "UTF8"}, {"locale": "C"}, "no-sync"]},
            "postgresql": {
                **dict.fromkeys(("listen", "connect_address"), f"{self.host}:{self.port}"),
                "data_dir": str(self._folder / "data"),
                "bin_dir": str(find_binaries(POSTGRES)),
                "pgpass": str(self._folder / "pgpass"),
                "authentication": {"superuser": {"username": SUPERUSER}, "replication": {"username": "replicator"}},
                "basebackup": {"checkpoint": "fast"},  # or a copy begins after minutes, if little is written
                "parameters": {"unix_socket_directories": str(self._folder)},
                "pg_hba": [f"host {database} all {clients} trust" for database in ("all", "replication")],
                "remove_data_directory_on_rewind_failure": True,
                "remove_data_directory_on_diverged_timelines": True,
            },
        }


class PatroniCluster:
    """Three nodes and one etcd, in `folder`, which `nobody` must be able to enter if we are root.

    `synchronous`: commits wait for one standby, and only that one may be promoted. `settings`: those of each server.
    `restore_command`: how a server gets archived WAL. Without it an asynchronous standby does not know that another one
    was promoted and killed, and gives its own timeline the same number. `network`: that of NAMES, which has started; it
    ends with the cluster.
    """

    def __init__(
        self,
        folder: Path,
        *,
        synchronous: bool = True,
        settings: Mapping[str, str] | None = None,
        restore_command: str | None = None,
        network: ServerNetwork | None = None,
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder, self._network = folder, network
        etcd_port, etcd_host = free_port(), LOOPBACK if network is None else ADDRESS
        flags = component_flags.etcd_flags(folder / "etcd", f"http://{etcd_host}:{etcd_port}")
        self.etcd = ManagedProcess("etcd", flags, folder)
        self._synchronous = synchronous
        dcs = {
            **TIMES,
            "synchronous_mode": synchronous,
            "maximum_lag_on_failover": LARGEST_LAG,
            "postgresql": {
                "use_pg_rewind": True,
                "use_slots": True,
                "parameters": {**SETTINGS, **(settings or {})},
                "recovery_conf": {"restore_command": restore_command} if restore_command else {},
            },
        }
        self.nodes = [PatroniNode(folder, name, etcd_port, dcs, network) for name in NAMES]
        self._balancers: list[TcpProxy] = []
        self._stopping = threading.Event()

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        """Starts all of it, and creates the database."""
        self.etcd.start()
        for node in self.nodes:
            node.start()
        self.settle()

    def stop(self) -> None:
        """Ends all of it, and removes the data."""
        self._stopping.set()
        for balancer in self._balancers:
            balancer.stop()
        for node in self.nodes:
            node.begin_stop()
        for node in self.nodes:
            node.stop()
        self.etcd.kill()
        if self._network is not None:
            self._network.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    def dsn(self, *, user: str = SUPERUSER, database: str = DATABASE) -> str:
        """A DSN of all servers, which leads to the primary. They trust any process of this machine."""
        hosts = ",".join(f"{node.host}:{node.port}" for node in self.nodes)
        return f"postgresql://{user}@{hosts}/{database}?target_session_attrs=read-write"

    def start_load_balancer(self) -> TcpProxy:
        """Starts a proxy that leads to the primary, and ends the connections to a former one. It ends with `stop`."""
        balancer = TcpProxy((self.nodes[0].host, self.nodes[0].port))
        balancer.start()
        self._balancers.append(balancer)
        threading.Thread(target=self._keep_on_primary, args=(balancer,), name="load balancer", daemon=True).start()
        return balancer

    def _keep_on_primary(self, balancer: TcpProxy) -> None:
        known: PatroniNode | None = None
        while not self._stopping.wait(LOOK_EVERY_S):
            primary = self.primary()
            if primary is not None and primary is not known:
                balancer.target, known = (primary.host, primary.port), primary
                for connection in balancer.connections(""):
                    balancer.cut(connection)

    def primary(self) -> PatroniNode | None:
        """The primary, or None while there is none."""
        return next((node for node in self.nodes if node.is_primary()), None)

    def wait_for_primary(self, *, other_than: PatroniNode | None = None, within_s: float = TIMEOUT_S) -> PatroniNode:
        """The primary, as soon as it is one."""

        def found() -> PatroniNode | None:
            return next((node for node in self.nodes if node is not other_than and node.is_primary()), None)

        return wait_for(found, within_s=within_s, why=self.logs)

    def bring_back(self) -> None:
        """Starts, thaws and links what is away. Call it in the main thread."""
        for node in self.nodes:
            node.mend()
            node.receive()
            node.thaw()
            node.start()

    def settle(self) -> PatroniNode:
        """Brings back what is away, and waits until all three work. Returns the primary."""
        self.bring_back()
        return self._wait_until(self._all_stream)

    def wait_for_standby(self) -> PatroniNode:
        """Waits until one primary has a standby: a synchronous one, if commits wait. The other may be coming back."""
        return self._wait_until(self._one_streams)

    def _wait_until(self, works: Callable[[], bool]) -> PatroniNode:
        with suppress(AssertionError):
            wait_for(works, within_s=REINITIALIZE_AFTER_S)
        if not works():
            self._reinitialize()
            wait_for(works, within_s=START_S, why=self.logs)
        return self.wait_for_primary()

    def asynchronous_standby(self) -> PatroniNode:
        """The standby that no commit waits for."""
        members = self._members(self.wait_for_primary())
        name = next(member["name"] for member in members if member["role"] == "replica")
        return next(node for node in self.nodes if node.name == name)

    def switch_over(self) -> PatroniNode:
        """Lets Patroni make a standby the primary. Returns it."""
        former = self.wait_for_primary()
        body = {"leader": former.name}
        # It is refused for a moment, while another standby becomes the synchronous one.
        wait_for(lambda: former.ask("POST", "/switchover", body, within_s=60)[0] == 200, why=self.logs)
        return self.wait_for_primary(other_than=former)

    def set_synchronous(self, *, on: bool) -> None:
        """Whether commits wait for a standby."""
        status, answer = self.wait_for_primary().ask("PATCH", "/config", {"synchronous_mode": on})
        assert status == 200, answer
        self._synchronous = on
        wait_for(self._all_stream, why=self.logs)

    def logs(self) -> str:
        """The ends of the logs."""
        return "\n".join(f"--- {node.name}\n{node.log.read_text(errors='replace')[-LATEST:]}" for node in self.nodes)

    def _all_stream(self) -> bool:
        """Whether Patroni says that each member runs, on one timeline, and that one is synchronous if one has to be."""
        primary = self.primary()
        if primary is None:
            return False
        members = self._members(primary)
        config = json.loads(primary.ask("GET", "/config")[1] or "{}")
        roles = sorted(member["role"] for member in members if member["state"] in {"running", "streaming"})
        wanted = ["leader", "replica", "sync_standby" if config.get("synchronous_mode") else "replica"]
        return roles == wanted and len({member.get("timeline") for member in members}) == 1

    def _one_streams(self) -> bool:
        """Whether one member alone says that it is the primary, and a standby that it names streams."""
        primaries = [node for node in self.nodes if node.is_primary()]
        if len(primaries) != 1:
            return False
        role = "sync_standby" if self._synchronous else "replica"
        named = [each["name"] for each in self._members(primaries[0]) if each["role"] == role]
        with suppress(psycopg.Error), psycopg.connect(primaries[0].dsn(), connect_timeout=2) as conn:
            return conn.execute(_STREAMS, (named, self._synchronous)).fetchone() is not None
        return False

    def _reinitialize(self) -> None:
        """Copies the primary again to a standby that cannot read or get its next WAL, as an administrator does."""
        for node in self.nodes:
            if CANNOT_FOLLOW.search(node.log.read_text(errors="replace")[-5 * LATEST :]) and not self._all_stream():
                node.ask("POST", "/reinitialize", {"force": True})

    def _members(self, node: PatroniNode) -> list[dict[str, Any]]:
        return json.loads(node.ask("GET", "/cluster")[1] or "{}").get("members", [])


def _as_server_account() -> list[str]:
    account = server_account()
    return ["setpriv", f"--reuid={account.uid}", f"--regid={account.gid}", "--clear-groups"] if account else []
