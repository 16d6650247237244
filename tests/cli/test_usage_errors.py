"""Invalid usage is one sentence that says what to write, and exit code 2."""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING

import pytest

from tools.generate_docs import command_words

if TYPE_CHECKING:
    from tests.cli.conftest import Cli

INVALID = {  # arguments: the beginning of the sentence
    "enqueue ping --priority 9": "--priority '9': write a whole number from 1 to 5.",
    "enqueue ping --priority high": "--priority 'high': write a whole number from 1 to 5.",
    "enqueue ping --in 5": "'5' is not a duration; write for example 90s, 10m, 2h or 3d.",
    "enqueue ping --in": "--in needs a value.",
    "enqueue ping --at tomorrow": "'tomorrow' is not an ISO 8601 time; write for example 2026-03-29T08:00:00+01:00",
    "enqueue ping --at 2h --in 2h": "--in: use --at or --in, not both.",
    "enqueue ping {": "the payload is not JSON at line 1, column 2 (a key in double quotes is expected)",
    """enqueue ping '["a\tb"]'""": "the payload is not JSON at line 1, column 4 (a line end or control character",
    "enqueue": "TYPE is missing: the job type, which selects the handler that runs it.",
    "runs --limit 0": "--limit '0': write a whole number from 1 to 100,000.",
    "runs -n x": "--limit 'x': write a whole number from 1 to 100,000.",
    "runs --status lost": "--status 'lost': write queued, running, failed, dead, succeeded, cancelled, skipped or disc",
    "runs --since yesterday": "'yesterday' is neither a duration nor an ISO 8601 time; write for example 2h",
    "runs --dns x": "there is no option '--dns'; did you mean --dsn?",
    "runs --dsn": "--dsn needs a value.",
    "run": "RUN is missing: its id, its uuid, or the first 8 characters of its uuid.",
    "run 1 2": "there is an unexpected argument '2'.",
    "next 0 8": "there is an unexpected argument '8'; write a cron expression in quotes, such as '0 8 * * MON'.",
    "run x": "'x' is not a run: write its id (a whole number), its uuid, or the first 8 characters of its",
    "retry": "RUN: give runs by id or uuid, or use --all-dead or --all-failed.",
    "retry x": "'x' is not a run: ",
    "discard 1 --all-dead": "RUN: give runs, or use --all-dead with filters, not both.",
    "replay --all-dead": "there is no option '--all-dead'; write --all-succeeded, --all-cancelled or --all-discarded.",
    "discard --all-failed": "there is no option '--all-failed'; write --all-dead.",
    "retry --al-dead": "there is no option '--al-dead'; did you mean --all-dead?",
    "runs --all-dead": "there is no option '--all-dead'",
    "next '0 8 * *'": "",
    "next '0 8 * * *' --zone Mars/Base": "",
    "next '0 8 * * *' --gap never": "--gap 'never': write RunAfter or Skip.",
    "pause planet": "all|queue|schedule 'planet': write all, queue or schedule.",
    "pause queue": "NAME: give the name of the queue.",
    "limit api --at-once many": "--at-once 'many': write a whole number from 0 to 1,000,000.",
    "worker --linger -1": "--linger '-1': write a number from 0 to 604,800.",
    "worker --linger soon": "--linger 'soon': write a number from 0 to 604,800.",
    "worker --linger inf": "--linger 'inf': write a number from 0 to 604,800.",
    "worker --forever --linger 5": "--linger: use --forever or --linger, not both.",
    "migrate --wait long": "--wait 'long': write a number from 0 to 604,800.",
    "migrate --wait nan": "--wait 'nan': write a number from 0 to 604,800.",
    "apply": "DIR is missing: a folder of YAML files, one file, or - for standard input.",
    "apply ''": "DIR: the path is empty; write . for the current folder.",
    "apply --prune ''": "DIR: the path is empty",
    "up ''": "DIR: the path is empty",
    "shedules": "there is no command 'shedules'; did you mean schedules?",
    "confirm removals": "there is no command 'removals'; did you mean removal?",
    "--colour": "there is no option '--colour'",
}


@pytest.mark.parametrize("arguments", INVALID)
def test_invalid_usage_is_one_sentence_and_exit_code_2(bare_cli: Cli, arguments: str):
    """The command does not connect first, and no message of typer or pydantic is printed."""
    result = bare_cli("--dsn", "host=127.0.0.1 port=1", *shlex.split(arguments))

    assert result.err.startswith(f"wakeboard: {INVALID[arguments]}")
    assert result.err.count("\n") == 1
    assert not re.search(r"Value error|Input should|Invalid value|range|Traceback|Error:", result.err)
    assert (result.code, result.out) == (2, "")


@pytest.mark.parametrize("word", ["\0", "a\0b", "\udcff"])
@pytest.mark.parametrize("command", ["runs --type", "runs --schedule", "enqueue", "pause queue", "next", "limit x"])
def test_an_argument_that_is_not_utf8_text_is_refused(bare_cli: Cli, command: str, word: str):
    result = bare_cli(*command.split(), word)

    assert result.code == 2
    assert result.err.count("\n") == 1


@pytest.mark.parametrize("words", command_words(), ids=" ".join)
def test_help_has_no_python_types(bare_cli: Cli, words: list[str]):
    assert not re.search(r"<(str|int|float|path|list|bool)", bare_cli(*words, "--help").out)


def test_version_is_accepted_anywhere_in_the_command(bare_cli: Cli):
    assert bare_cli("runs", "--version").out == bare_cli("--version").out != ""


def test_an_argument_after_two_dashes_is_no_option(bare_cli: Cli):
    result = bare_cli("run", "--", "--dsn")

    assert result.err.startswith("wakeboard: '--dsn' is not a run")
