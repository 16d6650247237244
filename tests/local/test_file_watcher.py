from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from wakeboard.local.file_watcher import FileWatcher, module_files
from wakeboard.local.supervisor import describe_changes
from wakeboard.local.worker_spawner import next_boundary

if TYPE_CHECKING:
    import pytest


def test_created_changed_and_deleted_files_are_reported_once(tmp_path: Path) -> None:
    watcher = FileWatcher(tmp_path)
    below = tmp_path / "more"
    below.mkdir()
    file = below / "a.yaml"
    file.write_text("1")
    assert watcher.changes() == [file]
    assert watcher.changes() == []
    file.write_text("22")
    assert watcher.changes() == [file]
    file.unlink()
    assert watcher.changes() == [file]


def test_a_file_replaced_by_a_similar_one_is_reported(tmp_path: Path) -> None:
    file, draft = tmp_path / "a.py", tmp_path / "draft"
    file.write_text("1")
    watcher = FileWatcher(tmp_path)
    draft.write_text("2")
    os.utime(draft, ns=(file.stat().st_atime_ns, file.stat().st_mtime_ns))
    draft.replace(file)
    assert watcher.changes() == [file]


def test_hidden_folders_and_other_file_types_are_ignored(tmp_path: Path) -> None:
    watcher = FileWatcher(tmp_path)
    for folder in (".git", "__pycache__"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "a.py").write_text("")
    (tmp_path / "report.md").write_text("")
    assert watcher.changes() == []


def test_a_deleted_folder_is_a_change_and_not_an_error(tmp_path: Path) -> None:
    folder = tmp_path / "jobs"
    folder.mkdir()
    (folder / "a.yaml").write_text("")
    watcher = FileWatcher(folder)
    (folder / "a.yaml").unlink()
    folder.rmdir()
    assert watcher.changes() == [folder / "a.yaml"]
    assert watcher.changes() == []


def test_handler_modules_are_watched_in_all_import_paths(tmp_path: Path) -> None:
    files = module_files(["myapp.jobs"], [tmp_path])
    assert files == [tmp_path / "myapp" / "jobs.py", tmp_path / "myapp" / "jobs" / "__init__.py"]
    watcher = FileWatcher(tmp_path / "empty", files)
    (tmp_path / "myapp").mkdir()
    files[0].write_text("")
    assert watcher.changes() == [files[0]]


def test_wake_boundaries_are_whole_minutes() -> None:
    assert next_boundary(119.9, 60) == 120
    assert next_boundary(120.0, 60) == 180
    assert next_boundary(1.2, 0.5) == 1.5


def test_a_file_with_two_paths_is_reported_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "jobs" / "handlers.py"
    file.parent.mkdir()
    file.write_text("")
    watcher = FileWatcher(Path("jobs"), [file])
    file.write_text("changed")
    assert watcher.changes() == [file]


def test_deleted_files_are_described_apart_from_changed_ones(tmp_path: Path) -> None:
    for name in ("a.yaml", "sub/handlers.py", "handlers.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("")
    changes = [tmp_path / name for name in ("a.yaml", "gone.yaml", "handlers.py", "sub/handlers.py")]
    assert describe_changes(changes, tmp_path) == "a.yaml, handlers.py, sub/handlers.py changed; gone.yaml was deleted."


def test_a_file_that_returns_meanwhile_is_a_change(tmp_path: Path) -> None:
    handlers = tmp_path / "handlers.py"
    handlers.write_text("")
    watcher = FileWatcher(tmp_path)
    handlers.unlink()
    assert watcher.changes() == [handlers]
    handlers.write_text("")
    watcher.set_files([handlers])
    assert watcher.changes() == [handlers]
