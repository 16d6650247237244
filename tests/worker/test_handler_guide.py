"""docs/handlers.md does what it says: its Python runs, its YAML loads, its settings are read."""

from __future__ import annotations

import asyncio
import inspect
import json
import re
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from tests.worker import docs_fixture
from wakeboard.schedules.rules.job_schedule import load_job_schedule
from wakeboard.secrets import Secrets
from wakeboard.settings import read_settings
from wakeboard.testing import run_handler_blocking
from wakeboard.text import output_text
from wakeboard_worker import error_texts, outcomes
from wakeboard_worker.builtin import builtin_handlers, process
from wakeboard_worker.builtin.allowed_hosts import AllowedHosts
from wakeboard_worker.builtin.command_payload import Commands, environment_of, fields_of
from wakeboard_worker.builtin.http_request import request_of
from wakeboard_worker.builtin.jobs.payload import payload_of

if TYPE_CHECKING:
    from tests.worker.conftest import Store
    from wakeboard.settings import Settings

GUIDE = Path(__file__).parents[2] / "docs" / "handlers.md"
PAYLOADS = {
    "send_invoice": {"invoice": 7},
    "send_report": {"customer": 7, "week": "2031-01-06"},
    "import_rates": {"currency": "USD"},
    "shrink_images": {"album": "summer"},
    "weekly_report": {},
    "book_order": {"order": 42},
    "pay_out": {"cents": 100},
}


def blocks(language: str) -> list[str]:
    """The guide's code blocks in this language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", GUIDE.read_text("utf-8"), re.DOTALL | re.MULTILINE)


def manifests(kind: str = "JobSchedule") -> list[Any]:
    """The guide's YAML of this kind, by block."""
    return [written for written in map(yaml.safe_load, blocks("yaml")) if written["kind"] == kind]


@pytest.fixture
def guide(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What the guide's Python has defined, run from its beginning to its end in one module."""
    monkeypatch.setitem(sys.modules, "shop", docs_fixture)
    names: dict[str, Any] = {"__name__": "guide"}
    for block in blocks("python"):
        exec(compile(block, GUIDE.name, "exec"), names)
    return names


@pytest.fixture
def settings(monkeypatch: pytest.MonkeyPatch) -> Settings:
    """The settings of the guide."""
    for word in shlex.split("\n".join(blocks("sh"))):
        if word.startswith("WAKEBOARD_"):
            monkeypatch.setenv(*word.split("=", 1))
    return read_settings()


def test_the_guides_own_tests_pass(guide: dict[str, Any]) -> None:
    tests = [function for name, function in guide.items() if name.startswith("test_")]
    assert len(tests) == 4
    for test in tests:
        found = test()
        if inspect.isawaitable(found):
            asyncio.run(_awaited(found))


async def _awaited(test: Any) -> None:
    await test


@pytest.mark.parametrize(
    ("currency", "status", "delay_s"), [("JPY", "failed", 30), ("XXX", "discarded", None), ("USD", "succeeded", None)]
)
def test_the_status_of_an_outcome_is_as_the_guide_says(
    guide: dict[str, Any], currency: str, status: str, delay_s: float | None
) -> None:
    outcome = run_handler_blocking(guide["import_rates"], {"currency": currency})
    assert (outcome.status, outcome.delay_s) == (status, delay_s)


def test_a_worker_runs_every_handler_of_the_guide(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # where `python -m` looks for modules first
    (tmp_path / "shop.py").write_bytes(Path(docs_fixture.__file__).read_bytes())
    (tmp_path / "guide_jobs.py").write_text("\n".join(blocks("python")), "utf-8")
    store.watcher.do("create table bookings (order_id integer)")
    runs = {job_type: store.enqueue(job_type, json.dumps(payload))[0] for job_type, payload in PAYLOADS.items()}
    worker = store.wake(handlers="guide_jobs")
    found = {job_type: (store.run(run)["status"], store.run(run)["result"]) for job_type, run in runs.items()}
    assert {status for status, _ in found.values()} == {"succeeded"}, worker.log
    assert found["book_order"][1] == {"booked by this attempt": True}
    assert found["pay_out"][1] == {"paid by this attempt": True}
    assert found["send_invoice"][1] == {"sent to": "customer-7@example.com"}
    assert store.watcher.rows("select order_id from bookings") == [(42,)]


def test_the_manifests_of_the_guide_are_valid() -> None:
    schedules = [load_job_schedule(manifest, GUIDE.name) for manifest in manifests()]
    assert [schedule.spec.job_type for schedule in schedules] == ["http", "command", "job"]


def test_the_guides_settings_allow_what_its_schedules_do(settings: Settings, tmp_path: Path) -> None:
    assert set(builtin_handlers(settings)) == {"ping", "http", "command"}
    http, command, job = (load_job_schedule(manifest, GUIDE.name).spec.payload for manifest in manifests())
    for name in ("billing-token", "backup-password"):
        (tmp_path / name).write_text("hush-hush\n")
    secrets = Secrets(str(tmp_path))
    request = request_of(http, "key", secrets)
    assert request.headers["Authorization"] == "Bearer hush-hush"
    assert AllowedHosts(settings.http_allowed_hosts, settings.http_allowed_private_networks).allows_name(
        request.host, request.port
    )
    assert payload_of(job, allow_overrides=False).cron_job == "nightly-report"
    argv = Commands(settings.commands).argv(fields_of(command))
    assert argv == ["/usr/bin/pg_dump", "--dbname=shop", "--file=/backups/shop.sql"]
    assert environment_of(secrets.resolve(command["env"]))["PGPASSWORD"] == "hush-hush"


@pytest.mark.parametrize(
    ("words", "number"),
    [
        ("16,384 characters", outcomes.MAX_RESULT),
        ("up to 2,000 characters", error_texts.MAX_ERROR),
        ("stacks up to 16,000", error_texts.MAX_STACK),
        ("8,000 characters", output_text.MAX_CHARACTERS),
        ("1.5 s later", process.KILL_AFTER_S),
    ],
)
def test_the_numbers_in_the_guide_match_the_code(words: str, number: float) -> None:
    assert words in " ".join(GUIDE.read_text("utf-8").split())
    assert f"{number:,}" in words
