"""Which proxy leads to an API server: the environment says, as for kubectl."""

from __future__ import annotations

import pytest

from wakeboard_operator.kube_client import environment_proxy

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
