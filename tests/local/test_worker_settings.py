from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from wakeboard.errors import InvalidSettings
from wakeboard.imports.rules.options import LONGEST_TIMEOUT_S
from wakeboard.local.worker_settings import WATCH_ORIGINS, WATCH_SECRETS, WorkerSettings, redacted

if TYPE_CHECKING:
    from pathlib import Path


def settings(folder: Path, text: str) -> dict[str, str]:
    (folder / "wakeboard.env").write_text(text, encoding="utf-8")
    return WorkerSettings(folder, "dsn").from_file


def test_a_folder_without_wakeboard_env_has_no_settings(tmp_path: Path) -> None:
    assert WorkerSettings(tmp_path, "dsn").from_file == {}


def test_wakeboard_env_has_names_values_comments_and_quotes(tmp_path: Path) -> None:
    text = "# comment\n\nWAKEBOARD_QUEUES=a,b\nSHOP = 'x y'  \nEMPTY=\nURL=http://h/?a=b\n"
    expected = {"WAKEBOARD_QUEUES": "a,b", "SHOP": "x y", "EMPTY": "", "URL": "http://h/?a=b"}
    assert settings(tmp_path, text) == expected


def test_every_mistake_is_named_with_its_line(tmp_path: Path) -> None:
    with pytest.raises(InvalidSettings) as refused:
        settings(
            tmp_path,
            "WAKEBOARD_QUEUES a\n\nWAKEBOARD_DSN=postgresql://\nA='half\nWAKEBOARD_LEASE_SECONDS=1\n"
            "WAKEBOARD_UP_COMPANION=python 'x\n",
        )
    file = tmp_path / "wakeboard.env"
    assert str(refused.value).splitlines() == [
        f"{file}, line 1: 'WAKEBOARD_QUEUES a' is not NAME=value; write for example WAKEBOARD_CONCURRENCY=10.",
        f"{file}, line 3: WAKEBOARD_DSN is not allowed here; use --dsn or the environment.",
        f"{file}, line 4: the quotes of A do not match.",
        f"{file}, line 5: WAKEBOARD_LEASE_SECONDS: write a whole number from 2 to 3600.",
        f"{file}, line 6: WAKEBOARD_UP_COMPANION is not a valid command: No closing quotation.",
    ]


def test_secrets_are_not_shown_and_long_values_are_cut() -> None:
    shown = {"WAKEBOARD_QUEUES": "a", "TOKENS_PER_MINUTE": "90"}
    settings = {"WAKEBOARD_SECRET_MAIL": "s3cret", "API_TOKEN": "t", **shown, "LONG": "x" * 121}
    assert redacted(settings) == [
        "WAKEBOARD_SECRET_MAIL=…", "API_TOKEN=…", "WAKEBOARD_QUEUES=a", "TOKENS_PER_MINUTE=90", f"LONG={'x' * 120}…",
    ]  # fmt: skip


def test_the_environment_overrides_the_file_and_the_file_the_local_defaults(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WAKEBOARD_CONCURRENCY", "3")
    settings(tmp_path, "WAKEBOARD_CONCURRENCY=2\nWAKEBOARD_GRACE_SECONDS=1\n")
    worker = WorkerSettings(tmp_path, "dsn")
    assert worker.settings.max_timeout_seconds == LONGEST_TIMEOUT_S
    assert (worker.settings.concurrency, worker.settings.grace_seconds, worker.settings.lease_seconds) == (3, 1, 8)
    environment = worker.environment(["default"])
    assert environment["WAKEBOARD_CONCURRENCY"] == "3"
    assert environment["WAKEBOARD_GRACE_SECONDS"] == "1"


def test_workers_serve_the_queues_of_the_schedules_unless_wakeboard_queues_is_set(tmp_path: Path) -> None:
    worker = WorkerSettings(tmp_path, "dsn")
    assert worker.worker_queues(["default", "mail"]) == ["default", "mail"]
    assert worker.environment(["default", "mail"])["WAKEBOARD_QUEUES"] == "default,mail"
    settings(tmp_path, "WAKEBOARD_QUEUES=reports\n")
    worker.read_file()
    assert worker.worker_queues(["default", "mail"]) == ["reports"]
    assert worker.environment(["default", "mail"])["WAKEBOARD_QUEUES"] == "reports"


def test_the_folders_handlers_py_is_used_unless_wakeboard_handlers_is_set(tmp_path: Path) -> None:
    worker = WorkerSettings(tmp_path, "dsn")
    assert worker.modules == []
    (tmp_path / "handlers.py").write_text("")
    assert worker.modules == ["handlers"]
    settings(tmp_path, "WAKEBOARD_HANDLERS=myapp.jobs\n")
    worker.read_file()
    assert worker.modules == ["myapp.jobs"]


def test_an_invalid_value_in_a_changed_file_keeps_the_earlier_values(tmp_path: Path) -> None:
    file = tmp_path / "wakeboard.env"
    file.write_text("WAKEBOARD_LEASE_SECONDS=20", encoding="utf-8")
    settings = WorkerSettings(tmp_path, "")
    file.write_text("WAKEBOARD_LEASE_SECONDS=1", encoding="utf-8")
    with pytest.raises(InvalidSettings, match="WAKEBOARD_LEASE_SECONDS: write a whole number from 2 to 3600"):
        settings.read_file()
    assert settings.settings.lease_seconds == 20


def test_the_companion_gets_the_board_and_the_secret_for_run_tokens(tmp_path: Path) -> None:
    (tmp_path / "wakeboard.env").write_text(f"{WATCH_ORIGINS}=http://127.0.0.1:1/, https://app.example.com")
    settings = WorkerSettings(tmp_path, "")
    settings.board_url, settings.watch_secrets_file = "http://127.0.0.1:8686/", "/secret"
    given = settings.companion_environment()

    assert (given["WAKEBOARD_BOARD_URL"], given[WATCH_SECRETS]) == ("http://127.0.0.1:8686/", "/secret")
    assert settings.watch_origins == ["http://127.0.0.1:1", "https://app.example.com"]
