"""CronJobs for the tests of `wakeboard import`."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from wakeboard.imports.rules.options import ImportOptions

NOW = datetime(2026, 11, 22, 12, 0, tzinfo=UTC)
OPTIONS = ImportOptions(now=NOW)


def cron_job(
    spec: dict[str, Any] | None = None,
    job: dict[str, Any] | None = None,
    pod: dict[str, Any] | None = None,
    **metadata: Any,
) -> dict[str, Any]:
    """A valid CronJob with these fields in its spec, the spec of its Job, that of its pod, and its metadata."""
    pod_spec = {"restartPolicy": "Never", "containers": [{"name": "main", "image": "report:1"}], **(pod or {})}
    return {
        "apiVersion": "batch/v1",
        "kind": "CronJob",
        "metadata": {"name": "report", "namespace": "shop", **metadata},
        "spec": {
            "schedule": "0 3 * * *",
            "timeZone": "Etc/UTC",
            "jobTemplate": {"spec": {"template": {"spec": pod_spec}, **(job or {})}},
            **(spec or {}),
        },
    }
