"""The allowlist of the job type `http`: hosts by name, and private networks by address.

The name is checked before each request. The address is checked when the socket is created, so a name that resolves to
another address the second time (DNS rebinding) does not bypass the check.
"""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING, Final, TypeAlias

from wakeboard.errors import InvalidSettings
from wakeboard.text.host_patterns import host_pattern, normalized

if TYPE_CHECKING:
    from collections.abc import Iterable

Address: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address
Network: TypeAlias = ipaddress.IPv4Network | ipaddress.IPv6Network

_PUBLIC_IPV6: Final = ipaddress.IPv6Network("2000::/3")  # global unicast (IANA)
_NAT64: Final = ipaddress.IPv6Network("64:ff9b::/96")  # RFC 6052: an IPv4 address in the last 32 bits
_ISATAP: Final = frozenset({0x00005EFE, 0x02005EFE})  # RFC 5214: before an IPv4 address in the last 32 bits

# Networks that are not public, listed because `ipaddress` differs between Python versions: IANA's special-purpose
# registries, and addresses at which clouds serve credentials without a login.
_SPECIAL: Final = tuple(
    map(
        ipaddress.ip_network,
        (
            "0.0.0.0/8",  # this network
            "10.0.0.0/8",  # private
            "100.64.0.0/10",  # shared, with 100.100.100.200 (Alibaba's metadata)
            "127.0.0.0/8",  # loopback
            "168.63.129.16/32",  # Azure's platform
            "169.254.0.0/16",  # link-local, with 169.254.169.254 (metadata of most clouds)
            "172.16.0.0/12",  # private
            "192.0.0.0/24",  # protocol assignments, with 192.0.0.192 (Oracle's metadata)
            "192.0.2.0/24",  # documentation
            "192.31.196.0/24",  # AS112
            "192.52.193.0/24",  # AMT
            "192.88.99.0/24",  # 6to4 relays
            "192.168.0.0/16",  # private
            "192.175.48.0/24",  # AS112
            "198.18.0.0/15",  # benchmarks
            "198.51.100.0/24",  # documentation
            "203.0.113.0/24",  # documentation
            "224.0.0.0/4",  # multicast
            "240.0.0.0/4",  # reserved, with the broadcast address
            "2001::/23",  # protocol assignments, with Teredo and ORCHID
            "2001:db8::/32",  # documentation
            "2620:4f:8000::/48",  # AS112
            "3fff::/20",  # documentation
        ),
    )
)


class AllowedHosts:
    """The allowlist. Raises InvalidSettings for an entry that cannot match any host or network."""

    def __init__(self, hosts: Iterable[str], private: Iterable[str]) -> None:
        self._entries = [host_pattern(text) for text in hosts]
        self._networks = [_network(text) for text in private]

    def allows_name(self, host: str, port: int) -> bool:
        """Whether an entry matches this host and port."""
        return any(entry.matches(normalized(host), port) for entry in self._entries)

    def allows_address(self, text: str) -> bool:
        """Whether the worker may connect to this address: a public one, or one in an allowed private network."""
        address = _embedded_ipv4(ipaddress.ip_address(text.partition("%")[0]))
        if any(address.version == network.version and address in network for network in self._networks):
            return True
        return _is_public(address)


def _is_public(address: Address) -> bool:
    if isinstance(address, ipaddress.IPv6Address):
        last = ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
        if address not in _PUBLIC_IPV6 or (int(address) >> 32 & 0xFFFFFFFF in _ISATAP and not _is_public(last)):
            return False
    special = any(address.version == network.version and address in network for network in _SPECIAL)
    return address.is_global and not special


def _embedded_ipv4(address: Address) -> Address:
    """Return the IPv4 address that is embedded in an IPv6 address (mapped, 6to4, NAT64), else the address itself."""
    if isinstance(address, ipaddress.IPv4Address):
        return address
    if address in _NAT64:
        return ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    return address.ipv4_mapped or address.sixtofour or address


def _network(text: str) -> Network:
    try:
        return ipaddress.ip_network(text, strict=False)
    except ValueError as exc:
        raise InvalidSettings(
            f"WAKEBOARD_HTTP_ALLOWED_PRIVATE_NETWORKS: {exc}; write for example 10.1.0.0/16."
        ) from exc
