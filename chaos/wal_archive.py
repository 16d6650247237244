"""The WAL that the servers of a campaign archive, and what `pg_waldump` reads in it: what was committed, in order."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from testbed.processes import wait_for
from wakeboard.local.postgres_user import make_private_folder, server_account

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    import psycopg

SEGMENT: Final = 16 << 20  # bytes
ARCHIVED_WITHIN_S: Final = 90.0  # a server that failed to archive a segment tries again after a minute
FIRST_TIMELINE: Final = "00000001"
_RECORD: Final = re.compile(r"rmgr: (\w+) .*? tx: +(\d+), .*? desc: (\S+) ?(.*)")
_RELATION: Final = re.compile(r"blkref #0: rel \d+/(\d+)/(\d+)")
_MESSAGE: Final = re.compile(r'transactional, prefix "change"; payload \(\d+ bytes\): ([0-9A-F ]+)')
_SUBTRANSACTIONS: Final = re.compile(r"; subxacts: ([0-9 ]+)")
_IS_TAKEN_BACK: Final = re.compile(r"flags:? 0x[0-9A-F]?[89A-F]\b")  # a DELETE of INSERT … ON CONFLICT, for itself
_FILES: Final = """
select base.oid::bigint, pg_relation_filenode(coalesce(partition.inhrelid, class.oid))::bigint, class.relname::text
  from pg_class as class
  join pg_database as base on base.datname = current_database()
  left join pg_inherits as partition on partition.inhparent = class.oid
 where class.oid = any (%s::regclass[])
"""


class Change(NamedTuple):
    """What a trigger has written into the WAL about a row that a statement has inserted, updated or deleted."""

    table: str
    what: str  # INSERT, UPDATE or DELETE
    row: str  # the id of a run, or the uuid of a run and the key of an effect
    status: str | None  # of a run
    lease: tuple[str | None, str | None]  # its holder and epoch


@dataclass
class Committed:
    """The changes of all committed transactions, and how often their records changed rows of a table in which way."""

    changes: list[Change] = field(default_factory=list[Change])
    records: Counter[tuple[str, str]] = field(default_factory=Counter[tuple[str, str]])
    transactions: int = 0


class WalArchive:
    """`folder`, in which each server puts its WAL. On no disk of a server; their system user must reach it."""

    def __init__(self, folder: Path) -> None:
        make_private_folder(folder, server_account())
        self.folder = folder
        copy = f"cp %p {folder}/%f.$$ && mv {folder}/%f.$$ {folder}/%f"
        # Standbys archive what they receive, too: a primary may die before it has archived a segment.
        self.settings = {"archive_mode": "always", "archive_command": f"test -f {folder}/%f || {{ {copy}; }}"}
        self.restore_command = f"cp {folder}/%f %p"

    def end(self, conn: psycopg.Connection[Any]) -> str:
        """Ends the present segment. Returns its name when it is there with all that lead to it."""
        conn.execute("select pg_logical_emit_message(false, 'chaos', 'end')")  # or an empty segment would not end
        (last,) = conn.execute("select pg_walfile_name(pg_switch_wal())").fetchone() or ("",)
        wait_for(lambda: not self._missing(last), within_s=ARCHIVED_WITHIN_S, why=lambda: self._missing(last))
        return last

    def read(self, binaries: Path, conn: psycopg.Connection[Any], tables: Iterable[str], last: str) -> Committed:
        """What was committed up to the segment `last` on its timeline. `conn` says which files the tables have.

        Raises:
            RuntimeError: pg_waldump cannot read all of it.
        """
        files = {(base, file): table for base, file, table in conn.execute(_FILES, (list(tables),)).fetchall()}
        chain = self._link(last)
        words = [binaries / "pg_waldump", "--path", chain[0].parent, chain[0].name, chain[-1].name]
        words += [f"--rmgr={manager}" for manager in ("Heap", "LogicalMessage", "Transaction")]
        with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as dump:
            assert dump.stdout is not None
            assert dump.stderr is not None
            committed = _read(dump.stdout, files)
            errors = dump.stderr.read()
        if dump.returncode:
            raise RuntimeError(f"pg_waldump: {errors}")
        return committed

    def remove(self) -> None:
        """Removes all of it. The servers must write nothing any more."""
        shutil.rmtree(self.folder, ignore_errors=True)

    def timelines(self, last: str) -> dict[int, int]:
        """Where each timeline begins that leads to the segment `last`: a position in bytes.

        Raises:
            FileNotFoundError: the history of its timeline is not archived yet.
        """
        if last.startswith(FIRST_TIMELINE):
            return {1: 0}
        text = (self.folder / f"{last[:8]}.history").read_text()
        rows = re.findall(r"^(\d+)\s+([0-9A-F]+)/([0-9A-F]+)", text, re.MULTILINE)
        timelines = [*(int(timeline) for timeline, _, _ in rows), int(last[:8], 16)]
        return dict(zip(timelines, [0, *((int(high, 16) << 32) + int(low, 16) for _, high, low in rows)], strict=True))

    def segments(self, last: str) -> list[tuple[int, Path]]:
        """The number and the file of each segment up to `last`.

        A timeline begins in the middle of a segment: its file has a copy of what the former one wrote before.
        """
        begins = self.timelines(last)
        files = list[tuple[int, Path]]()
        for number in range(1, int(last[8:16], 16) * 256 + int(last[16:], 16) + 1):
            timeline = max(each for each, begin in begins.items() if begin < (number + 1) * SEGMENT)
            files.append((number, self.folder / f"{timeline:08X}{_digits(number)}"))
        return files

    def _missing(self, last: str) -> list[str]:
        try:
            return [file.name for _, file in self.segments(last) if not file.exists()]
        except FileNotFoundError as history:
            return [str(history.filename)]

    def _link(self, last: str) -> list[Path]:
        """Links to the segments, under the names of the last timeline: the dump reads one alone."""
        chain = self.folder / "chain"
        chain.mkdir(exist_ok=True)
        links = list[Path]()
        for number, file in self.segments(last):
            links.append(chain / f"{last[:8]}{_digits(number)}")
            links[-1].unlink(missing_ok=True)
            links[-1].symlink_to(file)
        return links


def _digits(number: int) -> str:
    """The part of a segment's name after the timeline."""
    return f"{number // 256:08X}{number % 256:08X}"


