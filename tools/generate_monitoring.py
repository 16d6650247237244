"""Prints docs/monitoring.md: metrics from the operator's own registry, alerts from the chart's."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import yaml
from prometheus_client import Counter, Gauge

from wakeboard_operator.metrics import Metrics

if TYPE_CHECKING:
    from collections.abc import Iterator

ALERTS: Final = Path(__file__).resolve().parents[1] / "charts" / "wakeboard" / "files" / "alerts.yaml"
INTRODUCTION: Final = """\
<!-- Made by tools/generate_monitoring.py; make fix makes it anew. -->
# Monitoring

The operator answers on port 8080: `/metrics` for Prometheus, `/readyz` with what troubles it, in words. Workers that
wake and go cannot be scraped; what they do stands on the board, and the operator tells of it.

```sh
helm upgrade wakeboard charts/wakeboard --reset-then-reuse-values \\
  --set monitoring.serviceMonitor.enabled=true \\
  --set monitoring.rules.enabled=true \\
  --set monitoring.dashboard.enabled=true
```

- **ServiceMonitor or PodMonitor** (Prometheus Operator): give it the labels by which your Prometheus finds monitors
  (`monitoring.serviceMonitor.labels`, often `release: <name of your Prometheus' release>`).
- **Alerts**: a PrometheusRule, found by `monitoring.rules.labels`. They ask for metrics with the `namespace` and `job`
  that the monitor gives them; if you scrape in another way, say how in `monitoring.rules.selector`.
- **Dashboard**: a ConfigMap for Grafana's sidecar. Without one, import `charts/wakeboard/files/dashboard.json`.

No metric has a label for each schedule: a cluster may have ten thousand. `kubectl get jobschedules -A` and
`wakeboard schedules` tell of each one.
"""


def metrics() -> Iterator[str]:
    """A table row for each metric."""
    found = Metrics()
    leaders = found.of_leaders
    for metric in vars(found).values():
        if isinstance(metric, Counter | Gauge):
            (family,) = metric.describe()
            name = family.name + ("_total" if isinstance(metric, Counter) else "")
            names: tuple[str, ...] = getattr(metric, "_labelnames")  # noqa: B009 - it has no type, and no public name
            labels = ", ".join(f"`{label}`" for label in names)
            who = "the leader" if metric in leaders else "every operator"
            yield f"| `{name}` | {family.type} | {labels} | {who} | {family.documentation} |"


def alerts() -> Iterator[str]:
    """A table row for each alert."""
    found: list[dict[str, Any]] = yaml.safe_load(ALERTS.read_text())
    for alert in found:
        anchor = "".join(f"-{letter.lower()}" if letter.isupper() else letter for letter in alert["alert"])
        section = anchor.removeprefix("-wakeboard-")
        yield f"| [{alert['alert']}](troubleshooting.md#{section}) | {alert['severity']} | {_short(alert['summary'])} |"


def _short(summary: str) -> str:
    """With … for what Prometheus fills in."""
    return re.sub(r"\{\{.*?\}\}", "…", summary)


if __name__ == "__main__":
    print(INTRODUCTION)
    print("## Alerts\n\n| alert | severity | says |\n|---|---|---|", *alerts(), sep="\n")
    print("\n## Metrics\n\n| name | type | labels | told by | meaning |\n|---|---|---|---|---|", *metrics(), sep="\n")
