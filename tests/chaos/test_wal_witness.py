"""What the witness of a campaign reads in the archived WAL: it finds faults that the tables no longer show."""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import psycopg
import pytest

from chaos.applications import ClientRecord
from chaos.checker import check
from chaos.environment import AUDIT
from chaos.losses import check_named, set_apart
from chaos.postgres_server import ROLES
from chaos.results import UNDONE, Violation
from chaos.wal_archive import WalArchive
from chaos.wal_witness import COUNTED, FOUND, LAST_LEASE, LOST_IN_TABLES, NO_RETURN, ONCE, WalWitness
from tests.conftest import open_folder
from tests.store.sql_clients import SqlClient
from wakeboard.local.postgres import NOT_DURABLE, EmbeddedPostgres, find_binaries
from wakeboard.store.migrate import migrate

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator
    from pathlib import Path


UNSEEN: Final = "set local session_replication_role = replica;"  # no trigger sees it
UPDATED: Final = (
    "update wakeboard.job_run_history set status = 'dead' where id = {run};"
    "update wakeboard.job_run_history set status = 'succeeded' where id = {run}"
)
AGAIN: Final = (
    "with gone as (delete from wakeboard.job_run_history where id = {run} returning *)"
    " insert into wakeboard.job_run_history select * from gone"
)
EFFECT_AGAIN: Final = (
    "with gone as (delete from chaos.effects where run_id = {run} returning *)"
    " insert into chaos.effects select * from gone"
)
TWICE: Final = "insert into wakeboard.job_run_history select * from wakeboard.job_run_history where id = {run}"
BY_ANOTHER: Final = (
    "insert into wakeboard.job_run_history select (jsonb_populate_record(past, '{{\"locked_by\": 72}}')).*"
    "  from wakeboard.job_run_history as past where id = {run}"
)
GONE: Final = "delete from wakeboard.job_run_history where id = {run}"
EFFECT_GONE: Final = "delete from chaos.effects where run_id = {run}"
PROMOTED: Final = """
insert into wakeboard.server_changes
  (kind, at_risk, from_timeline, from_started_at, from_table, to_timeline, to_started_at, to_table, kept_until, kept_id)
values ('promoted', true, 1, now(), 1, 3, now(), 1, now(), 0), ('promoted', false, 3, now(), 1, 4, now(), 2, now(), 0)
"""
# What is done to the database, the invariant that it violates, what the witness says, and whether the tables hide it.
PLANTED: Final = (
    (UPDATED, NO_RETURN, "UPDATE of {run} in job_run_history", True),
    (AGAIN, NO_RETURN, "DELETE of {run} in job_run_history", True),
    (UNSEEN + AGAIN, COUNTED, "DELETE of job_run_history: ", True),
    (EFFECT_AGAIN, NO_RETURN, "DELETE of {uuid} charge in effects", True),
    (BY_ANOTHER, LAST_LEASE, "run {run}: ", False),
    (TWICE, ONCE, "{run} in job_run_history", False),
    (UNSEEN + GONE, LOST_IN_TABLES, "{run} is not in job_run_history", False),
    (EFFECT_GONE, FOUND, "effect {uuid} charge", False),
)


class Installation:
    """A campaign's tables on a server that archives its WAL, a worker, and what its clients and handlers noted."""

    def __init__(self, dsn: str, archive: WalArchive, folder: Path) -> None:
        self.archive, self.ledger = archive, folder / "ledger"
        self.record, self.worker = ClientRecord(), SqlClient(dsn, 71)
        self.worker.register()

    def run_one(self) -> tuple[int, str]:
        """The id and the uuid of a run that a client enqueues, and that succeeds after an effect."""
        worker = self.worker
        tag = f"tag {len(self.record.acknowledged)}"
        self.record.acknowledged[tag] = run = worker.enqueue(payload={"tag": tag})
        ((_, epoch),) = worker.fetch()
        uuid = worker.value("select uuid from job_runs where id = %s", run)
        with worker.conn.transaction():
            worker.sql("select once(71, %s, %s, %s, 'charge')", run, uuid, epoch)
            worker.sql("insert into chaos.effects values (%s, %s, 'charge', now())", run, uuid)
        with self.ledger.open("a") as ledger:
            ledger.write(f"{uuid} charge\n")
        worker.sql("select complete(71, %s, %s)", [run], [epoch])
        return run, str(uuid)

    def wal_contradicts(self) -> list[Violation]:
        return self.read_wal(WalWitness(self.archive, find_binaries()))

    def tables_contradict(self) -> list[Violation]:
        return check(self.worker.conn, self.record, self.ledger)

    def read_wal(self, witness: WalWitness) -> list[Violation]:
        return witness.check(self.worker.conn, self.record, self.ledger)


