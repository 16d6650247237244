"""SIGTERM to PID 1 of an operator pod's containers before the program has started. Needs a PID namespace."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from testbed.cluster.processes import children
from testbed.processes import OUR_PACKAGES
from tests.chaos.processes import wait_until

UNSHARE = ["unshare", "--fork", "--kill-child", "--pid", "--mount-proc"]


OPERATOR = [sys.executable, "-m", "wakeboard_operator"]
MIGRATE = [str(Path(sys.executable).with_name("wakeboard")), "migrate", "--wait", "60"]


@pytest.mark.parametrize("command", [OPERATOR, MIGRATE])
def test_sigterm_ends_a_program_that_has_not_begun(command: list[str]) -> None:
    if subprocess.run([*UNSHARE, "true"], check=False, capture_output=True).returncode:
        pytest.skip("no right to make a PID namespace")
    environment = {**os.environ, "PYTHONPATH": OUR_PACKAGES, "WAKEBOARD_DSN": "host=192.0.2.1"}
    with subprocess.Popen([*UNSHARE, *command], env=environment) as container:
        first = wait_until(lambda: children(container.pid), "the namespace has a first process")[0]
        wait_until(lambda: children(first), "the first process has a child")
        os.kill(first, signal.SIGTERM)
        assert container.wait(10) == 128 + signal.SIGTERM
