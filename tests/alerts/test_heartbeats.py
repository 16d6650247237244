"""Heartbeats: when they are enqueued, and that a rule which cannot be measured stops them."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from tests.alerts.test_alert_rules import rule_of
from tests.alerts.test_alerts import evaluate
from tests.schedules.schedules import MISFIRE_GRACE, connected, rows
from wakeboard.alerts import calls
from wakeboard.alerts.calls import enqueue_heartbeats
from wakeboard.alerts.evaluate import CLAIMED_AT_ONCE, require_measured, run_alerts
from wakeboard.alerts.rules.alert_rules import AlertSpec
from wakeboard.alerts.rules.receivers import HeartbeatSpec
from wakeboard.engine.retention import Retention
from wakeboard.errors import LeadershipLost, WakeboardError
from wakeboard.maintenance import MaintenanceLoop
from wakeboard.schedules.leader_api import LeaderStore
from wakeboard.settings import read_settings

if TYPE_CHECKING:
    from wakeboard.alerts.rules.alert_rules import AlertRule
    from wakeboard.engine.maintenance_api import MaintenanceStore

pytestmark = pytest.mark.anyio

BEAT = [HeartbeatSpec(name="watchdog", url="http://127.0.0.1:1/")]


def loop_of(*rules: AlertRule) -> MaintenanceLoop:
    """Maintenance with these rules and a heartbeat. Its alerts are due in each pass, five seconds after the former."""
    spec = AlertSpec(rules=list(rules), heartbeats=BEAT)
    return MaintenanceLoop(
        misfire_grace=MISFIRE_GRACE, retention=Retention.from_settings(read_settings()), alerts=lambda: spec
    )


async def beat_and_error(store: MaintenanceStore, *rules: AlertRule) -> tuple[bool, str]:
    """Whether a pass of another process enqueues a heartbeat that is due, and what fails in it."""
    await rows(store, "delete from job_runs where job_type = 'wakeboard.alert'")
    await rows(store, "update alert_heartbeats set enqueued_at = 'epoch'")
    loop = loop_of(*rules)
    await loop.run_due(store, 0.0)
    done = await loop.run_due(store, 1.0)
    ((enqueued,),) = await rows(store, "select count(*) from job_runs where job_type = 'wakeboard.alert'")
    return enqueued == 1, str(done.failures.get("alerts", ""))


async def test_heartbeats_stop_while_a_rule_cannot_be_measured(store: MaintenanceStore):
    works, fails = rule_of(name="works", dead=1), rule_of(name="fails", durationOver="3 x p95")
    assert await beat_and_error(store, works, fails) == (True, "")
    await rows(store, "alter table run_rollups rename to rollups_away")
    with pytest.raises(Exception, match="wakeboard check"):
        await evaluate(store, works, fails)
    assert await beat_and_error(store, works, fails) == (True, "")  # one failure is no outage
    await rows(store, "update alert_rules set unmeasured_since = '2026-11-01 12:00:00+00' where name = 'fails'")
    said = "1 alert rule cannot be measured: fails since 2026-11-01 12:00:00 UTC"
    assert await beat_and_error(store, works, fails) == (False, said)  # nothing is evaluated in this pass
    assert await beat_and_error(store, works) == (True, "")  # a process that does not have the rule
    await rows(store, "update alert_rules set evaluated_at = 'epoch'")
    beat, error = await beat_and_error(store, works, fails)
    assert not beat
    assert error.startswith(f"{said}; ")
    assert "wakeboard check" in error
    await rows(store, "alter table rollups_away rename to run_rollups")
    await evaluate(store, works, fails)
    assert await beat_and_error(store, works, fails) == (True, "")


async def test_a_failed_evaluation_alone_withholds_no_heartbeat(store: MaintenanceStore):
    fails = rule_of(name="fails", durationOver="3 x p95")
    await evaluate(store, fails)
    await rows(store, "alter table run_rollups rename to rollups_away")
    await rows(store, "update alert_rules set evaluated_at = 'epoch'")
    beat, error = await beat_and_error(store, fails)
    assert beat
    assert "wakeboard check" in error


async def test_a_rule_that_no_process_could_claim_is_not_measured(store: MaintenanceStore):
    with pytest.raises(WakeboardError, match=r"^1 alert rule cannot be measured: rule$"):
        await require_measured(store, [rule_of(dead=1)])


ROW: list[dict[str, Any]] = [{"name": "rule", "severity": "info", "interval_s": 0, "definition": {"dead": 1}}]


async def test_an_evaluation_counts_that_ends_after_the_next_claim(store: MaintenanceStore):
    """Else two processes whose evaluations are slow would have measured nothing."""
    rule = rule_of(dead=1)
    (first,) = await calls.claim_alert_rules(store, ROW)
    (second,) = await calls.claim_alert_rules(store, ROW)
    await rows(store, "update alert_rules set unmeasured_since = now() - interval '91 s'")
    with pytest.raises(WakeboardError):
        await require_measured(store, [rule])
    assert await calls.record_measured_rules(store, ["rule"], first.claimed_at) == 1
    await require_measured(store, [rule])
    assert await rows(store, "select unmeasured_since from alert_rules") == [(first.claimed_at,)]
    assert await calls.record_measured_rules(store, ["rule"], second.claimed_at) == 1
    assert await rows(store, "select unmeasured_since from alert_rules") == [(None,)]


async def test_a_process_that_was_suspended_during_an_evaluation_hides_no_failures(store: MaintenanceStore):
    rule = rule_of(dead=1)
    (old,) = await calls.claim_alert_rules(store, ROW)
    await calls.claim_alert_rules(store, ROW)
    await rows(store, "update alert_rules set unmeasured_since = now() - interval '91 s'")  # claims since then failed
    an_hour_before = old.claimed_at - timedelta(hours=1)
    await calls.record_measured_rules(store, ["rule"], an_hour_before)
    with pytest.raises(WakeboardError):
        await require_measured(store, [rule])
    await evaluate(store, rule)
    assert await calls.record_measured_rules(store, ["rule"], an_hour_before) == 0
    await require_measured(store, [rule])


@pytest.mark.parametrize("is_over", [False, True])
async def test_a_rule_whose_result_always_comes_too_late_is_not_measured(
    store: MaintenanceStore, monkeypatch: pytest.MonkeyPatch, is_over: bool
):
    """Another process claims the rule during each measurement, so that no alert is opened or resolved."""
    rule = rule_of(dead=1)
    await rows(store, "select enqueue('ping')")
    await rows(store, "update job_runs set status = 'dead', dead_at = now()")
    await evaluate(store, rule)
    await rows(store, "delete from job_runs" if is_over else "delete from alerts")
    await rows(store, "update alerts set seen_at = now() - interval '1 hour'")
    await rows(store, "update alert_rules set unmeasured_since = now() - interval '91 s'")
    measure_alert = calls.measure_alert

    async def overtaken(*args: Any) -> Any:
        found = await measure_alert(*args)
        await calls.claim_alert_rules(store, ROW)
        return found

    monkeypatch.setattr(calls, "measure_alert", overtaken)
    for _ in range(2):
        assert await evaluate(store, rule) == 1
        with pytest.raises(WakeboardError):
            await require_measured(store, [rule])
    monkeypatch.undo()
    await evaluate(store, rule)
    await require_measured(store, [rule])
    assert await rows(store, "select resolved_at is not null from alerts") == [(is_over,)]


async def test_many_rules_are_claimed_in_parts(store: MaintenanceStore):
    rules = [rule_of(name=f"r{number}", dead=1) for number in range(2 * CLAIMED_AT_ONCE + 1)]
    assert await evaluate(store, *rules) == len(rules)
    ((claims, unmeasured),) = await rows(
        store, "select count(distinct evaluated_at), count(unmeasured_since) from alert_rules"
    )
    assert (claims, unmeasured) == (3, 0)


async def test_a_heartbeat_that_died_moves_to_history_when_the_next_is_due(store: MaintenanceStore, database: str):
    assert await enqueue_heartbeats(store, BEAT) == 1
    dies = "update job_runs set status = 'dead', dead_at = now(), run_at = 'epoch'"
    await rows(store, dies)
    assert await enqueue_heartbeats(store, BEAT) == 0
    assert await rows(store, "select status::text from job_runs") == [("dead",)]
    await rows(store, "update alert_heartbeats set enqueued_at = 'epoch'")
    assert await enqueue_heartbeats(store, BEAT) == 1
    assert await rows(store, "select status::text from job_runs") == [("queued",)]
    assert await rows(store, "select status::text, reason from job_run_history") == [
        ("dead", "the next call of the heartbeat follows")
    ]
    await rows(store, dies)
    await rows(store, "update alert_heartbeats set enqueued_at = 'epoch'")
    async with connected(database) as holder:
        await rows(holder, "begin")
        await rows(holder, "lock job_run_history in access exclusive mode")
        assert await enqueue_heartbeats(store, BEAT) == 0
    assert await rows(store, "select status::text from job_runs") == [("dead",)]
    async with connected(database) as holder:
        await rows(holder, "begin")
        await rows(holder, "select from job_runs for update")
        assert await enqueue_heartbeats(store, BEAT) == 0
        await rows(holder, "rollback")
    assert await enqueue_heartbeats(store, BEAT) == 1  # a call that is refused for a lock follows at once
    assert await rows(store, "select status::text from job_runs") == [("queued",)]


async def test_a_call_that_waits_in_another_queue_delays_no_call(store: MaintenanceStore):
    """Possibly no worker serves the queue that an earlier file named."""
    assert await enqueue_heartbeats(store, BEAT, "former") == 1
    await rows(store, "update alert_heartbeats set enqueued_at = 'epoch'")
    assert await enqueue_heartbeats(store, BEAT, "former") == 0
    assert await enqueue_heartbeats(store, BEAT, "alerts") == 1
    assert await rows(store, "select queue, status::text from job_runs") == [("alerts", "queued")]
    assert await rows(store, "select queue, status::text, reason from job_run_history") == [
        ("former", "cancelled", "the next call of the heartbeat follows")
    ]
    await rows(store, "update alert_heartbeats set enqueued_at = 'epoch'")
    await rows(store, "update job_runs set status = 'running', locked_by = 7, locked_until = now() + interval '1 min'")
    assert await enqueue_heartbeats(store, BEAT, "newest") == 0  # a worker executes the former call
    await rows(store, "update job_runs set status = 'queued', locked_by = 0, locked_until = 'epoch'")  # it was released
    assert await enqueue_heartbeats(store, BEAT, "newest") == 1
    assert await rows(store, "select queue from job_runs") == [("newest",)]


async def test_a_heartbeat_that_is_given_twice_is_called_once(store: MaintenanceStore):
    assert await enqueue_heartbeats(store, [*BEAT, *BEAT]) == 1


async def test_the_end_of_a_term_is_not_another_error(store: MaintenanceStore):
    """The operator ends its term at this error alone."""
    ((term,),) = await rows(store, "select term from acquire_leadership('k8s:one', 'ann', '1.0', 15)")
    leader = LeaderStore(store.conn, "k8s:one", term)
    await rows(store, "update leadership set expires_at = now() - interval '1 ms'")
    with pytest.raises(LeadershipLost):
        await run_alerts(leader, AlertSpec(rules=[rule_of(dead=1)]))
