"""What a file with alert rules may say, and when an alert opens and resolves."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from wakeboard.alerts.rules.alert_rules import AlertRule, AlertSpec, definition_of, load_alert_rules
from wakeboard.alerts.rules.conditions import CONDITIONS, AlertCondition, page_behind
from wakeboard.alerts.rules.evaluation import Measurement, is_quiet, like_pattern, notification_of, step_of, summary_of
from wakeboard.errors import InvalidSchedule
from wakeboard.store.schema_files import sql_functions
from wakeboard.views.rules.run_search import parse_run_search

NOW = datetime(2026, 3, 29, 12, 0, tzinfo=UTC)


HEAD = {"apiVersion": "wakeboard.dev/v1alpha1", "kind": "AlertRules"}


def rules_of(*written: Any) -> list[AlertRule]:
    document = {**HEAD, "spec": {"rules": list(written)}}
    return load_alert_rules(document, lambda _: "alerts.yaml:1").spec.rules


def rule_of(**fields: Any) -> AlertRule:
    (rule,) = rules_of({"name": "rule", **fields})
    return rule


@pytest.mark.parametrize(
    ("fields", "value", "fires", "summary"),
    [
        ({"failures": 10, "within": "60m"}, 9, False, ""),
        ({"failures": 10, "within": "60m"}, 10, True, "10 attempts failed within 1h"),
        (
            {"failures": 1, "within": "90s", "where": {"queue": "billing"}},
            1,
            True,
            "1 attempt failed within 90s (queue billing)",
        ),
        ({"dead": 1}, 0, False, ""),
        ({"dead": 1}, 1, True, "1 run is dead"),
        ({"dead": 2, "within": "1d"}, 3, True, "3 runs became dead within 1d"),
        ({"late": "5m"}, 0, False, ""),
        ({"late": "5m"}, 301, True, "the oldest due run has waited for 5 min"),
        ({"noSuccessFor": "26h", "where": {"schedule": "billing/*"}}, 0, False, ""),
        (
            {"noSuccessFor": "26h", "where": {"schedule": "billing/*"}},
            2,
            True,
            "2 schedules (schedule billing/*) had no successful run for 26h",
        ),
        ({"backlog": 1000}, 999, False, ""),
        ({"backlog": 1000}, 1000, True, "1,000 due runs wait"),
        ({"durationOver": "3 x p95"}, 2.9, False, ""),
        ({"durationOver": "2.5×p99"}, 7.25, True, "a run took 7.2 x the p99 of its job type"),  # noqa: RUF001
        ({"noWorker": "3m"}, 179, False, ""),
        ({"noWorker": "3m"}, 200, True, "runs are due, and no worker was seen for 3 min"),
    ],
)
def test_a_rule_fires_from_its_threshold_on_and_says_what_is_wrong(
    fields: dict[str, Any], value: float, fires: bool, summary: str
):
    rule, measured = rule_of(**fields), Measurement(value)
    assert step_of(rule, measured, None, NOW) == ("fire" if fires else "wait")
    if fires:
        assert summary_of(rule, measured) == summary


@pytest.mark.parametrize(
    ("history", "expected"),
    [
        ("....", "    "),
        ("..X.", "  O "),
        ("XXXX", "ORRR"),
        ("X....", "O   S"),  # one minute after it was last seen
        ("X..X....", "O  R   S"),  # a value around the threshold is one outage
        ("X....X", "O   SO"),
        ("X.....", "O   S "),
    ],
)
def test_an_alert_opens_once_and_resolves_after_a_minute(history: str, expected: str):
    """A measurement every 15 s: X fires. O: the alert opens, R: it is renewed, S: it resolves."""
    rule = rule_of(dead=1)
    seen_at: datetime | None = None
    found = ""
    for number, sign in enumerate(history):
        now = NOW + number * timedelta(seconds=15)
        step = step_of(rule, Measurement(float(sign == "X")), seen_at, now)
        found += {"fire": "O" if seen_at is None else "R", "resolve": "S", "wait": " "}[step]
        seen_at = {"fire": now, "resolve": None, "wait": seen_at}[step]
    assert found == expected


@pytest.mark.parametrize(("seconds", "step"), [(59, "wait"), (61, "resolve"), (86_400, "resolve")])
def test_a_clock_that_was_ahead_keeps_no_alert_open(seconds: int, step: str):
    """For example that of another server, before a failover."""
    assert step_of(rule_of(dead=1), Measurement(0), NOW + timedelta(seconds=seconds), NOW) == step


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({}, "rule has no condition; write one of failures, dead, late"),
        ({"dead": 1, "late": "5m"}, "rule has dead and late; write a rule for each of them"),
        ({"failures": 3}, "rule has failures without within; write for example within: 60m"),
        ({"late": "5m", "within": "1h"}, "rule has within, which late does not use; remove it"),
        (
            {"noSuccessFor": "26h"},
            "rule has noSuccessFor without where; write for example where: {schedule: billing/*}",
        ),
        ({"late": 300}, "late is 300; write a duration of at most 31d, for example 90s, 5m, 26h or 7d"),
        ({"late": "32d"}, 'late is "32d"; write a duration of at most 31d'),
        ({"durationOver": "p95"}, 'durationOver is "p95"; write how many times a percentile'),
        ({"dead": 0}, "dead is 0; write a whole number from 1 to 10000, for example 1"),
        ({"dead": 1, "severity": "bad"}, 'severity is "bad"; write info, warning or critical'),
        ({"dead": 1, "where": {"queue": "a b"}}, 'where.queue is "a b"; write a name, in which * stands for any text'),
        *(
            (
                {"dead": 1, "where": {"schedule": name}},
                f'where.schedule is "{name}", which no schedule matches; write its',
            )
            for name in ("close-month", "billing/", "billing/close/month", "billing/*/month")
        ),
        ({"dead": 1, "wehre": {}}, "wehre is not known; did you mean where?"),
        ({"dead": 1, "receivers": ["team"] * 101}, "rule has 101 receivers, which is too many; write at most 100"),
    ],
)
def test_each_mistake_is_a_sentence_that_says_what_to_write(fields: dict[str, Any], sentence: str):
    with pytest.raises(InvalidSchedule) as refused:
        rule_of(**fields)
    assert sentence in str(refused.value)
    assert str(refused.value).startswith("alerts.yaml:1: spec.rules.")


@pytest.mark.parametrize("pattern", ["billing/close-month", "billing/*", "*/close-month", "*month", "bill*", "*"])
def test_a_pattern_that_a_schedule_can_match_is_accepted(pattern: str):
    assert rule_of(dead=1, where={"schedule": pattern}).where.schedule == pattern


@pytest.mark.parametrize("condition", CONDITIONS, ids=lambda condition: condition.name)
def test_every_condition_has_all_its_parts(condition: AlertCondition):
    rule = rule_of(**condition.example)
    assert rule.condition is condition
    value = condition.threshold(rule.limit)
    assert step_of(rule, Measurement(value), None, NOW) == "fire"
    assert step_of(rule, Measurement(0), None, NOW) == "wait"
    assert summary_of(rule, Measurement(value))
    assert condition.shown(value)
    path, query = page_behind(definition_of(rule), NOW)
    assert path in {"/", "/runs", "/schedules", "/performance"}
    assert not parse_run_search(query.get("q", "") if path == "/runs" else "").problem


def test_every_condition_is_measured_and_no_other():
    (measure,) = (function for function in sql_functions() if function.name == "measure_alert")
    branches = re.findall(r"^  when (.*) then$", measure.body, re.MULTILINE)
    assert sorted(", ".join(branches).split(", ")) == sorted(f"'{condition.name}'" for condition in CONDITIONS)


def test_the_stored_definition_reads_as_the_file_does():
    rule = rule_of(durationOver="3 x p95", within="30m", where={"jobType": "send_*"}, severity="critical")
    assert definition_of(rule) == {"durationOver": "3 x p95", "within": "30m", "where": {"jobType": "send_*"}}


def test_only_a_star_in_a_pattern_stands_for_other_text():
    assert like_pattern("send_*/50%") == r"send\_%/50\%"
    assert like_pattern(None) is None


# -- announcements -----------------------------------------------------------------------------------------------------

QUIET = {"from": "22:00", "until": "07:00", "timeZone": "Europe/Lisbon"}


def spec_of(*rules: Any, **fields: Any) -> AlertSpec:
    document = {"apiVersion": "wakeboard.dev/v1alpha1", "kind": "AlertRules", "spec": {"rules": list(rules), **fields}}
    return load_alert_rules(document, lambda _: "alerts.yaml:1").spec


def team_rule(rule: dict[str, Any], **fields: Any) -> AlertRule:
    team = {"name": "team", "slack": {"url": {"$secret": "slack"}}}
    written = {"name": "rule", "dead": 1, "receivers": ["team"], **rule}
    resolved, *_ = spec_of(written, receivers=[team], **fields).resolved_rules()  # the others are built in
    return resolved


def announced(rule: AlertRule, begin: datetime, hours: list[bool]) -> list[tuple[int, str]]:
    """What is announced in which hour, if a measurement every hour fires or not."""
    notified_at: datetime | None = None
    is_open = False
    found: list[tuple[int, str]] = []
    for hour, is_wrong in enumerate(hours):
        now = begin + timedelta(hours=hour)
        step: Any = "fire" if is_wrong else "resolve" if is_open else "wait"
        kind = notification_of(rule, step, notified_at, now)
        found += [(hour, kind)] if kind else []
        is_open = is_wrong
        notified_at = (now if kind else notified_at) if is_wrong else None
    return found


def test_an_alert_is_announced_once_repeated_at_its_interval_and_resolved():
    rule = team_rule({"repeatInterval": "3h"})
    wrong = [False, True, True, True, True, True, False, False, True]
    assert announced(rule, NOW, wrong) == [(1, "open"), (4, "repeat"), (6, "resolved"), (8, "open")]
    assert announced(team_rule({}), NOW, [True] * 5) == [(0, "open"), (4, "repeat")]
    assert notification_of(rule, "fire", NOW + timedelta(days=1), NOW) == "repeat"  # by a clock that was ahead


def test_a_rule_without_receivers_announces_nothing():
    assert announced(team_rule({"receivers": []}), NOW, [True, True, False]) == []


def test_quiet_hours_hold_back_openings_and_repeats_but_not_the_end():
    evening = datetime(2026, 1, 10, 20, 0, tzinfo=UTC)  # Lisbon is at UTC
    rule = team_rule({"repeatInterval": "2h"}, quietHours=QUIET)
    assert announced(rule, evening, [False] * 4 + [True] * 10) == [(11, "open"), (13, "repeat")]
    assert announced(rule, evening, [True] * 5 + [False]) == [(0, "open"), (5, "resolved")]
    assert announced(rule, evening, [False] * 4 + [True] * 2 + [False]) == []


def test_quiet_hours_do_not_hold_back_critical_rules():
    night = datetime(2026, 1, 10, 23, 0, tzinfo=UTC)
    assert announced(team_rule({"severity": "critical"}, quietHours=QUIET), night, [True]) == [(0, "open")]
    assert announced(team_rule({"severity": "critical", "quietHours": QUIET}), night, [True]) == []


@pytest.mark.parametrize(
    ("moment", "expected"),
    [
        (datetime(2026, 3, 28, 21, 59, tzinfo=UTC), False),
        (datetime(2026, 3, 28, 22, 0, tzinfo=UTC), True),
        (datetime(2026, 3, 29, 5, 59, tzinfo=UTC), True),  # 06:59: the clock went forward at 01:00 UTC
        (datetime(2026, 3, 29, 6, 0, tzinfo=UTC), False),
        (datetime(2026, 3, 29, 20, 59, tzinfo=UTC), False),
        (datetime(2026, 3, 29, 21, 0, tzinfo=UTC), True),
        (datetime(2026, 10, 25, 6, 59, tzinfo=UTC), True),  # 06:59: the clock went back at 01:00 UTC
        (datetime(2026, 10, 25, 7, 0, tzinfo=UTC), False),
    ],
)
def test_quiet_hours_follow_the_local_clock_over_its_changes(moment: datetime, expected: bool):
    (rule,) = spec_of({"name": "a", "dead": 1}, quietHours=QUIET).resolved_rules()
    assert rule.quiet_hours is not None
    assert is_quiet(rule.quiet_hours, moment) == expected


@pytest.mark.parametrize(
    ("spec", "sentence"),
    [
        ({"receivers": [{"name": "x"}]}, "spec.receivers.x has no service or several; write exactly one of slack"),
        (
            {"receivers": [{"name": "x", "pagerduty": {"routingKey": "abc"}}]},
            "routingKey must be the name of a secret; write for example routingKey: {$secret: alerts-routingkey}",
        ),
        ({"receivers": [{"name": "x", "slack": {"url": "ftp://x"}}]}, "url must be an http or https url"),
        ({"receivers": [{"name": "x", "email": {"host": "h", "from": "a", "to": ["b@c"]}}]}, "must be an e-mail"),
        (
            {"receivers": [{"name": "x", "email": {"host": "h"}}]},
            'email.from is missing; write text, for example "wakeboard@example.com"',
        ),
        (
            {"receivers": [{"name": "x", "email": {"host": "h", "from": "a@b.c", "to": "d@e.f"}}]},
            'email.to is "d@e.f"; write a list, for example ["ops@example.com"]',
        ),
        (
            {"receivers": [{"name": "x", "webhook": {"url": "http://x", "mail": 1}}]},
            "mail is not known; the fields here are url, signingKey",
        ),
        (
            {"receivers": [{"name": "x", "url": "http://x"}]},
            "url is not known; did you mean slack.url or webhook.url or pagerduty.url or opsgenie.url?",
        ),
        ({"quietHours": {"from": 22, "until": "07:00"}}, "from is 22; write a time of the day in quotes"),
        ({"quietHours": {"from": "22:00", "until": "22:00"}}, "begin and end at 22:00"),
        ({"quietHours": {**QUIET, "timeZone": "Lisbon"}}, 'write for example "Europe/Lisbon"'),
    ],
)
def test_each_mistake_in_receivers_and_quiet_hours_says_what_to_write(spec: dict[str, Any], sentence: str):
    with pytest.raises(InvalidSchedule) as refused:
        spec_of({"name": "a", "dead": 1}, **spec)
    assert sentence in str(refused.value)
    assert "abc" not in str(refused.value)


def test_a_file_of_receivers_needs_no_rules():
    document = {**HEAD, "spec": {"receivers": [{"name": "team", "slack": {"url": {"$secret": "slack"}}}]}}
    rules = load_alert_rules(document, lambda _: "alerts.yaml:1").spec.resolved_rules()
    assert {"success-missed", "database-went-back"} <= {rule.name for rule in rules}
    assert all(rule.receivers == ["team"] for rule in rules)


def test_each_mistake_of_a_file_is_named_at_its_place():
    rules = [{"name": "a", "dead": 1, "receivers": ["x", "team"]}, {"name": "a", "dead": "many"}]
    spec = {"rules": rules, "receivers": [{"name": "x", "slack": {"url": "https://h"}}], "heartbeats": [{"name": "x"}]}
    with pytest.raises(InvalidSchedule) as refused:
        load_alert_rules({**HEAD, "spec": spec}, lambda place: "/".join(map(str, place)))
    assert sorted(sentence.split(": ")[0] for sentence in refused.value.problems) == [
        "spec/heartbeats/0/name",
        "spec/heartbeats/0/url",
        "spec/rules/0/receivers/1",
        "spec/rules/1/dead",
        "spec/rules/1/name",
    ]
    assert 'the rule a has the receiver "team", which is not declared; the receivers are x' in str(refused.value)
    assert 'two rules are named "a"; rename one of them' in str(refused.value)
