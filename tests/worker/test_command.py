"""The built-in `command`: real programs."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from wakeboard.errors import Discard
from wakeboard.settings import read_settings
from wakeboard_worker.builtin.command import Command, CommandFailed

pytestmark = pytest.mark.anyio

COMMANDS = {
    "say": [sys.executable, "-c", "import sys; print(sys.argv[1:])", "--word={word}"],
    "env": [sys.executable, "-c", "import os, json; print(json.dumps(dict(os.environ)))"],
    "fail": [sys.executable, "-c", "print('x' * 100000 + 'the end'); raise SystemExit(3)"],
    "stay": [sys.executable, "-c", ("import subprocess, sys; c = subprocess.Popen(['sleep', '600']);"
             " open(sys.argv[1], 'w').write(str(c.pid)); c.wait()"), "{file}"],
    "gone": ["/no/such/program"],
}  # fmt: skip


async def call(payload: Any) -> dict[str, Any]:
    """One `command` run."""
    settings = read_settings(commands=json.dumps(COMMANDS))
    return await Command(settings)(SimpleNamespace(payload=payload))  # pyright: ignore[reportArgumentType]


async def test_an_argument_is_one_word_and_never_meets_a_shell() -> None:
    answer = await call({"command": "say", "args": {"word": "a b; $(rm -rf /)"}})
    assert answer == {"exit_code": 0, "output": "['--word=a b; $(rm -rf /)']\n"}


async def test_the_environment_is_free_of_wakeboards_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WAKEBOARD_DSN", "postgresql://u:pw@h/d")
    monkeypatch.setenv("WAKEBOARD_SECRET_TOKEN", "hush-hush")
    answer = await call({"command": "env", "env": {"A": "1", "TOKEN": {"$secret": "token"}}})
    assert "WAKEBOARD" not in answer["output"]
    assert "hush-hush" not in answer["output"]
    assert '"TOKEN": "[secret token]"' in answer["output"]


async def test_a_failure_keeps_the_tail_of_the_output() -> None:
    with pytest.raises(CommandFailed, match=r"exit code 3: x+the end$") as caught:
        await call({"command": "fail"})
    assert len(str(caught.value)) < 2000


@pytest.mark.parametrize(
    ("payload", "said"),
    [
        ({"command": "rm"}, "knows no command 'rm'"),
        ({"command": "say"}, "'word' does not fit"),
        ({"command": "say", "args": {"word": "a", "more": "b"}}, "'more' does not fit"),
        ({"command": "say", "args": {"word": ["a"]}}, "must be a text or a number"),
        ({"command": "say", "argv": []}, "no field 'argv'"),
        ([], "a command payload is an object"),
    ],
)
async def test_a_payload_that_cannot_work_is_dead_with_one_sentence(payload: Any, said: str) -> None:
    with pytest.raises(Discard, match=said):
        await call(payload)


async def test_a_program_that_is_not_there_is_one_sentence() -> None:
    with pytest.raises(CommandFailed, match="/no/such/program could not be started"):
        await call({"command": "gone"})


async def test_nobody_of_its_group_outlives_a_cancelled_run(tmp_path: Path) -> None:
    file = tmp_path / "pid"
    task = asyncio.create_task(call({"command": "stay", "args": {"file": str(file)}}))
    while not (file.exists() and file.read_text()):  # noqa: ASYNC110 - the event is a file
        await asyncio.sleep(0.01)
    child = int(file.read_text())
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    while _alive(child):  # noqa: ASYNC110 - the event is in another process
        await asyncio.sleep(0.01)


def _alive(pid: int) -> bool:
    """Whether it runs; a zombie that nobody waits for does not."""
    try:
        return "Z" not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    finally:
        os.sched_yield()
