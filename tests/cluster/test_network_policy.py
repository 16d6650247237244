"""What policies mean: the rules that nftables gets for them. tests/cluster/test_node.py tries them on pods."""

from __future__ import annotations

from typing import Any

import pytest

from testbed.cluster.network_policy import selects, table

LABELS = {"app": "shop", "tier": "web"}
NAMESPACES = [{"metadata": {"name": name, "labels": {"name": name}}} for name in ("town", "village")]


@pytest.mark.parametrize(
    ("selector", "selected"),
    [
        ({}, True),
        ({"matchLabels": {"app": "shop"}}, True),
        ({"matchLabels": {"app": "shop", "tier": "data"}}, False),
        ({"matchExpressions": [{"key": "app", "operator": "In", "values": ["shop", "bank"]}]}, True),
        ({"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["shop"]}]}, False),
        ({"matchExpressions": [{"key": "zone", "operator": "NotIn", "values": ["shop"]}]}, True),
        ({"matchExpressions": [{"key": "app", "operator": "Exists"}]}, True),
        ({"matchExpressions": [{"key": "zone", "operator": "Exists"}]}, False),
        ({"matchExpressions": [{"key": "zone", "operator": "DoesNotExist"}]}, True),
        ({"matchLabels": {"app": "shop"}, "matchExpressions": [{"key": "tier", "operator": "DoesNotExist"}]}, False),
    ],
)
def test_a_selector_selects(selector: dict[str, Any], selected: bool):
    assert selects(selector, LABELS) is selected


def pod(namespace: str, name: str, address: str, **ports: int) -> dict[str, Any]:
    containers = [{"ports": [{"name": key, "containerPort": number} for key, number in ports.items()]}]
    return {
        "metadata": {"namespace": namespace, "name": name, "labels": {"app": name}},
        "spec": {"containers": containers},
        "status": {"podIP": address, "phase": "Running"},
    }


PODS = [
    pod("town", "shop", "10.244.0.2", http=8080),
    pod("town", "bank", "10.244.0.3", http=9090),
    pod("village", "shop", "10.244.0.4"),
]


def rules(spec: dict[str, Any], pods: list[dict[str, Any]] | None = None) -> dict[str, list[str]]:
    """What the town's policy lets through, for each pod and direction that it is about; the pod itself left out."""
    policy = {"metadata": {"namespace": "town", "name": "it"}, "spec": spec}
    found: dict[str, list[str]] = {}
    for line in table(NAMESPACES, PODS if pods is None else pods, [policy]).splitlines():
        words = line.split(maxsplit=3)
        if words[:1] == ["chain"] and words[1].startswith(("ingress", "egress")):
            itself, *allowed, drop = words[3].removesuffix("; }").split("; ")
            assert itself.startswith("ip ")
            assert drop == "counter drop"
            found[words[1]] = [rule.removesuffix(" return") for rule in allowed]
    return found


RULES: list[tuple[dict[str, Any], list[str]]] = [
    ({}, [""]),
    ({"from": [{"podSelector": {}}]}, ["ip saddr 10.244.0.3"]),
    ({"from": [{"namespaceSelector": {"matchLabels": {"name": "village"}}}]}, ["ip saddr 10.244.0.4"]),
    (
        {"from": [{"namespaceSelector": {}, "podSelector": {"matchLabels": {"app": "shop"}}}]},
        ["ip saddr 10.244.0.4"],
    ),
    (
        {"from": [{"ipBlock": {"cidr": "10.0.0.0/8", "except": ["10.1.0.0/16", "10.2.0.0/16"]}}]},
        ["ip saddr 10.0.0.0/8 ip saddr != { 10.1.0.0/16, 10.2.0.0/16 }"],
    ),
    ({"ports": [{"port": 80}, {"port": 53, "protocol": "UDP"}]}, ["tcp dport 80", "udp dport 53"]),
    ({"ports": [{"port": 8000, "endPort": 8080}]}, ["tcp dport 8000-8080"]),
    ({"ports": [{"protocol": "UDP"}]}, ["meta l4proto udp"]),
    ({"ports": [{"port": "http"}]}, ["tcp dport 8080"]),
]


def test_without_a_policy_nothing_is_dropped():
    assert "drop" not in table(NAMESPACES, PODS, [])


def test_an_empty_policy_keeps_all_pods_of_its_namespace_from_being_reached():
    assert rules({"podSelector": {}}) == {"ingress-10-244-0-2": [], "ingress-10-244-0-3": []}


def test_a_pod_that_has_ended_has_no_rules():
    ended = [each | {"status": {**each["status"], "phase": "Succeeded"}} for each in PODS]
    assert rules({"podSelector": {}}, ended) == {}


@pytest.mark.parametrize(("rule", "allowed"), RULES)
def test_a_rule_lets_in(rule: dict[str, Any], allowed: list[str]):
    found = rules({"podSelector": {"matchLabels": {"app": "shop"}}, "ingress": [rule]})["ingress-10-244-0-2"]
    assert found == allowed


def test_the_name_of_a_port_means_what_each_receiver_means_by_it():
    spec: dict[str, Any] = {
        "podSelector": {"matchLabels": {"app": "bank"}},
        "policyTypes": ["Egress"],
        "egress": [{"to": [{"podSelector": {}}], "ports": [{"port": "http"}]}],
    }
    assert rules(spec) == {
        "egress-10-244-0-3": [
            "ip daddr 10.244.0.2 ip daddr 10.244.0.2 tcp dport 8080",
            "ip daddr 10.244.0.3 ip daddr 10.244.0.3 tcp dport 9090",
        ]
    }


def test_a_policy_with_egress_rules_is_about_both_directions_unless_it_says_so():
    assert set(rules({"podSelector": {"matchLabels": {"app": "bank"}}, "egress": [{}]})) == {
        "ingress-10-244-0-3",
        "egress-10-244-0-3",
    }
