"""Each condition of health finds its problem, in the same words for `wakeboard check` and the board."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import pytest

from wakeboard.alerts.queries.page import AlertCounts
from wakeboard.alerts.rules.conditions import CONDITIONS as ALERT_CONDITIONS
from wakeboard.dependencies.queries import BlockedSchedule
from wakeboard.health.conditions import CONDITIONS, problems
from wakeboard.health.findings import findings
from wakeboard.health.problems import HealthCondition
from wakeboard.health.queries.commits import CommitFacts
from wakeboard.health.queries.facts import DueRuns, Health, LocalFacts, MaintenanceFacts, ReplicaFacts
from wakeboard.health.queries.server import RoleLogin
from wakeboard.limits.queries import LimitRow
from wakeboard.restores.rules import ServerChange
from wakeboard.store.migration_locks import LockHolder
from wakeboard.store.schema_differences import Differences
from wakeboard.text.facts import Pause
from wakeboard.views.queries.listings import RemovalRow
from wakeboard.views.queries.overview import DeadGroup

NOW: Final = datetime(2026, 3, 29, 12, tzinfo=UTC)
MINUTE: Final = timedelta(minutes=1)
HOUR: Final = timedelta(hours=1)
AGO: Final = NOW - 10 * MINUTE
WELL: Final = Health(
    now=NOW,
    maintenance=MaintenanceFacts(last_worker=NOW - MINUTE, partitions_until=NOW + timedelta(weeks=5)),
    local=LocalFacts(tzdata="2026a", history_days=30, max_timeout_s=3600),
    differences=Differences(restorable=[], others=[], indexes=[], rights={}),
)
LOGIN: Final = RoleLogin(role="wb", parts=["worker"], name="wb")
DUE: Final = DueRuns(
    queue="gpu",
    job_type="train",
    runs=2,
    oldest=AGO,
    longest_timeout_s=600,
    type_served=True,
    queue_served=True,
    paused=False,
)
DEAD: Final = DeadGroup(job_type="mail", error_type="Timeout", runs=3, newest=AGO, example_id=7, example_error="slow")
LIMIT: Final = LimitRow(key="api", max_running=2, is_explicit=True, running=2, waiting=4)
REMOVAL: Final = RemovalRow(source="file:x y", count=9, requested_at=AGO, confirmed_at=None)
ALERTS: Final = AlertCounts(
    open=1, severity="critical", names=["dead-runs"], of_all_dead=["dead-runs"], summary="3 dead", opened_at=AGO
)
PAUSE: Final = Pause(kind="queue", name="mail", reason="a move", paused_at=AGO, actor="ada")
CHANGE: Final = ServerChange(id=1, noticed_at=NOW, kind="promoted", lost=False, kept_until=AGO)
STANDBY: Final = CommitFacts(standby_names="s1", standbys=1, probe_hangs=False)
HOLDER: Final = LockHolder(
    pid=7,
    transaction="3/1",
    user_name="bi",
    application=None,
    state=None,
    open_for=None,
    tables=["job_runs"],
    maintains=False,
)


def changed(part: str, **facts: Any) -> Health:
    """A healthy installation but for these facts of one part."""
    return replace(WELL, **{part: replace(getattr(WELL, part), **facts)})


def due(**facts: Any) -> Health:
    return replace(WELL, due=[replace(DUE, **facts)])


CASES: Final[list[tuple[str, Health, str, str]]] = [
    ("servers that cannot serve", changed("server", replica=True), "bad", "read-only replica"),
    ("servers that cannot serve", changed("server", version=140_003), "bad", "PostgreSQL 14"),
    ("servers that cannot serve", changed("server", encoding="LATIN1"), "bad", "cannot represent every text"),
    ("unexpected settings", changed("server", settings={"array_nulls": "off"}), "warn", "sets array_nulls = off"),
    (
        "unexpected settings",
        changed("server", settings={"default_transaction_read_only": "on"}),
        "bad",
        "cannot write",
    ),
    ("unexpected settings", changed("server", settings={"lock_timeout": "50ms"}), "warn", "set lock_timeout = 50ms"),
    ("unexpected settings", changed("server", settings={"lock_timeout": "49ms"}), "bad", "set lock_timeout = 49ms"),
    (
        "unexpected settings",
        changed("server", logins=[replace(LOGIN, settings={"statement_timeout": "1ms"})]),
        "bad",
        "statement_timeout = 1ms for the role wb, which",
    ),
    (
        "roles that cannot log in",
        changed("server", logins=[replace(LOGIN, name=None)]),
        "bad",
        "The worker's role wb may not log in, nor may a member of it.",
    ),
    (
        "roles that cannot log in",
        changed("server", logins=[replace(LOGIN, name="ada", expired=True)]),
        "bad",
        "The worker's role ada, a member of wb, has a password that is valid no longer.",
    ),
    (
        "roles that cannot log in",
        replace(
            changed("server", logins=[replace(LOGIN, name="ada")]),
            due=[replace(DUE, oldest=NOW - timedelta(seconds=100))],
        ),
        "bad",
        "The worker's role wb may not log in, and no member of it is connected: ada.",
    ),
    *(
        (
            "roles that cannot log in",
            changed("server", logins=[replace(LOGIN, connection_limit=limit, sessions=limit)]),
            severity,
            f"its connection limit is {limit}",
        )
        for limit, severity in ((2, "bad"), (3, "warn"))  # a worker that works holds three
    ),
    ("servers that cannot serve", changed("server", connections=91), "warn", "91 of 100 connections are in use."),
    (
        "servers that cannot serve",
        changed("server", of_database=0, database_limit=0),
        "bad",
        "has 0 connections, and its limit is 0.",
    ),
    ("servers that cannot serve", changed("server", connections=100), "bad", "100 of 100 connections are in use."),
    (
        "servers that cannot serve",
        changed("server", full_tablespaces={"fast": "no space left"}),
        "bad",
        "is full, for the tablespace fast: no space left.",
    ),
    ("functions of another release", changed("installed", functions_revision=8), "warn", "are newer than"),
    ("functions of another release", changed("installed", functions_hash="other"), "bad", "differ from those"),
    ("functions of another release", changed("installed", functions_by="0.2.0"), "warn", "functions of 0.2.0; this is"),
    (
        "standbys that cannot be read",
        changed("local", replica=ReplicaFacts(problem="it is 12 s behind")),
        "warn",
        "is not used: it is 12 s behind",
    ),
    (
        "sequences behind their tables",
        changed("installed", sequences_behind=["job_runs"]),
        "bad",
        "The next ids of job_runs belong to rows",
    ),
    (
        "missing or altered parts of the schema",
        changed("differences", others=["table x is missing"]),
        "bad",
        "The schema has changed: table x is missing.",
    ),
    ("missing or altered parts of the schema", changed("differences", restorable=["function y"]), "bad", "function y"),
    ("missing or altered parts of the schema", changed("differences", indexes=["index z"]), "warn", "slower than"),
    ("missing rights", changed("differences", rights={"ada": ["call claim"]}), "bad", "ada may not call claim."),
    ("clocks that differ", changed("local", clock_ahead=timedelta(seconds=-9)), "warn", "9.0 s behind this machine"),
    (
        "poolers that lose prepared statements",
        changed("local", route="transaction pooler", prepared_statements=True),
        "bad",
        "does not support prepared statements",
    ),
    ("commits that can be lost", changed("storage", durable=False), "warn", "when the server crashes"),
    ("commits that can be lost", changed("storage", replicas=2), "warn", "a failover can lose the latest commits"),
    (
        "databases that went back in time",
        replace(WELL, server_changes=[replace(CHANGE, lost=True, seen_by="w\n1", seen_until=NOW)]),
        "bad",
        "Commits after 2026-03-29 11:50:00.000 UTC are lost. The former server had still answered w 1 at",
    ),
    ("databases that went back in time", replace(WELL, server_changes=[CHANGE]), "bad", "are lost is unknown"),
    (
        "databases that went back in time",
        replace(WELL, server_changes=[replace(CHANGE, kind="moved")]),
        "bad",
        "restored from a dump",
    ),
    (
        "databases that went back in time",
        replace(WELL, server_changes=[replace(CHANGE, id=0)]),
        "bad",
        "restored (timeline None to None), not recorded yet.",
    ),
    ("commits that hang", changed("commits", standby_names="s1"), "bad", "no such standby streams."),
    (
        "commits that hang",
        replace(WELL, commits=replace(STANDBY, longest_wait=2 * HOUR)),
        "bad",
        "the standby does not answer.",
    ),
    ("commits that hang", replace(WELL, commits=replace(STANDBY, probe_hangs=True)), "bad", "does not answer."),
    ("commits that hang", replace(WELL, commits=replace(STANDBY, probe_hangs=None)), "note", "cannot see whether"),
    ("transactions that lock tables", replace(WELL, lock_holders=[HOLDER]), "bad", "pid 7 (user bi, uses job_runs)."),
    ("transactions that hold vacuum back", changed("storage", autovacuum=False), "bad", "Autovacuum is off."),
    (
        "transactions that hold vacuum back",
        changed("storage", oldest_prepared=2 * HOUR),
        "warn",
        "prepared transaction",
    ),
    (
        "transactions that hold vacuum back",
        changed("storage", slots_holding_back=["a"]),
        "warn",
        "replication slot a is",
    ),
    (
        "transactions that hold vacuum back",
        changed("storage", oldest_transaction=2 * HOUR, oldest_transaction_of="psql"),
        "warn",
        "of psql has been open for 2 h",
    ),
    ("transactions that hold vacuum back", changed("storage", blind_role="ada"), "note", "ada cannot see how long"),
    ("missing workers", changed("maintenance", last_worker=AGO), "bad", "running. The last one was seen 10 min ago."),
    ("missing workers", changed("maintenance", last_worker=None), "warn", "No worker has ever registered"),
    (
        "missing workers",
        replace(changed("maintenance", last_worker=None), definitions=replace(WELL.definitions, schedules=1)),
        "bad",
        "No worker has ever registered",
    ),
    (
        "operators that cannot list schedules",
        changed("maintenance", operator_problems=["k8s:x: forbidden"]),
        "bad",
        "The operator of k8s:x: forbidden. Changes of schedules have no effect meanwhile.",
    ),
    ("open alerts", replace(WELL, alerts=ALERTS), "bad", "The alert dead-runs opened 10 min ago: 3 dead."),
    (
        "schedules without a next tick",
        changed("definitions", without_tick=1, without_tick_example="a/b"),
        "bad",
        "1 schedule whose next tick is missing or too far away, for example a/b.",
    ),
    (
        "overdue schedules",
        changed("definitions", late=2, oldest_late=AGO),
        "bad",
        "2 schedules overdue: no process enqueues due ticks. The oldest was due 10 min ago.",
    ),
    (
        "schedules that stopped after dead runs",
        changed("definitions", open_circuits=1, open_circuit_example="a/b"),
        "warn",
        "1 schedule stopped after dead runs (suspendAfterDead), for example a/b.",
    ),
    (
        "schedules without the success that they expect",
        changed("definitions", missed=1, missed_example="a/b"),
        "warn",
        "1 schedule had no success in time (expectSuccessWithinSeconds), for example a/b.",
    ),
    (
        "stalled schedules",
        replace(WELL, stalled=[BlockedSchedule(1, "a", "b", "no zone")]),
        "bad",
        "a/b is stalled: no",
    ),
    (
        "blocked schedules",
        replace(WELL, blocked=[BlockedSchedule(1, "a", "b", "It waits.")]),
        "warn",
        "a/b is blocked. It waits.",
    ),
    (
        "blocked schedules",
        replace(WELL, blocked=[BlockedSchedule(1, "a", "b", "It runs after itself.", in_cycle=True)]),
        "bad",
        "is blocked",
    ),
    (
        "ticks of other zone data",
        changed("definitions", tzdata_versions=["2025b", "2026a"]),
        "warn",
        "tzdata 2025b; this",
    ),
    (
        "queues without a worker",
        due(queue_served=False, type_served=False),
        "bad",
        "No worker has served the queue gpu in the last 10 minutes. Waiting: 2 runs of train in queue gpu; the",
    ),
    (
        "queues without a worker",
        due(queue_served=False, oldest=NOW - 2 * MINUTE),
        "warn",
        "No worker has served the queue gpu",
    ),
    (
        "queues without a worker",
        changed("definitions", unserved=["gpu"]),
        "warn",
        "the queue gpu in the last 10 minutes",
    ),
    (
        "job types without a handler",
        due(type_served=False, meant="trains"),
        "bad",
        "No worker of the queue gpu has had a handler for train in the last 10 minutes. Did you mean trains?",
    ),
    ("runs that wait for too long", due(more=True), "warn", "Waiting: 2+ runs of train in queue gpu"),
    ("runs that wait for too long", due(longest_timeout_s=7200), "warn", "WAKEBOARD_MAX_TIMEOUT_SECONDS (3600)"),
    (
        "expired leases",
        changed("runs", expired=2, oldest_expiry=AGO),
        "bad",
        "2 runs with an expired lease, the oldest",
    ),
    ("runs that do not stop", changed("runs", unacknowledged_cancels=1), "warn", "after they were cancelled."),
    ("quarantined runs that wait", changed("runs", oldest_quarantined=AGO), "warn", "whose worker crashed twice"),
    ("dead runs", replace(WELL, dead=[DEAD]), "warn", "3 dead runs of mail: Timeout. The newest died 10 min ago."),
    ("dead runs", replace(WELL, dead=[replace(DEAD, newest=NOW - timedelta(days=3))]), "note", "3 dead runs of mail"),
    ("missing partitions", changed("maintenance", partition_now=False), "bad", "no partition for this week"),
    (
        "missing partitions",
        changed("maintenance", partitions_until=NOW + timedelta(days=3)),
        "warn",
        "until 2026-04-01",
    ),
    (
        "partitions older than the retention",
        changed("maintenance", oldest_partition_end=NOW - timedelta(days=60)),
        "warn",
        "the retention is 30 days.",
    ),
    (
        "rows that maintenance should have deleted",
        changed("maintenance", oldest_change=NOW - 4 * HOUR),
        "warn",
        "from 4 h ago.",
    ),
    ("pauses", replace(WELL, pauses=[PAUSE]), "warn", "Paused 10 min ago by ada: queue mail (a move)."),
    ("pauses", replace(WELL, pauses=[replace(PAUSE, kind="schedule", name="a/b")]), "note", "schedule a/b"),
    ("full limits", replace(WELL, limits=[LIMIT]), "note", "The limit api is full (2 of 2): 4 runs waiting."),
    (
        "limits other than declared",
        replace(WELL, limits=[replace(LIMIT, waiting=0, differs_from=["file:x"])]),
        "note",
        "The limit api differs from what file:x declares.",
    ),
    (
        "removals that wait for a confirmation",
        replace(WELL, removals=[REMOVAL]),
        "warn",
        "file:x y asked 10 min ago to remove 9 schedules.",
    ),
]


@pytest.mark.parametrize(("name", "health", "severity", "text"), CASES)
def test_a_condition_reports_its_problem_only_with_what_to_do(name: str, health: Health, severity: str, text: str):
    (problem,) = problems(health)

    (condition,) = (each for each in CONDITIONS if each.name == name)
    assert condition.problems(health) == [problem]
    assert (problem.severity, problem.check) == (severity, condition.check)
    assert text in problem.text
    assert problem.remedy


def test_each_condition_has_a_case_and_watches_what_exists():
    assert {name for name, *_ in CASES} == {condition.name for condition in CONDITIONS}
    assert {each.alert for each in CONDITIONS} - {""} <= {each.name for each in ALERT_CONDITIONS}


@pytest.mark.parametrize(
    "health",
    [
        WELL,
        due(paused=True),
        due(type_served=False, oldest=NOW),
        due(oldest=NOW - MINUTE),
        changed("runs", expired=2, oldest_expiry=NOW - MINUTE),
        replace(WELL, limits=[replace(LIMIT, running=1)]),
        replace(WELL, removals=[replace(REMOVAL, confirmed_at=NOW)]),
        replace(WELL, commits=STANDBY),
        changed("commits", standby_names="s1", synchronous_commit="local"),
        replace(changed("storage", replicas=2), commits=STANDBY),
        changed("local", route="session pooler"),
    ],
)
def test_what_is_intended_or_has_just_begun_is_no_problem(health: Health):
    assert problems(health) == []
    found = [*findings(health)]
    assert {(each.level, each.hint) for each in found} == {("ok", None)}
    assert len(found) == len({condition.check for condition in CONDITIONS} - {"alerts", "reads"})


@pytest.mark.parametrize(
    ("check", "health", "text"),
    [
        ("connection", changed("local", route="transaction pooler"), "which does not support LISTEN: workers poll."),
        ("connection", changed("local", route="transaction pooler", listen=False), "Through a transaction pooler."),
        ("maintenance", WELL, "No full reap of leases was done yet."),
        ("leases", changed("runs", running=3), "3 runs running, none stuck."),
        (
            "workers",
            changed("maintenance", workers=2, terminated={"OOMKilled": 3, "Evicted": 1}),
            "Last seen 60 s ago, 2 workers running. Attempts of terminated workers in 24 h: Evicted 1, OOMKilled 3.",
        ),
        ("removals", WELL, "No removals that wait for a confirmation."),
    ],
)
def test_a_check_that_finds_nothing_says_what_it_measured_or_looked_for(check: str, health: Health, text: str):
    (finding,) = (each for each in findings(health) if each.check == check)
    assert finding.level == "ok"
    assert finding.message.endswith(text)


def test_parts_that_were_not_compared_are_not_called_right():
    checks = {each.check for each in findings(replace(WELL, differences=None))}
    assert not checks & {"objects", "rights", "alerts"}


def test_a_finding_has_the_command_to_type():
    (finding,) = (each for each in findings(replace(WELL, removals=[REMOVAL])) if each.check == "removals")
    assert finding.hint == "Confirm it if it is intended: `wakeboard confirm removal 'file:x y'`"


def test_of_many_problems_of_one_condition_five_are_shown():
    paused = [replace(PAUSE, name=str(number)) for number in range(9)]
    assert [each.text for each in problems(replace(WELL, pauses=paused))][4:] == [
        "Paused 10 min ago by ada: queue 4 (a move).",
        "There are more pauses.",
    ]


def test_without_a_worker_all_due_runs_are_one_problem():
    gone = changed("maintenance", last_worker=AGO)
    waiting = [
        replace(DUE, queue_served=False),
        replace(DUE, job_type="judge", runs=3, more=True),
        replace(DUE, paused=True),
    ]

    assert [problem.text for problem in problems(replace(gone, due=waiting))] == [
        "No worker is running. The last one was seen 10 min ago.",
        "5+ due runs wait for a worker; the oldest was due 10 min ago.",
    ]


def test_an_alert_about_all_dead_runs_marks_these_instead_of_repeating_them():
    (marked,) = problems(replace(WELL, dead=[DEAD], alerts=ALERTS))
    assert (marked.alert, marked.severity) == ("dead-runs", "bad")
    others = replace(ALERTS, open=2, names=["dead-runs", "slow"])
    both, dead = problems(replace(WELL, dead=[DEAD], alerts=others))
    assert (both.text[:8], both.count, dead.count) == ("2 alerts", 2, 0)
    mild = problems(replace(WELL, dead=[DEAD], alerts=replace(others, severity="info")))
    assert sum(problem.count for problem in mild if problem.colour == "bad") == 1


def test_dead_runs_have_one_colour():
    (problem,) = problems(replace(WELL, dead=[DEAD]))
    assert (problem.severity, problem.colour) == ("warn", "bad")


def test_the_worst_problem_comes_first():
    paused = replace(PAUSE, kind="schedule", name="shop/nightly")
    health = replace(changed("definitions", late=1, oldest_late=NOW - HOUR), pauses=[paused], due=[DUE])
    assert [problem.severity for problem in problems(health)] == ["bad", "warn", "note"]


@pytest.mark.parametrize(
    ("lasted", "severity"), [(0, None), (1, "warn"), (9, "warn"), (10, "bad"), (19, "bad"), (20, "bad")]
)
def test_a_condition_is_reported_when_it_has_lasted_long_enough(lasted: int, severity: str | None):
    condition = HealthCondition("x", "warn", after=MINUTE, bad_after=10 * MINUTE, note_after=20 * MINUTE)
    assert condition.severity_after(lasted * MINUTE) == severity
