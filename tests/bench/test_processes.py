"""What a measured process cost, and nothing else."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

from bench.processes import MeasuredProcess

if TYPE_CHECKING:
    from pathlib import Path

OURS_MB = 200


@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not tell what a running process uses")
def test_a_small_process_is_small_however_large_we_are(tmp_path: Path) -> None:
    ours = bytearray(OURS_MB * 1024 * 1024)

    cost = MeasuredProcess(["sleep", "0.1"], {}, tmp_path).ended()

    assert len(ours) > cost.peak_mb * 1024 * 1024
    assert 0 < cost.peak_mb < OURS_MB / 2


def test_cpu_and_exit_code_are_those_of_the_process(tmp_path: Path) -> None:
    busy = "import time\nwhile time.process_time() < 0.2: pass\nraise SystemExit(3)"

    cost = MeasuredProcess([sys.executable, "-c", busy], {}, tmp_path).ended()

    assert cost.exit_code == 3
    assert 0.2 <= cost.cpu_s < cost.wall_s + 0.1


def test_a_process_that_does_not_end_is_ended(tmp_path: Path) -> None:
    deaf = (
        "import signal, time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\nprint('deaf', flush=True)\ntime.sleep(60)"
    )
    process = MeasuredProcess([sys.executable, "-c", deaf], {}, tmp_path)
    while "deaf" not in process.said():
        assert not process.dead()

    process.stop()

    assert process.ended(within_s=0.05).exit_code == -9
