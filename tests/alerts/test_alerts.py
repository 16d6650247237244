"""Alert rules over real histories: what fires, and that an outage has one alert whatever evaluates it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from tests.alerts.test_alert_rules import rule_of
from tests.schedules.schedules import MISFIRE_GRACE, claim, connected, declared, put, rows
from wakeboard.alerts import calls
from wakeboard.alerts.evaluate import CLAIMED_AT_ONCE, evaluate_alerts, measure
from wakeboard.alerts.queries.alerts import read_alerts
from wakeboard.alerts.rules.alert_rules import AlertSpec
from wakeboard.alerts.rules.evaluation import like_pattern
from wakeboard.engine.retention import Retention
from wakeboard.errors import LeadershipLost
from wakeboard.maintenance import MaintenanceLoop
from wakeboard.schedules.leader_api import LeaderStore
from wakeboard.settings import read_settings

if TYPE_CHECKING:
    from wakeboard.alerts.queries.alerts import AlertRow
    from wakeboard.alerts.rules.alert_rules import AlertRule
    from wakeboard.engine.maintenance_api import MaintenanceStore

pytestmark = pytest.mark.anyio

FAILURES = """
insert into job_attempts (run_id, lease_epoch, attempt, outcome, error_type, locked_by, started_at, ended_at)
select run.id, n, n, 'failed', 'Timeout', 7, now(), now() - %s::interval
  from job_runs as run, generate_series(1, %s) as n
