"""One process at a time may use a folder."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from wakeboard.errors import WakeboardError
from wakeboard.local.folder_lock import FolderLock

if TYPE_CHECKING:
    from pathlib import Path


def test_a_folder_in_use_is_refused_with_the_pid_of_its_user(tmp_path: Path) -> None:
    lock = FolderLock(tmp_path)
    lock.take()
    with pytest.raises(WakeboardError, match=f"pid {os.getpid()}"):
        FolderLock(tmp_path).take()
    lock.release()


def test_a_released_folder_is_free_while_a_child_that_is_just_starting_has_the_lock_open(tmp_path: Path) -> None:
    lock = FolderLock(tmp_path)
    lock.take()
    inherited = os.dup(lock._file or 0)  # pyright: ignore[reportPrivateUsage]  as between fork and exec
    lock.release()
    heir = FolderLock(tmp_path)
    heir.take()
    heir.release()
    os.close(inherited)
