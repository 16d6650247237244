"""Shell completion of names from the database, which never prints an error."""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING

from tests.cli.test_main import WAKEBOARD

if TYPE_CHECKING:
    from tests.cli.sample_store import SampleStore


def complete(line: str, dsn: str) -> list[str]:
    """The completions of bash at the end of the line."""
    words = line.split(" ")
    variables = {"_WAKEBOARD_COMPLETE": "complete_bash", "COMP_WORDS": line, "COMP_CWORD": str(len(words) - 1)}
    result = subprocess.run(
        [WAKEBOARD],
        capture_output=True,
        text=True,
        env={**os.environ, **variables, "WAKEBOARD_DSN": dsn},
        check=False,
        timeout=30,
    )
    assert result.stderr == ""
    return result.stdout.split()


def test_commands_schedules_and_queues_are_completed(database: str, sample: SampleStore):
    sample.add_schedule("billing/weekly-report", queue="reports")
    sample.add_schedule("shop/weather")

    assert complete("wakeboard ret", database) == ["retry"]
    assert complete("wakeboard run-now we", database) == ["weather", "weekly-report"]
    assert complete("wakeboard run-now shop/", database) == ["shop/weather"]
    assert complete("wakeboard runs --queue rep", database) == ["reports"]
    assert complete("wakeboard pause queue rep", database) == ["reports"]
    assert complete("wakeboard pause schedule bill", database) == ["billing/weekly-report"]


def test_without_a_database_nothing_is_completed_or_printed():
    assert complete("wakeboard run-now we", "postgresql://127.0.0.1:1/none") == []
