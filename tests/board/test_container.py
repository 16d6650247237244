"""What a container of the board relies on: health check, addresses, database roles, a start without the database."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import subprocess
import sys
from contextlib import closing
from http.client import HTTPConnection
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg
import pytest

from testbed.board_server import serving
from tests.board.test_live import board_process, enqueue
from tests.board.test_pages import PAGES
from tests.store.test_roles import RoleDatabase
from wakeboard.board import BoardOptions
from wakeboard.board.server import BoardServer, listening_socket
from wakeboard.cli import BOARD_PROBE, main

if TYPE_CHECKING:
    from collections.abc import Iterator

NOWHERE = "host=/nowhere"


@pytest.fixture
def board() -> Iterator[str]:
    """The address of a board whose database does not answer."""
    with serving(BoardOptions(dsn=NOWHERE)) as address:
        yield address


def ask(address: str, method: str, path: str, **headers: str) -> tuple[int, str]:
    with closing(HTTPConnection(address.removeprefix("http://"), timeout=10)) as connection:
        connection.request(method, path, headers=headers)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()


@pytest.mark.parametrize("host", ["10.1.2.3:8686", "jobs.example.com", "localhost"])
def test_the_health_check_is_answered_for_any_host_and_without_a_database(board: str, host: str):
    assert ask(board, "GET", "/healthz", Host=host) == (200, "ok\n")


@pytest.mark.parametrize(
    ("method", "path"), [("GET", "/"), ("GET", "/healthz/"), ("GET", "/healthz/../runs"), ("POST", "/healthz")]
)
def test_nothing_else_is_answered_for_any_host(board: str, method: str, path: str):
    assert ask(board, method, path, Host="10.1.2.3:8686")[0] == 421


def test_a_probe_succeeds_while_the_board_answers(board: str, capsys: pytest.CaptureFixture[str]):
    port = board.rpartition(":")[2]

    assert main(["board", "--probe", "--port", port]) == 0
    assert capsys.readouterr().out == ""


def test_a_probe_fails_without_a_board_and_says_where_it_asked(capsys: pytest.CaptureFixture[str]):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]

    assert main(["board", "--probe", "--port", str(port)]) == 1
    assert f"no board answers at 127.0.0.1:{port}" in capsys.readouterr().err


def test_a_board_may_start_without_its_database_and_shows_the_error():
    with board_process(NOWHERE, 0, "--skip-check") as (_, address):
        assert ask(address, "GET", "/healthz") == (200, "ok\n")
        status, page = ask(address, "GET", "/", Accept="text/html")

    assert status == 503
    assert "nowhere" in page


def test_a_board_listens_on_every_address_of_both_families():
    listener = listening_socket("*", 0)
    port = listener.getsockname()[1]
    hosts = ["127.0.0.1", "[::1]"] if socket.has_dualstack_ipv6() else ["127.0.0.1"]
    server = BoardServer(BoardOptions(dsn=NOWHERE), listener, handles_signals=False)

    async def answers() -> list[tuple[int, str]]:
        server.start()
        try:
            return [await asyncio.to_thread(ask, f"http://{host}:{port}", "GET", "/healthz") for host in hosts]
        finally:
            await server.stop()

    assert asyncio.run(answers()) == [(200, "ok\n")] * len(hosts)


def test_a_board_reads_as_the_viewers_role_and_acts_as_the_operators(database: str):
    enqueue(database)
    with closing(RoleDatabase(database)) as roles:
        roles.migrate(roles.roles)
        with serving(BoardOptions(dsn=roles.dsn("viewer"), acting_dsn=roles.dsn("operator"))) as board:
            shown = {path: ask(board, "GET", path)[0] for path in PAGES}
            acted, _ = ask(board, "POST", "/runs/1/cancel", **{"Sec-Fetch-Site": "same-origin"})

        with psycopg.connect(database) as conn:
            changed = conn.execute("select status::text from wakeboard.all_runs").fetchall()

    assert shown == dict.fromkeys(PAGES, 200)
    assert (acted, changed) == (303, [("cancelled",)])


def test_a_viewers_role_cannot_act(database: str):
    enqueue(database)
    with closing(RoleDatabase(database)) as roles:
        roles.migrate(roles.roles)
        with serving(BoardOptions(dsn=roles.dsn("viewer"))) as board:
            acted, page = ask(board, "POST", "/runs/1/cancel", **{"Sec-Fetch-Site": "same-origin"})

        with psycopg.connect(database) as conn:
            assert conn.execute("select status::text from wakeboard.all_runs").fetchall() == [("queued",)]

    assert acted == 403
    assert "Nothing was done, because the database role" in page
    assert "WAKEBOARD_BOARD_ACTING_DSN" in page


def test_the_probe_of_a_pod_imports_no_other_command(board: str):
    code = (
        "import sys; from wakeboard.cli import main; status = main(['board', '--probe']);"
        " sys.exit(status or any(name in sys.modules for name in ('typer', 'psycopg', 'http.client')))"
    )
    environment = {**os.environ, "WAKEBOARD_BOARD_PORT": board.rpartition(":")[2]}

    subprocess.run([sys.executable, "-c", code], env=environment, check=True)


def test_the_chart_probes_with_the_command_that_is_cheap():
    template = Path("charts/wakeboard/templates/_board.tpl").read_text()

    assert f"exec: {{command: [wakeboard, {', '.join(BOARD_PROBE)}]}}" in template


def test_the_log_of_a_board_has_the_configured_format():
    settings = {"WAKEBOARD_LOG_FORMAT": "json"}
    with board_process(NOWHERE, 0, "--skip-check", stderr=subprocess.PIPE, **settings) as (process, _):
        assert process.stderr
        line = json.loads(process.stderr.readline())

    assert (line["level"], line["logger"]) == ("warning", "wakeboard.board")
