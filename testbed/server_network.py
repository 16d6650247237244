"""A network of servers: each has a network namespace, linked to the others by a bridge in ours, and can be cut off.

It needs root, iproute2 and nftables, and ours must be a new one (OWN_NETWORK), with which the bridge ends.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from typing import TYPE_CHECKING, Final

from testbed.cluster.processes import pdeathsig

if TYPE_CHECKING:
    from collections.abc import Sequence

OWN_NETWORK: Final = ["unshare", "--net"]
SUBNET: Final = "10.86.0"
ADDRESS: Final = f"{SUBNET}.1"  # ours
BRIDGE: Final = "servers"
# What a cut drops, in both directions: all packets, or those from and to some addresses and ports.
_CUT: Final = """
table inet cut {{
  chain arriving {{ type filter hook input priority 0; {arriving} }}
  chain leaving {{ type filter hook output priority 0; {leaving} }}
}}
"""


def can_make_network() -> bool:
    """Whether this process may make network namespaces, and filter packets in them."""
    if sys.platform != "linux" or not all(map(shutil.which, ("unshare", "nsenter", "ip", "nft"))):
        return False
    script = f"ip link add {BRIDGE} type bridge && nft add table inet cut"
    return subprocess.run([*OWN_NETWORK, "sh", "-c", script], capture_output=True, check=False).returncode == 0


class ServerNetwork:
    """The servers with these names. Call `start` in the main thread: the kernel ends the namespaces with it."""

    def __init__(self, names: Sequence[str]) -> None:
        self._addresses = {name: f"{SUBNET}.{number}" for number, name in enumerate(names, 11)}
        self._holders: dict[str, subprocess.Popen[bytes]] = {}
        self._cut = set[str]()

    def start(self) -> None:
        """Makes the namespaces, and links them."""
        _run("ip link set lo up")
        _run(f"ip link add {BRIDGE} type bridge")
        _run(f"ip address add {ADDRESS}/24 dev {BRIDGE}")
        _run(f"ip link set {BRIDGE} up")
        for name, address in self._addresses.items():
            holder = subprocess.Popen(
                [*OWN_NETWORK, "sh", "-c", "echo; exec sleep infinity"],
                stdout=subprocess.PIPE,
                preexec_fn=pdeathsig,  # noqa: PLW1509
            )
            self._holders[name] = holder
            assert holder.stdout is not None
            holder.stdout.readline()  # it is in its namespace now
            _run(f"ip link add {name} type veth peer name eth0 netns {holder.pid}")
            _run(f"ip link set {name} master {BRIDGE} up")
            for words in ("link set lo up", f"address add {address}/24 dev eth0", "link set eth0 up"):
                _run(" ".join(self.command(name, ["ip", words])))

    def stop(self) -> None:
        """Ends the namespaces of the servers."""
        for holder in self._holders.values():
            holder.kill()
            holder.communicate()

    def address(self, name: str) -> str:
        """The address of a server."""
        return self._addresses[name]

    def command(self, name: str, words: Sequence[str]) -> list[str]:
        """The command that runs these words in the network of a server."""
        return ["nsenter", f"--net=/proc/{self._holders[name].pid}/ns/net", "--", *words]

    def cut(self, name: str, *, keeping_clients: bool, port: int) -> None:
        """Drops all packets from and to a server, or those of the other servers and of `port` at our address."""
        others = ", ".join(address for other, address in self._addresses.items() if other != name)
        rules = _CUT.format(arriving='iifname != "lo" drop;', leaving='oifname != "lo" drop;')
        if keeping_clients:
            arriving = f"ip saddr {{ {others} }} drop; ip saddr {ADDRESS} tcp sport {port} drop;"
            leaving = f"ip daddr {{ {others} }} drop; ip daddr {ADDRESS} tcp dport {port} drop;"
            rules = _CUT.format(arriving=arriving, leaving=leaving)
        self._cut.add(name)
        subprocess.run(self.command(name, ["nft", "-f", "-"]), input=rules.encode(), check=True)

    def mend(self, name: str) -> None:
        """Ends its cut, if there is one."""
        if name in self._cut:
            _run(" ".join(self.command(name, ["nft", "flush ruleset"])))
            self._cut.remove(name)


def _run(words: str) -> None:
    subprocess.run(words.split(), check=True, capture_output=True)