@contextmanager
def _running() -> Generator[Installation]:
    with open_folder() as folder:
        archive = WalArchive(folder / "wal")
        with EmbeddedPostgres(folder / "server", settings={**NOT_DURABLE, **archive.settings}, trusting=True) as server:
            with psycopg.connect(server.dsn, autocommit=True) as conn:
                for role in set(ROLES.named().values()):
                    conn.execute(f"create role {role} login".encode())
                asyncio.run(migrate(server.dsn, roles=ROLES))
                conn.execute(AUDIT.read_bytes())
            installation = Installation(server.dsn, archive, folder)
            yield installation
            installation.worker.close()


@pytest.fixture(scope="module")
def installation() -> Iterator[Installation]:
    """With what the tests before have planted."""
    with _running() as running:
        yield running


@pytest.fixture
def sound_installation() -> Iterator[Installation]:
    with _running() as running:
        yield running


def test_the_wal_has_what_was_acknowledged_and_contradicts_nothing(sound_installation: Installation) -> None:
    installation = sound_installation
    for _ in range(3):
        installation.run_one()
    with installation.worker.conn.transaction(force_rollback=True):
        installation.worker.enqueue()
    witness = WalWitness(installation.archive, find_binaries())
    assert installation.read_wal(witness) == installation.tables_contradict() == []
    counts = witness.counts
    assert counts["acknowledged enqueues found in this WAL"] == 3
    assert counts["acknowledged effects found in this WAL"] == counts["ended runs in this WAL"] == 3


@pytest.mark.parametrize(("statement", "invariant", "says", "hidden"), PLANTED)
def test_a_planted_fault_is_found_in_the_wal(
    installation: Installation, statement: str, invariant: str, says: str, hidden: bool
) -> None:
    run, uuid = installation.run_one()
    before = installation.tables_contradict()
    with installation.worker.conn.transaction():
        installation.worker.sql(statement.format(run=run))
    assert (installation.tables_contradict() == before) == hidden
    found = [each.detail for each in installation.wal_contradicts() if each.invariant == invariant]
    assert [detail for detail in found if detail.startswith(says.format(run=run, uuid=uuid))], found


def test_an_acknowledged_enqueue_that_no_commit_has_is_lost(installation: Installation) -> None:
    installation.record.acknowledged["of a lost timeline"] = 1_000_000
    assert ("lost", FOUND, "run 1000000") in [
        (each.category, each.invariant, each.detail) for each in installation.wal_contradicts()
    ]


def test_a_promotion_that_no_server_change_names_is_a_silent_loss(installation: Installation) -> None:
    with installation.worker.conn.transaction(force_rollback=True):
        installation.worker.sql(PROMOTED)
        silent = check_named(installation.worker.conn, [1, 2, 3, 4])
    assert [(each.category, each.detail) for each in silent] == [("lost", "the promotion to timeline 4")]


def test_a_loss_that_a_failover_explains_is_counted_apart() -> None:
    lost, other = Violation("lost", "an acknowledged enqueue is never lost", "run 1"), Violation("doubled", ONCE, "1")
    assert set_apart([lost, other, lost]) == ([other], Counter({"lost acknowledged enqueues": 2}))


def test_a_wal_that_cannot_be_read_is_no_witness(sound_installation: Installation) -> None:
    installation = sound_installation
    installation.run_one()
    last = installation.archive.end(installation.worker.conn)
    (_, segment), *_ = installation.archive.segments(last)
    content = bytearray(segment.read_bytes())
    content[1 << 20 : (1 << 20) + 8192] = bytes(8192)
    segment.write_bytes(content)
    (violation,) = installation.wal_contradicts()
    assert violation.invariant == UNDONE
    assert "pg_waldump" in violation.detail
