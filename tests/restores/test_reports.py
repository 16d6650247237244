"""Where a database that went back in time says so: on the board, on resources, in a metric, by an alert, in `check`."""

from __future__ import annotations

import asyncio
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from tests.board.asgi import Client
from tests.restores.test_void_leases import GO_BACK
from tests.store.sql_clients import SqlClient
from tests.store.test_roles import RoleDatabase
from wakeboard.cli import main
from wakeboard.health.conditions import problems
from wakeboard.health.queries.facts import read_health
from wakeboard.store.connection import connect
from wakeboard.views.queries.schedule_state import schedule_states
from wakeboard_operator.metrics import Metrics

if TYPE_CHECKING:
    from collections.abc import Iterator

METRIC = "wakeboard_unacknowledged_restores"


@pytest.fixture
def worker(database: str) -> Iterator[SqlClient]:
    with closing(SqlClient(database, 71)) as client:
        client.register()
        yield client


def places(worker: SqlClient) -> dict[str, bool]:
    """Whether each place says it."""
    return asyncio.run(read_places(worker))


async def read_places(worker: SqlClient) -> dict[str, bool]:
    metrics, board = Metrics(), Client(worker.dsn)
    async with await connect(worker.dsn) as conn:
        health = await read_health(conn)
        metrics.record_health(health)
        states = await schedule_states(conn, worker.column("select id from job_definitions"))
    (sentence,) = (await board.get("/")).text.split('class="summary-sentence">')[1:]
    await board.close()
    return {
        "check": any(each.check == "restores" for each in problems(health)),
        "first sentence of the board": "was restored from a dump" in sentence.partition("</p>")[0],
        "condition of the resources": all(state.database_went_back for state in states),
        "metric": metrics.registry.get_sample_value(METRIC) == 1,
        "alert": worker.value("select value from measure_alert('databaseWentBack')") == 1,
    }


def changed_schedules(worker: SqlClient) -> list[int]:
    """Those whose status an operator computes again, which it does then."""
    return worker.column("with read as (delete from definition_changes returning definition_id) select * from read")


def test_every_place_names_a_restore_until_it_is_acknowledged(worker: SqlClient) -> None:
    schedule = worker.define()
    changed_schedules(worker)
    assert not any(places(worker).values())
    worker.sql(GO_BACK)
    worker.sql("select reap()")
    said = places(worker)
    assert all(said.values()), said
    assert changed_schedules(worker) == [schedule]
    assert main(["check", "--after-restore", "--yes", "--reason", "seen", "--dsn", worker.dsn]) == 0
    assert not any(places(worker).values())
    assert changed_schedules(worker) == [schedule]


def test_a_viewer_reads_the_report_and_acknowledges_nothing(
    worker: SqlClient, capsys: pytest.CaptureFixture[str]
) -> None:
    roles = RoleDatabase(worker.dsn)
    roles.migrate(roles.roles)
    worker.sql(GO_BACK)
    viewer = ["check", "--after-restore", "--dsn", roles.dsn("viewer")]
    assert main(viewer) == 1
    assert "was restored from a dump" in capsys.readouterr().out
    assert main([*viewer, "--yes", "--reason", "seen"]) == 1
    assert "may not do this" in capsys.readouterr().err
    roles.close()
