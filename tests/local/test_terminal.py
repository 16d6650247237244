from __future__ import annotations

import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Self

import pytest

from tests.local.up_processes import NEVER, PATIENCE_S, ROOT, START, Up

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="these tests look into /proc")


# Ctrl-C and the end of a terminal reach only processes that it controls.
IN_THIS_TERMINAL = """
import fcntl, os, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
os.execv(sys.argv[1], sys.argv[1:])
"""


class Terminal:
    """A pseudo-terminal of 80 by 24 in which `wakeboard up jobs` runs."""

    def __init__(self, place: Path, **environment: str) -> None:
        self.seen = ""
        usual = {"TERM": "xterm-256color", "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "worker")])}
        self._line, theirs = pty.openpty()
        self._process = subprocess.Popen(
            [sys.executable, "-c", IN_THIS_TERMINAL, sys.executable, "-c", START, "", str(NEVER)],
            cwd=place,
            env={**os.environ, **usual, "COLUMNS": "80", "LINES": "24", **environment},
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
        )
        self.pid = self._process.pid
        os.close(theirs)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGINT)
            self.exit_code()
        os.close(self._line)

    def type(self, keys: bytes) -> None:
        os.write(self._line, keys)

    def close(self) -> None:
        os.close(self._line)
        self._process.wait(PATIENCE_S)

    def see(self, words: str) -> None:
        end = time.monotonic() + PATIENCE_S
        while words not in self.seen:
            assert time.monotonic() < end, f"never seen: {words}; seen:\n{self.seen}"
            if select.select([self._line], [], [], 0.1)[0]:
                self.seen += os.read(self._line, 65_536).decode(errors="replace")

    def exit_code(self) -> int:
        """Reads on until it ends; a terminal that nobody reads would keep it waiting."""
        with suppress(OSError):
            while text := os.read(self._line, 65_536):
                self.seen += text.decode(errors="replace")
        return self._process.wait(PATIENCE_S)


@pytest.fixture
def up(postgres_folder: Path) -> Up:
    """The place and its folder; `up` itself runs in a terminal."""
    up = Up(postgres_folder)
    up.declare("greeting", "greet", run_on_up=True)
    return up


def test_a_terminal_shows_schedules_and_runs_and_is_given_back(up: Up) -> None:
    with Terminal(up.place) as terminal:
        terminal.see("default/greeting")
        terminal.see("succeeded")
        terminal.type(b"\x03")
        assert terminal.exit_code() == 0
        assert "\x1b[?1049l" in terminal.seen  # the window as it was
        assert "Runs since the start: 1 succeeded." in terminal.seen
        assert up.started_by(terminal.pid) == []


def test_without_colours_there_are_none(up: Up) -> None:
    with Terminal(up.place, NO_COLOR="1") as terminal:
        terminal.see("succeeded")
        assert not re.search(r"\x1b\[(\d+;)*3[0-7]", terminal.seen)


def test_a_terminal_that_cannot_be_drawn_on_gets_lines(up: Up) -> None:
    with Terminal(up.place, TERM="dumb") as terminal:
        terminal.see("run 1     default/greeting succeeded")
        assert "\x1b" not in terminal.seen


def test_a_terminal_that_is_closed_leaves_nothing_running(up: Up) -> None:
    terminal = Terminal(up.place)
    terminal.see("succeeded")
    terminal.close()
    up.wait_until(lambda: up.started_by(terminal.pid) == [], "an end of all that was started")
