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
FAILURES: Final = """
## Failures by job type

`wakeboard failures --since 1h` shows for each job type how many attempts succeeded, failed, timed out and crashed, the
share that failed, the runs that died, and the most frequent types of errors; `--json` is for programs. The same for any
tool that can send SQL, as the viewer's role (postgres_exporter, Grafana's Postgres source, `psql`):

```sql
with ended as (
  select coalesce(live.job_type::text, past.job_type) as job_type, made.outcome
    from wakeboard.job_attempts as made
    left join wakeboard.job_runs as live on live.id = made.run_id
    left join wakeboard.job_run_history as past
           on past.id = made.run_id and past.finished_at >= now() - interval '1 day'
   where made.ended_at >= now() - interval '1 day' and made.outcome in ('failed', 'timed_out', 'crashed')
  union all
  select job_type, 'succeeded'
    from wakeboard.job_run_history
   where status = 'succeeded' and finished_at >= now() - interval '1 day'
)
select job_type,
       round(1 - count(*) filter (where outcome = 'succeeded') / count(*)::numeric, 4) as failure_rate,
       count(*) filter (where outcome = 'succeeded') as succeeded,
       count(*) filter (where outcome = 'failed') as failed,
       count(*) filter (where outcome = 'timed_out') as timed_out,
       count(*) filter (where outcome = 'crashed') as crashed
  from ended
 where job_type is not null
 group by job_type
 order by failure_rate desc, job_type;
```

An attempt counts when it ended in that time. One that was snoozed or given back counts as neither. Keep the conditions
on `finished_at`: history is partitioned by it, and old partitions are then not read.
"""


def metrics() -> Iterator[str]:
    """A table row for each metric."""
    found = Metrics()
    leaders = found.leader_only
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
    print(FAILURES)
    print("## Metrics\n\n| name | type | labels | exported by | meaning |\n|---|---|---|---|---|", *metrics(), sep="\n")
