"""A run of the job type wakeboard.alert delivers what a rule, a heartbeat or a test has recorded for it."""

from __future__ import annotations

import json
import re
from contextlib import ExitStack, closing
from typing import TYPE_CHECKING, Final

import psycopg
import pytest

from tests.store.sql_clients import SqlClient
from tests.store.test_roles import RoleDatabase
from tests.worker.test_alert_delivery import alerts_file
from wakeboard.alerts.sender import NOT_RECORDED, AlertSender
from wakeboard.settings import read_settings
from wakeboard.testing import FakeRun, run_handler
from wakeboard.text.name_patterns import RESERVED_IN_WORDS

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.worker.http_receiver import Receiver
    from wakeboard.testing import Outcome

pytestmark = pytest.mark.anyio

RULE: Final = json.dumps([{"name": "dead", "severity": "critical", "interval_s": 0, "definition": {"dead": 1}}])


class Installation:
    """A database with roles, one open alert and one call of a heartbeat, and what a worker makes of its runs."""

    def __init__(self, roles: RoleDatabase, clients: ExitStack, file: Path) -> None:
        self.superuser = clients.enter_context(closing(SqlClient(roles.superuser)))
        self.client, self.worker, self.operator = (
            clients.enter_context(closing(SqlClient(roles.dsn(role)))) for role in ("client", "worker", "operator")
        )
        self._handler = AlertSender(read_settings(alerts_file=str(file), dsn=roles.dsn("worker")))

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


async def test_only_the_product_makes_runs_of_its_own_job_types(installation: Installation):
    enqueue = "select id from enqueue('wakeboard.alert', '{}')"
    enqueue_many = "select id from enqueue_many('{send_mail,wakeboard.alert}', '{\"{}\", \"{}\"}')"
    insert = "insert into job_runs (job_type) values ('wakeboard.alert')"
    refused = f'job_type is "wakeboard.alert"; {RESERVED_IN_WORDS}'
    for statement in (enqueue, enqueue_many, insert):
        with pytest.raises(psycopg.errors.InvalidParameterValue, match=re.escape(refused)):
            installation.client.sql(statement)
    with pytest.raises(psycopg.errors.InvalidParameterValue, match=re.escape(refused)):
        installation.superuser.define("forged", job_type="wakeboard.alert")


async def test_each_recorded_delivery_is_sent_and_its_replay_is_not(installation: Installation, receiver: Receiver):
    recorded = [*installation.record(), installation.operator.value("select send_test_notification('team')")]
    for run in recorded:
        assert (await installation.delivered(run)).result == {"sent": True}
        installation.finish(run)
    assert len(receiver.seen) == 3
    for again in installation.operator.column("select new_id from replay(%s::bigint[])", recorded):
        outcome = await installation.delivered(again)
        assert (outcome.status, str(outcome.error)) == ("discarded", NOT_RECORDED)
    assert len(receiver.seen) == 3
