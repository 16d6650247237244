"""A control plane: etcd, kube-apiserver and kube-controller-manager on loopback, ready some four seconds after start.

RBAC is on, and anonymous requests are refused. No pods run. The controllers empty deleted namespaces, create default
service accounts, and collect garbage. Ports do not change after a restart, so that clients can reconnect.
"""

from __future__ import annotations

import json
import shutil
import time
from typing import TYPE_CHECKING, Any, Self

from testbed.cluster import component_flags as flags
from testbed.cluster.certificates import Authority, make_signing_key
from testbed.cluster.cluster import Cluster, certificate_login, kubeconfig
from testbed.cluster.processes import ManagedProcess, free_port

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from testbed.cluster.certificates import KeyPair
    from testbed.cluster.machine import Machine

TIMEOUT_S = 60.0  # seconds until a part that is not ready is a failure
POLL_INTERVAL_S = 0.05  # seconds
DEFAULT_ACCOUNT = "/api/v1/namespaces/default/serviceaccounts?fieldSelector=metadata.name=default"


class NotReady(Exception):
    """The control plane did not become ready in time. The message has the ends of its logs."""


class ControlPlane(Cluster):
    """A control plane that this process runs; use it with `with`, in the main thread. Its folder must not exist yet.

    `etcd`, `api_server` and `controllers` may be killed, stopped, hung (SIGSTOP) and started again one by one.
    """

    def __init__(self, folder: Path, *, audit: bool = False, machine: Machine | None = None) -> None:
        address = machine.address if machine else flags.LOOPBACK
        port = flags.MACHINE_PORT if machine else free_port()
        etcd_url = f"http://{flags.LOOPBACK}:{free_port()}"
        super().__init__(folder, f"https://{address}:{port}")
        pki, logs = folder / "pki", folder / "log"
        authority = Authority.make(pki)
        tokens = make_signing_key(pki)
        serving = authority.issue("apiserver", "kube-apiserver", hosts=(*flags.API_SERVER_HOSTS, address))
        administrator = authority.issue("admin", "admin", ["system:masters"])
        controllers = authority.issue("controllers", "system:kube-controller-manager")
        logs.mkdir()
        self._audit_log = folder / "audit.log"
        api_server_flags = flags.api_server_flags(etcd_url, port, pki, serving, tokens)
        if machine:
            kubelet_client = authority.issue("kubelet-client", "kubelet-client", ["system:masters"])
            api_server_flags += flags.machine_flags(address, pki, kubelet_client)
        else:
            api_server_flags += flags.loopback_flags()
        if audit:
            api_server_flags += flags.audit_flags(folder, self._audit_log)
        self.etcd = ManagedProcess("etcd", flags.etcd_flags(folder / "etcd", etcd_url), logs, machine)
        self.api_server = ManagedProcess("kube-apiserver", api_server_flags, logs, machine)
        self._login(self.admin, administrator)
        login = self._login(folder / "controllers.kubeconfig", controllers)
        controller_flags = flags.controller_flags(login, pki, tokens)
        self.controllers = ManagedProcess("kube-controller-manager", controller_flags, logs, machine)

    def __enter__(self) -> Self:
        try:
            self.etcd.start()
            self.start_api_server()
            self.controllers.start()
            self._wait_for("the controllers", self._default_account_exists, self.controllers)
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start_api_server(self) -> None:
        """Starts it, and returns when it is ready."""
        self.api_server.start()
        self._wait_for("the API server", self.ready, self.etcd, self.api_server)

    def restart_api_server(self) -> None:
        """Kills it as a crash would, starts it again, and returns when it is ready. Every watch is cut."""
        self.api_server.kill()
        self.start_api_server()

    def stop(self) -> None:
        """Kills all parts and removes their data (about 100 MB). The logs are kept."""
        self.disconnect()
        for part in (self.controllers, self.api_server, self.etcd):
            part.kill()
        shutil.rmtree(self.folder / "etcd", ignore_errors=True)

    def audited(self) -> list[dict[str, Any]]:
        """The requests so far, as audit.k8s.io/v1 Events, oldest first. Only with `audit=True`."""
        whole, _, _ = self._audit_log.read_text().rpartition("\n")  # one may be about to be written
        return [json.loads(line) for line in whole.splitlines()]

    def _login(self, path: Path, pair: KeyPair) -> Path:
        path.write_text(kubeconfig(self.url, self.folder / "pki" / "ca.crt", certificate_login(pair)))
        return path

    def _default_account_exists(self) -> bool:
        return bool(self.call("GET", DEFAULT_ACCOUNT)["items"])

    def _wait_for(self, what: str, come: Callable[[], bool], *parts: ManagedProcess) -> None:
        started = time.monotonic()
        while not come():
            for part in parts:
                part.check()
            if time.monotonic() - started > TIMEOUT_S:
                words = "\n".join(part.log_tail() for part in parts)
                raise NotReady(f"{what} did not come up in {TIMEOUT_S:.0f} s:\n{words}")
            time.sleep(POLL_INTERVAL_S)
