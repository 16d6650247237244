"""Runs a command of a command line: its global options, its errors and its exit code.

Exit codes: 0 success, 1 refused or failed, 2 invalid usage, 3 something differs (only of `plan --detailed-exitcode`),
130 interrupted (but `up` and `worker` end with 0 then), 141 the reader of the output is gone.
"""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Callable, Sequence
from contextvars import copy_context
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wakeboard.cli.support.advice import advice, use_program
from wakeboard.errors import InvalidValue, WakeboardError
from wakeboard.process.output import sanitized_streams, write_error, write_line

if TYPE_CHECKING:
    from typer.exceptions import TyperException

FAILED = 1
USAGE = 2
INTERRUPTED = 130
BROKEN_PIPE = 141  # as of a program that SIGPIPE ends


@dataclass(frozen=True, slots=True)
class Program:
    """A command line. `load`: imports its commands. `options`, `flags`: accepted anywhere, with and without a value.

    `commands`: those of `wakeboard` that it has under its own name.
    """

    name: str
    load: Callable[[], Any]
    options: tuple[str, ...]
    flags: tuple[str, ...] = ("--version",)
    commands: tuple[str, ...] = ()


def exit_code(run: Callable[[], int]) -> int:
    """The exit code of a command, also if it is interrupted or no process reads its output any more."""
    try:
        try:
            return run()
        finally:
            sys.stdout.flush()
    except BrokenPipeError:
        # The reader of the pipe is gone. What is still buffered must not fail again when Python exits.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return BROKEN_PIPE
    except KeyboardInterrupt:
        return INTERRUPTED


def run_program(program: Program, arguments: Sequence[str]) -> int:
    """Runs one command of a program."""
    return copy_context().run(_run, program, arguments)


def _run(program: Program, arguments: Sequence[str]) -> int:
    from typer import Abort
    from typer.exceptions import TyperException

    use_program(program.name, program.commands)
    root_command = program.load()
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]
    try:
        _require_text(arguments)
        with sanitized_streams():
            words = global_options_first(program, arguments)
            return root_command(args=words, prog_name=program.name, standalone_mode=False) or 0
    except Abort:  # the user did not confirm
        write_error("wakeboard", "nothing was changed.")
        return FAILED
    except TyperException as exc:
        return _report_usage_error(exc, program.options)
    except WakeboardError as exc:
        if os.environ.get("WAKEBOARD_DEBUG"):
            raise
        write_error("wakeboard", advice(exc.with_hint))
        return USAGE if isinstance(exc, InvalidValue) else FAILED
    except BrokenPipeError:
        raise
    except Exception as exc:
        sentence = _sentence(exc)
        if sentence is None or os.environ.get("WAKEBOARD_DEBUG"):
            raise
        write_error("wakeboard", sentence)
        return FAILED


def _sentence(exc: Exception) -> str | None:
    """A sentence about a file or the database that cannot be used; None: the error is another one."""
    if isinstance(exc, OSError) and exc.filename is not None:
        return _file_error(exc)
    if sys.modules.get("psycopg") is None:  # the kubectl plugin works without it
        return None
    from wakeboard.store.database_errors import meaning_of

    error = meaning_of(exc)
    return advice(error.with_hint) if error else None


def _file_error(error: OSError) -> str:
    """A sentence about a file or folder that cannot be used, and what to do."""
    name = Path(os.fsdecode(error.filename)).absolute()
    match error.errno:
        case errno.EACCES | errno.EPERM | errno.EROFS:
            advice = "Start the command in a folder that you may write to"
        case errno.ENOSPC | errno.EDQUOT:
            advice = "Free space on its disk"
        case errno.EEXIST | errno.ENOTDIR | errno.EISDIR:
            advice = "Move what is in the way"
        case _:
            advice = "Mend that"
    return f"{name} cannot be used: {error.strerror or error}. {advice}, then try again."


def _require_text(arguments: Sequence[str]) -> None:
    """Raises InvalidValue for an argument that Postgres cannot store: with a NUL, or bytes that are not UTF-8."""
    for word in arguments:
        if "\0" in word or any("\ud800" <= letter <= "\udfff" for letter in word):
            raise InvalidValue(f"{word[:60]!r} is not valid UTF-8 text; remove the invalid characters.")


def _report_usage_error(error: TyperException, options: Sequence[str]) -> int:
    """Prints an error of the parser, or the help of a group without a command."""
    from wakeboard.cli.support.usage_errors import usage_sentence

    if type(error).__name__ == "NoArgsIsHelpError":
        write_line(error.format_message(), sys.stderr)
    else:
        write_error("wakeboard", usage_sentence(error, options))
    return USAGE


def global_options_first(program: Program, arguments: Sequence[str]) -> list[str]:
    """Moves the global options to the front, where the parser expects them. Raises InvalidValue if one has no value."""
    first: list[str] = []
    rest: list[str] = []
    words = iter(arguments)
    for word in words:
        if word == "--":
            return [*first, *rest, word, *words]
        if rest[:1] == ["next"] and word.startswith("--zone"):  # the time zone of its cron expression
            rest.append(word)
        elif word in program.options:
            value = next(words, "-")
            if value.startswith("-"):
                raise InvalidValue(f"{word} needs a value.")
            first += [word, value]
        elif word in program.flags or word.startswith(tuple(f"{option}=" for option in program.options)):
            first.append(word)
        else:
            rest.append(word)
    return [*first, *rest]
