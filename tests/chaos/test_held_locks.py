"""Campaigns find what a held lock stops besides what it locks."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from chaos import held_locks
from chaos.environment import AUDIT
from chaos.held_locks import LOCKS, SLOTS, Checks, held
from chaos.postgres_server import ROLES
from chaos.processes import Supervisor
from chaos.results import Result

if TYPE_CHECKING:
    from pathlib import Path


class NoWorkers:
    """The environment of a campaign in which no process runs."""

    def __init__(self, dsn: str, folder: Path) -> None:
        self._dsn, self.supervisor = dsn, Supervisor(folder)

    def connect(self) -> psycopg.Connection[Any]:
        return psycopg.connect(self._dsn, autocommit=True)

    def query(self, query: str, *values: Any) -> list[tuple[Any, ...]]:
        with self.connect() as conn:
            cursor = conn.execute(query.encode(), values or None)
            return cursor.fetchall() if cursor.description else []


@pytest.fixture
def environment(database: str, tmp_path: Path) -> Any:
    environment = NoWorkers(database, tmp_path)
    with environment.connect() as conn:
        for role in ROLES.named().values():
            with suppress(psycopg.errors.DuplicateObject):
                conn.execute(f"create role {role}".encode())
        conn.execute(AUDIT.read_bytes())
        held_locks.set_up(conn)
        conn.execute("insert into wakeboard.alert_rules (name, severity, definition) values ('dead', 'warning', '{}')")
    return environment


def test_what_does_not_end_beside_a_held_lock_is_found(environment: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(held_locks, "PROBING_S", 0.1)
    monkeypatch.setattr(held_locks, "MAINTENANCE_S", 0.1)
    checks = Checks(environment, Result())
    found = dict(checks.probe(0.1, []))
    assert found.keys() == {*SLOTS, "maintenance"}
    assert "quick enqueued after 0.0 s did not end" in found["forever"]


def test_without_an_answer_before_the_lock_there_is_no_verdict(
    environment: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(held_locks, "BUSY_S", 0.1)
    result = Result()
    assert Checks(environment, result).late(LOCKS) == []
    assert result.counts["held locks without a verdict"] == 1


def test_all_locks_can_be_held_at_once(environment: Any) -> None:
    run = environment.query("select id from wakeboard.enqueue('quick', '{}')")[0][0]
    locked = "select id from wakeboard.job_runs for update skip locked"
    with held(environment, LOCKS, {"locked": [run]}) as are_held:
        assert are_held
        assert environment.query(locked) == []
    assert environment.query(locked) == [(run,)]
