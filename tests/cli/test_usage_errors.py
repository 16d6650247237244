"""An invalid call gives one sentence that says what to write, and exit code 2."""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING

import pytest

from tools.generate_docs import command_words

if TYPE_CHECKING:
    from tests.cli.conftest import Type

WRONG = {  # the call: the beginning of the sentence
    "enqueue ping --priority 9": "--priority '9': write a whole number from 1 to 5.",
    "enqueue ping --priority high": "--priority 'high': write a whole number from 1 to 5.",
    "enqueue ping --in 5": "'5' is no length of time; write for example 90s, 10m, 2h or 3d.",
    "enqueue ping --in": "--in needs a value after it.",
    "enqueue ping --at tomorrow": "'tomorrow' is no moment; write for example 2026-03-29T08:00:00+01:00",
    "enqueue ping --at 2h --in 2h": "--in: say --at or --in, not both.",
    "enqueue ping {": "the payload is not JSON (",
    """enqueue ping '["a\tb"]'""": "the payload is not JSON (Invalid control character at line 1, column 4); write",
    "enqueue": "TYPE is missing: the job type: which handler runs it.",
    "runs --limit 0": "--limit '0': write a whole number from 1 to 100,000.",
    "runs -n x": "--limit 'x': write a whole number from 1 to 100,000.",
    "runs --status lost": "--status 'lost': write queued, running, failed, dead, succeeded, cancelled, skipped or disc",
    "runs --since yesterday": "'yesterday' is neither a length of time nor a moment; write for example 2h",
    "runs --dns x": "there is no option '--dns'; did you mean --dsn?",
    "runs --dsn": "--dsn needs a value after it.",
    "run": "RUN is missing: its id, its uuid, or the first 8 characters of it.",
    "run 1 2": "'2' is more than this command takes.",
    "run x": "'x' is no run: write its id (a whole number), its uuid, or the first 8 characters of that.",
    "retry": "RUN: name runs by id or uuid, or say --all-dead or --all-failed.",
    "retry x": "'x' is no run: ",
    "discard 1 --all-dead": "RUN: name runs, or choose them by --all-dead and filters, not both.",
    "next '0 8 * *'": "",
    "next '0 8 * * *' --zone Mars/Base": "",
    "next '0 8 * * *' --gap never": "--gap 'never': write RunAfter or Skip.",
    "pause planet": "all|queue|schedule 'planet': write all, queue or schedule.",
    "pause queue": "NAME: say which queue.",
    "limit api many": "N 'many': write a whole number from 0 to 1,000,000.",
    "worker --linger -1": "--linger '-1': write a number from 0 to 604,800.",
    "worker --linger soon": "--linger 'soon': write a number from 0 to 604,800.",
    "worker --linger inf": "--linger 'inf': write a number from 0 to 604,800.",
    "worker --forever --linger 5": "--linger: say --forever or --linger, not both.",
    "migrate --wait long": "--wait 'long': write a number from 0 to 604,800.",
    "migrate --wait nan": "--wait 'nan': write a number from 0 to 604,800.",
    "apply": "DIR is missing: a folder of YAML files, one file, or - for standard input.",
    "apply ''": "DIR: an empty word names no folder; write . for the current one.",
    "apply --prune ''": "DIR: an empty word names no folder",
    "up ''": "DIR: an empty word names no folder",
    "shedules": "there is no command 'shedules'; did you mean schedules?",
    "confirm removals": "there is no command 'removals'; did you mean removal?",
    "--colour": "there is no option '--colour'",
}


@pytest.mark.parametrize("call", WRONG)
def test_wrong_words_are_one_sentence_and_exit_code_2(type_anywhere: Type, call: str):
    """No database is asked first, and nobody reads the words of a library."""
    said = type_anywhere("--dsn", "host=127.0.0.1 port=1", *shlex.split(call))

    assert said.err.startswith(f"wakeboard: {WRONG[call]}")
    assert said.err.count("\n") == 1
    assert not re.search(r"Value error|Input should|Invalid value|range|Traceback|Error:", said.err)
    assert (said.code, said.out) == (2, "")


@pytest.mark.parametrize("word", ["\0", "a\0b", "\udcff"])
@pytest.mark.parametrize("command", ["runs --type", "runs --schedule", "enqueue", "pause queue", "next", "limit x"])
def test_what_is_no_text_is_refused(type_anywhere: Type, command: str, word: str):
    said = type_anywhere(*command.split(), word)

    assert said.code == 2
    assert said.err.count("\n") == 1


@pytest.mark.parametrize("words", command_words(), ids=" ".join)
def test_help_has_no_words_of_python(type_anywhere: Type, words: list[str]):
    assert not re.search(r"<(str|int|float|path|list|bool)", type_anywhere(*words, "--help").out)


def test_the_version_may_be_asked_anywhere(type_anywhere: Type):
    assert type_anywhere("runs", "--version").out == type_anywhere("--version").out != ""


def test_a_word_after_two_dashes_is_no_option(type_anywhere: Type):
    said = type_anywhere("run", "--", "--dsn")

    assert said.err.startswith("wakeboard: '--dsn' is no run")
