"""Prints a page of docs/ that is made from the source: `python -m tools.generate_docs settings` or `… cli`."""

from __future__ import annotations

import inspect
import json
import os
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass
from typing import Any, cast

MADE = "<!-- Made by tools/generate_docs.py from the source; `make fix` makes it anew. -->"

# ------------------------------------------------------------------------------------------------ settings


def settings_page() -> str:
    """docs/settings.md: every setting, in the groups and the order of the source; the operator's own at the end."""
    from wakeboard.settings import Settings
    from wakeboard_operator.settings import OperatorSettings

    lines = [
        MADE,
        "",
        "# Settings",
        "",
        "Read once at start from the environment. Lists are written `a,b`; an empty variable is the same as none,",
        "where the default is empty. A wrong value is refused in one sentence. Names that begin with `WAKEBOARD_`",
        "and are not listed here are questioned at start, with the nearest name that is.",
    ]
    groups = [*_groups(inspect.getsource(Settings)), *_groups(inspect.getsource(OperatorSettings))]
    for title, names in groups:
        lines += ["", f"## {title[0].upper()}{title[1:]}", "", "| variable | default | meaning |", "|---|---|---|"]
        lines += [_setting_row(name, OperatorSettings.model_fields[name]) for name in names]
    return "\n".join(lines) + "\n"


def _groups(source: str) -> Iterator[tuple[str, list[str]]]:
    """The groups of fields, each under the comment that heads it."""
    title, names = "", list[str]()
    for comment, name in re.findall(r"^    (?:# (.+)|(\w+): .+)$", source, re.MULTILINE):
        if comment:
            if names:
                yield title, names
            title, names = comment, []
        else:
            names.append(name)
    yield title, names


def _setting_row(name: str, field: Any) -> str:
    default = field.get_default(call_default_factory=True)
    shown = default.get_secret_value() if hasattr(default, "get_secret_value") else default
    text = "" if shown in (None, "", [], {}) else _default_text(shown)
    return f"| `WAKEBOARD_{name.upper()}` | {text} | {field.description}{_bounds(field.metadata)} |"


def _default_text(value: Any) -> str:
    if isinstance(value, list):
        return f"`{','.join(cast('list[str]', value))}`"
    return f"`{value if isinstance(value, str) else json.dumps(value)}`"


def _bounds(metadata: list[Any]) -> str:
    low = next((each.ge for each in metadata if hasattr(each, "ge")), None)
    high = next((each.le for each in metadata if hasattr(each, "le")), None)
    above = next((each.gt for each in metadata if hasattr(each, "gt")), None)
    if above is not None:
        return f" More than {above}." if high is None else f" More than {above}, up to {high}."
    if low is None and high is None:
        return ""
    return f" {low}…{high}." if high is not None else f" At least {low}."


# ------------------------------------------------------------------------------------------------ the command line


@dataclass(frozen=True)
class Answer:
    """What `--json` prints: the fields of a row type, or keys and their meaning."""

    keys: type[Any] | Mapping[str, str]
    many: bool = False


def answers() -> dict[str, Answer]:
    """The answer of every command that has `--json`."""
    from wakeboard.cli.commands.apply import Applied
    from wakeboard.cli.commands.next import NextTicks
    from wakeboard.cli.support.checklist import Finding
    from wakeboard.store.enqueue import Enqueued
    from wakeboard.store.migrate import Migrated
    from wakeboard.store.queries.failures import FailureRow
    from wakeboard.store.queries.listings import RunRow, ScheduleRow
    from wakeboard.store.queries.run_details import RunDetails

    changed = {"id": "id of the run", "answer": "its new status, `requested`, or `refused: ` and the reason"}
    refused = {"refused": "true if the run was not changed"}
    new_run = {"new_id": "id of the new run, or null"}
    pause = {"scope": "`all`, `queue:NAME` or `schedule:ID`", "changed": "false if it was already so"}
    return {
        "apply": Answer(Applied),
        "schedules": Answer(ScheduleRow, many=True),
        "next": Answer(NextTicks),
        "runs": Answer(RunRow, many=True),
        "run": Answer(RunDetails),
        "failures": Answer(FailureRow, many=True),
        "enqueue": Answer(Enqueued),
        "run-now": Answer({"schedule": "namespace/name", "id": "id of the new run"}),
        "retry": Answer({**changed, **refused}, many=True),
        "cancel": Answer({**changed, **refused}, many=True),
        "replay": Answer({**changed, **new_run, **refused}, many=True),
        "discard": Answer({**changed, **refused}, many=True),
        "pause": Answer(pause),
        "resume": Answer(pause),
        "limit": Answer({"key": "the limit key", "max_running": "maximum number of running runs"}),
        "confirm removal": Answer({"source": "the source", "count": "number of schedules that the next sync removes"}),
        "check": Answer(Finding, many=True),
        "migrate": Answer(Migrated),
        "effects install": Answer({"installed": "the database"}),
        "version": Answer({"wakeboard": "version", "python": "version", "tzdata": "version"}),
    }


