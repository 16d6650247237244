"""Settings of the operator, the policy of who may use which queues and job types, and the proxy of the environment."""

from __future__ import annotations

import pytest

from wakeboard.errors import InvalidSettings
from wakeboard.process.egress_proxy import environment_proxy
from wakeboard_operator.settings import read_operator_settings
from wakeboard_operator.tenancy import Tenant, tenancy_problem


def test_the_policy_and_the_namespaces_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WAKEBOARD_TENANCY", '[{"namespaces": ["billing"], "jobTypes": ["ping"]}]')
    monkeypatch.setenv("WAKEBOARD_NAMESPACES", "billing, shop")
    monkeypatch.setenv("WAKEBOARD_SOURCE", "k8s:test")
    settings = read_operator_settings()
    assert settings.namespaces == ["billing", "shop"]
    assert settings.tenancy[0].job_types == ["ping"]
    assert settings.tenancy[0].queues == ["*"]


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("TENANCY", "{", "must be a JSON list"),
        ("TENANCY", '[{"queue": "x"}]', "WAKEBOARD_TENANCY"),
        ("NAMESPACES", "billing", "requires WAKEBOARD_SOURCE"),
        ("LEADER_LEASE_SECONDS", "0", "write a whole number from 3 to 300"),
        ("OPERATOR_PORT", "http", "WAKEBOARD_OPERATOR_PORT"),
    ],
)
def test_an_invalid_setting_is_named(monkeypatch: pytest.MonkeyPatch, name: str, value: str, message: str) -> None:
    monkeypatch.setenv(f"WAKEBOARD_{name}", value)
    with pytest.raises(InvalidSettings, match=message):
        read_operator_settings()


POLICY = [
    Tenant(namespaces=["billing", "billing-*"], queues=["billing"], job_types=["invoice_*", "ping"]),
    Tenant(namespaces=["ops"]),
]


@pytest.mark.parametrize(
    ("namespace", "queue", "job_type"),
    [("billing", "billing", "invoice_all"), ("billing-test", "billing", "ping"), ("ops", "default", "anything")],
)
def test_what_the_policy_names_may_be(namespace: str, queue: str, job_type: str) -> None:
    assert tenancy_problem(POLICY, namespace, queue, job_type) is None


@pytest.mark.parametrize(
    ("namespace", "queue", "job_type"),
    [("billing", "default", "ping"), ("billing", "billing", "command"), ("other", "default", "ping")],
)
def test_the_rest_is_not_allowed_and_the_message_says_what_is(namespace: str, queue: str, job_type: str) -> None:
    problem = tenancy_problem(POLICY, namespace, queue, job_type)
    assert problem is not None
    assert problem.reason == "NotAllowed"
    assert namespace in problem.message
    if namespace == "billing":
        assert "queues billing with job types invoice_*, ping" in problem.message


def test_without_a_policy_everything_may_be() -> None:
    assert tenancy_problem([], "any", "any", "any") is None


PROXY = "http://proxy.example.com:3128"


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    monkeypatch.setenv("HTTPS_PROXY", PROXY)
    monkeypatch.setenv("NO_PROXY", ".svc,10.96.0.1,localhost:6443")


def test_a_server_far_away_is_reached_through_the_proxy() -> None:
    assert environment_proxy("https://k8s.example.com:6443") == PROXY
    assert environment_proxy("http://k8s.example.com:8001") is None


@pytest.mark.parametrize(
    "server", ["https://kubernetes.default.svc", "https://10.96.0.1:443", "https://localhost:6443"]
)
def test_what_no_proxy_names_is_reached_directly(server: str) -> None:
    assert environment_proxy(server) is None
