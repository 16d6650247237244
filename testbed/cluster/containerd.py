"""The containerd of a node. Tests use it directly to load images and to kill containers."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from testbed.cluster.machine import CommandFailed
from testbed.cluster.node_settings import SOCKET, write_containerd_settings
from testbed.cluster.processes import ManagedProcess
from testbed.processes import wait_for

if TYPE_CHECKING:
    from pathlib import Path

    from testbed.cluster.machine import Machine

TIMEOUT_S = 30.0  # seconds
UNPACKED_WITHIN = 300.0  # seconds, for a large image on a busy disk
KNOWN = 'labels."io.cri-containerd.image"==managed'  # the label of images that the kubelet can use


class Containerd(ManagedProcess):
    """A containerd process that keeps images and containers under `folder/containerd`."""

    def __init__(self, folder: Path, logs: Path, machine: Machine) -> None:
        settings = write_containerd_settings(folder)
        super().__init__("containerd", [f"--config={settings}"], logs, machine, path="containerd")
        self._inside = machine

    def wait_until_ready(self) -> None:
        """Returns when it answers."""

        def answers() -> bool:
            self.check()
            with suppress(CommandFailed):
                self._ask("version")
                return True
            return False

        wait_for(answers, within_s=TIMEOUT_S, why=self.log_tail)

    def load(self, archive: Path) -> list[str]:
        """The names of the images in it: an OCI archive or one of `docker save`. Pods can use them from now on."""
        output = self._ask("images", "import", str(archive), timeout_s=UNPACKED_WITHIN)
        names = [line.split()[1] for line in output.splitlines() if line.startswith("unpacking ")]
        wait_for(
            lambda: set(names) <= set(self._ask("images", "list", "--quiet", KNOWN).split()),
            within_s=TIMEOUT_S,
            why=lambda: f"containerd does not show its new images {names} to the kubelet",
        )
        return names

    def kill_process(self, container: str) -> None:
        """SIGKILL to the first process of the container with this id."""
        self._ask("tasks", "kill", "--signal", "SIGKILL", container)

    def _ask(self, *words: str, timeout_s: float = TIMEOUT_S) -> str:
        return self._inside.run("ctr", "--address", SOCKET, "--namespace", "k8s.io", *words, timeout_s=timeout_s)
