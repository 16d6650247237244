"""Test processes share one control plane, and it ends with the last of them, however that one ends."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

from testbed.cluster.shared_control_plane import shared_control_plane

ROOT = Path(__file__).resolve().parents[2]
TIMEOUT_S = 20.0  # seconds
USER = """
import sys
from pathlib import Path
from testbed.cluster.shared_control_plane import shared_control_plane
with shared_control_plane(Path(sys.argv[1])) as cluster:
    print(cluster.url, flush=True)
    sys.stdin.read()
"""


def test_a_control_plane_ends_when_the_last_of_its_users_is_killed(tmp_path: Path):
    with subprocess.Popen(
        [sys.executable, "-c", USER, str(tmp_path)], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout is not None
        url = other.stdout.readline().strip()
        with shared_control_plane(tmp_path) as cluster:
            assert cluster.url == url
        assert cluster.ready()
        other.kill()
    gone_by = time.monotonic() + TIMEOUT_S
    while cluster.ready() and time.monotonic() < gone_by:
        time.sleep(0.05)
    assert not cluster.ready()
