"""Says in words why an HTTP client could not connect: the host, the port and the cause."""

from __future__ import annotations

import os


def unreachable_host(error: BaseException) -> str:
    """What aiohttp's error about a connection says, without its own words; "" for any other error.

    Example: "127.0.0.1:8000 cannot be reached: Connection refused".
    """
    host, port = getattr(error, "host", None), getattr(error, "port", None)
    cause = getattr(error, "certificate_error", None) or getattr(error, "os_error", None)
    if host is None or not isinstance(cause, Exception):
        return ""
    return f"{f'[{host}]' if ':' in str(host) else host}:{port} cannot be reached: {_in_words(cause)}"


def _in_words(cause: Exception) -> str:
    if tls := getattr(cause, "verify_message", None) or getattr(cause, "reason", None):
        return f"TLS failed: {tls}"  # the errno of an SSLError is not one of the system
    number = getattr(cause, "errno", None)
    if isinstance(number, int) and number > 0:
        return os.strerror(number)
    return getattr(cause, "strerror", None) or str(cause) or type(cause).__name__
