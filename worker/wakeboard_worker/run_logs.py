"""Keeps what handlers log and print, and stores it in batches, in a thread with a connection of its own.

A line belongs to the attempt whose context it was written in (`current_attempt`): a coroutine, a task, a step, the
thread of a plain handler, or `asyncio.to_thread`. A line that is kept is appended to a list in memory. A moment later
the thread masks, compresses and stores what has gathered. The lists are bounded, so a database that is slow or away
costs lines, which are counted (their numbers are missing), and neither time nor memory. A run that logs nothing has no
list.

Of an attempt, the first quarter of the bound and the last three quarters are kept.
"""

from __future__ import annotations

import logging
import sys
import threading
import time
from collections import deque
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final, TextIO, cast

from wakeboard.errors import DatabaseUnavailable, WakeboardError
from wakeboard.logs.queries import store_batches
from wakeboard.logs.rules import LEVELS, LONGEST_LEVEL, MAX_LINE, Batch, Line, packed
from wakeboard.secrets import KEY, Secrets
from wakeboard.store.connection import abort, connect_blocking, is_broken
from wakeboard.store.reply_limit import ReplyLimit
from wakeboard.text.humanize import counted
from wakeboard.text.redact import MARGIN, MASK, redact
from wakeboard.text.secret_keys import is_secret_key
from wakeboard_worker.attempt import current_attempt
from wakeboard_worker.logs import log, outages

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Iterator, Mapping

    from wakeboard.engine.handlers import Handler, KeptLogs
    from wakeboard.settings import Settings
    from wakeboard_worker.attempt import Attempt

GATHER_S: Final = 0.4  # between the first line and the flush: a line is stored within a second
LINE_COST: Final = 200  # bytes of memory that a line takes besides its text
ATTEMPT_COST: Final = 2_000  # bytes that an attempt with lines takes besides them
MAX_GATHERED: Final = 4 << 20  # bytes of all lines that are not stored yet
MAX_UNSENT: Final = 2 << 20  # bytes of batches that could not be stored
BATCH_LINES, BATCH_SIZE = 1_000, 128 << 10
MAX_SENT: Final = 512  # batches of one statement
SLICE_S = 0.001  # of the interpreter, which handlers need too; then the thread pauses for as long
SLICE_LINES: Final = 16  # after which it looks whether its slice is over
REPLY_S: Final = 5.0
RETRY_S: Final = 2.0
STOP_S: Final = 2.0  # how long the end of the worker waits for the last flush
SHORTEST_SECRET: Final = 4  # characters of a payload's value that is masked

_KEY_BEGIN, _KEY_END = "-----BEGIN", "-----END"


