from __future__ import annotations

import ast
import json
import logging
from pathlib import Path

import pytest

from wakeboard.process.logging_setup import ConsoleFormatter, JsonFormatter
from wakeboard.text.sanitize import json_text, one_line, printable

ROOT = Path(__file__).resolve().parents[2]

UNSAFE = [
    "\x00", "\x07", "\x08", "\x1b", "\x0b", "\r", "\x7f", "\x85", "\x9b", "\u061c", "\u200e", "\u202e", "\u2028",
    "\u2066", "\u2069", "\ud800", "\udfff",
]  # fmt: skip
HOSTILE = "one\x1b[31m\u009b2J\u202e\ud800\n12:00:01 error   forged"


@pytest.mark.parametrize("character", UNSAFE)
def test_unsafe_characters_are_replaced(character: str) -> None:
    assert character not in printable(f"a{character}b")
    assert character not in one_line(f"a{character}b")


def test_letters_of_all_scripts_and_emoji_stay() -> None:
    text = "Zürich Ελλάδα 東京 שלום می‌خواهم 👩‍💻"
    assert printable(text) == text


def test_one_line_is_one_line() -> None:
    assert one_line("a\r\nb\u2028c\x85d\te\x1cf") == "a b c d e f"


@pytest.mark.parametrize("character", [*UNSAFE, "\n"])
def test_json_escapes_unsafe_characters_and_loses_none(character: str) -> None:
    text = json_text({"a": f"x{character}y"})
    assert character not in text
    assert json.loads(text) == {"a": f"x{character}y"}


def record(message: str, *args: object, **facts: object) -> logging.LogRecord:
    error = ValueError(HOSTILE + " password=hunter2")
    made = logging.LogRecord("x", logging.ERROR, "f", 1, message, args, (ValueError, error, None))
    made.__dict__.update(facts)
    return made


@pytest.mark.parametrize("formatter", [JsonFormatter(), ConsoleFormatter()])
def test_a_log_line_cannot_be_forged_and_shows_no_credential(formatter: logging.Formatter) -> None:
    text = formatter.format(record("%s token=abc123", HOSTILE, run=7, job_type=HOSTILE, error="password=hunter2"))
    assert not any(character in text for character in UNSAFE)
    assert "hunter2" not in text
    assert "abc123" not in text
    assert sum(line.startswith("12:00:01") for line in text.splitlines()) == 0
    rest = text.splitlines()[1:]
    assert all(line.startswith("    ") for line in rest)


@pytest.mark.parametrize("formatter", [JsonFormatter(), ConsoleFormatter()])
def test_a_record_that_cannot_be_formatted_is_still_logged(formatter: logging.Formatter) -> None:
    assert "%d of %d" in formatter.format(record("%d of %d", "x"))


WRITERS = {"wakeboard/process/output.py"}  # everything that is shown passes here
JSON_OUT = {"wakeboard/cli/support/output.py"}  # writes what json_text made
WRITES = {
    "print", "sys.stdout.write", "sys.stderr.write", "sys.stdout.writelines", "sys.stderr.writelines", "typer.echo",
    "typer.secho", "click.echo", "Console", "rich.print", "logging.StreamHandler", "logging.basicConfig",
    "traceback.print_exc",
}  # fmt: skip


def test_nothing_writes_to_a_terminal_but_the_one_module() -> None:
    """Structural: no module prints, writes to the standard streams, or makes a console or log handler of its own."""
    found: list[str] = []
    for package in ("wakeboard", "worker", "operator"):
        for path in (ROOT / package).rglob("*.py"):
            name = str(path.relative_to(ROOT))
            if name in WRITERS | JSON_OUT:
                continue
            text = path.read_text(encoding="utf-8")
            if not any(writer.rpartition(".")[2] in text for writer in WRITES):
                continue  # parsing takes long
            found += [
                f"{name}:{node.lineno}"
                for node in ast.walk(ast.parse(text))
                if isinstance(node, ast.Call) and ast.unparse(node.func) in WRITES
            ]
    allowed = {"wakeboard/process/logging_setup.py"}  # its handler has the formatters above
    assert [place for place in found if place.rpartition(":")[0] not in allowed] == []
