"""`kubectl wakeboard` where no cluster answers, and with contexts that cannot be used."""

from __future__ import annotations

import json
import os
import socket
import ssl
import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest

from testbed.cluster.certificates import Authority
from wakeboard.cli.kubectl.api_connection import ApiConnection
from wakeboard.cli.kubectl.kubeconfig import ClusterLogin
from wakeboard.errors import WakeboardError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

COMMANDS = (
    *("schedules", "schedule a", "next a", "runs", "run 1", "explain a", "logs 1", "check"),
    *("run-now a", "retry 1", "cancel 1", "replay 1", "discard 1", "release 1"),
)
# In the archive of the plugin there is no psycopg.
COMPLETION = "import sys; from wakeboard.cli.kubectl import complete; sys.exit(complete())"
PLUGIN = "import sys; sys.modules['psycopg'] = None; from wakeboard.cli.kubectl import main; sys.exit(main())"


def said(
    tmp_path: Path,
    command: str,
    server: str = "https://127.0.0.1:1",
    token: str = "token",
    program: str = PLUGIN,
) -> str:
    """What the plugin prints in a context with this server and token."""
    found: dict[str, Any] = {
        "clusters": [{"cluster": {"server": server}}],
        "contexts": [{"context": {}}],
        "users": [{"user": {"token": token}}],
    }
    (tmp_path / "view.json").write_text(json.dumps(found))
    kubectl = tmp_path / "kubectl"
    kubectl.write_text(f"#!/bin/sh\ncat {tmp_path}/view.json\n")
    kubectl.chmod(0o755)
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}", "NO_PROXY": "*"}
    words = [sys.executable, "-c", program, *command.split(" ")]
    done = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=60, check=False)
    return done.stdout + done.stderr


@pytest.mark.parametrize("command", COMMANDS)
def test_each_command_needs_no_driver_of_postgres(tmp_path: Path, command: str):
    assert "the API server https://127.0.0.1:1 does not answer" in said(tmp_path, command)


@pytest.mark.parametrize(
    ("server", "token", "says"),
    [
        ("https://127.0.0.1:1", "SECRET\nHEADER: x", "a character that no token has"),
        ("https://127.0.0.1:1", "SECRET\u2603", "a character that no token has"),
        ("https://127.0.0.1:1", "SECRET\n", "does not answer"),
        ("https://127.0.0.1:99999", "SECRET", "is no address"),
        ("https://[::1", "SECRET", "is no address"),
    ],
)
def test_a_context_that_cannot_be_used_is_refused_without_its_token(tmp_path: Path, server: str, token: str, says: str):
    printed = said(tmp_path, "runs", server, token)
    assert says in printed
    assert "SECRET" not in printed
    assert "Traceback" not in printed


@pytest.fixture
def dripping(tmp_path: Path) -> Iterator[ClusterLogin]:
    """A server with TLS that never ends its answer, and sends a byte ten times a second."""
    authority = Authority.make(tmp_path / "authority")
    pair = authority.issue("server", "server", hosts=["127.0.0.1"])
    served = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    served.load_cert_chain(pair.certificate, pair.key)
    closing = threading.Event()
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        with listener.accept()[0] as plain, served.wrap_socket(plain, server_side=True) as connection:
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n")
            while not closing.wait(0.1):
                try:
                    connection.sendall(b" ")
                except OSError:
                    return

    thread = threading.Thread(target=serve)
    thread.start()
    trusting = ssl.create_default_context(cafile=str(authority.certificate))
    yield ClusterLogin(f"https://127.0.0.1:{listener.getsockname()[1]}", "default", trusting, "token")
    closing.set()
    thread.join()
    listener.close()


def test_an_answer_that_does_not_end_has_a_deadline(dripping: ClusterLogin, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("NO_PROXY", "*")
    connection, began = ApiConnection(dripping, timeout_s=0.5), time.monotonic()
    with pytest.raises(WakeboardError, match=r"there is no whole answer within 0\.5 s"):
        connection.send("GET", "/", passes_token=False)
    assert time.monotonic() - began < 20
    connection.close()


@pytest.mark.parametrize("words", ["-o yaml runs", "runs --output=yaml", "runs -ojsonpath={.items}", "runs -o name"])
def test_another_format_of_kubectl_is_refused_with_the_known_ones(tmp_path: Path, words: str):
    assert "is no format here: write -o json, or -o wide of" in said(tmp_path, words)


@pytest.mark.parametrize("words", ["runs -o json", "-ojson runs", "runs --output=json", "runs -o wide", "runs -owide"])
def test_formats_of_kubectl_are_accepted(tmp_path: Path, words: str):
    assert "the API server https://127.0.0.1:1 does not answer" in said(tmp_path, words)


@pytest.mark.parametrize(
    ("words", "printed"),
    [
        ("sched", "schedules schedule :4"),
        ("-n billing --context=prod run-n", "run-now :4"),
        ("-nbilling -ojson run-n", "run-now :4"),
        ("run-now -n ", ":4"),
        ("run-now da", ":4"),
        ("--version sch", "schedules schedule :4"),
    ],
)
def test_words_are_completed_as_commands_read_them(tmp_path: Path, words: str, printed: str):
    assert " ".join(said(tmp_path, words, program=COMPLETION).split()) == printed


def test_the_help_of_the_plugin_names_its_own_commands(tmp_path: Path):
    printed = " ".join(said(tmp_path, "schedule --help").split())
    assert "`kubectl wakeboard runs --schedule NAME` lists all" in printed