class AttemptLogBuffer:
    """The lines of one attempt that are not stored yet, and which batches of it are stored."""

    __slots__ = (
        *("count", "cut", "first", "in_key", "last", "last_size", "only_failed", "partial", "room"),
        *("secrets", "seen", "sequence", "tail", "tail_size"),
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
        self.secrets: Secrets | None = None
        self.in_key = False  # within a private key of several lines


class RunLogs:
    """The logs of a worker's attempts. `kept`: by job type, if it differs from the settings."""

    def __init__(self, settings: Settings, name: str, kept: Mapping[str, KeptLogs]) -> None:
        self._dsn = settings.dsn.get_secret_value()
        self._name = f"wakeboard logs {name}"
        self._only_failed = settings.run_logs == "failed"
        self._kept = kept
        self._max = settings.run_log_max_bytes
        self._secrets_dir = settings.secrets_dir
        self.level = LEVELS[settings.run_log_level]
        self._lock = threading.RLock()  # a destructor that logs may run within it
        # The logs that have lines. No log refers to its attempt: both would stay in memory until a garbage collection.
        self._gathered: dict[AttemptLogBuffer, Attempt] = {}
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
        return self._kept.get(job_type) != "off"

    def _log_of(self, attempt: Attempt) -> AttemptLogBuffer:
        kept = attempt.kept_log
        if kept is None:
            mode = self._kept.get(attempt.job_type)
            only_failed = self._only_failed if mode is None else mode == "failed"
            attempt.kept_log = kept = AttemptLogBuffer(self._max // 4, only_failed=only_failed)
        return kept

    def add(self, attempt: Attempt, level: int, source: str, text: str) -> None:
        """Keep a line of the attempt. It does not wait, and raises nothing."""
        if not self.keeps(attempt.job_type):
            return
        if len(text) > MAX_LINE + MARGIN:
            text = f"{text[: MAX_LINE + MARGIN]} …({len(text) - MAX_LINE - MARGIN} left out)"
        with self._lock:
            self._add(self._log_of(attempt), attempt, level, source, text)

    def _add(  # one parameter for each part of a line
        self, kept: AttemptLogBuffer, attempt: Attempt, level: int, source: str, text: str
    ) -> None:
        kept.count += 1
        cost = len(text) + LINE_COST
        if self._size + cost + ATTEMPT_COST > MAX_GATHERED and not kept.last:
            return
        line = Line(kept.count, time.time(), min(max(level, 0), LONGEST_LEVEL), source, text)
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
        if self._size > MAX_GATHERED // 2 and not self._was_half_full:
            self._was_half_full = True  # until the next flush: it wakes the thread once
            self._half_full.set()

    def write(self, attempt: Attempt, source: str, text: str) -> None:
        """Keep the lines of a text that was written to a stream. An unfinished line waits for its end, or the flush."""
        if not self.keeps(attempt.job_type):
            return
        *lines, rest = text.split("\n")
        with self._lock:
            kept = attempt.kept_log
            begun = kept.partial.pop(source, "") if kept is not None else ""
            if lines:
                lines[0] = begun + lines[0]
                if kept is not None and source in kept.cut:
                    kept.cut -= {source}
                    lines = lines if lines[0] else lines[1:]
                for line in lines:
                    self.add(attempt, logging.INFO, source, line.rstrip("\r"))
            elif len(begun) <= MAX_LINE:
                rest = begun + rest[: MAX_LINE + MARGIN]
            else:
                rest = begun
            if rest:
                kept = self._log_of(attempt)
                kept.partial[source] = rest
                self._note(kept, attempt)

    def emit(self, record: logging.LogRecord) -> None:
        """Keep a log record that was logged in the context of an attempt."""
        attempt = current_attempt.get(None)
        if attempt is None or record.levelno < self.level:
            return
        try:
            text = record.getMessage()
        except Exception:  # noqa: BLE001 - a wrong format string, or an argument whose __str__ raises
            text = f"{record.msg!r}, which its arguments do not fit"
        if record.exc_info or record.stack_info:
            stack = _formatter.formatException(record.exc_info) if record.exc_info else ""
            text = "\n".join(part for part in (text, stack, record.stack_info) if part)
        self.add(attempt, record.levelno, record.name, text)

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
        with self._lock:
            gathered = list(self._gathered.items())
        taken = 0
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
            if self._gathered:
                self._woken.set()
            if taken:  # otherwise it stays half full, of attempts that run, and is looked at after a pause
                self._was_half_full = self._size > MAX_GATHERED // 2
                if self._was_half_full:
                    self._half_full.set()

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
                    self._add(kept, attempt, logging.INFO, source, text)
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
            data = packed(part)
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
            batch = Batch(
                attempt.uuid,
                attempt.epoch,
                attempt.attempt,
                kept.sequence,
                part[0].number,
                part[-1].number,
                max(line.level for line in part),
                part[0].at,
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

    # -- masks ---------------------------------------------------------------------------------------------------------

    def _masked(self, kept: AttemptLogBuffer, attempt: Attempt, lines: list[Line]) -> Iterator[Line]:
        if kept.secrets is None:
            kept.secrets = _secrets_of(attempt, self._secrets_dir)
        for number, at, level, source, text in lines:
            if number % SLICE_LINES == 0:
                self._give_way()
            yield Line(number, at, level, source[:200], _mask(kept, kept.secrets, text))


def _mask(kept: AttemptLogBuffer, secrets: Secrets, text: str) -> str:
    """A line without secrets of the payload, and without what looks like a credential, also in several lines."""
    if kept.in_key:
        kept.in_key = _KEY_END not in text
        return MASK
    kept.in_key = _KEY_BEGIN in text and "PRIVATE KEY" in text and _KEY_END not in text
    return redact(secrets.redact(text) if secrets else text, MAX_LINE, "start")


def _secrets_of(attempt: Attempt, folder: str) -> Secrets:
    """The secrets that the payload names, and its values under keys such as `password`."""
    secrets = Secrets(folder)
    with suppress(Exception):  # such as a payload type of the handler that cannot be written as JSON
        for name, value in _secret_values(attempt.stored_payload(), ""):
            if name == KEY:
                with suppress(WakeboardError):
                    secrets.resolve({KEY: value})
            elif len(value) >= SHORTEST_SECRET:
                secrets.hide(value, name)
    return secrets


def _secret_values(value: Any, key: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, dict):
        for name, item in cast("dict[str, Any]", value).items():
            yield from _secret_values(item, name if name == KEY or is_secret_key(name) else key)
    elif isinstance(value, list):
        for item in cast("list[Any]", value):
            yield from _secret_values(item, key)
    elif key and isinstance(value, str | int) and not isinstance(value, bool):
        yield key, str(value)


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


_formatter: Final = logging.Formatter()

# -- capture -----------------------------------------------------------------------------------------------------------


class _Handler(logging.Handler):
    """Passes log records to the logs of runs."""

    def __init__(self, logs: RunLogs) -> None:
        super().__init__(logs.level)
        self._logs = logs

    def emit(self, record: logging.LogRecord) -> None:
        self._logs.emit(record)


class _Stream:
    """A text stream that also keeps what an attempt writes to it."""

    def __init__(self, stream: TextIO, source: str, logs: RunLogs) -> None:
        self._stream, self._source, self._logs = stream, source, logs

    def write(self, text: str) -> int:
        """Write the text, and keep its lines."""
        written = self._stream.write(text)
        attempt = current_attempt.get(None)
        if attempt is not None:
            self._logs.write(attempt, self._source, text)
        return written

    def writelines(self, lines: Iterable[str]) -> None:
        """Write the lines."""
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


@contextmanager
def captured(settings: Settings, name: str, handlers: Mapping[str, Handler]) -> Generator[RunLogs | None]:
    """Keep what attempts log and print inside the block. None: the settings turn it off."""
    if settings.run_logs == "off":
        yield None
        return
    logs = RunLogs(settings, name, {each: of.logs for each, of in handlers.items() if of.logs is not None})
    handler, streams = _Handler(logs), (sys.stdout, sys.stderr)
    sys.stdout, sys.stderr = cast("Any", (_Stream(streams[0], "stdout", logs), _Stream(streams[1], "stderr", logs)))
    logging.getLogger().addHandler(handler)
    logs.start()
    try:
        yield logs
    finally:
        logging.getLogger().removeHandler(handler)
        sys.stdout, sys.stderr = streams
        logs.stop()