def keys_of(answer: Answer) -> list[str]:
    """The keys that each object of the answer has."""
    kind = answer.keys
    if not isinstance(kind, type):
        return list(kind)
    return [field.name for field in fields(kind)] if is_dataclass(kind) else list(inspect.get_annotations(kind))


def cli_page() -> str:
    """docs/cli.md: the help of every command, and the keys of its JSON."""
    os.environ["COLUMNS"] = "96"
    lines = [
        MADE,
        "",
        "# The command line",
        "",
        "`--json` prints JSON. Keys are not removed or renamed; new ones can be added. Times are ISO 8601 in UTC,",
        "durations are seconds, missing values are null. An error is one sentence on standard error.",
        "`WAKEBOARD_DEBUG=1` adds the traceback.",
        "",
        "| exit code | meaning |",
        "|---|---|",
        "| 0 | Success. |",
        "| 1 | Failed or refused: no database, no such run, an invalid file, a failed check. |",
        "| 2 | Invalid usage: an unknown option or an invalid value. Nothing was changed. |",
        "| 130 | Interrupted. |",
        "",
        "Name a schedule by any unique part of source/namespace/name, and a run by its id, its uuid or the first 8",
        "characters of its uuid. `--dsn`, `--zone` and `--version` can be written anywhere in the command.",
        "",
        "Times are shown in UTC. `--zone local` or `--zone Europe/Lisbon` (or `WAKEBOARD_ZONE`) shows them in that",
        "time zone, also in `up`. `--at` and `--since` use it for times without an offset.",
        "",
        "With `--dry-run --json`, `retry`, `cancel`, `replay` and `discard` print the runs like `runs --json`.",
        "",
        *_help_block([]),
    ]
    known = answers()
    for words in command_words():
        lines += ["", f"## wakeboard {' '.join(words)}", "", *_help_block(words)]
        if answer := known.get(" ".join(words)):
            lines += ["", *_answer_lines(answer)]
    return "\n".join(lines) + "\n"


def command_words() -> list[list[str]]:
    """The words of every command, in the order of `--help`."""
    import typer

    from wakeboard.cli.app import application

    found: list[list[str]] = []
    for name, command in cast("Any", typer.main.get_command(application)).commands.items():
        inner = getattr(command, "commands", None)
        found += [[name, word] for word in inner] if inner else [[name]]
    return found


def _help_block(words: list[str]) -> list[str]:
    from typer.testing import CliRunner

    from wakeboard.cli.app import application

    said = CliRunner().invoke(application, [*words, "--help"], prog_name="wakeboard").output
    return ["```text", *(line.rstrip() for line in said.rstrip().splitlines()), "```"]


def _answer_lines(answer: Answer) -> list[str]:
    head = "JSON: a list of objects with these keys." if answer.many else "JSON: an object with these keys."
    if isinstance(answer.keys, Mapping):
        return [head, "", *(f"- `{key}`: {meaning}" for key, meaning in answer.keys.items())]
    doc = inspect.cleandoc(answer.keys.__doc__ or "")
    return [f"{head} {' '.join(doc.split())}", "", ", ".join(f"`{key}`" for key in keys_of(answer)) + "."]


def main() -> int:
    """Prints the page that is asked for."""
    pages = {"settings": settings_page, "cli": cli_page}
    if len(sys.argv) != 2 or sys.argv[1] not in pages:  # noqa: PLR2004 - the program and one word
        sys.stderr.write("usage: python -m tools.generate_docs settings|cli\n")
        return 2
    sys.stdout.write(pages[sys.argv[1]]())
    return 0


if __name__ == "__main__":
    sys.exit(main())
