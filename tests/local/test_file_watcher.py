from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from wakeboard.local.file_watcher import FileWatcher, module_files
from wakeboard.local.up_tasks import told_changes
from wakeboard.local.worker_spawner import boundary_after

if TYPE_CHECKING:
    import pytest


def test_files_that_come_change_and_go_are_noticed_once(tmp_path: Path) -> None:
    watch = FileWatcher(tmp_path)
    below = tmp_path / "more"
    below.mkdir()
    file = below / "a.yaml"
    file.write_text("1")
    assert watch.changes() == [file]
    assert watch.changes() == []
    file.write_text("22")
    assert watch.changes() == [file]
    file.unlink()
    assert watch.changes() == [file]


def test_a_file_that_is_replaced_by_one_of_the_same_size_and_time_is_noticed(tmp_path: Path) -> None:
    file, draft = tmp_path / "a.py", tmp_path / "draft"
    file.write_text("1")
    watch = FileWatcher(tmp_path)
    draft.write_text("2")
    os.utime(draft, ns=(file.stat().st_atime_ns, file.stat().st_mtime_ns))
    draft.replace(file)
    assert watch.changes() == [file]


def test_what_lies_in_hidden_folders_and_other_files_is_passed_over(tmp_path: Path) -> None:
    watch = FileWatcher(tmp_path)
    for folder in (".git", "__pycache__"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "a.py").write_text("")
    (tmp_path / "report.md").write_text("")
    assert watch.changes() == []


def test_a_folder_that_is_gone_is_a_change_and_no_error(tmp_path: Path) -> None:
    folder = tmp_path / "jobs"
    folder.mkdir()
    (folder / "a.yaml").write_text("")
    watch = FileWatcher(folder)
    (folder / "a.yaml").unlink()
    folder.rmdir()
    assert watch.changes() == [folder / "a.yaml"]
    assert watch.changes() == []


def test_modules_of_handlers_are_watched_wherever_they_may_come(tmp_path: Path) -> None:
    files = module_files(["myapp.jobs"], [tmp_path])
    assert files == [tmp_path / "myapp" / "jobs.py", tmp_path / "myapp" / "jobs" / "__init__.py"]
    watch = FileWatcher(tmp_path / "empty", files)
    (tmp_path / "myapp").mkdir()
    files[0].write_text("")
    assert watch.changes() == [files[0]]


def test_boundaries_are_whole_minutes() -> None:
    assert boundary_after(119.9, 60) == 120
    assert boundary_after(120.0, 60) == 180
    assert boundary_after(1.2, 0.5) == 1.5


def test_a_file_that_is_reached_by_two_paths_changes_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "jobs" / "handlers.py"
    file.parent.mkdir()
    file.write_text("")
    watch = FileWatcher(Path("jobs"), [file])
    file.write_text("changed")
    assert watch.changes() == [file]


def test_what_is_gone_is_not_called_changed(tmp_path: Path) -> None:
    for name in ("a.yaml", "sub/handlers.py", "handlers.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("")
    changes = [tmp_path / name for name in ("a.yaml", "gone.yaml", "handlers.py", "sub/handlers.py")]
    assert told_changes(changes, tmp_path) == "a.yaml, handlers.py, sub/handlers.py changed; gone.yaml is gone."
