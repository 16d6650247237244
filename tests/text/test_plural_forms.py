"""Messages count nouns with one helper, so that none contains "1 runs"."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from wakeboard.text.humanize import as_sentence, counted, full_stop, named_runs, times

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

ROOT = Path(__file__).parents[2]
SOURCES = [ROOT / "wakeboard", ROOT / "worker/wakeboard_worker", ROOT / "operator/wakeboard_operator"]
HELPER = "humanize.py"
NOUNS = (
    "attempts|bytes|changes|characters|crashes|days|errors|events|files|leases|levels|lines|outcomes|queues|replicas|"
    "resources|retries|runs|schedules|statuses|steps|ticks|times|values|workers|zones"
)
COUNTED = re.compile(rf"^ (?:[a-z]+ )?(?:{NOUNS})\b(?! [A-Z])")  # "it runs PostgreSQL"
LOGGED = re.compile(rf"%[sd] (?:[a-z]+ )?(?:{NOUNS})\b")


@pytest.mark.parametrize(
    ("number", "noun", "words"),
    [
        (0, "run", "0 runs"),
        (1, "run", "1 run"),
        (2, "dead run", "2 dead runs"),
        (1, "crash", "1 crash"),
        (3, "crash", "3 crashes"),
        (12_345, "tick", "12,345 ticks"),
    ],
)
def test_a_number_has_its_noun_in_the_right_form(number: int, noun: str, words: str):
    assert counted(number, noun) == words


@pytest.mark.parametrize(
    ("ids", "words"),
    [([7], "run 7"), ([8, 7], "runs 7, 8"), (range(1, 14), "runs 1, 2, 3, 4, 5, 6, 7, 8, 9, 10 and 3 more")],
)
def test_at_most_ten_runs_are_named(ids: Iterable[int], words: str):
    assert named_runs(ids) == words


def test_how_often_is_written_in_words():
    assert [times(number) for number in (1, 2, 3)] == ["once", "twice", "3 times"]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("it failed", "it failed."),
        ('write "H"', 'write "H".'),
        ("it failed.", "it failed."),
        ("which one?", "which one?"),
        ("", ""),
    ],
)
def test_a_message_ends_with_one_full_stop(text: str, sentence: str):
    assert full_stop(text) == sentence


@pytest.mark.parametrize(
    ("message", "sentence"),
    [
        ("there is no run 7", "There is no run 7."),
        ("the user system:serviceaccount:shop:anna may not", "The user system:serviceaccount:shop:anna may not."),
        ("shop/hello: refused", "shop/hello: refused."),
        ("maxAttempts is 0; write 1", "maxAttempts is 0; write 1."),
    ],
)
def test_a_sentence_begins_with_a_capital_unless_a_name_begins_it(message: str, sentence: str):
    assert as_sentence(message) == sentence


def test_no_message_puts_a_number_before_a_plural_itself():
    found = [
        place
        for source in SOURCES
        for file in sorted(source.rglob("*.py"))
        if file.name != HELPER
        for place in _plurals_in(file)
    ]

    assert not found, "write counted(number, noun):\n" + "\n".join(found)


def _plurals_in(file: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(file.read_text("utf-8"))):
        if isinstance(node, ast.JoinedStr):
            for value, text in zip(node.values, node.values[1:], strict=False):
                if isinstance(value, ast.FormattedValue) and _is_plural(value.value, text):
                    yield f"{file.relative_to(ROOT)}:{value.lineno}: {ast.unparse(node)}"
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and LOGGED.search(node.value):
            yield f"{file.relative_to(ROOT)}:{node.lineno}: {node.value}"


def _is_plural(value: ast.expr, text: ast.expr) -> bool:
    if isinstance(value, ast.Name) and (value.id.isupper() or value.id in {"name", "program", "status", "wanted"}):
        return False  # a constant, which is larger than 1; "`wakeboard runs`"; "the program runs"; "dead runs"
    return isinstance(text, ast.Constant) and bool(COUNTED.match(str(text.value)))
