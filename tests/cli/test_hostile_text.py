"""Commands sanitise stored texts with terminal control characters, forged lines and credentials."""

from __future__ import annotations

import re
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from rich.text import Text

from wakeboard.cli.app import application
from wakeboard.cli.support.output import print_error, print_message
from wakeboard.cli.support.tables import Column, print_lines, print_table
from wakeboard.local.messages import Printer, UpLine

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cli.conftest import Cli
    from tests.cli.sample_store import SampleStore

HOSTILE = "x\x1b]0;owned\x07\x1b[31m\u009b2J\u202eevil\u2028\r\nFORGED 99 succeeded"
UNSAFE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u206f]")


CHOSEN = [
    ("job_runs", "idempotency_key"), ("job_runs", "limit_key"), ("job_runs", "job_type"), ("job_runs", "queue"),
    ("job_steps", "name"), ("job_effects", "key"), ("pauses", "reason"), ("job_definitions", "schedule_error"),
    ("job_definitions", "job_type"), ("job_definitions", "queue"), ("job_attempts", "worker"), ("workers", "name"),
    ("audit_log", "reason"), ("audit_log", "scope"), ("alerts", "summary"),
]  # fmt: skip


def assert_harmless(text: str) -> None:
    assert not UNSAFE.search(text), UNSAFE.findall(text)
    assert not re.search("^FORGED", text, re.MULTILINE), text


@pytest.fixture
def hostile_run(sample: SampleStore) -> int:
    """A dead run whose texts are hostile, except where the database refuses such a text."""
    sample.register_worker("odd")
    sample.add_schedule("calm", job_type="odd")
    run = sample.enqueue("odd", {HOSTILE: HOSTILE}, idempotency_key="key", limit_key="limit")
    epoch = sample.claim(run)
    sample.step(run, epoch, "step", HOSTILE)
    sample.effect(run, epoch, "effect")
    sample.log(run, HOSTILE)
    fail = "select wakeboard.fail(77, %s::bigint[], %s::bigint[], '{discarded}', %s, %s, %s, %s::real[])"
    sample.sql(fail, [run], [epoch], [HOSTILE], [HOSTILE], [HOSTILE], [None])
    sample.sql("select wakeboard.pause('queue:default', 'why')")
    sample.add_alert([HOSTILE])
    for table, column in CHOSEN:
        with suppress(psycopg.Error):
            sample.sql(f"update wakeboard.{table} set {column} = %s", HOSTILE)
    return run


def folder_of(place: Path) -> str:
    folder = place / "hostile\x1b[31m"
    folder.mkdir()
    (folder / "a\x1b[2J.yaml").write_text('kind: "Odd\\e[31m\\nFORGED"\n---\nkind: JobSchedule\n"\\e[1m": 1\n')
    return str(folder)


def commands(run: int, folder: str) -> list[tuple[str, ...]]:
    number = str(run)
    return [
        ("schedules",), ("schedules", "--json"), ("runs",), ("runs", "--json"), ("runs", "--queue", HOSTILE),
        ("runs", "-o", "wide"), ("runs", HOSTILE), ("schedule", "billing/calm"), ("schedule", HOSTILE), ("workers",),
        ("queues",), ("logs", number), ("logs", number, "--json"), ("logs", HOSTILE),
        ("alerts", "silence", HOSTILE), ("alerts", "unsilence", HOSTILE),
        ("failures",), ("audit",), ("alerts",), ("alerts", "--json"), ("alerts", "check", HOSTILE),
        ("alerts", "test", HOSTILE, "--wait", "1"),
        ("board", "--port", HOSTILE),
        ("run", number), ("run", number, "--json"), ("run", HOSTILE),
        ("compare", number, number), ("next", "billing/calm"), ("next", HOSTILE),
        ("explain", number), ("explain", number, "--json"), ("explain", "billing/calm"), ("explain", HOSTILE),
        ("import", folder), ("import", folder, "--crontab", "--json"), ("import", HOSTILE), ("import", "-n", HOSTILE),
        ("apply", folder), ("plan", folder, folder), ("plan", folder, folder, "-o", "markdown"), ("check", folder),
        ("plan", HOSTILE, f"{HOSTILE}:x"),
        ("enqueue", "ping", HOSTILE), ("run-now", HOSTILE), ("run-now", "billing/calm"),
        ("pause", "queue:default"), ("pause", HOSTILE), ("pauses",), ("resume", HOSTILE), ("limits",),
        ("limit", HOSTILE), ("limit", HOSTILE, "3"), ("check",), ("check", "--json"),
        ("confirm", "removal", HOSTILE), ("cancel", HOSTILE),
        ("retry", HOSTILE), ("retry", number), ("discard", number), ("replay", number), ("release", number),
        ("version",), (HOSTILE,),
        ("up", HOSTILE), ("effects", "install", HOSTILE), ("effects", "list"), ("effects", "release", HOSTILE),
        ("worker", "--concurrency", HOSTILE),
        ("migrate", "--wait", HOSTILE), ("graph",), ("graph", "--mermaid"), ("graph", HOSTILE), ("backfill",),
        ("backfill", "billing/calm", "--from", HOSTILE), ("backfill", HOSTILE, "--from", "2026-01-01"),
        ("new", folder), ("new", f"{folder}/app", "--name", HOSTILE), ("conformance", "--only", HOSTILE, "--", "true"),
    ]  # fmt: skip


def test_no_command_prints_control_characters_or_a_forged_line(cli: Cli, hostile_run: int, tmp_path: Path) -> None:
    for words in commands(hostile_run, folder_of(tmp_path)):
        result = cli(*words)
        assert_harmless(result.out + result.err)


def test_every_command_is_tested_with_hostile_text(tmp_path: Path) -> None:
    names = [each.name or getattr(each.callback, "__name__", "") for each in _commands(application)]
    tested = {word for words in commands(1, "") for word in words[:2]}
    assert {name for name in names if name.replace("_", "-") not in tested} == set()


def _commands(group: Any) -> list[Any]:
    found: list[Any] = list(group.registered_commands)
    for each in group.registered_groups:
        found += _commands(each.typer_instance)
    return found


def test_json_keeps_the_original_text(cli: Cli, hostile_run: int) -> None:
    assert cli("run", str(hostile_run), "--json").json["payload"] == {HOSTILE: HOSTILE}


def test_all_print_functions_sanitise_text_and_mask_credentials(capsys: pytest.CaptureFixture[str]) -> None:
    print_message(HOSTILE)
    print_lines([HOSTILE, Text(HOSTILE, "bold")])
    print_table([Column("A"), Column("B", shrinks=True)], [[HOSTILE, Text(HOSTILE, "red")]])
    Printer().print(UpLine(HOSTILE, HOSTILE))
    print_error(HOSTILE)
    print_error("cannot connect to postgresql://app:hunter2@db/shop")
    result = capsys.readouterr()
    assert_harmless(result.out + result.err)
    assert "hunter2" not in result.err


def test_a_line_of_up_on_a_terminal_is_sanitised(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    Printer().print(UpLine(HOSTILE, HOSTILE, "error"))
    out = capsys.readouterr().out
    assert "\x1b[31m" in out
    assert "owned" in out
    assert not {"\x07", "\u009b", "\x1b]"} & {out[at : at + size] for at in range(len(out)) for size in (1, 2)}
