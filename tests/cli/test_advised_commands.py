"""Commands in messages and docs exist and have these options."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wakeboard.cli.app import root_command
from wakeboard.cli.kubectl import COMMANDS, FLAGS, OPTIONS
from wakeboard.cli.kubectl.app import root_command as plugin

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]
SOURCES = [ROOT / "wakeboard", ROOT / "worker/wakeboard_worker", ROOT / "operator/wakeboard_operator"]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
ADVICE = re.compile(r"`wakeboard ([a-z][^`]*)`")
OF_PLUGIN = re.compile(r"(?:`|^)kubectl wakeboard ([a-z][^`\n]*)", re.MULTILINE)
OPTIONS_OF_KUBECTL = {"-n", "-A", "-o", *OPTIONS, *FLAGS}
MANY = {"retry", "cancel", "replay", "discard"}
EVERYWHERE = {"--dsn", "--zone", "--version", "--help", "-h"}


def test_advised_commands_and_options_exist():
    wrong = [
        f"{place}: {words}"
        for advice, program, others in (
            (ADVICE, root_command, EVERYWHERE),
            (ADVICE, plugin, OPTIONS_OF_KUBECTL | EVERYWHERE),
            (OF_PLUGIN, plugin, OPTIONS_OF_KUBECTL),
        )
        for place, words in _advice(advice)
        if (advice == OF_PLUGIN or program == root_command or words.split()[0] in COMMANDS)
        and not can_be_typed(program, words.split(), others)
    ]

    assert not wrong, "\n".join(wrong)


def _advice(advice: re.Pattern[str]) -> Iterator[tuple[str, str]]:
    for source in SOURCES:
        for file in sorted(source.rglob("*.py")):
            for node in ast.walk(ast.parse(file.read_text("utf-8"))):
                if isinstance(node, ast.JoinedStr | ast.Constant):
                    yield from ((f"{file.name}:{node.lineno}", words) for words in advice.findall(_text(node)))
    for page in PAGES:
        yield from ((page.name, words) for words in advice.findall(page.read_text("utf-8")))


def _text(node: ast.JoinedStr | ast.Constant) -> str:
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else ""
    return "".join(str(part.value) if isinstance(part, ast.Constant) else "VALUE" for part in node.values)


def can_be_typed(command: Any, words: list[str], everywhere: set[str]) -> bool:
    while words and hasattr(command, "commands"):
        command = command.commands.get(words[0])
        words = words[1:]
    if command is None:
        return False
    known = {str(option) for each in command.params for option in (*each.opts, *each.secondary_opts)}
    by_name = bool(words) and not words[0].startswith("-")
    if command.name in MANY and words and not by_name and not any(word.startswith("--all-") for word in words):
        return False  # filters alone choose no runs
    own = words[: words.index("--")] if "--" in words else words  # what follows is another command's
    options = [word.partition("=")[0] for word in own if word.startswith("-") and word != "-"]
    return all(option in known | everywhere for option in options)
