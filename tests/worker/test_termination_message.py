"""A worker names itself in the termination message of its container, so that the kubelet's report names the process."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from testbed.processes import OUR_PACKAGES, inherited_environment, wait_for
from wakeboard_operator.terminations import WORKER_LINE
from wakeboard_worker.termination_message import MAX_BYTES, write_worker_id

if TYPE_CHECKING:
    from pathlib import Path

    from tests.worker.conftest import Store

LONGEST = 2**63 - 1


def test_each_process_of_a_container_adds_its_line(tmp_path: Path) -> None:
    message = tmp_path / "termination-log"
    message.touch()
    for worker in (7, LONGEST):
        write_worker_id(worker, str(message))
    assert WORKER_LINE.findall(message.read_text()) == ["7", str(LONGEST)]


def test_what_a_handler_has_written_stays(tmp_path: Path) -> None:
    message = tmp_path / "termination-log"
    message.write_text("out of paper\n")
    write_worker_id(7, str(message))
    assert message.read_text() == "out of paper\nwakeboard worker 7\n"


def test_a_container_that_starts_workers_for_ever_does_not_fill_its_message(tmp_path: Path) -> None:
    message = tmp_path / "termination-log"
    message.touch()
    for worker in range(1, 500):
        write_worker_id(worker, str(message))
        assert message.stat().st_size <= MAX_BYTES + 100
    assert message.read_text().endswith("wakeboard worker 499\n")


def test_outside_of_a_container_nothing_is_written(tmp_path: Path) -> None:
    write_worker_id(7, str(tmp_path / "none"))
    write_worker_id(7, str(tmp_path))
    assert list(tmp_path.iterdir()) == []


# A /dev of its own, in which the first argument is seen as the file that a kubelet would mount.
MOUNTED = """
set -e
message=$1; shift
mkdir "$message.dev" && mount --rbind /dev "$message.dev" && mount -t tmpfs tmpfs /dev
for name in null zero random urandom; do touch /dev/$name && mount --bind "$message.dev/$name" /dev/$name; done
mkdir /dev/shm && mount --rbind "$message.dev/shm" /dev/shm
touch /dev/termination-log && mount --bind "$message" /dev/termination-log
exec "$@"
"""


def test_a_registered_worker_has_written_its_id_and_registered_its_pod(store: Store, tmp_path: Path) -> None:
    unshare = ["unshare", "--mount", "--propagation=private"]
    if subprocess.run([*unshare, "true"], check=False, capture_output=True).returncode:
        pytest.skip("no right to make a mount namespace")
    message = tmp_path / "termination-log"
    message.touch()
    environment = {
        **inherited_environment(),
        "PYTHONPATH": OUR_PACKAGES,
        "WAKEBOARD_DSN": store.dsn,
        "WAKEBOARD_POD_UID": "7ae459a2-ab13-494a-895c-5189046d5920",
    }
    command = [*unshare, "sh", "-c", MOUNTED, "sh", str(message), sys.executable, "-m", "wakeboard_worker", "--forever"]
    log = tmp_path / "log"
    with log.open("wb") as output, subprocess.Popen(command, env=environment, stdout=output, stderr=output) as process:
        try:
            wait_for(message.read_text, why=log.read_text)
            rows = store.watcher.rows("select worker_id::text, pod_uid from wakeboard.workers")
        finally:
            process.kill()
    assert rows == [(*WORKER_LINE.findall(message.read_text()), environment["WAKEBOARD_POD_UID"])]
