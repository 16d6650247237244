"""A run of the job type wakeboard.alert delivers only what a rule, a heartbeat or a test has recorded for it.

Applications and writers of schedules may name any job type, and any payload.
"""

from __future__ import annotations

import json
from contextlib import ExitStack, closing
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import pytest

from tests.store.sql_clients import SqlClient
from tests.store.test_roles import RoleDatabase
from tests.worker.test_alert_delivery import alerts_file
from wakeboard.alerts.sender import NOT_RECORDED
from wakeboard.settings import read_settings
from wakeboard.testing import FakeRun, run_handler
from wakeboard_worker.builtin.alert import AlertDelivery

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.worker.http_receiver import Receiver
    from wakeboard.testing import Outcome

Forge: TypeAlias = "Callable[[Installation, str], int]"

pytestmark = pytest.mark.anyio

RULE: Final = json.dumps([{"name": "dead", "severity": "critical", "interval_s": 0, "definition": {"dead": 1}}])
FORGED: Final[list[dict[str, Any]]] = [
    {"alert": 1, "receiver": "team", "notification": "open"},
    {"alert": 1, "receiver": "team", "notification": "repeat"},
    {"receiver": "team", "notification": "test"},
    {"receiver": "watchdog", "notification": "heartbeat"},
]


class Installation:
    """A database with roles, one open alert and one call of a heartbeat, and what a worker makes of its runs."""

    def __init__(self, roles: RoleDatabase, clients: ExitStack, file: Path) -> None:
        self.superuser = clients.enter_context(closing(SqlClient(roles.superuser)))
        self.client, self.worker, self.operator = (
            clients.enter_context(closing(SqlClient(roles.dsn(role)))) for role in ("client", "worker", "operator")
        )
        self._handler = AlertDelivery(read_settings(alerts_file=str(file), dsn=roles.dsn("worker")))

    def record(self) -> list[int]:
        """What a worker records: an opening and a call of the heartbeat. Returns the ids of their runs."""
        claimed_at = self.worker.value("select claimed_at from claim_alert_rules(%s::text::jsonb)", RULE)
        self.worker.value('select enqueue_heartbeats(\'[{"name": "watchdog", "every_s": 60}]\')')
        alert = "select record_alert('dead', %s, true, 'x', 1, notification => 'open', receivers => '{team}')"
        assert self.worker.value(alert, claimed_at) == 1
        return self.superuser.column("select id from job_runs order by id")

    async def delivered(self, run_id: int) -> Outcome:
        payload = self.superuser.value("select payload from all_runs where id = %s", run_id)
        return await run_handler(self._handler, FakeRun(payload, id=run_id))

    def finish(self, run_id: int) -> None:
        self.superuser.sql("select finish_runs(array[%s::bigint], 'cancelled', 'done')", run_id)


@pytest.fixture
def installation(database: str, receiver: Receiver, tmp_path: Path) -> Iterator[Installation]:
    file = alerts_file(
        tmp_path, [{"name": "watchdog", "url": receiver.url("/beat")}], webhook={"url": receiver.url("/hook")}
    )
    with closing(RoleDatabase(database)) as roles, ExitStack() as clients:
        roles.migrate(roles.roles)
        yield Installation(roles, clients, file)


def enqueued(made: Installation, payload: str) -> int:
    return made.client.value("select id from enqueue('wakeboard.alert', %s::text::jsonb, priority => 5)", payload)


def enqueued_with_others(made: Installation, payload: str) -> int:
    return made.client.value(
        "select id from enqueue_many('{wakeboard.alert}', array[%s::text::jsonb], priorities => '{5}')", payload
    )


def inserted(made: Installation, payload: str) -> int:
    made.client.sql(
        "insert into job_runs (job_type, payload, priority) values ('wakeboard.alert', %s::text::jsonb, 5)", payload
    )
    return made.superuser.value("select max(id) from job_runs")


def scheduled(made: Installation, payload: str) -> int:
    schedule = made.superuser.define(f"forged-{hash(payload)}", job_type="wakeboard.alert", payload=payload)
    return made.operator.value("select id from run_now(%s)", schedule)


def replayed(made: Installation, payload: str) -> int:
    run = enqueued(made, payload)
    made.finish(run)
    return made.operator.value("select new_id from replay(array[%s::bigint])", run)


@pytest.mark.parametrize("forge", [enqueued, enqueued_with_others, inserted, scheduled, replayed])
async def test_no_client_causes_a_delivery(installation: Installation, receiver: Receiver, forge: Forge):
    recorded = installation.record()
    for payload in FORGED:
        outcome = await installation.delivered(forge(installation, json.dumps(payload)))
        assert (outcome.status, str(outcome.error)) == ("discarded", NOT_RECORDED), payload
    assert receiver.seen == []
    claim = "select run_id from claim_alert_delivery(7, 'default', '{team,watchdog}')"
    assert sorted(run for _ in range(3) for run in installation.operator.column(claim)) == recorded


async def test_each_recorded_delivery_is_sent_and_its_replay_is_not(installation: Installation, receiver: Receiver):
    recorded = [*installation.record(), installation.operator.value("select send_test_notification('team')")]
    for run in recorded:
        assert (await installation.delivered(run)).result == {"sent": True}
        installation.finish(run)
    assert len(receiver.seen) == 3
    for again in installation.operator.column("select new_id from replay(%s::bigint[])", recorded):
        assert (await installation.delivered(again)).status == "discarded"
    assert len(receiver.seen) == 3
