"""Where `http` may go: hosts by name, and private networks by address.

The name is checked before each request; the address where the connection is made, on the very address that is connected
to, so that a name that resolves differently the second time gains nothing.
"""

from __future__ import annotations

import ipaddress
import re
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from wakeboard.errors import InvalidSettings

if TYPE_CHECKING:
    from collections.abc import Iterable

Address: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address
Network: TypeAlias = ipaddress.IPv4Network | ipaddress.IPv6Network

_ENTRY: Final = re.compile(r"(\*\.)?([\w-]+(?:\.[\w-]+)*|\[[0-9a-f:.]+\])(?::([0-9]{1,5}))?")
_PUBLIC_IPV6: Final = ipaddress.IPv6Network("2000::/3")  # all that was ever given out (IANA, global unicast)
_NAT64: Final = ipaddress.IPv6Network("64:ff9b::/96")  # RFC 6052: an IPv4 address in the last 32 bits


class Entry(NamedTuple):
    """A line of the list: 'api.example.com', '*.example.com', '[::1]', each with ':port' or without."""

    host: str
    port: int | None
    and_below: bool  # *.example.com: what is below it, and not itself

    def matches(self, host: str, port: int) -> bool:
        """Whether it names this host, which is written as `spelled` does, and this port."""
        named = host.endswith("." + self.host) if self.and_below else host == self.host
        return named and self.port in (None, port)


class AllowedHosts:
    """The list. Raises InvalidSettings where an entry can name nothing."""

    def __init__(self, hosts: Iterable[str], private: Iterable[str]) -> None:
        self._entries = [_entry(text) for text in hosts]
        self._networks = [_network(text) for text in private]

    def allows_name(self, host: str, port: int) -> bool:
        """Whether the list names this host and port."""
        return any(entry.matches(spelled(host), port) for entry in self._entries)

    def allows_address(self, text: str) -> bool:
        """Whether a connection may go to this address: a public one, or one in a private network that is named."""
        address = _inner(ipaddress.ip_address(text.partition("%")[0]))
        if any(address.version == network.version and address in network for network in self._networks):
            return True
        if address.version == _PUBLIC_IPV6.version and address not in _PUBLIC_IPV6:
            return False
        return address.is_global and not address.is_multicast


def spelled(host: str) -> str:
    """A host in the one spelling in which hosts are compared."""
    host = host.lower().rstrip(".").strip("[]")
    try:
        return str(ipaddress.ip_address(host))
    except ValueError:
        return host if host.isascii() else host.encode("idna").decode()


def _inner(address: Address) -> Address:
    """The IPv4 address that an IPv6 address stands for (mapped, 6to4, NAT64), else the address itself."""
    if isinstance(address, ipaddress.IPv4Address):
        return address
    if address in _NAT64:
        return ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    return address.ipv4_mapped or address.sixtofour or address


def _entry(text: str) -> Entry:
    found = _ENTRY.fullmatch(text.lower())
    try:
        if found and int(found[3] or 0) < 1 << 16:
            return Entry(spelled(found[2]), int(found[3]) if found[3] else None, and_below=bool(found[1]))
    except ValueError:
        pass
    raise InvalidSettings(
        f"WAKEBOARD_HTTP_ALLOWED_HOSTS: {text!r} names no host; write for example `api.example.com`, `*.example.com`"
        " or `api.example.com:8443`."
    )


def _network(text: str) -> Network:
    try:
        return ipaddress.ip_network(text, strict=False)
    except ValueError as exc:
        raise InvalidSettings(f"WAKEBOARD_HTTP_ALLOW_PRIVATE: {exc}; write for example 10.1.0.0/16.") from exc
