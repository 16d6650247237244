"""What a killed test run leaves in a temporary folder is removed by the next one, and nothing else is."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from testbed.owned_folders import owned_folder, remove_abandoned_folders

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

ROOT = Path(__file__).resolve().parents[2]
OWNER = """
import sys
from pathlib import Path
from testbed.owned_folders import owned_folder
with owned_folder(Path(sys.argv[1])) as folder:
    (folder / "data").mkdir()
    print(folder, flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def parent() -> Iterator[Path]:
    """Not tmp_path: if this process is killed, the next run removes what is mounted here."""
    with owned_folder(Path(tempfile.gettempdir())) as folder:
        yield folder


@contextmanager
def _owner(parent: Path) -> Generator[tuple[subprocess.Popen[str], Path]]:
    """A process that owns a folder in `parent`, which has a folder `data`."""
    with subprocess.Popen(
        [sys.executable, "-c", OWNER, str(parent)], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        yield process, Path(process.stdout.readline().strip())
        process.kill()


def test_the_folder_of_a_killed_process_is_removed_with_what_is_mounted_in_it(parent: Path):
    with _owner(parent) as (process, folder):
        if os.geteuid() == 0:
            subprocess.run(["mount", "-t", "tmpfs", "data", folder / "data"], check=True)
            (folder / "data" / "mounted").mkdir()
            subprocess.run(["mount", "-t", "tmpfs", "data", folder / "data" / "mounted"], check=True)
        process.kill()
        process.wait()
    remove_abandoned_folders(parent)
    assert list(parent.iterdir()) == []


def test_the_folder_of_a_living_process_stays(parent: Path):
    with _owner(parent) as (_, folder):
        remove_abandoned_folders(parent)
        assert (folder / "data").is_dir()


def test_folders_without_a_lock_stay(parent: Path):
    (parent / "wakeboard-other").mkdir()
    (parent / "wakeboard-notes").write_text("mine")
    remove_abandoned_folders(parent)
    assert sorted(path.name for path in parent.iterdir()) == ["wakeboard-notes", "wakeboard-other"]


def test_an_owner_that_ends_leaves_nothing(parent: Path):
    with owned_folder(parent) as folder:
        assert folder.stat().st_mode & 0o777 == 0o755
        remove_abandoned_folders(parent)
        assert folder.is_dir()
    assert list(parent.iterdir()) == []
