"""Slots for test machines: each has a number, and the names and addresses derived from it.

The owner of a slot holds a file lock, which the kernel releases when the process ends. Objects that still exist under
the names of an unlocked slot were left by a killed run. They are removed before the slot is used.
"""

from __future__ import annotations

import fcntl
import ipaddress
import os
import shutil
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

LOCKS = Path("/run")
CGROUPS = Path("/sys/fs/cgroup")
SLOTS = range(64)
NETWORKS = ipaddress.ip_network("10.77.0.0/16")
NETWORK_BITS = 30  # two addresses for each slot: this host's and the machine's


class NoFreeSlot(Exception):
    """Other test runs use every slot, or this host uses the addresses."""


class MachineSlot:
    """A slot that this process owns until it releases it or ends.

    `host_address` is this host's address in the machine's network, and `address` the machine's. The link between them
    and the machine's cgroups are named `name`.
    """

    def __init__(self, number: int, lock: int) -> None:
        self.name = f"wakeboard-{number}"
        self.network = _network(number)
        host, machine = self.network.hosts()
        self.host_address, self.address = str(host), str(machine)
        self._lock = lock

    def make_cgroup(self) -> None:
        """Creates the cgroup: one for each controller with version 1, one in total with version 2."""
        for root in _cgroup_roots():
            _delegate_controllers(root)
            (root / self.name).mkdir(exist_ok=True)

    def record_folders(self, folders: Iterable[Path]) -> None:
        """Records folders that the next owner of this slot removes if this process cannot."""
        os.ftruncate(self._lock, 0)
        os.pwrite(self._lock, "\n".join(map(str, folders)).encode(), 0)

    def clear(self) -> None:
        """Removes the link, the cgroups and the recorded folders of an earlier owner."""
        subprocess.run(["ip", "link", "delete", self.name], capture_output=True, check=False)
        for root in _cgroup_roots():
            _remove_cgroup(root / self.name)
        for folder in os.pread(self._lock, 1 << 16, 0).decode().splitlines():
            shutil.rmtree(folder, ignore_errors=True)
        os.ftruncate(self._lock, 0)

    def release(self) -> None:
        """Clears the slot and releases its lock."""
        self.clear()
        os.close(self._lock)


def acquire_slot() -> MachineSlot:
    """Locks the first free slot and clears it. Raises NoFreeSlot."""
    taken = list(_networks_of_this_host())
    for number in SLOTS:
        lock = os.open(LOCKS / f"wakeboard-{number}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(lock)
            continue
        slot = MachineSlot(number, lock)
        slot.clear()
        if not any(slot.network.overlaps(network) for network in taken):
            return slot
        os.close(lock)
    raise NoFreeSlot(f"{len(SLOTS)} test runs use all slots, or {NETWORKS} is in use on this host.")


def _network(number: int) -> ipaddress.IPv4Network:
    size = 1 << (NETWORKS.max_prefixlen - NETWORK_BITS)
    return ipaddress.IPv4Network((int(NETWORKS.network_address) + number * size, NETWORK_BITS))


def _networks_of_this_host() -> Iterator[ipaddress.IPv4Network]:
    """The networks of this host's links, except those of slots, which have locks."""
    answer = subprocess.run(["ip", "-oneline", "-4", "route", "show"], capture_output=True, text=True, check=True)
    for line in answer.stdout.splitlines():
        target, *rest = line.split()
        if target != "default" and "dev" in rest and not rest[rest.index("dev") + 1].startswith("wakeboard-"):
            yield ipaddress.IPv4Network(target, strict=False)


def _cgroup_roots() -> list[Path]:
    if (CGROUPS / "cgroup.controllers").exists():
        return [CGROUPS]
    return [folder for folder in CGROUPS.iterdir() if folder.is_dir() and not folder.is_symlink()]


def _delegate_controllers(root: Path) -> None:
    """With version 2, delegates the controllers that a kubelet needs to child groups."""
    known = root / "cgroup.controllers"
    for controller in known.read_text().split() if known.exists() else []:
        with suppress(OSError):  # if it misses one, the kubelet says which
            (root / "cgroup.subtree_control").write_text(f"+{controller}")


def _remove_cgroup(top: Path) -> None:
    for folder, _, _ in os.walk(top, topdown=False):
        with suppress(OSError):  # a group with processes belongs to a running machine
            Path(folder).rmdir()
