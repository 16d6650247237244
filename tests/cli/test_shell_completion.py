"""Shell completion knows names that only the board knows, and never gets in the way."""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING

from tests.cli.test_command_line import WAKEBOARD

if TYPE_CHECKING:
    from tests.cli.sample_store import SampleStore


def complete(line: str, dsn: str) -> list[str]:
    """What bash offers at the end of the line."""
    words = line.split(" ")
    asked = {"_WAKEBOARD_COMPLETE": "complete_bash", "COMP_WORDS": line, "COMP_CWORD": str(len(words) - 1)}
    said = subprocess.run(
        [WAKEBOARD],
        capture_output=True,
        text=True,
        env={**os.environ, **asked, "WAKEBOARD_DSN": dsn},
        check=False,
        timeout=30,
    )
    assert said.stderr == ""
    return said.stdout.split()


def test_commands_schedules_and_queues_are_completed(database: str, story: SampleStore):
    story.declare("billing/weekly-report", queue="reports")
    story.declare("shop/weather")

    assert complete("wakeboard ret", database) == ["retry"]
    assert complete("wakeboard run-now we", database) == ["weather", "weekly-report"]
    assert complete("wakeboard run-now shop/", database) == ["shop/weather"]
    assert complete("wakeboard runs --queue rep", database) == ["reports"]
    assert complete("wakeboard pause queue rep", database) == ["reports"]
    assert complete("wakeboard pause schedule bill", database) == ["billing/weekly-report"]


def test_without_a_store_nothing_is_offered_and_nothing_said():
    assert complete("wakeboard run-now we", "postgresql://127.0.0.1:1/none") == []
