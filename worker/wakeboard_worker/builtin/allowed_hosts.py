"""Where `http` may go: hosts by name, and private networks by address.

The name is checked before the request; the address where the connection is made, on the very address that is connected
to, so that a name that resolves differently the second time gains nothing.
"""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from wakeboard.errors import InvalidSettings

if TYPE_CHECKING:
    from collections.abc import Sequence

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network


@dataclass(slots=True)
class AllowedHosts:
    """`hosts`: 'api.example.com', '*.example.com', with ':port' or without. `private`: networks as CIDR."""

    hosts: Sequence[str]
    private: Sequence[str]
    _networks: list[Network] = field(init=False)

    def __post_init__(self) -> None:
        try:
            self._networks = [ipaddress.ip_network(network, strict=False) for network in self.private]
        except ValueError as exc:
            raise InvalidSettings(f"WAKEBOARD_HTTP_ALLOW_PRIVATE: {exc}; write for example 10.1.0.0/16.") from exc

    def allows_name(self, host: str, port: int) -> bool:
        """Whether the list names this host (and this port, where it names ports)."""
        host = host.lower().rstrip(".")
        return any(self._matches(pattern.lower(), host, port) for pattern in self.hosts)

    def allows_address(self, text: str) -> bool:
        """Whether a connection may go to this address: a public one, or one in a private network that is named."""
        address: Address = ipaddress.ip_address(text.partition("%")[0])
        mapped = getattr(address, "ipv4_mapped", None) or getattr(address, "sixtofour", None)
        address = mapped or address
        if any(address.version == network.version and address in network for network in self._networks):
            return True
        return address.is_global and not address.is_multicast

    @staticmethod
    def _matches(pattern: str, host: str, port: int) -> bool:
        name, colon, wanted_port = pattern.rpartition(":")
        if colon and wanted_port.isdigit():
            if int(wanted_port) != port:
                return False
            pattern = name
        pattern = pattern.strip("[]")
        return host == pattern or (pattern.startswith("*.") and host.endswith(pattern[1:]))
