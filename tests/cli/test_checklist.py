"""What the checklist makes of the facts."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from wakeboard.cli.checklist import Finding, Here, checklist, worst
from wakeboard.store.queries.health_checks import (
    Definitions,
    Due,
    HealthFacts,
    Installed,
    LiveRuns,
    MaintenanceFacts,
    Server,
)
from wakeboard.store.queries.listings import PauseRow, RemovalRow

NOW = datetime(2026, 3, 29, 12, 0, tzinfo=UTC)
AGO = {
    "1 min": NOW - timedelta(minutes=1),
    "6 min": NOW - timedelta(minutes=6),
    "1 h": NOW - timedelta(hours=1),
    "4 h": NOW - timedelta(hours=4),
}

WELL = HealthFacts(
    server=Server(
        now=NOW,
        version=180_001,
        replica=False,
        autovacuum=True,
        durable=True,
        replicas=0,
        synchronous_replicas=0,
        oldest_transaction=timedelta(seconds=3),
        oldest_transaction_of="psql",
        oldest_prepared=None,
        slots_holding_back=[],
        notify_trigger=True,
        encoding="UTF8",
        odd_settings=[],
    ),
    installed=Installed(schema_version=4, functions_by="0.1.0", functions_hash="h", functions_revision=7),
    runs=LiveRuns(
        running=3,
        lapsed=0,
        oldest_lapse=None,
        cancels_unheeded=0,
        dead=0,
        dead_since_yesterday=0,
        oldest_quarantined=None,
    ),
    due=[],
    definitions=Definitions(
        schedules=7, stalled=0, stalled_example=None, late=0, oldest_late=None, unserved=[], tzdata_versions=["2026a"]
    ),
    maintenance=MaintenanceFacts(
        last_worker=AGO["1 min"],
        workers=1,
        releases=["0.1.0"],
        last_reap=AGO["1 min"],
        partition_now=True,
        partitions_until=NOW + timedelta(weeks=5),
        oldest_partition_end=NOW - timedelta(days=33),
        oldest_change=AGO["1 h"],
    ),
    pauses=[],
    removals=[],
)
HERE = Here(
    clock_ahead=timedelta(milliseconds=3),
    route="direct",
    functions_hash="h",
    functions_revision=7,
    version="0.1.0",
    tzdata="2026a",
    listen=True,
    prepared_statements=False,
    history_retention=timedelta(days=30),
    max_timeout_s=3600,
)


def due(**changed: Any) -> Due:
    usual = Due(
        queue="mail",
        job_type="send",
        runs=4,
        oldest=AGO["1 h"],
        longest_timeout_s=600,
        known=True,
        served=True,
        paused=False,
    )
    return replace(usual, **changed)


def finding(what: str, vitals: HealthFacts = WELL, here: Here = HERE) -> Finding:
    (found,) = [each for each in checklist(vitals, here) if each.what == what]
    return found


def test_a_store_that_is_well_is_all_ok():
    findings = checklist(WELL, HERE)

    assert {each.level for each in findings} == {"ok"}
    assert worst(findings) == "ok"
    assert all(each.do is None for each in findings)


@pytest.mark.parametrize(
    ("part", "changed", "level", "what", "says"),
    [
        ("server", {"replica": True}, "fail", "database", "read-only replica"),
        ("server", {"version": 140_003}, "fail", "database", "PostgreSQL 14"),
        ("server", {"durable": False}, "warn", "durability", "may be lost"),
        ("server", {"replicas": 2}, "warn", "durability", "a failover may lose the newest commits"),
        ("server", {"replicas": 2, "synchronous_replicas": 1}, "ok", "durability", "synchronous"),
        ("server", {"autovacuum": False}, "fail", "vacuum", "autovacuum is off"),
        ("server", {"oldest_transaction": timedelta(hours=2)}, "warn", "vacuum", "of psql has been open for 2 h"),
        ("server", {"oldest_prepared": timedelta(hours=2)}, "warn", "vacuum", "prepared transaction"),
        ("server", {"slots_holding_back": ["old"]}, "warn", "vacuum", "replication slot old"),
        ("server", {"notify_trigger": False}, "warn", "notify", "workers only poll"),
        ("server", {"encoding": "LATIN1"}, "fail", "database", "cannot hold every text"),
        ("server", {"odd_settings": ["array_nulls = off"]}, "warn", "settings", "array_nulls = off: each statement"),
        (
            "server",
            {"odd_settings": ["default_transaction_read_only = on"]},
            "fail",
            "settings",
            "nothing can be written",
        ),
        ("installed", {"functions_hash": "other", "functions_revision": 8}, "warn", "schema", "newer than this"),
        ("installed", {"functions_hash": "other"}, "fail", "schema", "differ from those of this installation"),
        ("installed", {"functions_by": "0.2.0"}, "warn", "schema", "this is 0.1.0"),
        ("duties", {"last_worker": None}, "fail", "workers", "no worker was ever seen"),
        ("duties", {"last_worker": AGO["6 min"]}, "fail", "workers", "last seen 6 min ago"),
        (
            "definitions",
            {"stalled": 1, "stalled_example": "a/b: why"},
            "fail",
            "ticks",
            "1 schedule stalled, such as a/b: why",
        ),
        (
            "definitions",
            {"late": 2, "oldest_late": AGO["1 h"]},
            "fail",
            "ticks",
            "2 schedules overdue, the oldest since 60 min ago",
        ),
        (
            "definitions",
            {"tzdata_versions": ["2025b", "2026a"]},
            "warn",
            "time zones",
            "zone data 2025b; this is 2026a",
        ),
        ("definitions", {"unserved": ["mail"]}, "warn", "queues", "no worker has served mail"),
        ("runs", {"lapsed": 2, "oldest_lapse": AGO["6 min"]}, "fail", "leases", "2 runs with a lapsed lease"),
        ("runs", {"lapsed": 2, "oldest_lapse": AGO["1 min"]}, "ok", "leases", "none stuck"),
        ("runs", {"cancels_unheeded": 1}, "warn", "leases", "asked to stop"),
        ("runs", {"oldest_quarantined": AGO["6 min"]}, "warn", "leases", "killed its worker twice"),
        ("runs", {"dead": 3, "dead_since_yesterday": 2}, "warn", "dead runs", "3 dead runs, 2 of them since yesterday"),
        ("runs", {"dead": 3}, "ok", "dead runs", "3 dead runs, 0 of them"),
        ("duties", {"partition_now": False}, "fail", "partitions", "none for this week"),
        ("duties", {"partitions_until": NOW + timedelta(days=3)}, "warn", "partitions", "until 2026-04-01"),
        ("duties", {"oldest_partition_end": NOW - timedelta(days=60)}, "warn", "retention", "beyond the 30 days"),
        ("duties", {"oldest_change": AGO["4 h"]}, "warn", "tidying", "since 4 h ago"),
    ],
)
def test_what_is_not_well_is_said_with_what_to_do(part: str, changed: dict[str, Any], level: str, what: str, says: str):
    found = finding(what, replace(WELL, **{part: replace(getattr(WELL, part), **changed)}))

    assert (found.level, says in found.says) == (level, True), found
    assert (found.do is None) == (level == "ok")


@pytest.mark.parametrize(
    ("waiting", "level", "what", "says"),
    [
        (due(served=False, known=False), "warn", "queues", "mail"),
        (due(known=False), "fail", "job types", "knows send: 4 runs queued, the oldest due 60 min ago"),
        (
            due(known=False, oldest=AGO["6 min"]),
            "warn",
            "job types",
            "knows send: 4 runs queued, the oldest due 6 min",
        ),
        (due(known=False, paused=True), "ok", "job types", "known"),
        (due(), "warn", "due runs", "4 runs waiting in mail, the oldest due 60 min ago"),
        (due(longest_timeout_s=7200), "warn", "due runs", "above WAKEBOARD_MAX_TIMEOUT_SECONDS (3600)"),
        (due(paused=True), "ok", "due runs", "none for long"),
        (due(oldest=AGO["1 min"]), "ok", "due runs", "4 runs waiting, none for long"),
    ],
)
def test_runs_that_wait_too_long_are_noticed(waiting: Due, level: str, what: str, says: str):
    found = finding(what, replace(WELL, due=[waiting]))

    assert (found.level, says in found.says) == (level, True), found


@pytest.mark.parametrize(
    ("changed", "level", "what", "says"),
    [
        ({"clock_ahead": timedelta(seconds=-9)}, "warn", "clock", "9.0 s behind this machine's"),
        ({"route": "session pooler"}, "ok", "connection", "through a session pooler"),
        ({"route": "transaction pooler"}, "ok", "connection", "LISTEN receives nothing"),
        ({"route": "transaction pooler", "listen": False}, "ok", "connection", "transaction pooler"),
        (
            {"route": "transaction pooler", "prepared_statements": True},
            "fail",
            "connection",
            "prepared statements break",
        ),
    ],
)
def test_what_is_not_well_here_is_said(changed: dict[str, Any], level: str, what: str, says: str):
    found = finding(what, here=replace(HERE, **changed))

    assert (found.level, says in found.says) == (level, True), found


def test_pauses_and_held_removals_are_not_forgotten():
    pauses = [PauseRow(what="queue", name="mail", reason="", paused_at=AGO["1 h"])]
    removals = [RemovalRow(source="file:x", count=12, requested_at=AGO["1 h"], confirmed_at=None)]
    vitals = replace(WELL, pauses=pauses, removals=removals)

    assert "paused: queue mail, the first 60 min ago" in finding("pauses", vitals).says
    assert finding("removals", vitals).do == "if that is meant: `wakeboard confirm removal file:x`"


def test_no_worker_yet_is_no_failure_on_an_empty_store():
    empty = replace(
        WELL,
        definitions=replace(WELL.definitions, schedules=0),
        maintenance=replace(WELL.maintenance, last_worker=None),
    )

    assert finding("workers", empty).level == "warn"
