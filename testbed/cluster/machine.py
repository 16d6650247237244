"""An isolated machine for a Kubernetes node: Linux namespaces for network, mounts and processes.

The first process in the namespaces ends with the process that created them, even if that one is killed. The kernel
then ends every other process in them, such as containers, and removes mounts, routes and firewall rules. A veth pair
connects the machine to this host. It has no other network.
"""

from __future__ import annotations

import os
import signal
import subprocess
from typing import TYPE_CHECKING

from testbed.cluster.machine_slots import acquire_slot
from testbed.cluster.processes import children, pdeathsig

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

TIMEOUT_S = 60.0  # seconds until a command that does not end is a failure
READY = "ready\n"
# A kubelet changes these for the whole kernel if their values differ. Bind-mounted files give it the values it wants.
KERNEL_SETTINGS = {
    "kernel/keys/root_maxbytes": 25_000_000,
    "kernel/keys/root_maxkeys": 1_000_000,
    "kernel/panic": 10,
    "kernel/panic_on_oops": 1,
    "vm/overcommit_memory": 1,
    "vm/panic_on_oom": 0,
}
KUBELET_FOLDER = "/var/lib/kubelet"  # a kubelet with another root directory still uses some paths in this one
# The last process is the first of the machine: it waits. It ignores SIGCHLD, so the kernel reaps every orphan.
PREPARE = """
set -e
mount -t tmpfs tmpfs /run
mount -t tmpfs tmpfs /var/log
mkdir /run/lib /run/lib-work /run/settings
mount -t overlay -o lowerdir=/var/lib,upperdir=/run/lib,workdir=/run/lib-work overlay /var/lib
mkdir -p "$2"
mount --bind "$1" "$2"
while read -r setting value; do
    [ -e "/proc/sys/$setting" ] || continue
    mkdir -p "$(dirname "/run/settings/$setting")"
    echo "$value" > "/run/settings/$setting"
    mount --bind "/run/settings/$setting" "/proc/sys/$setting"
done
echo ready
trap '' CHLD
exec sleep infinity
"""


class CommandFailed(Exception):
    """A command in the machine failed. The message is its error output."""


class Machine:
    """Not running yet. `address` is its own, `host_address` what it reaches this host by.

    In it, `/run` and `/var/log` are empty, `/var/lib` may be changed and is not, and `/var/lib/kubelet` is a folder in
    the folder given. The rest of the file system is this host's.
    """

    def __init__(self, folder: Path) -> None:
        self._slot = acquire_slot()
        self._kubelet = folder / "kubelet"
        self._log = folder / "machine.log"
        self._first: subprocess.Popen[str] | None = None
        self._stopped = False
        self.address = self._slot.address
        self.host_address = self._slot.host_address
        self.cgroup = f"/{self._slot.name}"

    def start(self, folders: Sequence[Path] = ()) -> None:
        """Call it from the main thread. The folders given will be removed when the machine stops."""
        self._slot.record_folders([self._kubelet, *folders])
        self._slot.make_cgroup()
        self._kubelet.mkdir(parents=True)
        settings = "".join(f"{name} {value}\n" for name, value in KERNEL_SETTINGS.items())
        # What this host unmounts is unmounted there, too, and not kept busy; nothing goes the other way.
        own = ["--net", "--mount", "--propagation=slave", "--pid", "--fork", "--kill-child", "--mount-proc"]
        with self._log.open("w") as log:
            self._first = subprocess.Popen(
                ["unshare", *own, "--", "sh", "-c", PREPARE, "machine", str(self._kubelet), KUBELET_FOLDER],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                start_new_session=True,
                preexec_fn=pdeathsig,  # noqa: PLW1509
            )
        assert self._first.stdin is not None
        assert self._first.stdout is not None
        with self._first.stdin as stdin:
            stdin.write(settings)
        with self._first.stdout as stdout:
            if stdout.readline() != READY:
                raise CommandFailed(f"The machine could not be made: {self._log.read_text().strip()}")
        self._link()

    def stop(self) -> None:
        """Kills all processes of the machine, and returns when they have ended. Its addresses may then be reused."""
        if self._stopped:
            return
        if self._first is not None:
            for pid in children(self._first.pid):
                os.kill(pid, signal.SIGKILL)
            self._first.wait()
        self._slot.release()
        self._stopped = True

    def command(self, words: Sequence[str]) -> list[str]:
        """What runs these words inside: a process that waits for the one that it starts there."""
        assert self._first is not None
        (first,) = children(self._first.pid)
        return ["nsenter", f"--target={first}", "--net", "--mount", "--pid", "--", *words]

    def run(self, *words: str, timeout_s: float = TIMEOUT_S) -> str:
        """What a command in it prints; raises CommandFailed."""
        answer = subprocess.run(self.command(words), capture_output=True, text=True, check=False, timeout=timeout_s)
        if answer.returncode:
            raise CommandFailed(f"{' '.join(words)}: {answer.stderr.strip()}")
        return answer.stdout

    def _link(self) -> None:
        """Links the machine to this host. Packets to unknown addresses go to this host, which does not forward them."""
        assert self._first is not None
        place, (first,), bits = self._slot, children(self._first.pid), self._slot.network.prefixlen
        for words in (
            f"ip link add {place.name} type veth peer name eth0 netns {first}",
            f"ip address add {place.host_address}/{bits} dev {place.name}",
            f"ip link set {place.name} up",
        ):
            subprocess.run(words.split(), check=True)
        for words in (
            "ip link set lo up",
            f"ip address add {place.address}/{bits} dev eth0",
            "ip link set eth0 up",
            f"ip route add default via {place.host_address}",
            "sysctl --quiet --write net.ipv4.ip_forward=1",
        ):
            self.run(*words.split())
