"""Keeps what handlers log and print, and stores it in batches, in a thread with a connection of its own.

A line belongs to the attempt whose context it was written in (`current_attempt`): a coroutine, a task, a step, the
thread of a plain handler, or `asyncio.to_thread`. What is written is appended to a list in memory. A moment later the
thread masks, compresses and stores what has gathered. The lists are bounded, so a database that is slow or away costs
lines, which are counted (their numbers are missing), and neither time nor memory. A run that logs nothing has no list.

Of an attempt, the first quarter of the bound and the last three quarters are kept. Most attempts write a few lines and
end: of these the list is all that there is until the flush, which searches the lines of many of them at once. What is
longer, or goes on after a flush, has an `AttemptLogBuffer`.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from contextlib import suppress
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from wakeboard.errors import DatabaseUnavailable, WakeboardError
from wakeboard.logs.queries import store_batches
from wakeboard.logs.rules import LEVELS, LONGEST_LEVEL, MAX_LINE, Batch, Line, packed
from wakeboard.store.connection import abort, connect_blocking, is_broken
from wakeboard.store.reply_limit import ReplyLimit
from wakeboard.text.humanize import counted
from wakeboard.text.redact import MARGIN, looks_clean
from wakeboard.text.secret_keys import may_hold_secret_keys
from wakeboard_worker.log_masks import LONGEST_SOURCE, LineMask, may_have_secrets
from wakeboard_worker.logs import log, outages

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from wakeboard.engine.handlers import KeptLogs
    from wakeboard.settings import Settings
    from wakeboard_worker.attempt import Attempt

GATHER_S: Final = 0.4  # between the first line and the flush: a line is stored within a second
LINE_COST: Final = 200  # bytes of memory that a line takes besides its text
ATTEMPT_COST: Final = 2_000  # bytes that an attempt with lines takes besides them
SHORT_COST: Final = 800  # the same of an attempt without a buffer
SHORT_PARTS: Final = 16  # that an attempt without a buffer has written, of SHORT_TEXT characters at most
SHORT_TEXT: Final = 1_000
TOGETHER: Final = 32  # attempts whose lines are searched at once: of more, more lines would be searched again
MAX_GATHERED: Final = 4 << 20  # bytes of all lines that are not stored yet
MAX_UNSENT: Final = 2 << 20  # bytes of batches that could not be stored
BATCH_LINES, BATCH_SIZE = 1_000, 128 << 10
MAX_SENT: Final = 512  # batches of one statement
SLICE_S = 0.001  # of the interpreter, which handlers need too; then the thread pauses for as long
SLICE_LINES: Final = 16  # after which it looks whether its slice is over
REPLY_S: Final = 5.0
RETRY_S: Final = 2.0
STOP_S: Final = 2.0  # how long the end of the worker waits for the last flush
PRINTED: Final = 2  # parts that a call of `print` writes
STREAM_PART: Final = 0  # in place of the level of a line

Written: TypeAlias = tuple[float, int, str, str]
"""When (seconds since 1970), the level, the source, and a line or, with the level STREAM_PART, what a stream took."""


class AttemptLogBuffer:
    """The lines of one attempt that are not stored yet, and which batches of it are stored."""

    __slots__ = (
        *("count", "cut", "first", "last", "last_size", "mask", "only_failed", "partial", "room"),
        *("seen", "sequence", "tail", "tail_size"),
    )

    def __init__(self, room: int, *, only_failed: bool) -> None:
        self.only_failed = only_failed  # it is kept only if the attempt fails
        self.count = 0  # lines so far: the number of the last one
        self.room = room  # what the first quarter still has room for
        self.first: list[Line] = []
        self.last: deque[Line] | None = None  # a deque takes more memory than all the rest
        self.last_size = 0
        self.partial: dict[str, str] = {}  # by stream: a line whose end has not been written
        self.seen: dict[str, str] | None = None  # `partial` at the last flush
        self.cut: frozenset[str] = frozenset()  # streams of which a part of a line is kept as a line
        self.sequence = 0
        self.tail: list[tuple[int, int]] = []  # the number and size of each stored batch behind the first quarter
        self.tail_size = 0
        self.mask: LineMask | None = None


class RunLogs:
    """The logs of a worker's attempts. `kept`: by job type, if it differs from the settings."""

    def __init__(self, settings: Settings, name: str, kept: Mapping[str, KeptLogs]) -> None:
        self._dsn = settings.dsn.get_secret_value()
        self._name = f"wakeboard logs {name}"
        self._only_failed = settings.run_logs == "failed"
        self._kept = kept
        self._off = frozenset(job_type for job_type, mode in kept.items() if mode == "off")
        self._max = settings.run_log_max_bytes
        self._secrets_dir = settings.secrets_dir
        self.level = LEVELS[settings.run_log_level]
        self._lock = threading.RLock()  # a destructor that logs may run within it
        # The logs that have lines. No log refers to its attempt: both would stay in memory until a garbage collection.
        self._gathered: dict[AttemptLogBuffer, Attempt] = {}
        self._short: dict[Attempt, None] = {}  # whose lines are in a list, oldest first
        self._size = 0  # of all lines that are not stored yet
        self._was_half_full = False
        self._slice_began = 0.0  # time.thread_time()
        self._unsent: deque[tuple[Batch, int, int]] = deque()
        self._unsent_size = 0
        self._lost = 0  # lines that could not be stored
        self._conn: Any = None
        self._woken, self._stopped = threading.Event(), threading.Event()
        self._half_full = threading.Event()
        self._thread = threading.Thread(target=self._run, name="run logs", daemon=True)

    # -- in the handlers' threads --------------------------------------------------------------------------------------

    def keeps(self, job_type: str) -> bool:
        """Whether logs of this job type are kept."""
        return job_type not in self._off

    def _keeps_only_failed(self, attempt: Attempt) -> bool:
        mode = self._kept.get(attempt.job_type)
        return self._only_failed if mode is None else mode == "failed"

    def add(self, attempt: Attempt, level: int, source: str, text: str) -> None:
        """Keep a line of the attempt. It does not wait, and raises nothing."""
        self._keep(attempt, min(max(level, 1), LONGEST_LEVEL), source, text)

    def write(self, attempt: Attempt, source: str, text: str) -> None:
        """Keep the lines of a text that was written to a stream. An unfinished line waits for its end, or the flush."""
        self._keep(attempt, STREAM_PART, source, text)

    def _keep(self, attempt: Attempt, level: int, source: str, text: str) -> None:
        if attempt.job_type in self._off:
            return
        with self._lock:
            kept: list[Written] | int | AttemptLogBuffer | None = attempt.kept_log
            has_room = self._size + SHORT_COST + LINE_COST + len(text) <= MAX_GATHERED
            if kept is None and has_room:
                attempt.kept_log = kept = []
                self._short[attempt] = None
                self._size += SHORT_COST
                if len(self._short) == 1:
                    self._woken.set()
            if isinstance(kept, list) and has_room and len(kept) < SHORT_PARTS and len(text) <= SHORT_TEXT:
                kept.append((time.time(), level, source, text))
                self._size += len(text) + LINE_COST
                self._wake_if_half_full()
            elif isinstance(kept, AttemptLogBuffer):
                self._keep_in(kept, attempt, time.time(), level, source, text)
            elif has_room or isinstance(kept, list):
                self._keep_in(self._grow(attempt, source), attempt, time.time(), level, source, text)
            else:
                attempt.kept_log = (kept or 0) + _lines_in(level, text)

    def _grow(self, attempt: Attempt, source: str = "") -> AttemptLogBuffer:
        """Give an attempt a buffer, with what it has written since it was flushed, if it was.

        `source`: of which it writes now. The beginning of a line of it may have been flushed, or not kept.
        """
        written: list[Written] | int | None = attempt.kept_log
        attempt.kept_log = kept = AttemptLogBuffer(self._max // 4, only_failed=self._keeps_only_failed(attempt))
        if isinstance(written, int):
            kept.count, kept.sequence, kept.room, kept.cut = written, 1, 0, frozenset({source})
        elif written is not None:
            self._short.pop(attempt, None)
            self._size -= _cost_of_short(written)
            for part in written:
                self._keep_in(kept, attempt, *part)
        return kept

    def _keep_in(  # one parameter for each part of a line
        self, kept: AttemptLogBuffer, attempt: Attempt, at: float, level: int, source: str, text: str
    ) -> None:
        if level == STREAM_PART:
            self._write(kept, attempt, at, source, text)
        else:
            self._add(kept, attempt, at, level, source, text)

    def _add(  # one parameter for each part of a line
        self, kept: AttemptLogBuffer, attempt: Attempt, at: float, level: int, source: str, text: str
    ) -> None:
        if len(text) > MAX_LINE + MARGIN:
            text = f"{text[: MAX_LINE + MARGIN]} …({len(text) - MAX_LINE - MARGIN} left out)"
        kept.count += 1
        cost = len(text) + LINE_COST
        if self._size + cost + ATTEMPT_COST > MAX_GATHERED and not kept.last:
            return
        line = Line(kept.count, at, level, source, text)
        self._size += cost
        if kept.room > 0:
            kept.room -= len(text) + 1
            kept.first.append(line)
        else:
            if kept.last is None:
                kept.last = deque()
            kept.last.append(line)
            kept.last_size += len(text) + 1
            while kept.last and (kept.last_size > self._max * 3 // 4 or self._size > MAX_GATHERED):
                length = len(kept.last.popleft().text)
                kept.last_size -= length + 1
                self._size -= length + LINE_COST
        self._note(kept, attempt)

    def _note(self, kept: AttemptLogBuffer, attempt: Attempt) -> None:
        if kept not in self._gathered:
            self._gathered[kept] = attempt
            self._size += ATTEMPT_COST
            self._woken.set()
        self._wake_if_half_full()

    def _wake_if_half_full(self) -> None:
        if self._size > MAX_GATHERED // 2 and not self._was_half_full:
            self._was_half_full = True  # until the next flush: it wakes the thread once
            self._half_full.set()

    def _write(self, kept: AttemptLogBuffer, attempt: Attempt, at: float, source: str, text: str) -> None:
        *lines, rest = text.split("\n")
        begun = kept.partial.pop(source, "")
        if lines:
            lines[0] = begun + lines[0]
            if source in kept.cut:
                kept.cut -= {source}
                lines = lines if lines[0] else lines[1:]
            for line in lines:
                self._add(kept, attempt, at, logging.INFO, source, line.rstrip("\r"))
        elif len(begun) <= MAX_LINE:
            rest = begun + rest[: MAX_LINE + MARGIN]
        else:
            rest = begun
        if rest:
            kept.partial[source] = rest
            if kept in self._gathered or self._size + ATTEMPT_COST <= MAX_GATHERED:
                self._note(kept, attempt)

    # -- in the thread -------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Start the thread. It connects when the first line has been written."""
        self._thread.start()

    def stop(self) -> None:
        """Store what is left, for STOP_S at most, and end the thread."""
        self._stopped.set()
        self._woken.set()
        self._half_full.set()
        self._thread.join(STOP_S)
        if lost := self._lost + _count(self._unsent):
            log.warning("%s of the logs of runs could not be stored", counted(lost, "line"))

    def _run(self) -> None:
        ends = False
        while not ends:
            self._woken.wait()
            self._half_full.wait(GATHER_S)
            self._woken.clear()
            self._half_full.clear()
            ends = self._stopped.is_set()  # lines that gather during a flush need another one
            try:
                self._flush()
                outages.recovered("logs of runs")
            except Exception as error:  # noqa: BLE001 - logs must not end the worker
                self._close()
                with suppress(Exception):
                    outages.lost("logs of runs", error)
                self._stopped.wait(RETRY_S)
                self._woken.set()
        self._close()

    def _flush(self) -> None:
        """Store what has gathered, in statements of MAX_SENT batches. Raises WakeboardError."""
        taken = self._flush_short()  # some of these are gathered then
        with self._lock:
            gathered = list(self._gathered.items())
        for kept, attempt in gathered:
            if self._unsent_size > MAX_UNSENT:
                break
            if kept.only_failed and not attempt.has_outcome and not self._stopped.is_set():
                continue
            first, last = self._take(kept, attempt)
            taken += len(first) + len(last)
            self._give_way()
            if not kept.only_failed or attempt.failed or attempt.lost:
                self._pack(kept, attempt, first, is_tail=False)
                self._pack(kept, attempt, last, is_tail=True)
            if len(self._unsent) >= MAX_SENT:
                self._send()
        self._send()
        with self._lock:
            if self._gathered or self._short:
                self._woken.set()
            if taken:  # otherwise it stays half full, of attempts that run, and is looked at after a pause
                self._was_half_full = self._size > MAX_GATHERED // 2
                if self._was_half_full:
                    self._half_full.set()

    def _flush_short(self) -> int:
        """Pack the logs of those that have ended, and give the others buffers. Returns how many it has packed."""
        packed_logs, left = 0, len(self._short)
        while left > 0 and self._unsent_size <= MAX_UNSENT:
            taken = self._take_short(min(TOGETHER, left))
            left -= TOGETHER
            packed_logs += len(taken)
            texts = [line.text for _, lines in taken for line in lines]
            clean = max(map(len, texts), default=0) <= MAX_LINE and looks_clean("\n".join(texts))
            keyed = clean and may_hold_secret_keys(b"".join([attempt.payload_json for attempt, _ in taken]))
            for attempt, lines in taken:
                is_masked = clean and not (keyed and may_have_secrets(attempt))
                self._append(attempt, 1, lines if is_masked else LineMask(attempt, self._secrets_dir).lines(lines))
            self._give_way()
            if len(self._unsent) >= MAX_SENT:
                self._send()
        return packed_logs

    def _take_short(self, count: int) -> list[tuple[Attempt, list[Line]]]:
        """The lines of the next ones, if they have ended and are kept."""
        taken: list[tuple[Attempt, list[Line]]] = []
        with self._lock:
            stopped = self._stopped.is_set()
            for attempt in list(islice(self._short, count)):
                only_failed = self._keeps_only_failed(attempt)
                ended = attempt.has_outcome or stopped
                if not ended and not only_failed:
                    self._grow(attempt)
                    continue
                del self._short[attempt]
                if not ended:
                    self._short[attempt] = None  # as the newest one
                    continue
                written: list[Written] = attempt.kept_log
                self._size -= _cost_of_short(written)
                lines = _lines_of(written)
                attempt.kept_log = len(lines)
                if lines and (not only_failed or attempt.failed or attempt.lost):
                    taken.append((attempt, lines))
        return taken

    def _give_way(self) -> None:
        """Pause after a slice of CPU time, so that handlers need not wait for the interpreter. Not at the end."""
        if time.thread_time() - self._slice_began > SLICE_S:
            if not self._stopped.is_set():
                time.sleep(SLICE_S)
            self._slice_began = time.thread_time()

    def _take(self, kept: AttemptLogBuffer, attempt: Attempt) -> tuple[list[Line], list[Line]]:
        """Take what has gathered: lines of the first quarter, and those behind it."""
        with self._lock:
            ended = attempt.has_outcome or self._stopped.is_set()
            for source, text in list(kept.partial.items()):
                if ended or (kept.seen or {}).get(source) == text:  # a prompt, or dots: it gets no end for now
                    self._add(kept, attempt, time.time(), logging.INFO, source, text)
                    kept.cut |= {source}
                    del kept.partial[source]
            kept.seen = dict(kept.partial) if kept.partial else None
            first, last = kept.first, list(kept.last or ())
            self._size -= sum(len(line.text) + LINE_COST for line in (*first, *last))
            kept.first, kept.last, kept.last_size = [], None, 0
            if kept in self._gathered:
                del self._gathered[kept]
                self._size -= ATTEMPT_COST
            if kept.partial:
                self._note(kept, attempt)
            return first, last

    def _pack(self, kept: AttemptLogBuffer, attempt: Attempt, lines: list[Line], *, is_tail: bool) -> None:
        for part in _parts(self._masked(kept, attempt, lines)):
            kept.sequence += 1
            first_dropped = last_dropped = 0
            if is_tail:
                size = sum(len(line.text) + 1 for line in part)
                kept.tail.append((kept.sequence, size))
                kept.tail_size += size
                while kept.tail_size > self._max * 3 // 4 and len(kept.tail) > 1:
                    last_dropped, size = kept.tail.pop(0)
                    first_dropped = first_dropped or last_dropped
                    kept.tail_size -= size
            self._append(attempt, kept.sequence, part, first_dropped, last_dropped)

    def _append(  # a batch, and the numbers of those that it replaces
        self, attempt: Attempt, sequence: int, lines: Sequence[Line], first_dropped: int = 0, last_dropped: int = 0
    ) -> None:
        data = packed(lines)
        first, last = lines[0], lines[-1]
        level = first.level if first is last else max([line.level for line in lines])
        batch = Batch(
            attempt.uuid_text,
            attempt.epoch,
            attempt.attempt,
            sequence,
            first.number,
            last.number,
            level,
            first.at,
            data,
        )
        self._unsent.append((batch, first_dropped, last_dropped))
        self._unsent_size += len(data) + LINE_COST

    def _send(self) -> None:
        while self._unsent:
            if self._conn is not None and is_broken(self._conn):
                self._close()
            if self._conn is None:
                self._conn = connect_blocking(self._dsn, name=self._name, reply_limit=ReplyLimit(REPLY_S))
            sent = [self._unsent[at] for at in range(min(MAX_SENT, len(self._unsent)))]
            try:
                store_batches(self._conn, sent)
            except DatabaseUnavailable:
                raise
            except WakeboardError:  # such as a right that was revoked: to send them again would not help
                self._lost += _count(sent)
                self._forget(sent)
                raise
            self._forget(sent)

    def _forget(self, sent: list[tuple[Batch, int, int]]) -> None:
        for batch, _, _ in sent:
            self._unsent.popleft()
            self._unsent_size -= len(batch.lines) + LINE_COST

    def _close(self) -> None:
        if self._conn is not None:
            abort(self._conn)
            self._conn.close()
            self._conn = None

    def _masked(self, kept: AttemptLogBuffer, attempt: Attempt, lines: list[Line]) -> Iterator[Line]:
        if kept.mask is None:
            kept.mask = LineMask(attempt, self._secrets_dir)
        for first in range(0, len(lines), SLICE_LINES):
            self._give_way()
            yield from kept.mask.lines(lines[first : first + SLICE_LINES])


def _cost_of_short(written: list[Written]) -> int:
    cost = SHORT_COST + LINE_COST * len(written)
    for part in written:
        cost += len(part[-1])
    return cost


def _lines_in(level: int, text: str) -> int:
    """How many lines a line, or a part of a stream, ends. What a stream leaves without an end is not counted."""
    return 1 if level != STREAM_PART else text.count("\n")


def _lines_of(written: list[Written]) -> list[Line]:
    """The lines of an attempt that has ended."""
    at, level, source, text = written[0]
    is_print = len(written) == PRINTED and level == STREAM_PART and written[1][1:] == (STREAM_PART, source, "\n")
    if is_print and "\n" not in text:
        return [Line(1, at, logging.INFO, source, text.rstrip("\r"))]  # in a third of the time
    lines: list[Line] = []
    begun: dict[str, str] = {}
    for at, level, source, text in written:
        if level != STREAM_PART:
            lines.append(Line(len(lines) + 1, at, level, source[:LONGEST_SOURCE], text))
            continue
        *whole, rest = (begun.pop(source, "") + text).split("\n")
        for line in whole:
            lines.append(Line(len(lines) + 1, at, logging.INFO, source, line.rstrip("\r")))
        if rest:
            begun[source] = rest
    for source, rest in begun.items():
        lines.append(Line(len(lines) + 1, written[-1][0], logging.INFO, source, rest))
    return lines


def _count(batches: Iterable[tuple[Batch, int, int]]) -> int:
    return sum(batch.last_line - batch.first_line + 1 for batch, _, _ in batches)


def _parts(lines: Iterable[Line]) -> Iterator[list[Line]]:
    """The lines in parts that fit into batches."""
    part: list[Line] = []
    size = 0
    for line in lines:
        part.append(line)
        size += len(line.text)
        if len(part) >= BATCH_LINES or size >= BATCH_SIZE:
            yield part
            part, size = [], 0
    if part:
        yield part
