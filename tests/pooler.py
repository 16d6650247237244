"""PgBouncer in front of a database."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, urlsplit

import pytest

if TYPE_CHECKING:
    from collections.abc import Generator
    from pathlib import Path

PATIENCE = 20.0  # seconds


@contextmanager
def running_pooler(database: str, folder: Path, mode: str, user: str = "postgres") -> Generator[str]:
    """A DSN of `database` for `user` through a PgBouncer of its own on loopback; `mode` is transaction or session."""
    program = shutil.which("pgbouncer") or shutil.which("pgbouncer", path="/usr/sbin")
    if program is None:
        (pytest.fail if os.environ.get("CI") else pytest.skip)(
            "PgBouncer is not installed; `make test-postgres` brings it"
        )
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    parts = urlsplit(database)
    place = parse_qs(parts.query)
    name = parts.path.lstrip("/")
    ini = folder / "pgbouncer.ini"
    ini.write_text(
        f"[databases]\n{name} = host={place['host'][0]} port={place['port'][0]} dbname={name} user={user}\n"
        f"[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {port}\nunix_socket_dir =\nauth_type = any\n"
        f"pool_mode = {mode}\n"
    )
    account = ["--user", "nobody"] if os.geteuid() == 0 else []
    with subprocess.Popen([program, "--quiet", *account, ini], stderr=subprocess.DEVNULL) as bouncer:
        try:
            _wait_for_port(port)
            yield f"postgresql://postgres@127.0.0.1:{port}/{name}"
        finally:
            bouncer.terminate()


def _wait_for_port(port: int) -> None:
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.02)
    pytest.fail("PgBouncer did not start")
