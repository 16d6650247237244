"""A proxy as companies have them: CONNECT, and then bytes in both directions."""

from __future__ import annotations

import socket
import socketserver
import threading
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Generator

TIMEOUT_S = 30.0


@contextmanager
def tunnelling_proxy(port: int) -> Generator[str]:
    """The address of a proxy on loopback whose tunnels all lead to `port` of this machine, whatever they ask for."""

    class Tunnel(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            asked = self.rfile.readline().split()
            while self.rfile.readline().strip():  # the headers
                pass
            if asked[0] != b"CONNECT":
                self.wfile.write(b"HTTP/1.1 405 Method Not Allowed\r\n\r\n")
                return
            with socket.create_connection(("127.0.0.1", port), TIMEOUT_S) as there:
                there.settimeout(None)
                self.wfile.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
                back = threading.Thread(target=_pump, args=(there, self.connection), daemon=True)
                back.start()
                _pump(self.connection, there)
                back.join(TIMEOUT_S)

    class Proxy(socketserver.ThreadingTCPServer):
        daemon_threads = True
        block_on_close = False

    with Proxy(("127.0.0.1", 0), Tunnel) as proxy:
        serving = threading.Thread(target=proxy.serve_forever, daemon=True)
        serving.start()
        yield f"http://127.0.0.1:{proxy.server_address[1]}"
        proxy.shutdown()
        serving.join(TIMEOUT_S)


def _pump(one: socket.socket, other: socket.socket) -> None:
    """Copies bytes until the end of `one`, then ends `other`."""
    with suppress(OSError):
        while heard := one.recv(65536):
            other.sendall(heard)
    with suppress(OSError):
        other.shutdown(socket.SHUT_WR)