def _read(lines: Iterable[str], files: Mapping[tuple[int, int], str]) -> Committed:
    """`files`: the table of each database and file."""
    committed = Committed()
    changes, records = defaultdict[str, list[Change]](list), defaultdict[str, Counter[tuple[str, str]]](Counter)
    for line in lines:
        if (record := _RECORD.match(line)) is None:
            continue
        manager, transaction, operation, about = record.groups()
        if manager == "LogicalMessage":
            changes[transaction] += _changes(about)
        elif manager == "Heap":
            records[transaction].update(_records(operation, about, files))
        elif operation in {"COMMIT", "ABORT"}:
            parts = [transaction, *_subtransactions(about)]
            for part in parts if operation == "COMMIT" else ():
                committed.records += records[part]
            if operation == "COMMIT":
                committed.transactions += 1
                committed.changes += [change for part in parts for change in changes[part]]
            for part in parts:
                changes.pop(part, None)
                records.pop(part, None)
    return committed


def _changes(about: str) -> Iterator[Change]:
    for payload in _MESSAGE.findall(about):
        table, what, row, status, holder, epoch = json.loads(bytes.fromhex(payload))
        yield Change(table, what, row, status, (holder, epoch))


def _records(operation: str, about: str, files: Mapping[tuple[int, int], str]) -> Iterator[tuple[str, str]]:
    what = operation.removesuffix("+INIT").removeprefix("HOT_")
    relation = _RELATION.search(about)
    table = files.get((int(relation[1]), int(relation[2]))) if relation else None
    if table is not None and what in {"INSERT", "UPDATE", "DELETE"}:
        yield table, "taken back" if what == "DELETE" and _IS_TAKEN_BACK.search(about) else what


def _subtransactions(about: str) -> list[str]:
    found = _SUBTRANSACTIONS.search(about)
    return found[1].split() if found else []
