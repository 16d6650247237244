"""The job type `command`: runs a program that the worker's settings allow, without a shell.

    WAKEBOARD_COMMANDS={"backup": {"argv": ["/usr/bin/pg_dump", "--file={path}"], "env": ["PGPASSWORD"]}}
    payload: {command: backup, args: {path: /backups/today.sql}, env: {PGPASSWORD: {$secret: backup-password}}}

The program runs in its own session, without standard input and without the WAKEBOARD_* variables. A payload may set
only the variables that the command lists in `env`. All processes that the program started end with the run. Exit code 0
is success. The last 8,000 characters of the output are stored.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from wakeboard.secrets import Secrets
from wakeboard.text.output_text import decode_output
from wakeboard_worker.builtin.command_payload import Commands, environment_of, fields_of
from wakeboard_worker.builtin.process import ChildProgram

if TYPE_CHECKING:
    from wakeboard.engine.run import Run
    from wakeboard.settings import Settings

SHOWN_CHARACTERS = 1_500  # characters of the output, in errors and logs


class CommandFailed(Exception):
    """The program exited with a code other than 0, or could not be started. The run is retried with its backoff."""


class Command:
    """The handler of the job type `command`."""

    def __init__(self, settings: Settings) -> None:
        self._commands = Commands(settings.commands)
        self._secrets_dir = settings.secrets_dir

    async def __call__(self, run: Run) -> dict[str, Any]:
        """Run the program and return {exit_code, output}. Raises CommandFailed and Discard."""
        secrets = Secrets(self._secrets_dir)
        payload = fields_of(run.payload)
        argv = self._commands.argv(payload)
        self._commands.check_env(payload)
        environment = environment_of(secrets.resolve(payload.get("env") or {}))
        program = ChildProgram(run.log_output)
        try:
            code = await program.run(argv, environment)
        except OSError as error:
            raise CommandFailed(f"{argv[0]} could not be started: {error.strerror}") from None
        except asyncio.CancelledError:
            run.log.warning(
                "%s was stopped after it printed: %s",
                payload["command"],
                _output_tail(program, secrets)[-SHOWN_CHARACTERS:],
            )
            raise
        output = _output_tail(program, secrets)
        if code != 0:
            how = f"exit code {code}" if code > 0 else f"signal {-code}"
            raise CommandFailed(
                f"{payload['command']} ended with {how}: {output[-SHOWN_CHARACTERS:].strip()}".rstrip(": ")
            )
        return {"exit_code": code, "output": output}


def _output_tail(program: ChildProgram, secrets: Secrets) -> str:
    """Return the end of the program's output as text, with secrets masked."""
    text = decode_output(program.output)
    if program.truncated:
        text = text.lstrip("\N{REPLACEMENT CHARACTER}")  # a character may be cut in two
    return secrets.redact(text, "end", was_cut=program.truncated)
