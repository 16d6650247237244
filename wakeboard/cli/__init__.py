"""The command line. Start-up counts: nothing heavy is imported before a command needs it.

Exit codes: 0 done; 1 refused or failed; 2 the words of the call are wrong, values among them; 130 interrupted.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from wakeboard.errors import InvalidValue, WakeboardError
from wakeboard.output import sanitized_streams, write_error, write_line
from wakeboard.pid1 import stand_in_front

if TYPE_CHECKING:
    from collections.abc import Sequence

    from typer.exceptions import TyperException

FAILED = 1
USAGE = 2
INTERRUPTED = 130
USUAL = frozenset({"WAKEBOARD_DSN", "WAKEBOARD_ZONE", "WAKEBOARD_DEBUG"})  # settings of the command line
ANYWHERE = ("--dsn", "--zone")  # options with a value that may stand anywhere on the line


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command and returns its exit code: 0, 1 or 2 with a sentence on standard error."""
    stand_in_front()  # `wakeboard migrate` may be a container's command
    try:
        try:
            return _run(sys.argv[1:] if argv is None else argv)
        finally:
            sys.stdout.flush()
    except BrokenPipeError:
        # The reader has seen enough. Whatever is still buffered must not fail again when Python exits.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED
    except KeyboardInterrupt:
        return INTERRUPTED


def _run(arguments: Sequence[str]) -> int:
    from typer import Abort
    from typer.exceptions import TyperException

    from wakeboard.cli.app import application

    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]
    try:
        _question_settings()
        _require_text(arguments)
        with sanitized_streams():
            return application(args=global_options_first(arguments), prog_name="wakeboard", standalone_mode=False) or 0
    except Abort:  # a question was answered with no
        write_error("wakeboard", "nothing was done.")
        return FAILED
    except TyperException as exc:
        return _wrong_words(exc)
    except WakeboardError as exc:
        if os.environ.get("WAKEBOARD_DEBUG"):
            raise
        write_error("wakeboard", str(exc))
        return USAGE if isinstance(exc, InvalidValue) else FAILED


def _question_settings() -> None:
    """Warns of WAKEBOARD_ variables that are no settings. Known common names are skipped without an import."""
    names = [name for name in os.environ if name.startswith("WAKEBOARD_") and name not in USUAL]
    if names and "_WAKEBOARD_COMPLETE" not in os.environ:
        from wakeboard.settings import unknown_settings

        for sentence in unknown_settings(names):
            write_error("wakeboard", f"note: {sentence}")


def _require_text(arguments: Sequence[str]) -> None:
    """Raises InvalidValue for a word that Postgres could not store: with a NUL, or bytes that are not UTF-8."""
    for word in arguments:
        if "\0" in word or any("\ud800" <= letter <= "\udfff" for letter in word):
            raise InvalidValue(f"{word[:60]!r} is not text in UTF-8; leave out what cannot be read.")


def _wrong_words(error: TyperException) -> int:
    """Reports an error of the parser; a group without a command shows its help."""
    from wakeboard.cli.usage_errors import usage_sentence

    if type(error).__name__ == "NoArgsIsHelpError":
        write_line(error.format_message(), sys.stderr)
    else:
        write_error("wakeboard", usage_sentence(error, ANYWHERE))
    return USAGE


def global_options_first(arguments: Sequence[str]) -> list[str]:
    """The options of `wakeboard` itself may be written anywhere on the line; the parser expects them first.

    Raises InvalidValue when one has no value.
    """
    first: list[str] = []
    rest: list[str] = []
    words = iter(arguments)
    for word in words:
        if word == "--":
            return [*first, *rest, word, *words]
        if rest[:1] == ["next"] and word.startswith("--zone"):  # the zone of its cron line
            rest.append(word)
        elif word in ANYWHERE:
            value = next(words, "-")
            if value.startswith("-"):
                raise InvalidValue(f"{word} needs a value after it.")
            first += [word, value]
        elif word == "--version" or word.startswith(tuple(f"{option}=" for option in ANYWHERE)):
            first.append(word)
        else:
            rest.append(word)
    return [*first, *rest]
