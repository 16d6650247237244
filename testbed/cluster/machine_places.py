"""A place for one machine of tests: a number that nobody else has, and the names and addresses that follow from it.

Who holds a place holds a lock, which the kernel frees with the process. So a place that can be had is nobody's, and
what stands there under its names was left behind by a run that was killed: it is cleared away before the place is used.
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
PLACES = range(64)
NETWORKS = ipaddress.ip_network("10.77.0.0/16")
NETWORK_BITS = 30  # two addresses for each place: this host's and the machine's


class NoPlace(Exception):
    """Every place is taken by other test runs, or its addresses by something else on this host."""


class Place:
    """A place that this process has until it gives it back or ends.

    `host_address` is this host as the machine sees it, `address` the machine; `name` is what the link between them and
    the machine's cgroups are called.
    """

    def __init__(self, number: int, lock: int) -> None:
        self.name = f"wakeboard-{number}"
        self.network = _network(number)
        host, machine = self.network.hosts()
        self.host_address, self.address = str(host), str(machine)
        self._lock = lock

    def make_cgroup(self) -> None:
        """One for each controller, or one for all: so it is on hosts with version 1, and with version 2."""
        for root in _cgroup_roots():
            _pass_controllers_on(root)
            (root / self.name).mkdir(exist_ok=True)

    def remember(self, folders: Iterable[Path]) -> None:
        """The next one to have this place removes these folders, if we cannot."""
        os.ftruncate(self._lock, 0)
        os.pwrite(self._lock, "\n".join(map(str, folders)).encode(), 0)

    def clear(self) -> None:
        """Removes what carries our names, and the folders remembered. Whatever ran here has ended."""
        subprocess.run(["ip", "link", "delete", self.name], capture_output=True, check=False)
        for root in _cgroup_roots():
            _remove_cgroup(root / self.name)
        for folder in os.pread(self._lock, 1 << 16, 0).decode().splitlines():
            shutil.rmtree(folder, ignore_errors=True)
        os.ftruncate(self._lock, 0)

    def give_back(self) -> None:
        """Another may have it now."""
        self.clear()
        os.close(self._lock)


def take_place() -> Place:
    """The first place that is free, cleared of what a killed run left there; raises NoPlace."""
    taken = list(_networks_of_this_host())
    for number in PLACES:
        lock = os.open(LOCKS / f"wakeboard-{number}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(lock)
            continue
        place = Place(number, lock)
        place.clear()
        if not any(place.network.overlaps(network) for network in taken):
            return place
        os.close(lock)
    raise NoPlace(f"{len(PLACES)} test runs have all places, or {NETWORKS} is in use on this host.")


def _network(number: int) -> ipaddress.IPv4Network:
    size = 1 << (NETWORKS.max_prefixlen - NETWORK_BITS)
    return ipaddress.IPv4Network((int(NETWORKS.network_address) + number * size, NETWORK_BITS))


def _networks_of_this_host() -> Iterator[ipaddress.IPv4Network]:
    """What it reaches through a link of its own; ours are left out, since each has its lock."""
    answer = subprocess.run(["ip", "-oneline", "-4", "route", "show"], capture_output=True, text=True, check=True)
    for line in answer.stdout.splitlines():
        target, *rest = line.split()
        if target != "default" and "dev" in rest and not rest[rest.index("dev") + 1].startswith("wakeboard-"):
            yield ipaddress.IPv4Network(target, strict=False)


def _cgroup_roots() -> list[Path]:
    if (CGROUPS / "cgroup.controllers").exists():
        return [CGROUPS]
    return [folder for folder in CGROUPS.iterdir() if folder.is_dir() and not folder.is_symlink()]


def _pass_controllers_on(root: Path) -> None:
    """Version 2 alone: a group has those controllers that the one above it passes on, and a kubelet needs most."""
    known = root / "cgroup.controllers"
    for controller in known.read_text().split() if known.exists() else []:
        with suppress(OSError):  # if it misses one, the kubelet says which
            (root / "cgroup.subtree_control").write_text(f"+{controller}")


def _remove_cgroup(top: Path) -> None:
    for folder, _, _ in os.walk(top, topdown=False):
        with suppress(OSError):  # what still has processes is not ours to end
            Path(folder).rmdir()
