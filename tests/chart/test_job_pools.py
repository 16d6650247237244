"""Pools with jobs: the only pods with a token take nothing that belongs to handlers."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import yaml

from tests.chart.rendering import CHART, environment, named, pod_specs, rendered
from tools.chart_values import read_values

if TYPE_CHECKING:
    from collections.abc import Mapping

BOXES: Mapping[str, Any] = {"queues": ["jobs"], "jobs": {"enabled": True, "namespaces": ["shop"]}}
OF_HANDLERS: Mapping[str, Any] = {
    "image": {"repository": "registry.example.com/jobs", "tag": "1", "digest": f"sha256:{'a' * 64}"},
    "handlers": ["myapp.jobs"],
    "httpAllowedHosts": ["api.example.com"],
    "httpAllowedPrivateNetworks": ["10.0.0.0/8"],
    "commands": {"backup": ["/usr/bin/pg_dump"]},
    "secretName": "of-handlers",
    "secretsDir": "/run/secrets/of-handlers",
    "extraEnv": [{"name": "API_KEY", "value": "of-handlers"}],
    "envFrom": [{"secretRef": {"name": "of-handlers"}}],
    "initContainers": [{"name": "of-handlers", "image": "registry.example.com/jobs:1"}],
    "volumes": [{"name": "of-handlers", "secret": {"secretName": "of-handlers"}}],
    "volumeMounts": [{"name": "of-handlers", "mountPath": "/of-handlers"}],
    "podTemplate": {"metadata": {"labels": {"azure.workload.identity/use": "true"}}},
    "serviceAccountName": "of-handlers",
    "startupProbe": {"exec": {"command": ["python", "-c", "import myapp"]}},
    "livenessProbe": {"exec": {"command": ["python", "-c", "import myapp"]}},
    "readinessProbe": {"exec": {"command": ["python", "-c", "import myapp"]}},
    "mode": "cronjob",
    "concurrency": 3,
    "graceSeconds": 25,
    "maxTimeoutSeconds": 60,
    "lingerSeconds": 55,
}
SHARED = {
    "activeDeadlineSeconds",
    "annotations",
    "drainLookaheadSeconds",
    "failedJobsHistoryLimit",
    "httpMaxBodyBytes",
    "imagePullPolicy",
    "jobs",
    "leaseSeconds",
    "maxLifetimeSeconds",
    "maxWorkers",
    "pdb",
    "podSecurityContext",
    "pollSeconds",
    "queues",
    "replicas",
    "resources",
    "revisionHistoryLimit",
    "runLogLevel",
    "runLogMaxBytes",
    "runLogs",
    "scaling",
    "schedule",
    "securityContext",
    "startDeadlineSeconds",
    "strategy",
    "successfulJobsHistoryLimit",
    "suspend",
    "threads",
    "ttlSecondsAfterFinished",
}
ALERTS = {"rules": [{"name": "dead", "dead": 1, "receivers": ["team"]}], "secretName": "of-receivers", "queue": "jobs"}


def about(documents: list[dict[str, Any]], name: str) -> list[dict[str, Any]]:
    return [each for each in documents if name in each["metadata"]["name"]]


def test_a_pool_with_jobs_takes_nothing_of_handlers_from_worker() -> None:
    (worker,) = (value for value in read_values() if value.path == ("worker",))
    assert {each.path[1] for each in worker.leaves()} == OF_HANDLERS.keys() | SHARED
    without_secrets_dir = {name: value for name, value in OF_HANDLERS.items() if name != "secretsDir"}
    alone = rendered({"pools": {"boxes": BOXES}})
    for of_handlers in (without_secrets_dir, {"secretsDir": OF_HANDLERS["secretsDir"]}):
        values = {"worker": of_handlers, "pools": {"boxes": BOXES}, "alerts": ALERTS | {"receivers": []}}
        values["workerServiceAccount"] = {"annotations": {"eks.amazonaws.com/role-arn": "of-handlers"}}
        assert about(rendered(values), "boxes") == about(alone, "boxes")


def test_a_pool_with_jobs_beside_the_handlers_of_the_readme() -> None:
    readme = (CHART / "README.md").read_text()
    (values,) = (yaml.safe_load(each) for each in re.findall(r"```yaml\n(.*?)```", readme, re.DOTALL))
    documents = rendered(values | {"pools": {**values["pools"], "boxes": BOXES}})
    (container,) = dict(pod_specs(documents))["Deployment/wakeboard-worker-boxes"]["containers"]
    assert "WAKEBOARD_HANDLERS" not in environment(container)
    assert container["image"].startswith("wakeboard/jobs:")


def test_a_pool_with_jobs_has_what_it_sets_itself() -> None:
    own = {
        "extraEnv": [{"name": "HTTPS_PROXY", "value": "http://proxy:3128"}],
        "podTemplate": {"metadata": {"labels": {"egress": "proxy"}}},
    }
    documents = rendered({"pools": {"boxes": {**BOXES, **own, "serviceAccountName": "mine"}}})
    template = named(documents, "Deployment", "wakeboard-worker-boxes")["spec"]["template"]
    assert environment(template["spec"]["containers"][0])["HTTPS_PROXY"] == "http://proxy:3128"
    assert template["metadata"]["labels"]["egress"] == "proxy"
    assert template["spec"]["serviceAccountName"] == "mine"
