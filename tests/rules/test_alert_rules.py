"""What a file with alert rules may say, and when an alert opens and resolves."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from wakeboard.errors import InvalidSchedule
from wakeboard.rules.alert_evaluation import Measurement, like_pattern, step_of, summary_of
from wakeboard.rules.alert_rules import AlertRule, definition_of, load_alert_rules

NOW = datetime(2026, 3, 29, 12, 0, tzinfo=UTC)


def rules_of(*written: Any) -> list[AlertRule]:
    document = {"apiVersion": "wakeboard.dev/v1alpha1", "kind": "AlertRules", "spec": {"rules": list(written)}}
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
def test_an_alert_opens_once_and_resolves_when_nothing_was_wrong_for_a_minute(history: str, expected: str):
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
        ({"dead": 1, "wehre": {}}, "wehre is not known; did you mean where?"),
    ],
)
def test_each_mistake_is_a_sentence_that_says_what_to_write(fields: dict[str, Any], sentence: str):
    with pytest.raises(InvalidSchedule) as refused:
        rule_of(**fields)
    assert sentence in str(refused.value)
    assert str(refused.value).startswith("alerts.yaml:1: spec.rules.")


def test_two_rules_have_two_names():
    with pytest.raises(InvalidSchedule, match="two rules are named a; rename one of them"):
        rules_of({"name": "a", "dead": 1}, {"name": "a", "dead": 2})


def test_the_stored_definition_reads_as_the_file_does():
    rule = rule_of(durationOver="3 x p95", within="30m", where={"jobType": "send_*"}, severity="critical")
    assert definition_of(rule) == {"durationOver": "3 x p95", "within": "30m", "where": {"jobType": "send_*"}}


def test_only_a_star_in_a_pattern_stands_for_other_text():
    assert like_pattern("send_*/50%") == r"send\_%/50\%"
    assert like_pattern(None) is None
