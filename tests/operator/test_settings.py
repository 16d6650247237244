"""Settings of the operator: an invalid value is refused with one sentence that names it."""

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
