"""The built-in job type `command`, with real programs."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from wakeboard.errors import InvalidSettings
from wakeboard.settings import read_settings
from wakeboard.testing import FakeRun, Outcome, run_handler
from wakeboard_worker.builtin.command import Command
from wakeboard_worker.builtin.process import KILL_AFTER_S
from wakeboard_worker.outcomes import result_json
from wakeboard_worker.worker import UNWIND_S

if TYPE_CHECKING:
    from tests.worker.conftest import Store

pytestmark = pytest.mark.anyio

SPAWN = "import subprocess, sys, signal, time, os; c = subprocess.Popen(['sleep', '600'], start_new_session={own});"
NOTE = "open(sys.argv[1] + '.new', 'w').write(str(c.pid)); os.rename(sys.argv[1] + '.new', sys.argv[1]);"
STUBBORN = "signal.signal(signal.SIGTERM, signal.SIG_IGN);"
VANISH = """
env -i setsid setsid sh -c 'trap "" TERM; echo $$ >"$0.new"; mv "$0.new" "$0"; sleep 600' "$1" >/dev/null 2>&1 &
while [ ! -e "$1" ]; do sleep 0.01; done
echo done
"""
COMMANDS = {
    "say": [sys.executable, "-c", "import sys; print(sys.argv[1:])", "--word={word}", "{word}"],
    "env": {
        "argv": [sys.executable, "-c", "import os, json; print(json.dumps(dict(os.environ)))"],
        "env": ["A", "B", "N", "PGPASSWORD"],
    },
    "ask": [sys.executable, "-c", "print(repr(input() if not __import__('sys').stdin.read() else 1))"],
    "both": ["/bin/sh", "-c", "echo one; echo two >&2; echo three"],
    "fail": [sys.executable, "-c", "print('x' * 100000 + 'the end'); raise SystemExit(3)"],
    "killed": ["/bin/sh", "-c", "kill -9 $$"],
    "binary": [sys.executable, "-c", "import sys; sys.stdout.buffer.write(bytes(range(256)) * 400)"],
    "stay": [sys.executable, "-uc", SPAWN.format(own=False) + STUBBORN + NOTE + "print('here'); c.wait()", "{file}"],
    "leave": [sys.executable, "-c", SPAWN.format(own=False) + NOTE + "print('done')", "{file}"],
    "flee": [sys.executable, "-c", SPAWN.format(own=True) + NOTE + "print('done')", "{file}"],
    "vanish": ["/bin/sh", "-c", VANISH, "sh", "{file}"],
    "stray": [sys.executable, "-uc", SPAWN.format(own=True) + STUBBORN + NOTE + "c.wait()", "{file}"],
    "gone": ["/no/such/program"],
}


async def call(payload: Any, run: FakeRun | None = None) -> Outcome:
    """One `command` run."""
    return await run_handler(Command(read_settings(commands=json.dumps(COMMANDS))), run or FakeRun(payload))


async def test_an_argument_is_never_split_or_read_by_a_shell() -> None:
    outcome = await call({"command": "say", "args": {"word": "a b; $(rm -rf /) {word}"}})
    assert outcome.result["output"] == "['--word=a b; $(rm -rf /) {word}', 'a b; $(rm -rf /) {word}']\n"


async def test_output_and_errors_are_kept_in_their_order() -> None:
    assert (await call({"command": "both"})).result == {"exit_code": 0, "output": "one\ntwo\nthree\n"}


async def test_the_environment_has_no_wakeboard_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WAKEBOARD_DSN", "postgresql://u:pw@h/d")
    monkeypatch.setenv("PGPASSWORD", "pw")
    monkeypatch.setenv("PGPASSFILE", "/pw")
    monkeypatch.setenv("PGHOST", "db")
    outcome = await call({"command": "env", "env": {"A": "1", "PGPASSWORD": "mine", "N": 2}})
    found = json.loads(outcome.result["output"])
    assert not [name for name in found if name.startswith("WAKEBOARD")]
    assert (found["A"], found["N"], found["PGPASSWORD"], found["PGHOST"]) == ("1", "2", "mine", "db")
    assert "PGPASSFILE" not in found


async def test_a_program_has_no_standard_input() -> None:
    assert "EOF" in str((await call({"command": "ask"})).error)


async def test_a_failure_keeps_the_tail_of_the_output() -> None:
    outcome = await call({"command": "fail"})
    assert outcome.status == "failed"
    assert str(outcome.error).startswith("fail ended with exit code 3: xxx")
    assert str(outcome.error).endswith("the end")
    assert len(str(outcome.error)) < 2_000


async def test_the_error_names_the_signal_that_killed_the_program() -> None:
    assert str((await call({"command": "killed"})).error) == "killed ended with signal 9"


async def test_a_result_with_any_output_is_stored_as_an_object() -> None:
    stored = json.loads(result_json((await call({"command": "binary"})).result))
    assert stored["exit_code"] == 0
    assert len(stored["output"]) == 8_000


@pytest.mark.parametrize(
    ("payload", "message"),
    [
        ([], "command must name a command"),
        ({"command": ["rm"]}, "command must name a command"),
        ({"command": "rm"}, "has no command 'rm'"),
        ({"command": "say"}, "takes the args word, and 'word' is missing or unknown"),
        ({"command": "say", "args": {"word": "a", "more": "b"}}, "'more' is missing or unknown"),
        ({"command": "env", "args": {"more": "b"}}, "takes no args, and 'more' is missing or unknown"),
        ({"command": "say", "args": {"word": ["a"]}}, "must be a text or a number"),
        ({"command": "say", "args": {"word": True}}, "must be a text or a number"),
        ({"command": "say", "args": {"word": {"$secret": "key"}}}, "a secret is allowed in env only"),
        ({"command": "say", "args": {"word": "-rf"}}, "must not begin with '-'"),
        ({"command": "say", "args": ["a"]}, "args must be an object"),
        ({"command": "say", "argv": []}, "no field 'argv'"),
        ({"command": "env", "env": {"A=B": "c"}}, "the command env does not let a payload set 'A=B': add it to env of"),
        ({"command": "both", "env": {"A": "c"}}, "the command both does not let a payload set 'A'"),
        (
            {"command": "env", "env": {"TAR_OPTIONS": "--checkpoint-action=exec=id"}},
            "does not let a payload set 'TAR_OPTIONS'",
        ),
        ({"command": "env", "env": {"PSQLRC": "/tmp/x"}}, "does not let a payload set 'PSQLRC'"),
        ({"command": "env", "env": {"A": None, "B": []}}, "must be a text or a number"),
        ({"command": "env", "env": {"LD_PRELOAD": "/tmp/x.so"}}, "does not let a payload set"),
        ({"command": "env", "env": {"PATH": "/tmp"}}, "does not let a payload set"),
        ({"command": "env", "env": {"PYTHONPATH": "/tmp"}}, "does not let a payload set"),
        ({"command": "env", "env": {"WAKEBOARD_DSN": ""}}, "does not let a payload set"),
    ],
)
async def test_an_invalid_payload_makes_the_run_dead_with_one_sentence(payload: Any, message: str) -> None:
    outcome = await call(payload)
    assert outcome.status == "discarded"
    assert message in str(outcome.error)


async def test_a_missing_program_is_reported_in_one_sentence() -> None:
    outcome = await call({"command": "gone"})
    assert (outcome.status, str(outcome.error)) == (
        "failed",
        "/no/such/program could not be started: No such file or directory",
    )


@pytest.mark.parametrize("words", [[], [""], ["{program}", "a"]])
def test_a_command_without_a_program_is_an_invalid_setting(words: list[str]) -> None:
    with pytest.raises(InvalidSettings, match="WAKEBOARD_COMMANDS: 'x' must begin with a program; write for example"):
        Command(read_settings(commands=json.dumps({"x": words})))


# -- ends --------------------------------------------------------------------------------------------------------------


async def test_no_process_of_the_group_outlives_a_cancelled_run(tmp_path: Path) -> None:
    file = tmp_path / "pid"
    run = FakeRun({"command": "stay", "args": {"file": str(file)}})
    task = asyncio.create_task(call(None, run))
    child = await _pid_in(file)
    run.cancel()
    outcome = await task
    assert outcome.status == "cancelled"
    assert outcome.log == ["stay was stopped after it printed: here\n"]
    await _end_of(child)


async def test_no_process_of_the_group_outlives_a_program_that_ended(tmp_path: Path) -> None:
    file = tmp_path / "pid"
    assert (await call({"command": "leave", "args": {"file": str(file)}})).result["output"] == "done\n"
    await _end_of(await _pid_in(file))


@pytest.mark.skipif(sys.platform != "linux", reason="needs a child subreaper")
@pytest.mark.parametrize("command", ["flee", "vanish"])
async def test_no_process_outside_the_group_outlives_a_program_that_ended(command: str, tmp_path: Path) -> None:
    file = tmp_path / "pid"
    assert (await call({"command": command, "args": {"file": str(file)}})).result["output"] == "done\n"
    assert not _alive(await _pid_in(file))


@pytest.mark.skipif(sys.platform != "linux", reason="needs a child subreaper")
async def test_no_process_outside_the_group_outlives_a_cancelled_run(tmp_path: Path) -> None:
    file = tmp_path / "pid"
    run = FakeRun({"command": "stray", "args": {"file": str(file)}})
    task = asyncio.create_task(call(None, run))
    child = await _pid_in(file)
    run.cancel()
    assert (await task).status == "cancelled"
    assert not _alive(child)


@pytest.mark.skipif(sys.platform != "linux", reason="needs the kernel to tell of the worker's death")
async def test_no_process_outlives_a_worker_that_is_killed(store: Store, tmp_path: Path) -> None:
    file = tmp_path / "pid"
    store.enqueue("command", json.dumps({"command": "stray", "args": {"file": str(file)}}), max_attempts=1)
    with store.worker(commands=json.dumps(COMMANDS)) as worker:
        child = await _pid_in(file)
        worker.send(signal.SIGKILL)
        await _end_of(child)


async def test_braces_in_a_literal_command_are_text() -> None:
    commands = {"awk": {"argv": ["/bin/sh", "-c", "echo ${HOME-{unset}} '{print}'"], "literal": True}}
    command = Command(read_settings(commands=json.dumps(commands)))
    outcome = await run_handler(command, FakeRun({"command": "awk"}))
    assert "{print}" in outcome.result["output"]
    refused = await run_handler(command, FakeRun({"command": "awk", "args": {"print": "x"}}))
    assert "the command awk takes no args" in str(refused.error)


def test_an_invalid_variable_name_is_an_invalid_setting() -> None:
    with pytest.raises(InvalidSettings, match="WAKEBOARD_COMMANDS: env of 'x' names 'A=B'"):
        Command(read_settings(commands='{"x": {"argv": ["/bin/ls"], "env": ["A=B"]}}'))


def test_programs_are_killed_before_a_worker_that_shuts_down_exits() -> None:
    assert KILL_AFTER_S < UNWIND_S


async def test_a_program_that_takes_too_long_is_ended_by_the_runs_timeout(store: Store, tmp_path: Path) -> None:
    file = tmp_path / "pid"
    payload = json.dumps({"command": "stay", "args": {"file": str(file)}})
    (run,) = store.enqueue("command", payload, max_attempts=1, timeout_s=2)
    worker = await asyncio.to_thread(store.wake, commands=json.dumps(COMMANDS))
    assert (store.run(run)["status"], store.run(run)["error_type"]) == ("dead", "Timeout")
    assert "stay was stopped after it printed: here" in worker.log
    await _end_of(await _pid_in(file))


async def _pid_in(file: Path) -> int:
    while not file.exists():  # noqa: ASYNC110, ASYNC240 - the event is a file
        await asyncio.sleep(0.01)
    return _number_in(file)


def _number_in(file: Path) -> int:
    return int(file.read_text())


async def _end_of(pid: int) -> None:
    while _alive(pid):  # noqa: ASYNC110 - the event is in another process
        await asyncio.sleep(0.01)


def _alive(pid: int) -> bool:
    """Whether the process runs and is not a zombie."""
    try:
        return "Z" not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
