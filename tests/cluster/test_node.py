"""What a real node promises to the tests that use it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.cluster.small_images import BUSYBOX

if TYPE_CHECKING:
    from tests.cluster.node import Node


def test_a_pod_says_hello(real_node: Node):
    real_node.kubectl("run", "hello", f"--image={BUSYBOX}", "--restart=Never", "--", "echo", "hello")
    real_node.wait_for("/api/v1/namespaces/default/pods", lambda pods: pods[0]["status"]["phase"] == "Succeeded")
    assert real_node.pod_logs("default", "hello") == "hello\n"
