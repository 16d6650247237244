"""Killed, suspended and terminated workers: no run is lost or accepted twice, and zombies are refused."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.chaos.processes import Worker

if TYPE_CHECKING:
    from pathlib import Path

    from tests.chaos.processes import Watcher


def test_a_worker_whose_registration_was_deleted_registers_again(
    database: str, watcher: Watcher, tmp_path: Path
) -> None:
    with Worker(database, tmp_path, "--forever"):
        watcher.wait("select true from wakeboard.workers")
        watcher.do("delete from wakeboard.workers")
        watcher.wait("select true from wakeboard.workers")
