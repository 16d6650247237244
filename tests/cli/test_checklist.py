"""The findings of `wakeboard check` for given facts."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from wakeboard.cli.support.checklist import Finding, LocalFacts, checklist
from wakeboard.text.facts import Pause
from wakeboard.views.queries.commits import CommitFacts
from wakeboard.views.queries.health_checks import (
    Definitions,
    DueRuns,
    HealthFacts,
    Installed,
    LiveRuns,
    MaintenanceFacts,
    Server,
)
from wakeboard.views.queries.listings import RemovalRow

NOW = datetime(2026, 3, 29, 12, 0, tzinfo=UTC)
HOURS_2 = timedelta(hours=2)
AGO = {
    "1 min": NOW - timedelta(minutes=1),
    "6 min": NOW - timedelta(minutes=6),
    "1 h": NOW - timedelta(hours=1),
    "4 h": NOW - timedelta(hours=4),
}

HEALTHY = HealthFacts(
    server=Server(
        now=NOW, version=180_001, replica=False, autovacuum=True, durable=True, replicas=0, synchronous_replicas=0,
        oldest_transaction=timedelta(seconds=3), oldest_transaction_of="psql", oldest_prepared=None,
        slots_holding_back=[], encoding="UTF8", odd_settings=[],
    ),
    installed=Installed(schema_version=4, functions_by="0.1.0", functions_hash="h", functions_revision=7),
    runs=LiveRuns(
        running=3, expired=0, oldest_expiry=None, unacknowledged_cancels=0, dead=0, dead_since_yesterday=0,
        oldest_quarantined=None,
    ),
    due=[],
    definitions=Definitions(
        schedules=7, stalled=0, stalled_example=None, late=0, oldest_late=None, unserved=[], tzdata_versions=["2026a"]
    ),
    maintenance=MaintenanceFacts(
        last_worker=AGO["1 min"], workers=1, releases=["0.1.0"], last_reap=AGO["1 min"], partition_now=True,
        partitions_until=NOW + timedelta(weeks=5), oldest_partition_end=NOW - timedelta(days=33),
        oldest_change=AGO["1 h"],
    ),
    pauses=[],
    removals=[],
)  # fmt: skip
LOCAL = LocalFacts(
    clock_ahead=timedelta(milliseconds=3), route="direct", functions_hash="h", functions_revision=7, version="0.1.0",
    tzdata="2026a", listen=True, prepared_statements=False, history_retention=timedelta(days=30), max_timeout_s=3600,
)  # fmt: skip


def due(**changed: Any) -> DueRuns:
    usual = DueRuns(
        queue="mail", job_type="send", runs=4, oldest=AGO["1 h"], longest_timeout_s=600, known=True, served=True,
        paused=False,
    )  # fmt: skip
    return replace(usual, **changed)


def finding(check: str, facts: HealthFacts = HEALTHY, local: LocalFacts = LOCAL) -> Finding:
    (found,) = [each for each in checklist(facts, local) if each.check == check]
    return found


@pytest.mark.parametrize(
    ("commits", "level", "says"),
    [
        (CommitFacts(), "ok", "wait for no other server"),
        (CommitFacts(standby_names="s1", standbys=1), "ok", "a synchronous standby confirms them"),
        (CommitFacts(standby_names="s1"), "fail", "no such standby streams"),
        (CommitFacts(standby_names="s1", synchronous_commit="local"), "ok", "wait for no other server"),
        (CommitFacts(standby_names="s1", synchronous_commit="off"), "ok", "wait for no other server"),
        (CommitFacts(standby_names="s1", standbys=1, longest_wait=HOURS_2), "fail", "does not answer"),
        (CommitFacts(standby_names="s1", standbys=1, probe_hangs=True), "fail", "does not answer"),
    ],
)
def test_commits_that_no_standby_confirms_fail(commits: CommitFacts, level: str, says: str):
    found = finding("commits", replace(HEALTHY, commits=commits))
    assert (found.level, says in found.message) == (level, True)


def test_the_check_of_the_workers_counts_attempts_of_terminated_workers_by_cause():
    seen = replace(HEALTHY.maintenance, terminated={"OOMKilled": 3, "Evicted": 1})
    found = finding("workers", replace(HEALTHY, maintenance=seen))
    assert found.level == "ok"
    assert found.message.endswith("attempts of terminated workers in 24 h: Evicted 1, OOMKilled 3")


def test_a_healthy_database_has_no_warnings():
    findings = checklist(HEALTHY, LOCAL)

    assert {each.level for each in findings} == {"ok"}
    assert all(each.hint is None for each in findings)


@pytest.mark.parametrize(
    ("part", "changed", "level", "check", "message"),
    [
        ("server", {"replica": True}, "fail", "database", "read-only replica"),
        ("server", {"version": 140_003}, "fail", "database", "PostgreSQL 14"),
        ("server", {"encoding": "LATIN1"}, "fail", "database", "cannot represent every text"),
        ("server", {"durable": False}, "warn", "durability", "can be lost"),
        ("server", {"replicas": 2}, "warn", "durability", "a failover can lose the latest commits"),
        ("server", {"replicas": 2, "synchronous_replicas": 1}, "ok", "durability", "synchronous"),
        ("server", {"autovacuum": False}, "fail", "vacuum", "autovacuum is off"),
        ("server", {"oldest_transaction": HOURS_2}, "warn", "vacuum", "of psql has been open for 2 h"),
        ("server", {"oldest_prepared": HOURS_2}, "warn", "vacuum", "prepared transaction"),
        ("server", {"slots_holding_back": ["old"]}, "warn", "vacuum", "replication slot old"),
        ("server", {"odd_settings": ["array_nulls = off"]}, "warn", "settings", "array_nulls = off: wakeboard sets"),
        ("server", {"odd_settings": ["default_transaction_read_only = on"]}, "fail", "settings", "cannot write"),
        ("installed", {"functions_hash": "other", "functions_revision": 8}, "warn", "schema", "are newer than"),
        ("installed", {"functions_hash": "other"}, "fail", "schema", "differ from those of this release"),
        ("installed", {"functions_by": "0.2.0"}, "warn", "schema", "this is 0.1.0"),
        ("maintenance", {"last_worker": None}, "fail", "workers", "no worker has ever registered"),
        ("maintenance", {"last_worker": AGO["6 min"]}, "fail", "workers", "last seen 6 min ago"),
        ("definitions", {"stalled": 1, "stalled_example": "a/b: why"}, "fail", "ticks", "for example a/b: why"),
        (
            "definitions",
            {"without_tick": 2, "without_tick_example": "a/b"},
            "fail",
            "ticks",
            "2 schedules whose next tick is missing or too far away, for example a/b",
        ),
        ("definitions", {"late": 2, "oldest_late": AGO["1 h"]}, "fail", "ticks", "the oldest was due 60 min ago"),
        ("definitions", {"tzdata_versions": ["2025b", "2026a"]}, "warn", "time zones", "2025b; this release has 2026a"),
        ("definitions", {"unserved": ["mail"]}, "warn", "queues", "no worker has served mail"),
        ("runs", {"expired": 2, "oldest_expiry": AGO["6 min"]}, "fail", "leases", "2 runs with an expired lease"),
        ("runs", {"expired": 2, "oldest_expiry": AGO["1 min"]}, "ok", "leases", "none stuck"),
        ("runs", {"unacknowledged_cancels": 1}, "warn", "leases", "after they were cancelled"),
        ("runs", {"oldest_quarantined": AGO["6 min"]}, "warn", "leases", "whose worker crashed twice"),
        ("runs", {"dead": 3, "dead_since_yesterday": 2}, "warn", "dead runs", "3 dead runs, 2 new"),
        ("runs", {"dead": 3}, "ok", "dead runs", "3 dead runs, 0 new"),
        (
            "dependencies",
            {"cycle": ["a/1", "a/2"]},
            "fail",
            "dependencies",
            "a/2 runs after a/1, which runs after a/2: none",
        ),
        ("dependencies", {"cycle": ["a/1"]}, "fail", "dependencies", "a/1 runs after a/1: none of them gets a run"),
        (
            "dependencies",
            {"missing": [("a/1", "a/x")]},
            "warn",
            "dependencies",
            "`after` of a/1 names a/x, which does not exist",
        ),
        (
            "dependencies",
            {"missing": [("a/1", "a/x"), ("a/2", "a/x")]},
            "warn",
            "dependencies",
            "there are 2 such entries",
        ),
        ("maintenance", {"partition_now": False}, "fail", "partitions", "no partition for this week"),
        ("maintenance", {"partitions_until": NOW + timedelta(days=3)}, "warn", "partitions", "until 2026-04-01"),
        ("maintenance", {"oldest_partition_end": NOW - timedelta(days=60)}, "warn", "retention", "is 30 days"),
        ("maintenance", {"oldest_change": AGO["4 h"]}, "warn", "maintenance", "from 4 h ago"),
        ("maintenance", {"last_reap": None}, "ok", "maintenance", "no full reap of leases has been done yet"),
    ],
)
def test_each_problem_has_a_level_a_message_and_a_hint(
    part: str, changed: dict[str, Any], level: str, check: str, message: str
):
    found = finding(check, replace(HEALTHY, **{part: replace(getattr(HEALTHY, part), **changed)}))

    assert (found.level, message in found.message) == (level, True), found
    assert (found.hint is None) == (level == "ok")


@pytest.mark.parametrize(
    ("waiting", "level", "check", "message"),
    [
        (due(served=False, known=False), "fail", "queues", "no worker has served mail in the last 10 minutes"),
        (due(served=False, known=False, oldest=AGO["6 min"]), "warn", "queues", "mail"),
        (due(known=False), "fail", "job types", "handler for send: 4 runs queued, the oldest due 60 min ago"),
        (due(known=False, oldest=AGO["6 min"]), "warn", "job types", "for send: 4 runs queued, the oldest due 6 min"),
        (
            due(known=False, paused=True),
            "ok",
            "job types",
            "no run that may start in a served queue has waited 60 s for",
        ),
        (
            due(known=False, oldest=NOW),
            "ok",
            "job types",
            "no run that may start in a served queue has waited 60 s for",
        ),
        (due(served=False, oldest=NOW), "ok", "queues", "no run that may start has waited 60 s in a queue without"),
        (due(more=True), "warn", "due runs", "4+ runs waiting in mail"),
        (due(), "warn", "due runs", "4 runs waiting in mail, the oldest due 60 min ago"),
        (due(longest_timeout_s=7200), "warn", "due runs", "above WAKEBOARD_MAX_TIMEOUT_SECONDS (3600)"),
        (due(paused=True), "ok", "due runs", "none for more than 5 min"),
        (due(oldest=AGO["1 min"]), "ok", "due runs", "4 runs waiting, none for more than 5 min"),
    ],
)
def test_runs_that_wait_too_long_are_reported(waiting: DueRuns, level: str, check: str, message: str):
    found = finding(check, replace(HEALTHY, due=[waiting]))

    assert (found.level, message in found.message) == (level, True), found


@pytest.mark.parametrize(
    ("changed", "level", "check", "message"),
    [
        ({"clock_ahead": timedelta(seconds=-9)}, "warn", "clock", "9.0 s behind this machine"),
        ({"route": "session pooler"}, "ok", "connection", "through a session pooler"),
        ({"route": "transaction pooler"}, "ok", "connection", "does not support LISTEN"),
        ({"route": "transaction pooler", "listen": False}, "ok", "connection", "transaction pooler"),
        ({"route": "transaction pooler", "prepared_statements": True}, "fail", "connection", "prepared statements"),
    ],
)
def test_problems_of_this_machine_are_reported(changed: dict[str, Any], level: str, check: str, message: str):
    found = finding(check, local=replace(LOCAL, **changed))

    assert (found.level, message in found.message) == (level, True), found


def test_pauses_and_pending_removals_are_reported():
    pauses = [Pause(kind="queue", name="mail", reason="", paused_at=AGO["1 h"])]
    removals = [RemovalRow(source="file:x", count=12, requested_at=AGO["1 h"], confirmed_at=None)]
    facts = replace(HEALTHY, pauses=pauses, removals=removals)

    assert "paused: queue mail, the first 60 min ago" in finding("pauses", facts).message
    assert finding("removals", facts).hint == "if it is intended, run `wakeboard confirm removal file:x`"


def test_a_database_without_schedules_needs_no_worker_yet():
    definitions, seen = replace(HEALTHY.definitions, schedules=0), replace(HEALTHY.maintenance, last_worker=None)

    assert finding("workers", replace(HEALTHY, definitions=definitions, maintenance=seen)).level == "warn"
