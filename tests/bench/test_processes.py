"""The measured cost of a process."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

from bench.processes import MeasuredProcess

if TYPE_CHECKING:
    from pathlib import Path

OURS_MB = 200


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have no /proc")
def test_the_memory_of_a_process_does_not_include_that_of_its_parent(tmp_path: Path) -> None:
    ours = bytearray(OURS_MB * 1024 * 1024)

    cost = MeasuredProcess(["sleep", "0.1"], {}, tmp_path).ended()

    assert len(ours) > cost.peak_mb * 1024 * 1024
    assert 0 < cost.peak_mb < OURS_MB / 2


def test_cpu_and_exit_code_are_those_of_the_process(tmp_path: Path) -> None:
    busy = "import time\nwhile time.process_time() < 0.2: pass\nraise SystemExit(3)"

    cost = MeasuredProcess([sys.executable, "-c", busy], {}, tmp_path).ended()

    assert cost.exit_code == 3
    assert 0.2 <= cost.cpu_s < cost.wall_s + 0.1


def test_a_process_that_ignores_sigterm_is_killed(tmp_path: Path) -> None:
    stubborn = "import signal, time\nsignal.signal(15, signal.SIG_IGN)\nprint('stubborn', flush=True)\ntime.sleep(60)"
    process = MeasuredProcess([sys.executable, "-c", stubborn], {}, tmp_path)
    while "stubborn" not in process.output():
        assert not process.dead()

    process.stop()

    assert process.ended(within_s=0.05).exit_code == -9
