"""While no worker runs, the leading operator delivers alerts: those and nothing else, and each of them once."""

from __future__ import annotations

import asyncio
import json
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from tests.schedules.schedules import connected, rows, until
from tests.worker.http_receiver import receiving
from wakeboard.alerts.calls import enqueue_heartbeats
from wakeboard.alerts.evaluate import evaluate_alerts
from wakeboard.alerts.file import load_alert_file
from wakeboard.errors import Discard, LeadershipLost, RetryAfter, Snooze
from wakeboard.schedules.leader_api import ClaimedDelivery, LeaderStore, OperatorStore
from wakeboard.settings import read_settings
from wakeboard_operator.alert_deliveries import AlertDeliveries, outcome_of

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator
    from pathlib import Path

    from tests.worker.http_receiver import Receiver
    from wakeboard.engine.maintenance_api import MaintenanceStore

pytestmark = pytest.mark.anyio
SOURCE = "k8s:test"
DEAD = "update job_runs set status = 'dead', dead_at = now() where job_type = 'x'"
DELIVERIES = "select status::text, result from all_runs where job_type = 'wakeboard.alert' order by id"


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    async with receiving() as receiver:
        yield receiver


@pytest.fixture
async def store(database: str) -> AsyncIterator[MaintenanceStore]:
    """A store with a dead run, which the rule `dead` finds."""
    async with connected(database) as store:
        await rows(store, "select enqueue('x')")
        await rows(store, DEAD)
        yield store


def alerts_file(folder: Path, url: str, heartbeat: str | None = None, **spec: Any) -> Path:
    rule = {"name": "dead", "dead": 1, "receivers": ["team"]}
    beats = [{"name": "watchdog", "url": heartbeat}] if heartbeat else []
    receivers = [{"name": "team", "webhook": {"url": url}}]
    spec = {"rules": [rule], "receivers": receivers, "heartbeats": beats, **spec}
    path = folder / "alerts.yaml"
    path.write_text(yaml.safe_dump({"apiVersion": "wakeboard.dev/v1alpha1", "kind": "AlertRules", "spec": spec}))
    return path


async def evaluate(store: MaintenanceStore, file: Path) -> None:
    await rows(store, "update alert_rules set evaluated_at = 'epoch'")
    await evaluate_alerts(store, load_alert_file(file).resolved_rules(), load_alert_file(file).queue)


@asynccontextmanager
async def delivering(dsn: str, file: Path, source: str = SOURCE) -> AsyncGenerator[LeaderStore]:
    """The leading operator of a source, which delivers."""
    alerts = load_alert_file(file)
    deliveries = AlertDeliveries(read_settings(dsn=dsn, alerts_file=str(file)), lambda: alerts)
    async with connected(dsn) as plain:
        led = await OperatorStore(plain.conn).acquire_leadership(source, "me", "1", 60)
        leader = LeaderStore(plain.conn, source, led.term)
        async with asyncio.TaskGroup() as tasks:  # an error of the operator ends the test
            task = tasks.create_task(deliveries.run(leader))
            yield leader
            task.cancel()


async def test_without_a_worker_the_leader_delivers(
    store: MaintenanceStore, database: str, receiver: Receiver, tmp_path: Path
):
    file = alerts_file(tmp_path, receiver.url("/hook"))
    await evaluate(store, file)
    async with delivering(database, file):
        await until(store, "select 1 from job_run_history where status = 'succeeded'")
    assert [json.loads(body)["notification"] for body in receiver.bodies] == ["open"]
    assert await rows(store, DELIVERIES) == [("succeeded", {"by": "operator", "sent": True})]


async def test_leaders_of_two_clusters_deliver_each_notification_once(
    store: MaintenanceStore, database: str, receiver: Receiver, tmp_path: Path
):
    many = [{"name": f"dead{n}", "dead": 1, "receivers": ["team"]} for n in range(30)]
    file = alerts_file(tmp_path, receiver.url("/hook"), rules=many)
    await evaluate(store, file)
    async with delivering(database, file), delivering(database, file, source="k8s:other"):
        await until(store, "select 1 from job_run_history where status = 'succeeded' having count(*) = 30")
    assert len({json.loads(body)["alert"] for body in receiver.bodies}) == len(receiver.bodies) == 30


async def test_an_operator_that_does_not_lead_is_given_nothing(store: MaintenanceStore, database: str, tmp_path: Path):
    await evaluate(store, alerts_file(tmp_path, "http://127.0.0.1:1/"))
    async with connected(database) as plain:
        former = LeaderStore(plain.conn, SOURCE, 1)
        with pytest.raises(LeadershipLost):
            await former.claim_alert_delivery(7, "default", ["team"])
        led = await OperatorStore(plain.conn).acquire_leadership(SOURCE, "me", "1", 60)
        leader = LeaderStore(plain.conn, SOURCE, led.term)
        delivery = await leader.claim_alert_delivery(7, "default", ["team"])
        assert delivery is not None
        await leader.release_leadership(SOURCE, led.term)
        assert await leader.finish_alert_delivery(7, delivery, "sent") == "accepted"  # sent, so not to be sent again
        assert await leader.finish_alert_delivery(7, delivery, "sent") == "accepted"  # after a lost reply


