"""The JSON that programs read: its keys are those that docs/cli.md lists."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tools.generate_docs import answers, command_words, keys_of

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cli.conftest import Type
    from tests.cli.sample_store import SampleStore

WORDS = {
    "apply": ["apply", "schedules"],
    "schedules": ["schedules"],
    "next": ["next", "@daily"],
    "runs": ["runs"],
    "run": ["run", "1"],
    "failures": ["failures"],
    "enqueue": ["enqueue", "ping"],
    "run-now": ["run-now", "weekly-report"],
    "retry": ["retry", "1"],
    "cancel": ["cancel", "1"],
    "replay": ["replay", "2"],
    "discard": ["discard", "1"],
    "pause": ["pause", "all"],
    "resume": ["resume", "all"],
    "limit": ["limit", "smtp", "2"],
    "confirm removal": ["confirm", "removal", "file:held"],
    "check": ["check"],
    "migrate": ["migrate"],
    "version": ["version"],
}


def test_every_answer_is_documented_and_tried():
    assert set(answers()) == {*WORDS, "effects install"}
    silent = {"up", "worker"}  # they print what happens
    assert {" ".join(words) for words in command_words()} - set(answers()) == silent


@pytest.mark.parametrize("command", WORDS)
def test_the_keys_stay(type_command: Type, story: SampleStore, tmp_path: Path, command: str):
    (tmp_path / "schedules").mkdir()
    story.declare("weekly-report")
    story.fail(story.enqueue(), outcome="discarded")
    story.succeed(story.enqueue())
    story.sql("select wakeboard.request_removal('file:held', 'hash', 12)")

    found: Any = type_command(*WORDS[command], "--json").json

    answer = answers()[command]
    assert isinstance(found, list) == answer.many
    rows = found if answer.many else [found]
    assert rows
    for row in rows:
        assert list(row) == keys_of(answer)
