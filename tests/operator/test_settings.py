"""Settings of the operator: what cannot be honoured is one sentence."""

from __future__ import annotations

import pytest

from wakeboard.errors import InvalidSettings
from wakeboard_operator.settings import read_operator_settings


def test_the_policy_and_the_namespaces_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WAKEBOARD_TENANCY", '[{"namespaces": ["billing"], "jobTypes": ["ping"]}]')
    monkeypatch.setenv("WAKEBOARD_NAMESPACES", "billing, shop")
    monkeypatch.setenv("WAKEBOARD_SOURCE", "k8s:test")
    settings = read_operator_settings()
    assert settings.namespaces == ["billing", "shop"]
    assert settings.tenancy[0].job_types == ["ping"]
    assert settings.tenancy[0].queues == ["*"]


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("TENANCY", "{", "must be a JSON list"),
        ("TENANCY", '[{"queue": "x"}]', "WAKEBOARD_TENANCY"),
        ("NAMESPACES", "billing", "requires WAKEBOARD_SOURCE"),
        ("LEADER_LEASE_SECONDS", "0", "write a whole number from 3 to 300"),
        ("OPERATOR_PORT", "http", "WAKEBOARD_OPERATOR_PORT"),
    ],
)
def test_what_cannot_be_honoured_is_named(monkeypatch: pytest.MonkeyPatch, name: str, value: str, said: str) -> None:
    monkeypatch.setenv(f"WAKEBOARD_{name}", value)
    with pytest.raises(InvalidSettings, match=said):
        read_operator_settings()
