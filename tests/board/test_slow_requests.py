"""A request that does not arrive whole in time closes its connection; a response may take any time."""

from __future__ import annotations

import socket

import psycopg
import pytest

from wakeboard.board import http_protocol

ENOUGH_S = 30  # for what happens at once


@pytest.fixture(autouse=True)
def request_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_protocol, "REQUEST_TIMEOUT_S", 0.3)


def connect(board: str, sent: bytes) -> socket.socket:
    host, _, port = board.removeprefix("http://").partition(":")
    connection = socket.create_connection((host, int(port)), ENOUGH_S)
    connection.sendall(sent)
    return connection


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n",
        b"POST /runs/1/retry HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 100\r\n\r\nreason=",
        b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\nGET /healthz HTTP/1.1\r\n",
    ],
    ids=["nothing", "half of the headers", "half of the body", "half of a second request"],
)
def test_a_connection_without_a_whole_request_is_closed(board: str, sent: bytes):
    with connect(board, sent) as connection, connection.makefile("rb") as answers:
        answers.read()  # until the board closes


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
