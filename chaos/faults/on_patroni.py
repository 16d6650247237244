"""Patroni promotes a standby: because it was asked to, or because the primary or etcd is away."""

from __future__ import annotations

import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

from chaos.faults.fault import Fault
from chaos.patroni_servers import PatroniServers

if TYPE_CHECKING:
    from collections.abc import Generator

    from chaos.environment import Environment
    from chaos.faults.fault import Draw
    from testbed.patroni import PatroniNode


class _Failover(Fault):
    """A fault of the cluster, after which all of its servers work again."""

    needs = "patroni"
    weight = 3


@contextmanager
def _cluster(environment: Environment) -> Generator[tuple[PatroniServers, PatroniNode]]:
    """The servers and the primary. At the end, what is away comes back."""
    servers = environment.server
    assert isinstance(servers, PatroniServers)
    with environment.server_lock:
        primary = environment.own(servers.cluster.settle)
        try:
            yield servers, primary
        finally:
            environment.own(servers.cluster.settle)


class SwitchedOver(_Failover):
    """Patroni is asked to make the synchronous standby the primary."""

    name = "switchover"

    def inject(self, environment: Environment, draw: Draw) -> str | None:
        with _cluster(environment) as (servers, primary):
            servers.cluster.switch_over()
            servers.failovers += 1
        return primary.name


class PrimaryKilled(_Failover):
    """SIGKILL of the primary and its Patroni. The former primary comes back as a standby, at once or later."""

    name = "primary killed"
    weight = 6

    def inject(self, environment: Environment, draw: Draw) -> str | None:
        with _cluster(environment) as (servers, primary):
            primary.kill()
            if draw.more < 0.3:  # before the standby is promoted: it may remain the primary
                environment.own(primary.start)
                return f"{primary.name}, back at once"
            servers.promoted(primary)
            time.sleep(draw.between(0.0, 3.0))
        return primary.name


class PrimaryFrozen(_Failover):
    """SIGSTOP of the primary and its Patroni until a standby is the primary, and for up to three seconds longer."""

    name = "primary frozen"
    weight = 5

    def inject(self, environment: Environment, draw: Draw) -> str | None:
        with _cluster(environment) as (servers, primary):
            primary.freeze()
            servers.promoted(primary)
            time.sleep(draw.between(0.0, 3.0))
        return primary.name


class StandbysLag(_Failover):
    """SIGSTOP of both standbys for up to four seconds: commits hang meanwhile."""

    name = "standbys frozen"

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
    weight = 2

    def inject(self, environment: Environment, draw: Draw) -> str | None:
        with _cluster(environment) as (servers, _):
            environment.own(servers.cluster.etcd.kill)
            time.sleep(draw.between(0.5, 9.0))
            environment.own(servers.cluster.etcd.start)
        return "etcd"
