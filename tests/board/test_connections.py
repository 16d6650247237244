"""A connection is closed if its client does not send or read in time; an answer may take any time."""

from __future__ import annotations

import os
import resource
import socket
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg
import pytest

from testbed.board_server import serving_board
from tests.board.conftest import fetched
from wakeboard.board import BoardOptions, change_feed, http_protocol
from wakeboard.board.static_files import assets

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from wakeboard.board.server import BoardServer

ENOUGH_S = 30  # for what happens at once
HEALTH = b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
LARGE_FILE = f"GET /static/{assets()['vendor/htmx.min.js'][0]} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode()


@pytest.fixture(autouse=True)
def client_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_protocol, "CLIENT_TIMEOUT_S", 0.3)


@pytest.fixture
def server(database: str) -> Iterator[BoardServer]:
    with serving_board(BoardOptions(dsn=database)) as started:
        yield started


def connect(address: str, sent: bytes) -> socket.socket:
    host, _, port = address.removeprefix("http://").rstrip("/").partition(":")
    connection = socket.create_connection((host, int(port)), ENOUGH_S)
    connection.sendall(sent)
    return connection


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + ENOUGH_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.005)


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n",
        b"POST /runs/1/retry HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 100\r\n\r\nreason=",
        HEALTH + b"GET /healthz HTTP/1.1\r\n",
    ],
    ids=["nothing", "half of the headers", "half of the body", "half of a second request"],
)
def test_a_connection_without_a_whole_request_is_closed(board: str, sent: bytes):
    with connect(board, sent) as connection, connection.makefile("rb") as answers:
        answers.read()  # until the board closes


def test_a_client_that_does_not_read_is_disconnected(server: BoardServer):
    state = server.server_state
    asked = 1

    def is_answered_or_closed() -> bool:
        return state.total_requests == asked or not state.connections

    with connect(server.address, LARGE_FILE) as connection:
        wait_until(lambda: bool(state.connections))
        while state.connections:  # without reading anything, until the answers fill the buffers of both systems
            wait_until(is_answered_or_closed)
            if state.total_requests == asked:
                connection.sendall(LARGE_FILE)
                asked += 1
    assert asked < 1000


def test_a_client_that_reads_slowly_receives_everything(server: BoardServer, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(http_protocol, "PART_BYTES", 1000)
    expected = assets()["vendor/htmx.min.js"][1]
    with connect(server.address, LARGE_FILE) as connection, connection.makefile("rb", buffering=0) as answer:
        received = bytearray()
        while not received.endswith(expected[-100:]):
            received += answer.read(512) or b""
    assert received.partition(b"\r\n\r\n")[2] == expected


def test_requests_that_do_not_wait_for_the_first_answer_are_not_answered(server: BoardServer):
    with connect(server.address, HEALTH * 100) as connection, connection.makefile("rb") as answers:
        assert answers.read().count(b"HTTP/1.1 200") == 1


def test_more_connections_than_the_bound_close_the_oldest(server: BoardServer, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(http_protocol, "CLIENT_TIMEOUT_S", ENOUGH_S)
    monkeypatch.setattr(http_protocol, "MAX_CONNECTIONS", 5)
    with ExitStack() as stack:
        idle = [stack.enter_context(connect(server.address, b"")) for _ in range(30)]
        assert idle[0].recv(1) == b""
        assert fetched(f"{server.address}healthz")[0] == 200
        assert len(server.server_state.connections) <= 5


def test_a_stream_goes_on_after_the_time_for_its_request(database: str, board: str):
    host = board.removeprefix("http://").encode()
    with (
        connect(board, b"GET /events HTTP/1.1\r\nHost: " + host + b"\r\n\r\n") as connection,
        connection.makefile("rb") as stream,
    ):
        while b"event: source" not in stream.readline():
            pass
        with connect(board, b"GET") as later, later.makefile("rb") as nothing:
            nothing.read()  # the time of the stream's request is over, too
        with psycopg.connect(database, autocommit=True) as conn:
            conn.execute("select wakeboard.enqueue('send_mail')")
        while b"event: changed" not in (line := stream.readline()):
            assert line


def test_a_stream_ends_in_time_and_is_renewed(board: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(change_feed, "LIFETIME_S", 0.2)
    monkeypatch.setattr(change_feed, "HEARTBEAT_S", 0.05)
    with (
        connect(board, b"GET /events HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n") as connection,
        connection.makefile("rb") as stream,
    ):
        assert b"event: renew" in stream.read()


@pytest.mark.skipif(sys.platform != "linux", reason="sets a limit of another process")
def test_a_board_out_of_descriptors_says_so_in_one_line_and_recovers(database: str):
    code = (
        "from wakeboard.board import http_protocol; http_protocol.CLIENT_TIMEOUT_S = 0.3;"
        " from wakeboard.cli import main; main()"
    )
    environment = {**os.environ, "WAKEBOARD_BOARD_LOGIN": "none"}
    command = [sys.executable, "-c", code, "--dsn", database, "board", "--port", "0"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    ) as process:
        assert process.stdout
        assert process.stderr
        address = process.stdout.readline().split("The board is at ")[1].split()[0]
        most = len(list(Path(f"/proc/{process.pid}/fd").iterdir())) + 5
        resource.prlimit(process.pid, resource.RLIMIT_NOFILE, (most, most))
        with ExitStack() as stack:
            for _ in range(50):
                stack.enter_context(connect(address, b""))
            line = process.stderr.readline()
            assert "Too many open files" in line
        assert fetched(f"{address}healthz")[0] == 200
        process.terminate()
        rest = process.stderr.read()
    assert "Too many open files" not in rest