"""


async def enqueue(store: MaintenanceStore, job_type: str = "send_mail", queue: str = "default") -> None:
    await rows(store, "select enqueue(%s, '{}', %s)", job_type, queue)


async def set_due(store: MaintenanceStore, ago: str) -> None:
    await rows(store, "update job_runs set run_at = now() - %s::interval", ago)
    await rows(store, "update job_runs set created_at = run_at")


async def value_of(store: MaintenanceStore, **fields: Any) -> float:
    return (await measure(store, rule_of(**fields))).value


async def evaluate(store: MaintenanceStore, *rules: AlertRule) -> int:
    """Evaluates the rules as if their interval had passed."""
    await rows(store, "update alert_rules set evaluated_at = evaluated_at - interval '2 minutes'")
    return await evaluate_alerts(store, rules)


async def alerts(store: MaintenanceStore) -> list[AlertRow]:
    return await read_alerts(store.conn, resolved=True, limit=100)


# -- measurements ------------------------------------------------------------------------------------------------------


async def test_failed_attempts_are_counted_within_the_time_and_by_pattern(store: MaintenanceStore):
    await enqueue(store, queue="billing")
    await rows(store, FAILURES, "10 minutes", 12)
    assert await value_of(store, failures=10, within="60m") == 12
    assert await value_of(store, failures=10, within="5m") == 0
    assert await value_of(store, failures=10, within="60m", where={"queue": "billing"}) == 12
    assert await value_of(store, failures=10, within="60m", where={"queue": "bill"}) == 0
    assert await value_of(store, failures=10, within="60m", where={"queue": "b*", "jobType": "send_*"}) == 12
    assert await value_of(store, failures=10, within="60m", where={"schedule": "*"}) == 0
    measured = await measure(store, rule_of(failures=10, within="60m"))
    assert measured.examples == ("send_mail: Timeout (12)",)


async def test_dead_runs_count_until_a_user_retries_or_discards_them(store: MaintenanceStore):
    await enqueue(store)
    await enqueue(store, "import")
    await rows(store, "update job_runs set status = 'dead', dead_at = now() - interval '2 h', error_type = 'E'")
    assert await value_of(store, dead=1) == 2
    assert await value_of(store, dead=1, within="1h") == 0
    assert await value_of(store, dead=1, where={"jobType": "import"}) == 1
    await rows(store, "select discard(array(select id from job_runs))")
    assert await value_of(store, dead=1) == 0


async def test_deliveries_of_alerts_count_only_for_rules_that_name_them(store: MaintenanceStore):
    await enqueue(store)
    await rows(store, "update job_runs set job_type = 'wakeboard.alert'")
    await rows(store, FAILURES, "10 minutes", 2)
    await rows(store, "update job_runs set status = 'dead', dead_at = now()")
    for condition in ({"dead": 1}, {"failures": 1, "within": "60m"}):
        assert await value_of(store, **condition) == 0
        assert await value_of(store, **condition, where={"jobType": "wakeboard.*"}) == 0
        assert await value_of(store, **condition, where={"jobType": "wakeboard.alert"}) > 0


async def test_a_run_that_no_worker_claims_is_late_unless_paused(store: MaintenanceStore):
    await enqueue(store)
    assert await value_of(store, late="5m") == 0
    await set_due(store, "10 minutes")
    assert await value_of(store, late="5m") == pytest.approx(600, abs=30)
    assert await value_of(store, late="15m") == 0
    await rows(store, "select pause('queue:default')")
    assert await value_of(store, late="5m") == 0
    await rows(store, "select resume('queue:default')")
    await rows(store, "update job_runs set status = 'running', locked_by = 7, locked_until = now() + interval '1 min'")
    assert await value_of(store, late="5m") == 0


async def test_a_late_run_counts_however_many_other_runs_precede_it(store: MaintenanceStore):
    """Fresh runs with an old `run_at`, runs that execute, and runs of other job types are not late, nor hide others."""
    await rows(store, "insert into job_runs (job_type) select 'other' from generate_series(1, 10001)")
    await rows(store, "insert into job_runs (job_type) values ('send_mail')")
    await rows(
        store,
        "update job_runs set run_at = now() - interval '1 h', created_at = now() - interval '1 h'"
        " where job_type = 'send_mail'",
    )
    late: dict[str, Any] = {"late": "5m", "where": {"jobType": "send_mail"}}
    old = "update job_runs set run_at = now() - interval '2 h'"
    hour = pytest.approx(3600, abs=60)
    await rows(store, f"{old} where job_type = 'other'")  # fresh
    assert await value_of(store, late="5m") == hour
    assert await value_of(store, **late) == hour
    await rows(store, f"{old}, created_at = now() - interval '2 h' where job_type = 'other'")  # late themselves
    assert await value_of(store, **late) == hour
    leased = ", status = 'running', locked_by = 7, locked_until = now() + interval '1 min', lease_epoch = 1"
    await rows(store, f"{old}{leased} where job_type = 'other'")
    assert await value_of(store, late="5m") == hour
    assert await value_of(store, **late) == hour


async def test_a_schedule_without_success_is_silent_unless_it_may_be(store: MaintenanceStore):
    silence: dict[str, Any] = {"noSuccessFor": "26h", "where": {"schedule": "team/*"}}
    await put(store, declared("good"), declared("silent"), declared("off", suspend=True), declared("new"))
    await rows(store, "update job_definitions set created_at = now() - interval '3 days' where name <> 'new'")
    await rows(store, "update rollup_progress set days_until = now() - interval '3 days'")  # these runs are not counted
    for name, ago in (("good", "25 h"), ("silent", "27 h")):
        await rows(store, "select run_now(id) from job_definitions where name = %s", name)
        await claim(store)
        await rows(store, "select finish_runs(array(select id from job_runs), 'cancelled', '')")
        await rows(
            store,
            "update job_run_history set status = 'succeeded', finished_at = now() - %s::interval where schedule = %s",
            ago,
            f"team/{name}",
        )
    measured = await measure(store, rule_of(**silence))
    assert measured.examples == ("team/silent",)
    assert measured.value == 1
    await rows(store, "select pause('schedule:' || id) from job_definitions where name = 'silent'")
    assert await value_of(store, **silence) == 0


async def test_a_rule_looks_at_each_schedule_that_its_patterns_leave(store: MaintenanceStore):
    names = ("team/a", "team-2/a", "team-2/a-b", "ops/a", "ops/backup-1", "ops-2/backup-2", "o/backup")
    for name in names:
        await rows(store, "select schedule(%s, %s, cron => '@yearly', queue => %s)", name, f"of_{name[0]}", name[-1])
    await put(store, declared("backup-3"))
    await rows(store, "update job_definitions set created_at = now() - interval '3 days'")
    patterns = (
        "*",
        "*/*",
        "team/*",
        "team*",
        "team*/*",
        "*/a",
        "*/a*",
        "*/backup*",
        "o*/backup-*",
        "*p*",
        "ops/a",
        "*2/a",
    )
    kinds = ("of_t", "of_*", "*o", "send_mail", "nothing")
    wheres = [
        {"schedule": schedule, **more}
        for schedule in patterns
        for more in ({}, *({"jobType": kind} for kind in kinds), {"queue": "1"}, {"queue": "*a*", "jobType": "of_t"})
    ]
    for where in [*wheres, *({"jobType": kind} for kind in kinds), {"queue": "b"}, {"queue": "*", "jobType": "of_*"}]:
        like = [like_pattern(where.get(name)) or "%" for name in ("schedule", "jobType", "queue")]
        ((fit,),) = await rows(
            store,
            "select count(*) from job_definitions"
            " where namespace || '/' || name like %s and job_type like %s and queue like %s",
            *like,
        )
        assert await value_of(store, noSuccessFor="26h", where=where) == fit, where


async def test_a_success_is_found_in_the_history_and_counted_days(store: MaintenanceStore):
    silence: dict[str, Any] = {"noSuccessFor": "6d", "where": {"schedule": "team/*"}}
    await put(store, declared("a"))
    await rows(store, "update job_definitions set created_at = now() - interval '40 days'")
    days = "update rollup_progress set days_until = date_bin('1 day', now(), 'epoch') - make_interval(days => %s)"
    counted = (
        "insert into run_rollups (grain, starts_at, dimension, name, succeeded, cancelled, skipped, discarded, failed,"
        " timed_out, crashed, died)"
        " select 'day', date_bin('1 day', now(), 'epoch') - make_interval(days => %s), 'schedule', id::text, %s,"
        " 0, 0, 0, 9, 0, 0, 0 from job_definitions"
    )
    await rows(store, days, 1)
    assert await value_of(store, **silence) == 1
    await rows(store, counted, 4, 0)
    await rows(store, counted, 6, 5)  # begins too early
    assert await value_of(store, **silence) == 1
    await rows(store, counted, 5, 1)
    assert await value_of(store, **silence) == 0
    await rows(store, days, 20)  # as if the rollups were behind: only the history is read
    assert await value_of(store, **silence) == 1
    await rows(store, "select run_now(id) from job_definitions")
    await claim(store)
    await rows(store, "select finish_runs(array(select id from job_runs), 'cancelled', '')")
    on_the_first_day = "now() - interval '6 days' + (date_bin('1 day', now(), 'epoch') + interval '1 day' - now()) / 2"
    for uncounted, at in ((20, "now() - interval '4 days'"), (1, "now() - interval '1 hour'"), (1, on_the_first_day)):
        await rows(store, days, uncounted)
        await rows(store, "delete from run_rollups where grain = 'day'")
        await rows(store, f"update job_run_history set status = 'succeeded', finished_at = {at}")
        assert await value_of(store, **silence) == 0, (uncounted, at)
    await rows(store, "update job_run_history set finished_at = now() - interval '6 days 1 hour'")
    assert await value_of(store, **silence) == 1


async def test_the_backlog_is_the_due_runs_that_wait(store: MaintenanceStore):
    await rows(
        store,
        "select enqueue('ping', '{}', queue, limit_key => key)"
        " from unnest('{a,b,b}'::text[], '{x,null,null}'::text[]) as q (queue, key)",
    )
    await rows(store, "select enqueue('ping', run_at => now() + interval '1 h')")
    assert await value_of(store, backlog=1) == 3
    assert await value_of(store, backlog=1, where={"queue": "b"}) == 2
    assert await value_of(store, backlog=1, where={"queue": "a"}) == 1


async def test_a_run_is_slow_compared_with_the_durations_of_its_job_type(store: MaintenanceStore):
    await rows(
        store,
        "insert into run_rollups (grain, starts_at, dimension, name, succeeded, cancelled, skipped, discarded, failed,"
        " timed_out, crashed, died, duration_buckets, duration_counts)"
        " select 'hour', date_bin('1 h', now(), 'epoch'), 'job_type', 'send_mail', 100, 0, 0, 0, 0, 0, 0, 0, '{80,96}',"
        " '{96,4}'",
    )  # 96 of 100 up to 1.024 s
    await enqueue(store)
    slow: dict[str, Any] = {"durationOver": "3 x p95"}
    assert await value_of(store, **slow) == 0
    await rows(store, "select register_worker(7, 'w', 'default', '', '', '{default}', 1, 60, '{ping}')")
    await rows(
        store,
        "update job_runs set status = 'running', locked_by = 7, locked_until = now() + interval '1 min',"
        " started_at = now() - interval '10.24 s'",
    )
    assert await value_of(store, **slow) == pytest.approx(10, abs=3)
    assert await value_of(store, durationOver="3 x p99") < 3
    await rows(store, "update job_runs set job_type = 'unknown'")
    assert await value_of(store, **slow) == 0


# -- alerts ------------------------------------------------------------------------------------------------------------


async def test_two_evaluators_open_one_alert(store: MaintenanceStore, database: str):
    rule = rule_of(dead=1)
    await enqueue(store)
    await rows(store, "update job_runs set status = 'dead', dead_at = now()")
    async with connected(database) as second:
        for _ in range(20):
            await rows(store, "update alert_rules set evaluated_at = 'epoch'")
            await asyncio.gather(evaluate_alerts(store, [rule]), evaluate_alerts(second, [rule]))
    assert len(await alerts(store)) == 1


async def test_a_process_that_was_suspended_during_an_evaluation_records_nothing(
    store: MaintenanceStore, database: str
):
    rule = rule_of(dead=1)
    (claimed,) = await calls.claim_alert_rules(
        store, [{"name": "rule", "severity": "warning", "interval_s": 0, "definition": {}}]
    )
    async with connected(database) as other:
        await evaluate(other, rule)
    assert await calls.record_alert(store, "rule", claimed.claimed_at, ("1 run is dead", 1, [])) is None
    assert await alerts(store) == []


async def test_an_evaluation_that_ends_after_the_claim_is_repeated_by_another_process(
    store: MaintenanceStore, database: str
):
    await enqueue(store)
    await rows(store, "update job_runs set status = 'dead', dead_at = now()")
    await calls.claim_alert_rules(store, [{"name": "rule", "severity": "info", "interval_s": 15, "definition": {}}])
    async with connected(database) as other:
        assert await evaluate_alerts(other, [rule_of(dead=1)]) == 0
        assert await evaluate(other, rule_of(dead=1)) == 1
    assert [row.summary for row in await alerts(store)] == ["1 run is dead"]


async def test_the_alert_of_a_rule_that_was_removed_resolves_after_an_hour(store: MaintenanceStore):
    await enqueue(store)
    await rows(store, "update job_runs set status = 'dead', dead_at = now()")
    await evaluate(store, rule_of(dead=1))
    other = rule_of(name="other", late="5m")
    await rows(store, "update alert_rules set evaluated_at = now() - interval '59 minutes'")
    await evaluate_alerts(store, [other])
    assert [row.resolution for row in await alerts(store)] == [None]
    await rows(store, "update alert_rules set evaluated_at = now() - interval '61 minutes'")
    await evaluate_alerts(store, [other])
    assert [row.resolution for row in await alerts(store)] == ["rule removed"]
    assert await rows(store, "select name from alert_rules") == [("other",)]


async def test_a_rule_that_cannot_be_measured_does_not_stop_the_others(store: MaintenanceStore):
    await enqueue(store)
    await rows(store, "update job_runs set status = 'dead', dead_at = now()")
    await rows(store, "alter table run_rollups rename to rollups_away")
    with pytest.raises(Exception, match="wakeboard check"):
        await evaluate(store, rule_of(name="a", durationOver="3 x p95"), rule_of(name="b", dead=1))
    assert [row.rule for row in await alerts(store)] == ["b"]


async def test_maintenance_evaluates_the_rules_after_its_first_pass(store: MaintenanceStore):
    await enqueue(store)
    await rows(store, "update job_runs set status = 'dead', dead_at = now()")
    retention = Retention.from_settings(read_settings())
    loop = MaintenanceLoop(
        misfire_grace=MISFIRE_GRACE, retention=retention, alerts=lambda: AlertSpec(rules=[rule_of(dead=1)])
    )
    assert not (await loop.run_due(store, 0.0)).failures
    assert await alerts(store) == []
    assert not (await loop.run_due(store, 1.0)).failures
    assert [row.rule for row in await alerts(store)] == ["rule"]


async def test_a_process_removes_no_rule_of_its_own_file_after_a_pause(store: MaintenanceStore):
    """Else its first claim would resolve the alerts of the rules that it claims next."""
    rules = [rule_of(name=f"rule-{number}", dead=1) for number in range(2 * CLAIMED_AT_ONCE)]
    await enqueue(store)
    await rows(store, "update job_runs set status = 'dead', dead_at = now()")
    await evaluate(store, *rules)
    opened = {row.id for row in await alerts(store)}
    await rows(store, "update alert_rules set evaluated_at = now() - interval '2 hours'")
    assert await evaluate_alerts(store, rules) == len(rules)
    assert {row.id: row.resolution for row in await alerts(store)} == dict.fromkeys(opened)


async def test_a_file_without_rules_removes_those_of_the_former_one(store: MaintenanceStore):
    await enqueue(store)
    await rows(store, "update job_runs set status = 'dead', dead_at = now()")
    await evaluate(store, rule_of(dead=1))
    assert await evaluate_alerts(store, []) == 0
    assert [row.resolution for row in await alerts(store)] == [None]
    await rows(store, "update alert_rules set evaluated_at = now() - interval '61 minutes'")
    assert await evaluate_alerts(store, []) == 0
    assert [row.resolution for row in await alerts(store)] == ["rule removed"]


async def test_a_measurement_does_not_keep_the_leadership_from_its_renewal(store: MaintenanceStore):
    """It may take longer than the lease of the leader, whose row each other call locks."""
    ((term,),) = await rows(store, "select term from acquire_leadership('k8s:one', 'ann', '1.0', 15)")
    leader = LeaderStore(store.conn, "k8s:one", term)
    await rows(store, "update leadership set expires_at = now() - interval '1 ms'")
    assert (await measure(leader, rule_of(dead=1))).value == 0
    with pytest.raises(LeadershipLost):
        await calls.claim_alert_rules(leader, [])