async def test_only_a_worker_that_knows_alerts_now_keeps_them_from_the_operator(
    store: MaintenanceStore, tmp_path: Path
):
    await evaluate(store, alerts_file(tmp_path, "http://127.0.0.1:1/"))
    operator = OperatorStore(store.conn)
    register = "select register_worker(7, 'w', %s, '', '', %s, 1, 60, %s)"

    async def claimed() -> bool:
        found = await operator.claim_alert_delivery(8, "default", ["team"])
        if found is not None:
            assert await operator.finish_alert_delivery(8, found, "released") == "accepted"
        return found is not None

    await rows(store, register, "other", ["billing"], ["wakeboard.alert"])
    assert await claimed()  # it serves another queue
    await rows(store, "delete from workers")
    await rows(store, register, "plain", ["default"], ["ping"])
    assert await claimed()  # it does not know the job type
    await rows(store, "delete from workers")
    await rows(store, register, "default", ["default"], ["wakeboard.alert", "ping"])
    assert not await claimed()
    await rows(store, "delete from workers")
    assert not await claimed()  # it woke lately
    await rows(store, "update worker_types set last_known_at = now() - interval '241 s'")
    assert await claimed()
    await rows(store, register, "default", ["default"], ["ping"])
    assert await claimed()  # the pool delivered once: its worker of today does not


async def test_only_deliveries_to_known_receivers_are_claimed(store: MaintenanceStore, tmp_path: Path):
    operator = OperatorStore(store.conn)
    await rows(store, "select enqueue('ping', '{\"receiver\": \"team\"}', priority => 5)")
    assert await operator.claim_alert_delivery(8, "default", ["team"]) is None
    await evaluate(store, alerts_file(tmp_path, "http://127.0.0.1:1/"))
    assert await operator.claim_alert_delivery(8, "default", ["another"]) is None
    assert await operator.claim_alert_delivery(8, "billing", ["team"]) is None
    await rows(store, "select pause('queue:default')")
    assert await operator.claim_alert_delivery(8, "default", ["team"]) is None
    await rows(store, "select resume('queue:default')")
    delivery = await operator.claim_alert_delivery(8, "default", ["team"])
    assert delivery is not None
    assert await operator.claim_alert_delivery(9, "default", ["team"]) is None
    assert await operator.finish_alert_delivery(9, delivery, "sent") == "lost"
    ((ping,),) = await rows(store, "select id from job_runs where job_type = 'ping'")
    with pytest.raises(Exception, match=f"run {ping} is not a delivery of an alert"):
        await operator.finish_alert_delivery(8, delivery._replace(run_id=ping), "sent")


async def test_test_messages_and_heartbeats_are_delivered_and_retried(
    store: MaintenanceStore, database: str, receiver: Receiver, tmp_path: Path
):
    await rows(store, "select discard(array(select id from job_runs))")
    file = alerts_file(tmp_path, receiver.url("/503"), receiver.url("/beat"))
    assert await enqueue_heartbeats(store, load_alert_file(file).heartbeats) == 1
    await rows(store, "select send_test_notification('team')")
    await rows(store, "update job_runs set max_attempts = 2 where payload ->> 'notification' = 'test'")
    async with delivering(database, file):
        await until(store, "select 1 from job_run_history where payload ->> 'receiver' = 'watchdog'")
        await until(store, "select 1 from job_runs where status = 'failed' and attempts = 1")
    assert ("GET", "/beat") in [(request.method, request.path) for request in receiver.seen]
    ((error_type, error),) = await rows(store, "select error_type, last_error from job_runs")
    assert (error_type, error) == ("DeliveryFailed", "the receiver answered 503: because")


async def test_deliveries_under_way_at_the_end_of_a_term_are_released(
    store: MaintenanceStore, database: str, receiver: Receiver, tmp_path: Path
):
    file = alerts_file(tmp_path, receiver.url("/silent"))
    await evaluate(store, file)
    async with delivering(database, file):
        await receiver.asked.wait()
    ((status, crashes, attempts),) = await rows(
        store, "select status::text, crash_count, attempts from job_runs where job_type = 'wakeboard.alert'"
    )
    assert (status, crashes, attempts) == ("queued", 0, 0)


def test_an_operator_discards_no_delivery():
    delivery = ClaimedDelivery(1, 1, None, {})  # type: ignore[arg-type]
    secret = outcome_of(delivery, Discard("this process has no secret 'team'"))
    assert (secret.outcome, secret.error[0]) == ("failed", "Discard")
    assert (outcome_of(delivery, RetryAfter(9)).outcome, outcome_of(delivery, RetryAfter(9)).delay_s) == ("failed", 9)
    assert (outcome_of(delivery, Snooze(5)).outcome, outcome_of(delivery, Snooze(5)).delay_s) == ("released", 5)
