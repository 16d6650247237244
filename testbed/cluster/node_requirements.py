"""Checks whether this computer can run a real node: packages, programs and rights."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from testbed.cluster.binaries import ProgramMissing, find_program
from testbed.cluster.busybox_images import find_busybox
from testbed.cluster.machine_slots import CGROUPS
from testbed.cluster.node_settings import NETWORK_PLUGINS

if TYPE_CHECKING:
    from collections.abc import Iterator

PACKAGES = {  # Debian's, by what we take from them
    "conntrack": "conntrack",
    "containerd": "containerd",
    "ctr": "containerd",
    "ip": "iproute2",
    "iptables": "iptables",
    "nft": "nftables",
    "nsenter": "util-linux",
    "runc": "runc",
    "sysctl": "procps",
    "unshare": "util-linux",
}
NAMESPACES = ["unshare", "--net", "--mount", "--pid", "--fork", "--mount-proc", "--"]


def missing_requirements() -> list[str]:
    """A short phrase for each missing requirement. Empty if a node can run."""
    if sys.platform != "linux":
        return ["Linux"]
    if os.geteuid() != 0:
        return ["root"]
    return [*_missing_packages(), *_missing_programs(), *_missing_rights()]


def _missing_packages() -> list[str]:
    missing = {package for program, package in PACKAGES.items() if not shutil.which(program)}
    if not (Path(NETWORK_PLUGINS) / "ptp").exists():
        missing.add("containernetworking-plugins")
    if find_busybox() is None:
        missing.add("busybox-static")
    return [f"the package {package}" for package in sorted(missing)]


def _missing_programs() -> Iterator[str]:
    try:
        find_program("kubelet")
    except ProgramMissing as words:
        yield str(words)


def _missing_rights() -> Iterator[str]:
    if not os.access(CGROUPS, os.W_OK):
        yield f"the right to write to {CGROUPS}"
    attempt = [*NAMESPACES, "mount", "-t", "tmpfs", "tmpfs", "/run"]
    if shutil.which("unshare") and subprocess.run(attempt, capture_output=True, check=False).returncode:
        yield "the right to make namespaces and to mount in them"
