"""A worker, the heartbeat and the command line in sessions with unusual defaults."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.chaos.processes import Worker
from tests.postgres_servers import running_pooler
from wakeboard.cli import main

if TYPE_CHECKING:
    from pathlib import Path

    from tests.worker.conftest import Store

HANDLERS = "tests.worker.reporting_handlers"
SETTINGS = {
    "default_transaction_isolation": "serializable",
    "array_nulls": "off",
    "DateStyle": "'German, DMY'",
    "IntervalStyle": "iso_8601",
    "standard_conforming_strings": "off",
    "search_path": "pg_catalog",
}


def set_defaults(store: Store) -> None:
    name = store.watcher.ask("select current_database()")
    for setting, value in SETTINGS.items():
        store.watcher.do(f"alter database {name} set {setting} = {value}")


def work(store: Store, dsn: str, tmp_path: Path) -> str:
    """A worker's log, in which a limited run, a failing one and one of several heartbeats come to their end."""
    store.enqueue("answers", count=3)
    store.enqueue("answers", limit_key="one")
    store.enqueue("raises", '{"what": "discard"}')
    store.enqueue("naps", '{"s": 1.5}')
    given = {"handlers": HANDLERS, "lease_seconds": 2, "listen": "false", "drain_lookahead_seconds": 0}
    with Worker(dsn, tmp_path, "--linger", "1", **given) as worker:
        assert worker.exit_code() == 0, worker.log
        return worker.log


@pytest.mark.parametrize("way", ["direct", "pooled"])
def test_a_worker_works_whatever_the_defaults_of_a_session_are(
    store: Store, database: str, tmp_path: Path, postgres_folder: Path, way: str
) -> None:
    set_defaults(store)
    if way == "direct":
        log = work(store, database, tmp_path)
    else:
        with running_pooler(database, postgres_folder, "transaction") as pooled:
            log = work(store, pooled, tmp_path)
    assert '"level": "warning", "logger": "wakeboard.worker"' not in log, log
    states = "select status::text, count(*) from wakeboard.all_runs group by 1 order by 1"
    assert store.watcher.rows(states) == [("dead", 1), ("succeeded", 5)], log


def test_commands_work_whatever_the_defaults_of_a_session_are(
    store: Store, database: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (run,) = store.enqueue("answers")
    set_defaults(store)
    enqueue = ["enqueue", "answers", "--key", "k", "--json"]
    for words in (
        ["runs"],
        ["run", str(run)],
        ["schedules"],
        ["limit"],
        enqueue,
        enqueue,
        ["cancel", str(run)],
        ["migrate"],
    ):
        code = main([*words, "--dsn", database])
        assert (code, capsys.readouterr().err) == (0, ""), words
    main(["check", "--json", "--dsn", database])
    (found,) = [each for each in json.loads(capsys.readouterr().out) if each["check"] == "settings"]
    assert found["level"] == "warn"
    assert "default_transaction_isolation = serializable" in found["message"]
