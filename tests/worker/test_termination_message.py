"""A worker names itself in the termination message of its container, so that the kubelet's report names the process."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wakeboard_operator.terminations import WORKER_LINE
from wakeboard_worker.termination_message import MAX_BYTES, write_worker_id

if TYPE_CHECKING:
    from pathlib import Path

LONGEST = 2**63 - 1


def test_each_process_of_a_container_adds_its_line_and_the_operator_reads_them(tmp_path: Path) -> None:
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
