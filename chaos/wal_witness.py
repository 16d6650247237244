"""A witness outside of the tables: what the WAL of the last timeline says about runs and effects.

Triggers (audit.sql) write each change of a run or an effect into the WAL, as a message in the transaction that makes
the change. The witness follows them in the order of commits, and compares them with the replies that clients received,
with the ledger and with the tables at the end. It also counts the records of the tables' own rows, so it finds a change
that no trigger has seen.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, Any, Final

from chaos.results import UNDONE, Violation

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import psycopg

    from chaos.applications import ClientRecord
    from chaos.wal_archive import Change, Committed, WalArchive

RUNS, HISTORY, EFFECTS, KEYS = "job_runs", "job_run_history", "effects", "job_effects"
TABLES: Final = ("wakeboard.job_runs", "wakeboard.job_run_history", "wakeboard.job_effects", "chaos.effects")
FOUND, LOST_IN_TABLES = "what is acknowledged is in the WAL", "the tables have what the WAL has"
ONCE, NO_RETURN = "a run ends once in the WAL, and an effect happens once", "what has ended stays as it is in the WAL"
LAST_LEASE: Final = "in the WAL, a completion comes from the worker of the last lease"
COUNTED: Final = "the WAL has no change of a row but those that the triggers saw"
INVARIANTS: Final = (FOUND, LOST_IN_TABLES, ONCE, NO_RETURN, LAST_LEASE, COUNTED)
CAMPAIGNS: Final = "campaigns whose WAL was read"
COUNT_OF_WAL: Final = re.compile("(.+) (?:of|in) this WAL")  # the name of a count
_ROWS: Final = {
    RUNS: "select id::text from wakeboard.job_runs",
    HISTORY: "select id::text from wakeboard.job_run_history where status <> 'skipped'",
    EFFECTS: "select run_uuid || ' ' || key from chaos.effects",
}


class _Story:
    """What a reader of the WAL knows after the changes so far."""

    def __init__(self) -> None:
        self.rows: dict[str, set[str]] = {RUNS: set(), HISTORY: set(), EFFECTS: set(), KEYS: set()}
        self.created = set[str]()
        self._leases: dict[str, tuple[str | None, str | None]] = {}

    def follow(self, change: Change) -> Iterator[Violation]:
        """Adds a change. Yields what it must not be."""
        rows, row = self.rows[change.table], change.row
        if change.table != RUNS and change.what != "INSERT":
            yield Violation("doubled", NO_RETURN, f"{change.what} of {row} in {change.table}")
        if change.what == "DELETE":
            rows.discard(row)
        elif change.what == "INSERT":
            if row in rows and change.status != "skipped":
                yield Violation("doubled", ONCE, f"{row} in {change.table}")
            yield from self._insert(change)
        elif change.status == "running":
            self._leases[row] = change.lease

    def _insert(self, change: Change) -> Iterator[Violation]:
        if change.status == "skipped":  # ticks that were not run: one row for several
            return
        self.rows[change.table].add(change.row)
        if change.table == RUNS:
            if change.row in self.created:
                yield Violation("doubled", NO_RETURN, f"run {change.row} was created again")
            self.created.add(change.row)
        if change.status == "succeeded" and change.lease != self._leases.get(change.row):
            yield Violation("doubled", LAST_LEASE, f"run {change.row}: {change.lease}")


class WalWitness:
    """Reads the WAL of a campaign that has ended. `timelines` and `counts` are what it has read."""

    def __init__(self, archive: WalArchive, binaries: Path) -> None:
        self._archive, self._binaries = archive, binaries
        self.timelines = list[int]()
        self.counts = Counter[str]()

    def check(self, conn: psycopg.Connection[Any], record: ClientRecord, ledger: Path) -> list[Violation]:
        """What the WAL contradicts. `ledger`: the effects whose commits were acknowledged."""
        try:
            last = self._archive.end(conn)
            committed = self._archive.read(self._binaries, conn, TABLES, last)
        except (RuntimeError, AssertionError) as error:
            return [Violation("other", UNDONE, f"the WAL cannot be read: {error}")]
        story, found = _Story(), list[Violation]()
        for change in committed.changes:
            found += story.follow(change)
        acknowledged = {str(run) for run in record.acknowledged.values()}
        effects = set(ledger.read_text().splitlines() if ledger.exists() else [])
        found += [Violation("lost", FOUND, f"run {run}") for run in acknowledged - story.created]
        found += [Violation("lost", FOUND, f"effect {effect}") for effect in effects - story.rows[EFFECTS]]
        found += _compare_tables(conn, story)
        found += _compare_records(committed)
        self.timelines = [*self._archive.timelines(last)]
        self.counts[CAMPAIGNS] = 1
        self.counts["timelines of this WAL"] = len(self.timelines)
        self.counts["MB of this WAL"] = 16 * len(self._archive.segments(last))
        self.counts["committed transactions in this WAL"] = committed.transactions
        self.counts["changes of runs and effects in this WAL"] = len(committed.changes)
        self.counts["ended runs in this WAL"] = len(story.rows[HISTORY])
        self.counts["acknowledged enqueues found in this WAL"] = len(acknowledged & story.created)
        self.counts["acknowledged effects found in this WAL"] = len(effects & story.rows[EFFECTS])
        return found


def _compare_tables(conn: psycopg.Connection[Any], story: _Story) -> Iterator[Violation]:
    for table, query in _ROWS.items():
        kept = {row for (row,) in conn.execute(query.encode()).fetchall()}
        for row in story.rows[table] - kept:
            yield Violation("lost", LOST_IN_TABLES, f"{row} is not in {table}")
        for row in kept - story.rows[table]:
            yield Violation("other", LOST_IN_TABLES, f"only the table {table} has {row}")


def _compare_records(committed: Committed) -> Iterator[Violation]:
    seen = Counter((change.table, change.what) for change in committed.changes)
    for table in (RUNS, HISTORY, EFFECTS, KEYS):
        back = committed.records[table, "taken back"]
        written = {
            "INSERT": committed.records[table, "INSERT"] - back,
            "DELETE": committed.records[table, "DELETE"],
            "UPDATE": committed.records[table, "UPDATE"] if table in {HISTORY, EFFECTS} else seen[table, "UPDATE"],
        }
        for what, count in written.items():
            if count != seen[table, what]:
                yield Violation("other", COUNTED, f"{what} of {table}: {count}, the triggers saw {seen[table, what]}")
