"""A worker in another language refuses an invalid connection string in one sentence, which quotes no part of it."""

from __future__ import annotations

import re
import subprocess
from typing import TYPE_CHECKING

import pytest

from testbed.clients import go_worker, typescript_command, typescript_worker
from testbed.processes import inherited_environment

if TYPE_CHECKING:
    from collections.abc import Callable

SENTENCE = r"(InvalidOption: |[0-9/]+ [0-9:]+ )?WAKEBOARD_DSN is not a valid connection string: [^\n]+\n"
WORKERS = {"go": (lambda: [str(go_worker())], 1), "typescript": (lambda: typescript_command(typescript_worker()), 2)}
DSNS = [
    "postgresql://u:hunter2?x@127.0.0.1:1/x",
    "postgresql://u:hunter2/x@127.0.0.1:1/x",
    "postgresql://u:hunter2#x@127.0.0.1:1/x",
    "hunter2",
    "postgresql://u:hunter2@127.0.0.1:99999/x",
    "postgresql://u:hunter2@127.0.0.1:1/x?sslmode=verify-full&sslrootcert=/no/such/hunter2",
]


@pytest.mark.parametrize(
    ("worker", "dsn"),
    [
        *((worker, dsn) for worker in WORKERS for dsn in DSNS),
        ("go", "postgresql://u:hunter2%zz@127.0.0.1:1/x"),  # pg takes it as it is
    ],
)
def test_an_invalid_connection_string_is_refused_without_quoting_it(worker: str, dsn: str) -> None:
    command: Callable[[], list[str]]
    command, code = WORKERS[worker]
    environment = {**inherited_environment(), "WAKEBOARD_DSN": dsn, "CONFORMANCE_DSN": "postgresql://127.0.0.1:1/x"}
    ended = subprocess.run(command(), env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert (ended.returncode, ended.stdout) == (code, "")
    assert re.fullmatch(SENTENCE, ended.stderr), ended.stderr
    assert "hunter2" not in ended.stderr


def test_a_refused_login_ends_the_typescript_worker_in_a_sentence(database: str) -> None:
    command = typescript_command(typescript_worker())
    refused = re.sub(r"/[^/?]+(\?|$)", r"/no_such_database\1", database)
    for settings, code, sentence in (
        ({"WAKEBOARD_DSN": refused}, 1, 'error: database "no_such_database" does not exist\n'),
        (
            {"WAKEBOARD_DSN": database, "WAKEBOARD_CONCURRENCY": "x"},
            2,
            "InvalidOption: WAKEBOARD_CONCURRENCY='x': write a number, such as 100.\n",
        ),
    ):
        environment = {**inherited_environment(), "CONFORMANCE_DSN": database, **settings}
        ended = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)
        assert (ended.returncode, ended.stderr) == (code, sentence)
