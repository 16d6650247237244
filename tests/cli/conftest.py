"""The command line as a person types it, on a board with a story."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from tests.cli.sample_store import SampleStore
from wakeboard.cli import main


@dataclass(frozen=True)
class Said:
    """What a command said, and how it ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def lines(self) -> list[str]:
        return [line.rstrip() for line in self.out.splitlines()]


Type = Callable[..., Said]


@pytest.fixture
def type_anywhere(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> Type:
    """Types a command in an empty folder, with no database said."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")

    def type_words(*words: str) -> Said:
        capsys.readouterr()
        code = main(words)
        said = capsys.readouterr()
        return Said(code, said.out, said.err)

    return type_words


@pytest.fixture
def type_command(type_anywhere: Type, database: str) -> Type:
    """Types a command for the test's own board."""
    return lambda *words: type_anywhere(*words, "--dsn", database)


@pytest.fixture
def story(database: str) -> Iterator[SampleStore]:
    """What happened on the test's own board."""
    store = SampleStore(database)
    yield store
    store.close()
