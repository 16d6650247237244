"""The job type `command`: a program that the worker's own settings name, never a shell.

    WAKEBOARD_COMMANDS={"backup": ["/usr/bin/pg_dump", "--file={path}"]}
    payload: {command: backup, args: {path: /backups/today.sql}, env: {PGPASSWORD: {$secret: backup-password}}}

The program gets an environment without WAKEBOARD_* variables, no standard input, and a process group of its own, which
ends with the run. Exit code 0 succeeds; the last 8 KiB of what it prints are kept.
"""

from __future__ import annotations

import asyncio
import os
import re
import signal
from typing import TYPE_CHECKING, Any, Final, cast

from wakeboard.errors import Discard
from wakeboard_worker.builtin.secrets import Secrets

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from wakeboard.handlers import Run
    from wakeboard.settings import Settings

FIELDS: Final = frozenset({"command", "args", "env"})
KEPT_BYTES: Final = 8_192
END_WITHIN_S: Final = 2.0  # between SIGTERM and SIGKILL
_PLACE: Final = re.compile(r"\{([A-Za-z_][A-Za-z0-9_]*)\}")


class CommandFailed(Exception):
    """The program ended with an exit code other than 0; the run is tried again."""


class Command:
    """The handler of `command` under a worker's settings."""

    def __init__(self, settings: Settings) -> None:
        self._commands = settings.commands
        self._secrets_dir = settings.secrets_dir

    async def __call__(self, run: Run) -> dict[str, Any]:
        """Runs the program; {exit_code, output}."""
        secrets = Secrets(self._secrets_dir)
        payload = _checked(run.payload)
        argv = self._argv(payload)
        try:
            code, output = await _run(argv, _environment(secrets.resolve(payload.get("env") or {})))
        except OSError as error:
            raise CommandFailed(f"{argv[0]} could not be started: {error.strerror}") from None
        output = secrets.redact(output)
        if code != 0:
            how = f"exit code {code}" if code > 0 else f"signal {-code}"
            raise CommandFailed(f"{payload['command']} ended with {how}: {output[-1500:].strip()}")
        return {"exit_code": code, "output": output}

    def _argv(self, payload: Mapping[str, Any]) -> list[str]:
        """The command's words, each place {name} filled from args: always one word, whatever it contains."""
        name: str = payload["command"]
        args: Mapping[str, Any] = payload.get("args") or {}
        template = self._commands.get(name)
        if template is None:
            raise Discard(f"this worker knows no command {name!r}: name it in WAKEBOARD_COMMANDS")
        places = {place for word in template for place in _PLACE.findall(word)}
        if wrong := sorted(places ^ set(args)):
            raise Discard(f"the command {name} takes the args {sorted(places)}, and {wrong[0]!r} does not fit")
        return [_PLACE.sub(lambda place: str(args[place[1]]), word) for word in template]


def _checked(payload: Any) -> dict[str, Any]:
    given = cast("dict[str, Any]", payload) if isinstance(payload, dict) else {}
    if not isinstance(given.get("command"), str):
        raise Discard('a command payload is an object such as {"command": "backup", "args": {"path": "…"}}')
    unknown = sorted(set(given) - FIELDS)
    if unknown:
        raise Discard(f"a command payload has no field {unknown[0]!r}: write command, args, env")
    for name in ("args", "env"):
        if not isinstance(given.get(name) or {}, dict):
            raise Discard(f"{name} must be an object")
    args: dict[str, Any] = given.get("args") or {}
    for name, value in args.items():
        if not isinstance(value, str | int | float) or "\0" in str(value):
            raise Discard(f"the argument {name!r} must be a text or a number")
    return given


def _environment(extra: Mapping[str, Any]) -> dict[str, str]:
    own = {name: value for name, value in os.environ.items() if not name.startswith("WAKEBOARD_")}
    own.pop("PGPASSWORD", None)
    return own | {name: str(value) for name, value in extra.items()}


async def _run(argv: Sequence[str], environment: dict[str, str]) -> tuple[int, str]:
    process = await asyncio.create_subprocess_exec(
        *argv,
        env=environment,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        start_new_session=True,
    )
    assert process.stdout is not None
    tail = b""
    try:
        while piece := await process.stdout.read(16_384):
            tail = (tail + piece)[-KEPT_BYTES:]
        return await process.wait(), tail.decode("utf-8", "replace")
    finally:
        await _end_group(process)


async def _end_group(process: asyncio.subprocess.Process) -> None:
    """Nobody of the program's group outlives its run: SIGTERM, then SIGKILL."""
    if not _signal_group(process.pid, signal.SIGTERM):
        return
    try:
        async with asyncio.timeout(END_WITHIN_S):
            await process.wait()
    except TimeoutError:
        pass
    finally:
        _signal_group(process.pid, signal.SIGKILL)


def _signal_group(group: int, number: signal.Signals) -> bool:
    """Whether there was somebody to signal. The group is the program's own: start_new_session made it."""
    try:
        os.killpg(group, number)
    except (ProcessLookupError, PermissionError):
        return False
    return True
