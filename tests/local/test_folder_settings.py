from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from wakeboard.errors import InvalidSettings
from wakeboard.local.folder_settings import read_folder_settings, shown
from wakeboard.local.workers import WorkerSettings

if TYPE_CHECKING:
    from pathlib import Path


def settings(folder: Path, text: str) -> dict[str, str]:
    (folder / "wakeboard.env").write_text(text, encoding="utf-8")
    return read_folder_settings(folder)


def test_a_folder_without_the_file_says_nothing(tmp_path: Path) -> None:
    assert read_folder_settings(tmp_path) == {}


def test_names_values_comments_and_quotes(tmp_path: Path) -> None:
    text = "# why\n\nWAKEBOARD_QUEUES=a,b\nSHOP = 'x y'  \nEMPTY=\nURL=http://h/?a=b\n"
    expected = {"WAKEBOARD_QUEUES": "a,b", "SHOP": "x y", "EMPTY": "", "URL": "http://h/?a=b"}
    assert settings(tmp_path, text) == expected


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("WAKEBOARD_QUEUES a", "is no setting; write for example"),
        ("\n2X=1", "line 2"),
        ("WAKEBOARD_DSN=postgresql://", "--dsn"),
        ("A='half", "quotes of A"),
    ],
)
def test_a_line_that_cannot_be_honoured_is_named(tmp_path: Path, text: str, why: str) -> None:
    with pytest.raises(InvalidSettings, match=why):
        settings(tmp_path, text)


def test_secrets_are_not_shown() -> None:
    lines = shown({"WAKEBOARD_SECRET_MAIL": "s3cret", "WAKEBOARD_QUEUES": "a", "API_TOKEN": "t"})
    assert lines == ["WAKEBOARD_SECRET_MAIL=…", "WAKEBOARD_QUEUES=a", "API_TOKEN=…"]


def test_the_environment_goes_before_the_file_and_the_file_before_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WAKEBOARD_CONCURRENCY", "3")
    settings(tmp_path, "WAKEBOARD_CONCURRENCY=2\nWAKEBOARD_GRACE_SECONDS=1\n")
    worker = WorkerSettings(tmp_path, "dsn")
    assert (worker.settings.concurrency, worker.settings.grace_seconds, worker.settings.lease_seconds) == (3, 1, 8)
    environment = worker.environment(["default"])
    assert environment["WAKEBOARD_CONCURRENCY"] == "3"
    assert environment["WAKEBOARD_GRACE_SECONDS"] == "1"


def test_workers_serve_the_queues_that_schedules_name_unless_settings_say_which(tmp_path: Path) -> None:
    worker = WorkerSettings(tmp_path, "dsn")
    assert worker.served(["default", "mail"]) == ["default", "mail"]
    assert worker.environment(["default", "mail"])["WAKEBOARD_QUEUES"] == "default,mail"
    settings(tmp_path, "WAKEBOARD_QUEUES=reports\n")
    worker.read()
    assert worker.served(["default", "mail"]) == ["reports"]
    assert worker.environment(["default", "mail"])["WAKEBOARD_QUEUES"] == "reports"


def test_a_folders_own_handlers_are_used_unless_settings_name_others(tmp_path: Path) -> None:
    worker = WorkerSettings(tmp_path, "dsn")
    assert worker.modules == []
    (tmp_path / "handlers.py").write_text("")
    assert worker.modules == ["handlers"]
    settings(tmp_path, "WAKEBOARD_HANDLERS=myapp.jobs\n")
    worker.read()
    assert worker.modules == ["myapp.jobs"]
