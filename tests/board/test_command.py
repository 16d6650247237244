"""`wakeboard board`: the tokens that it makes, and what it says when it cannot listen."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

import anyio
import pytest

from tests.board.test_access import no_namespaces, request
from wakeboard.board.access.tokens import TokenAccess
from wakeboard.board.access.viewer import RoleViewer
from wakeboard.board.server import listening_socket
from wakeboard.cli import main
from wakeboard.errors import InvalidSettings

if TYPE_CHECKING:
    from pathlib import Path


def test_a_printed_token_logs_in_with_its_printed_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    assert main(["board", "--new-token", "anna@example.com", "--role", "operator"]) == 0
    token, line = (each.rpartition(": ")[2].strip() for each in capsys.readouterr().out.splitlines()[-2:])
    (tmp_path / "tokens").write_text(line)

    given = request(("authorization", f"Bearer {token}"))
    viewer = anyio.run(TokenAccess(tmp_path / "tokens").viewer, given, no_namespaces)
    assert viewer == RoleViewer("anna@example.com", "operator")


@pytest.mark.parametrize("name", ["an na", "", "#anna", "anna\nboss operator " + "0" * 64])
def test_no_token_is_made_for_a_name_that_the_token_file_refuses(name: str, capsys: pytest.CaptureFixture[str]):
    assert main(["board", "--new-token", name]) == 2

    printed = capsys.readouterr()
    assert "Token" not in printed.out
    assert "write letters, digits" in printed.err


def test_a_port_in_use_is_named_once():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(InvalidSettings) as refused:
            listening_socket("127.0.0.1", port)

    assert str(refused.value) == (
        f"cannot listen on 127.0.0.1:{port}: Address already in use. Choose another port with --port."
    )
