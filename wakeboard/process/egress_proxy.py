"""The proxy for outgoing connections, from HTTPS_PROXY, HTTP_PROXY and NO_PROXY."""

from __future__ import annotations

from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass


def environment_proxy(url: str) -> str | None:
    """Returns the proxy for `url`, or None for a direct connection."""
    address = urlsplit(url)
    return None if proxy_bypass(address.netloc) else getproxies().get(address.scheme)
