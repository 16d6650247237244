"""Fixtures that run `wakeboard` commands in this process, with and without a database."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from tests.cli.sample_store import SampleStore
from wakeboard.cli import main


@dataclass(frozen=True)
class Result:
    """The exit code and the output of a command."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def lines(self) -> list[str]:
        return [line.rstrip() for line in self.out.splitlines()]

    @property
    def cells(self) -> list[str]:
        """The lines with single spaces between words."""
        return [" ".join(line.split()) for line in self.lines]


Cli = Callable[..., Result]
Explain = Callable[[object], list[str]]
TIME = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC \([^)]*\)")


@pytest.fixture
def bare_cli(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> Cli:
    """Runs a command in an empty folder, without a DSN."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")

    def run(*arguments: str) -> Result:
        capsys.readouterr()
        code = main(arguments)
        printed = capsys.readouterr()
        return Result(code, printed.out, printed.err)

    return run


@pytest.fixture
def cli(bare_cli: Cli, database: str) -> Cli:
    """Runs a command with the test's database."""
    return lambda *arguments: bare_cli(*arguments, "--dsn", database)


@pytest.fixture
def sample(database: str) -> Iterator[SampleStore]:
    """Puts runs, schedules and workers into the test's database."""
    store = SampleStore(database)
    yield store
    store.close()


@pytest.fixture
def explain(cli: Cli) -> Explain:
    """The lines of `wakeboard explain`, with … for each time."""

    def lines(what: object) -> list[str]:
        result = cli("explain", str(what))
        assert result.code == 0, result.err
        return [TIME.sub("…", line) for line in result.lines]

    return lines


@pytest.fixture
def served(sample: SampleStore) -> SampleStore:
    """A store with a worker that has handlers for ping and report."""
    sample.register_worker("report")
    return sample
