"""What failovers to asynchronous standbys have lost, and whether the installation says so."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Final

from chaos.results import Violation
from chaos.wal_witness import FOUND

if TYPE_CHECKING:
    from collections.abc import Iterable

    import psycopg

SILENT: Final = "no loss is silent"
# What a loss violates, and what is counted then. The WAL says the same again.
COUNTED: Final = {
    "an acknowledged enqueue is never lost": "lost acknowledged enqueues",
    "an acknowledged effect is never lost": "lost acknowledged effects",
    "an effect is acknowledged once": "lost acknowledged effects that happened again",
    "a unique window has one run": "lost runs of unique windows",
    FOUND: None,
}
_NAMED: Final = "select from_timeline, to_timeline from wakeboard.server_changes where at_risk or lost"


def set_apart(found: Iterable[Violation]) -> tuple[list[Violation], Counter[str]]:
    """The violations that no loss explains, and how much was lost."""
    others, lost = list[Violation](), Counter[str]()
    for violation in found:
        if violation.invariant not in COUNTED:
            others.append(violation)
        elif name := COUNTED[violation.invariant]:
            lost[name] += 1
    return others, lost


def check_named(conn: psycopg.Connection[Any], timelines: Iterable[int]) -> list[Violation]:
    """The promotions that no row of server_changes names as one after which commits may be missing.

    A row may name several: a server may be promoted and replaced before any process has seen it.
    """
    rows = conn.execute(_NAMED).fetchall()
    unnamed = [each for each in timelines if each > 1 and not any(former < each <= later for former, later in rows)]
    return [Violation("lost", SILENT, f"the promotion to timeline {each}") for each in unnamed]
