"""The entries of an allowlist of hosts: 'api.example.com', '*.example.com' or '[::1]', with or without ':port'."""

from __future__ import annotations

import ipaddress
import re
from typing import Final, NamedTuple

from wakeboard.errors import InvalidSettings

_ENTRY: Final = re.compile(r"(\*\.)?([\w-]+(?:\.[\w-]+)*|\[[0-9a-f:.]+\])(?::([0-9]{1,5}))?")


class HostPattern(NamedTuple):
    """One entry of the allowlist."""

    host: str
    port: int | None
    subdomains_only: bool  # *.example.com does not match example.com

    def matches(self, host: str, port: int) -> bool:
        """Whether the entry matches this host (as `normalized` returns it) and port."""
        matches_host = host.endswith("." + self.host) if self.subdomains_only else host == self.host
        return matches_host and self.port in (None, port)


def host_pattern(text: str) -> HostPattern:
    """Reads an entry. Raises InvalidSettings for one that cannot match any host."""
    match = _ENTRY.fullmatch(text.lower())
    try:
        if match and int(match[3] or 0) < 1 << 16:
            return HostPattern(
                normalized(match[2]), int(match[3]) if match[3] else None, subdomains_only=bool(match[1])
            )
    except ValueError:
        pass
    raise InvalidSettings(
        f"WAKEBOARD_HTTP_ALLOWED_HOSTS: {text!r} names no host; write for example `api.example.com`, `*.example.com`"
        " or `api.example.com:8443`."
    )


def normalized(host: str) -> str:
    """Return the host in the form in which hosts are compared: lower case, no brackets, IDNA, canonical addresses."""
    host = host.lower().rstrip(".").strip("[]")
    try:
        return str(ipaddress.ip_address(host))
    except ValueError:
        return host if host.isascii() else host.encode("idna").decode()
