"""A test that cannot run says what it would need."""

from __future__ import annotations

import sys

import pytest

from testbed.cluster.node_requirements import missing_requirements


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere it is Linux that is missing")
def test_what_a_node_misses_is_named(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("os.geteuid", lambda: 0)
    monkeypatch.setenv("PATH", "")
    monkeypatch.setenv("XDG_CACHE_HOME", "/nowhere")
    missing = missing_requirements()
    assert "the package containerd" in missing
    assert "the package busybox-static" in missing
    assert any("kubelet is not built yet" in words for words in missing)
