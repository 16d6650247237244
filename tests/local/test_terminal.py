from __future__ import annotations

import os
import pty
import select
import signal
import subprocess
import sys
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Self

import pytest

from tests.local.up_process import NEVER, ROOT, START, TIMEOUT_S, Up

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="these tests read /proc")


# Ctrl-C and the end of a terminal reach only the processes of its session.
WITH_CONTROLLING_TERMINAL = """
import fcntl, os, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
os.execv(sys.argv[1], sys.argv[1:])
"""


class Terminal:
    """A pseudo-terminal of 80 by 24 in which `wakeboard up jobs` runs."""

    def __init__(self, folder: Path, **environment: str) -> None:
        self.output = ""
        defaults = {"TERM": "xterm-256color", "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "worker")])}
        self._master, slave = pty.openpty()
        self._process = subprocess.Popen(
            [sys.executable, "-c", WITH_CONTROLLING_TERMINAL, sys.executable, "-c", START, "", str(NEVER), ""],
            cwd=folder,
            env={**os.environ, **defaults, "COLUMNS": "80", "LINES": "24", **environment},
            stdin=slave,
            stdout=slave,
            stderr=slave,
            start_new_session=True,
        )
        self.pid = self._process.pid
        os.close(slave)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGINT)
            self.exit_code()
        os.close(self._master)

    def type(self, keys: bytes) -> None:
        os.write(self._master, keys)

    def close(self) -> None:
        os.close(self._master)
        self._process.wait(TIMEOUT_S)

    def wait_for(self, words: str) -> None:
        end = time.monotonic() + TIMEOUT_S
        while words not in self.output:
            assert time.monotonic() < end, f"timed out waiting for {words}; output:\n{self.output}"
            if select.select([self._master], [], [], 0.1)[0]:
                self.output += os.read(self._master, 65_536).decode(errors="replace")

    def exit_code(self) -> int:
        """Reads until it exits; a full terminal buffer would block it."""
        with suppress(OSError):
            while text := os.read(self._master, 65_536):
                self.output += text.decode(errors="replace")
        return self._process.wait(TIMEOUT_S)


@pytest.fixture
def up(postgres_folder: Path) -> Up:
    """A folder with one schedule; `up` itself runs in a terminal."""
    up = Up(postgres_folder)
    up.declare("greeting", "greet", run_on_up=True)
    return up


def test_ctrl_c_on_a_terminal_stops_everything(up: Up) -> None:
    with Terminal(up.folder) as terminal:
        terminal.wait_for("default/greeting succeeded")
        terminal.type(b"\x03")
        assert terminal.exit_code() == 0
        assert "\x1b[32m" in terminal.output  # what succeeded is green
        assert "Runs since the start: 1 succeeded." in terminal.output
        assert up.children(terminal.pid) == []


def test_a_dumb_terminal_gets_plain_lines(up: Up) -> None:
    with Terminal(up.folder, TERM="dumb") as terminal:
        terminal.wait_for("run 1     default/greeting succeeded")
        assert "\x1b" not in terminal.output


def test_a_closed_terminal_stops_all_processes(up: Up) -> None:
    terminal = Terminal(up.folder)
    terminal.wait_for("succeeded")
    terminal.close()
    up.wait_for_no_children(terminal.pid)
