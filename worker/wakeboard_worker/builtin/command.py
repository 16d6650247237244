"""The job type `command`: a program that the worker's own settings name, never a shell.

    WAKEBOARD_COMMANDS={"backup": {"argv": ["/usr/bin/pg_dump", "--file={path}"], "env": ["PGPASSWORD"]}}
    payload: {command: backup, args: {path: /backups/today.sql}, env: {PGPASSWORD: {$secret: backup-password}}}

The program has an environment without WAKEBOARD_* variables, no standard input, and a session of its own. A payload
sets only the variables that the command names. Whatever the program started ends with the run. Exit code 0 succeeds;
the last 8,000 characters of what it prints are kept.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from wakeboard_worker.builtin.command_words import Commands, environment_of, fields_of
from wakeboard_worker.builtin.output_text import LONGEST, readable
from wakeboard_worker.builtin.process import Program
from wakeboard_worker.builtin.secrets import Secrets

if TYPE_CHECKING:
    from wakeboard.handlers import Run
    from wakeboard.settings import Settings

SHOWN = 1_500  # characters of the output, in errors and logs


class CommandFailed(Exception):
    """The program ended with an exit code other than 0, or could not be started; the run is tried again."""


class Command:
    """The handler of `command` under a worker's settings."""

    def __init__(self, settings: Settings) -> None:
        self._commands = Commands(settings.commands)
        self._secrets_dir = settings.secrets_dir

    async def __call__(self, run: Run) -> dict[str, Any]:
        """Runs the program; {exit_code, output}."""
        secrets = Secrets(self._secrets_dir)
        payload = fields_of(run.payload)
        argv = self._commands.argv(payload)
        self._commands.check_env(payload)
        environment = environment_of(secrets.resolve(payload.get("env") or {}))
        program = Program()
        try:
            code = await program.run(argv, environment)
        except OSError as error:
            raise CommandFailed(f"{argv[0]} could not be started: {error.strerror}") from None
        except asyncio.CancelledError:
            run.log.warning("%s was stopped after it printed: %s", payload["command"], _end(program, secrets)[-SHOWN:])
            raise
        output = _end(program, secrets)
        if code != 0:
            how = f"exit code {code}" if code > 0 else f"signal {-code}"
            raise CommandFailed(f"{payload['command']} ended with {how}: {output[-SHOWN:].strip()}".rstrip(": "))
        return {"exit_code": code, "output": output}


def _end(program: Program, secrets: Secrets) -> str:
    """The end of what it printed, as text without secrets."""
    text = readable(program.printed)
    if program.printed_more:
        text = text.lstrip("\N{REPLACEMENT CHARACTER}")  # half a character
    text = secrets.redact(text, cut="start" if program.printed_more else None)
    return text if len(text) <= LONGEST else "…" + text[1 - LONGEST :]
