"""The alert rules of the chart's values arrive in the processes that evaluate and deliver, and in no other."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.chart.rendering import NotRendered, environment, named, pod_specs, rendered
from wakeboard.alerts.file import load_alert_file

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

OPERATOR = "Deployment/wakeboard-operator"
ALERTS: Mapping[str, Any] = {
    "rules": [
        {"name": "billing-fails", "failures": 10, "within": "60m", "where": {"queue": "b*"}, "receivers": ["team"]},
        {"name": "backlog", "backlog": 100_000, "severity": "critical"},
    ],
    "receivers": [{"name": "team", "slack": {"url": {"$secret": "alerts-slack"}}}],
    "heartbeats": [{"name": "watchdog", "url": "https://watch.example.com/ping?a={{.b}}"}],
    "repeatInterval": "1h",
    "quietHours": {"from": "22:00", "until": "07:00", "timeZone": "Europe/Lisbon"},
}


def volume(pod: Mapping[str, Any], name: str) -> dict[str, Any] | None:
    return next((each for each in pod.get("volumes", []) if each["name"] == name), None)


def mounts(pod: Mapping[str, Any]) -> dict[str, str]:
    return {each["name"]: each["mountPath"] for each in pod["containers"][0]["volumeMounts"]}


def test_the_mounted_alert_rules_are_valid_and_those_of_the_values(tmp_path: Path):
    documents = rendered({"alerts": ALERTS})
    file = tmp_path / "alerts.yaml"
    file.write_text(named(documents, "ConfigMap", "wakeboard-alerts")["data"]["alerts.yaml"])
    spec = load_alert_file(file)
    assert [rule.name for rule in spec.rules] == ["billing-fails", "backlog"]
    assert spec.rules[1].limit == 100_000
    assert [receiver.name for receiver in spec.receivers] == ["team"]
    assert spec.heartbeats[0].url == "https://watch.example.com/ping?a={{.b}}"
    assert spec.quiet_hours is not None
    assert f"{spec.quiet_hours.start:%H:%M}" == "22:00"
    assert spec.queue == "default"


def test_without_rules_there_is_no_file():
    documents = rendered({"pools": {"default": {}}})
    assert not [each for each in documents if each["kind"] == "ConfigMap" and "alerts" in each["metadata"]["name"]]
    for pod in dict(pod_specs(documents)).values():
        assert "WAKEBOARD_ALERTS_FILE" not in environment(pod["containers"][0])
        assert volume(pod, "alerts") is None


def test_the_operator_and_the_workers_get_the_file_and_the_secrets():
    pools = {"default": {"secretName": "jobs"}, "plain": {"queues": ["default"]}, "mail": {"queues": ["mail"]}}
    pods = dict(pod_specs(rendered({"alerts": {**ALERTS, "secretName": "alert-secrets"}, "pools": pools})))
    for name in (OPERATOR, "CronJob/wakeboard-wake-default", "CronJob/wakeboard-wake-plain"):
        settings = environment(pods[name]["containers"][0])
        assert settings["WAKEBOARD_ALERTS_FILE"] == "/etc/wakeboard/alerts/alerts.yaml"
        assert settings["WAKEBOARD_SECRETS_DIR"] == mounts(pods[name])["secrets"] == "/etc/wakeboard/secrets"
        assert mounts(pods[name])["alerts"] == "/etc/wakeboard/alerts"
        assert volume(pods[name], "alerts") == {"name": "alerts", "configMap": {"name": "wakeboard-alerts"}}
    secret = {"name": "secrets", "secret": {"secretName": "alert-secrets", "defaultMode": 0o440}}
    assert volume(pods[OPERATOR], "secrets") == volume(pods["CronJob/wakeboard-wake-plain"], "secrets") == secret
    both = volume(pods["CronJob/wakeboard-wake-default"], "secrets")
    assert both is not None
    assert [each["secret"]["name"] for each in both["projected"]["sources"]] == ["jobs", "alert-secrets"]
    mail = pods["CronJob/wakeboard-wake-mail"]
    assert "WAKEBOARD_ALERTS_FILE" not in environment(mail["containers"][0])
    assert volume(mail, "secrets") is None


def test_another_queue_delivers_with_its_own_pool():
    pools = {"default": {"secretsDir": "/mine"}, "alerts": {"queues": ["alerts"]}}
    alerts = {**ALERTS, "queue": "alerts", "secretName": "alert-secrets"}
    pods = dict(pod_specs(rendered({"alerts": alerts, "pools": pools})))
    assert "WAKEBOARD_ALERTS_FILE" in environment(pods["CronJob/wakeboard-wake-alerts"]["containers"][0])
    assert environment(pods["CronJob/wakeboard-wake-default"]["containers"][0])["WAKEBOARD_SECRETS_DIR"] == "/mine"
    with pytest.raises(NotRendered, match="leave secretsDir empty"):
        rendered({"alerts": {**alerts, "queue": ""}, "pools": pools})


@pytest.mark.parametrize(
    ("board", "url"),
    [
        ({}, None),
        ({"url": "https://jobs.example.com/tools"}, "https://jobs.example.com/tools"),
        ({"enabled": True, "origin": "https://jobs.example.com", "prefix": "/w"}, "https://jobs.example.com/w"),
        (
            {
                "enabled": True,
                "login": "proxy",
                "proxySecretName": "x",
                "ingress": {"enabled": True, "host": "jobs.example.com"},
            },
            "http://jobs.example.com",
        ),
        (
            {
                "enabled": True,
                "login": "kubernetes",
                "ingress": {"enabled": True, "host": "jobs.example.com", "tls": [{"secretName": "x"}]},
            },
            "https://jobs.example.com",
        ),
        ({"enabled": True}, None),
    ],
)
def test_messages_link_to_the_board_if_users_reach_it(board: dict[str, Any], url: str | None):
    pods = dict(pod_specs(rendered({"alerts": ALERTS, "board": board, "pools": {"default": {}}})))
    for name in (OPERATOR, "CronJob/wakeboard-wake-default"):
        assert environment(pods[name]["containers"][0]).get("WAKEBOARD_BOARD_URL") == url


def test_a_network_policy_lets_the_operator_reach_what_the_values_name():
    rule = {"to": [{"ipBlock": {"cidr": "203.0.113.0/24"}}], "ports": [{"port": 443}]}
    policies = rendered({"alerts": ALERTS, "networkPolicy": {"enabled": True, "operatorEgress": [rule]}})
    assert rule in named(policies, "NetworkPolicy", "wakeboard-operator")["spec"]["egress"]
    assert rule not in named(policies, "NetworkPolicy", "wakeboard-worker")["spec"]["egress"]
