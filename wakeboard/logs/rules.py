"""Lines of a run's log, and how a batch of them is stored. Pure functions.

The lines of an attempt are numbered from 1, and each keeps its number. So numbers that no stored line has are lines
that were not kept: `with_gaps` counts them.
"""

from __future__ import annotations

import json
import zlib
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from wakeboard.text.humanize import counted

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from datetime import timedelta

LEVELS: Final = {"debug": 10, "info": 20, "warning": 30, "error": 40}  # the numbers of Python's logging
OUTCOME: Final = "outcome"  # the source of the line that says how an attempt failed
MAX_LINE: Final = 8_000  # characters of a line that are kept
LONGEST_LEVEL: Final = 100  # a number above counts as this
COMPRESSED_FROM: Final = 300  # bytes; a shorter batch is stored as it is
LONGEST_MS: Final = 40 * 86_400_000  # within one batch
MAX_UNPACKED: Final = 4 << 20  # bytes of a batch that are read: a batch that a worker wrote is shorter


def level_name(number: int) -> str:
    """The name of the highest level that is not above the number."""
    return next((name for name, level in reversed(LEVELS.items()) if number >= level), "debug")


_as_json: Final = json.encoder.encode_basestring_ascii  # a JSONEncoder takes five times as long for a short text


class Line(NamedTuple):
    """A line. `at`: seconds since 1970. `source`: the logger, stdout, stderr, output, a container, or OUTCOME."""

    number: int
    at: float
    level: int
    source: str
    text: str

    @property
    def level_name(self) -> str:
        """The name of the highest level that is not above the line's."""
        return level_name(self.level)


class Gap(NamedTuple):
    """Lines that were not kept."""

    lines: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LogRow:
    """A line of a run's log. `number`: in its attempt; numbers that are missing are lines that were not kept."""

    run_id: int
    attempt: int
    lease_epoch: int
    number: int
    at: datetime
    level: str
    source: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptLog:
    """What is stored of the log of one attempt.

    `began_at`: when the attempt began, or its first line if that is not known. `last_line`: the number of its last
    stored line.
    """

    lease_epoch: int
    attempt: int
    began_at: datetime
    last_line: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LogPart:
    """The batches of a run's log that begin in a slice of time. `first_at`, `last_at`: when the first and last begin.

    `level`: the highest one of their lines.
    """

    first_at: datetime
    last_at: datetime
    lines: int
    level: int


def log_row(run_id: int, attempt: int, lease_epoch: int, line: Line) -> LogRow:
    """A line of an attempt, for JSON."""
    return LogRow(
        run_id=run_id,
        attempt=attempt,
        lease_epoch=lease_epoch,
        number=line.number,
        at=datetime.fromtimestamp(line.at, UTC),
        level=line.level_name,
        source=line.source,
        text=line.text,
    )


class Batch(NamedTuple):
    """A row of `job_run_logs`; see there. `run_uuid`: as a text. `first_at`: seconds since 1970."""

    run_uuid: str
    epoch: int
    attempt: int
    sequence: int
    first_line: int
    last_line: int
    level: int
    first_at: float
    lines: bytes


def packed(lines: Sequence[Line]) -> bytes:
    """The lines as they are stored."""
    number, first_at, level, source, text = lines[0]
    rows = f"[{number},0,{level},{_as_json(source)},{_as_json(text)}]"
    if len(lines) > 1:  # most batches are of one line
        more = [
            f"[{number},{round(1000 * (at - first_at))},{level},{_as_json(source)},{_as_json(text)}]"
            for number, at, level, source, text in lines[1:]
        ]
        rows = f"{rows},{','.join(more)}"
    text = f"[{rows}]".encode()
    return text if len(text) < COMPRESSED_FROM else zlib.compress(text, 1)


def unpacked(stored: bytes, first_at: float) -> list[Line]:
    """The lines of a stored batch. What no worker wrote like that has none."""
    try:
        text = stored if stored[:1] == b"[" else zlib.decompressobj().decompress(stored, MAX_UNPACKED)
        rows: list[Any] = json.loads(text)
        return [
            Line(int(number), first_at + min(max(int(ms), 0), LONGEST_MS) / 1000, int(level), str(source), str(line))
            for number, ms, level, source, line in rows
        ]
    except (ValueError, TypeError, OverflowError, RecursionError, zlib.error):
        return []


def with_gaps(lines: Iterable[Line], after: int = 0) -> Iterator[Line | Gap]:
    """The lines, with the gaps between them and behind the line `after`."""
    for line in lines:
        if line.number > after + 1:
            yield Gap(line.number - after - 1)
        after = line.number
        yield line


def why_no_log(*, started_at: datetime | None, now: datetime, kept: timedelta | None) -> str:
    """Why a run has no log, as a sentence. `kept`: how long logs are kept; None: unknown."""
    if started_at is None:
        return "It has not started yet."
    if kept is not None and started_at < now - kept:
        return f"Logs are kept for {counted(kept.days, 'day')}, and this run started before."
    return "It has logged nothing that is kept (WAKEBOARD_RUN_LOGS and WAKEBOARD_RUN_LOG_LEVEL of its worker)."
