"""Faults of a cluster: Patroni is asked to switch over, or a server, its network or disk, or etcd is away."""

from __future__ import annotations

import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Final

import psycopg

from chaos.faults.fault import Fault
from chaos.patroni_servers import PatroniServers

if TYPE_CHECKING:
    from collections.abc import Generator

    from chaos.environment import Environment
    from chaos.faults.fault import Draw
    from testbed.patroni import PatroniNode

SEGMENTS: Final = 4  # of WAL, more than a server has in reserve


class _Failover(Fault):
    """A fault of the cluster, after which a primary with a standby works, and the third server returns."""

    needs = "patroni"
    weight = 2


@contextmanager
def _cluster(environment: Environment) -> Generator[tuple[PatroniServers, PatroniNode]]:
    """The servers and the primary, which has a standby. At the end, what is away comes back."""
    servers = environment.server
    assert isinstance(servers, PatroniServers)
    with environment.server_lock:
        primary = servers.cluster.wait_for_standby()
        try:
            yield servers, primary
        finally:
            for disk in servers.disks.values():
                disk.free()
            environment.own(servers.cluster.bring_back)
            servers.failovers += servers.cluster.wait_for_standby() is not primary


class SwitchedOver(_Failover):
    """Patroni is asked to make the synchronous standby the primary."""

    name = "switchover"

    def inject(self, environment: Environment, draw: Draw) -> str | None:
        with _cluster(environment) as (servers, primary):
            servers.cluster.switch_over()
        return primary.name


class PrimaryKilled(_Failover):
    """SIGKILL of the primary and its Patroni. The former primary comes back as a standby, at once or later.

    If no commit waits for a standby, the primary sends nothing for up to a second before that.
    """

    name = "primary killed"
    weight = 3

    def inject(self, environment: Environment, draw: Draw) -> str | None:
        with _cluster(environment) as (servers, primary):
            if not servers.synchronous:
                primary.stop_sending()
                time.sleep(draw.between(0.1, 1.0))
            primary.kill()
            if draw.more < 0.3:  # before the standby is promoted: it may remain the primary
                environment.own(primary.start)
                return f"{primary.name}, back at once"
            servers.wait_for_promotion(primary)
            time.sleep(draw.between(0.0, 3.0))
        return primary.name


class PrimaryFrozen(_Failover):
    """SIGSTOP of the primary and its Patroni until a standby is the primary, and for up to three seconds longer."""

    name = "primary frozen"

    def inject(self, environment: Environment, draw: Draw) -> str | None:
        with _cluster(environment) as (servers, primary):
            primary.freeze()
            servers.wait_for_promotion(primary)
            time.sleep(draw.between(0.0, 3.0))
        return primary.name


class PrimaryCutOff(_Failover):
    """The network loses the packets of the primary: all, or only those of the other servers and of etcd.

    In the second case its clients still reach it, until it gives up. It lasts up to three seconds past the promotion.
    """

    name = "primary cut off"
    needs = "network"

    def inject(self, environment: Environment, draw: Draw) -> str | None:
        keeps_clients = draw.how < 0.5
        with _cluster(environment) as (servers, primary):
            primary.cut(keeping_clients=keeps_clients)
            servers.wait_for_promotion(primary)
            time.sleep(draw.between(0.0, 3.0))
        return f"{primary.name}, clients reach it" if keeps_clients else primary.name


class StandbyCutOff(_Failover):
    """The network loses the packets of one standby for up to eight seconds. Commits hang if they wait for that one."""

    name = "standby cut off"
    needs = "network"
    weight = 1

    def inject(self, environment: Environment, draw: Draw) -> str | None:
        with _cluster(environment) as (servers, primary):
            standby = draw.choose([node for node in servers.cluster.nodes if node is not primary])
            standby.cut(keeping_clients=draw.more < 0.5)
            time.sleep(draw.between(0.5, 8.0))
        return standby.name


class ServerDiskFull(_Failover):
    """The disk of one server is full for up to six seconds, and the primary begins new WAL segments.

    A primary panics, and recovers or is replaced; a standby stops to receive.
    """

    name = "disk of a server full"
    needs = "network"
    weight = 1

    def inject(self, environment: Environment, draw: Draw) -> str | None:
        with _cluster(environment) as (servers, primary):
            node = draw.choose(servers.cluster.nodes)
            servers.disks[node.name].fill()
            with suppress(psycopg.Error), psycopg.connect(primary.dsn(), autocommit=True) as conn:
                for _ in range(SEGMENTS):
                    conn.execute("select pg_logical_emit_message(false, 'chaos', 'x'), pg_switch_wal()")
            time.sleep(draw.between(0.5, 6.0))
        return f"{node.name}, the primary" if node is primary else node.name


class StandbyBehind(_Failover):
    """The standby that no commit waits for receives nothing, then the primary is killed: the other one is promoted."""

    name = "standby behind"
    weight = 1

    def inject(self, environment: Environment, draw: Draw) -> str | None:
        with _cluster(environment) as (servers, _):
            primary = environment.own(servers.cluster.settle)
            servers.cluster.asynchronous_standby().stop_receiving()
            time.sleep(draw.between(0.5, 3.0))
            primary.kill()
            servers.wait_for_promotion(primary)
        return primary.name


class StandbysLag(_Failover):
    """SIGSTOP of both standbys for up to four seconds: commits hang meanwhile."""

    name = "standbys frozen"
    weight = 1

    def inject(self, environment: Environment, draw: Draw) -> str | None:
        with _cluster(environment) as (servers, primary):
            for node in servers.cluster.nodes:
                if node is not primary:
                    node.freeze()
            time.sleep(draw.between(0.5, 4.0))
        return "both standbys"


class EtcdAway(_Failover):
    """etcd is killed and started again. The primary steps down if it is away for longer than Patroni's lease."""

    name = "etcd away"
    weight = 1

    def inject(self, environment: Environment, draw: Draw) -> str | None:
        with _cluster(environment) as (servers, _):
            environment.own(servers.cluster.etcd.kill)
            time.sleep(draw.between(0.5, 9.0))
            environment.own(servers.cluster.etcd.start)
        return "etcd"
