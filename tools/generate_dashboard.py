"""Prints the Grafana dashboard: `python -m tools.generate_dashboard`. ROWS has the content, the rest is layout."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any, Final

S = '{namespace="$namespace",job="$job"}'  # label matchers of the operator's metrics
COLUMNS = 24  # of Grafana's grid
SOURCE = {"type": "prometheus", "uid": "${datasource}"}

Thresholds = list[tuple[str, float | None]]  # a colour, and its lower bound
WORKER_AGE: Final[Thresholds] = [("green", None), ("orange", 120), ("red", 180)]
ZERO_IS_GOOD: Final[Thresholds] = [("green", None), ("orange", 1)]
ZERO_IS_BAD: Final[Thresholds] = [("red", None), ("green", 1)]
QUEUE_WAIT: Final[Thresholds] = [("green", None), ("orange", 60), ("red", 300)]


@dataclass(frozen=True)
class Panel:
    """A panel. `queries`: PromQL by legend. `unit`: Grafana's name (`s`: seconds, `cpm`: count per minute)."""

    title: str
    description: str
    unit: str
    queries: dict[str, str]
    kind: str = "timeseries"
    width: int = 8
    thresholds: Thresholds = field(default_factory=lambda: [("green", None)])
    stacked: bool = False
    words: dict[str, str] = field(default_factory=dict[str, str])  # value mappings


def stat(title: str, description: str, unit: str, query: str, thresholds: Thresholds) -> Panel:
    """A single number with threshold colours."""
    return Panel(title, description, unit, {"": query}, kind="stat", width=4, thresholds=thresholds)


def per_minute(metric: str, by: str) -> str:
    """The increase of a counter per minute, over all operators: each counts only while it is the leader."""
    return f"sum by ({by}) (rate({metric}{S}[$__rate_interval])) * 60"


ROWS: dict[str, list[Panel]] = {
    "Overview": [
        stat(
            "Leaders", "One is the leader, the others are on standby.", "none", f"sum(wakeboard_leader{S})", ZERO_IS_BAD
        ),
        stat("Workers", "Seen in the last three minutes.", "none", f"max(wakeboard_workers{S})", ZERO_IS_BAD),
        stat(
            "Last worker seen",
            "Workers start each minute, so a growing age means that nothing runs.",
            "s",
            f"max(wakeboard_last_worker_age_seconds{S})",
            WORKER_AGE,
        ),
        stat(
            "Oldest due run",
            "How long the oldest due run that is not paused has waited.",
            "s",
            f"max(wakeboard_oldest_due_seconds{S})",
            QUEUE_WAIT,
        ),
        stat(
            "Dead runs",
            "They wait for a user to retry or discard them.",
            "none",
            f"max(wakeboard_dead_runs{S})",
            ZERO_IS_GOOD,
        ),
        stat(
            "Pending removals",
            "Mass removals that wait for `wakeboard confirm removal`.",
            "none",
            f"max(wakeboard_pending_removals{S})",
            ZERO_IS_GOOD,
        ),
    ],
    "Runs": [
        Panel(
            title="Runs finished",
            description="By outcome. Dead runs are counted when they are discarded.",
            unit="cpm",
            queries={"{{outcome}}": per_minute("wakeboard_runs_finished_total", "outcome")},
            stacked=True,
            width=12,
        ),
        Panel(
            title="Running and dead runs",
            description="Runs that workers execute, and runs without attempts left.",
            unit="none",
            queries={"running": f"max(wakeboard_running_runs{S})", "dead": f"max(wakeboard_dead_runs{S})"},
            width=12,
        ),
        Panel(
            title="Due runs not yet claimed",
            description="For each queue. Counts at most 10,000 of each priority.",
            unit="none",
            queries={"{{queue}}": f"max by (queue) (wakeboard_due_runs{S})"},
            width=12,
        ),
        Panel(
            title="Backlog for autoscalers",
            description="For each queue: runs that execute, are due, or become due within a minute, ticks included.",
            unit="none",
            queries={"{{queue}}": f"max by (queue) (wakeboard_backlog_runs{S})"},
            width=12,
        ),
        Panel(
            title="Oldest due run",
            description="For each queue, how long its oldest due run has waited. 0 if the queue is paused.",
            unit="s",
            queries={"{{queue}}": f"max by (queue) (wakeboard_oldest_due_seconds{S})"},
            width=12,
        ),
    ],
    "Workers": [
        Panel(
            title="Workers",
            description="Seen in the last three minutes, including workers that have exited.",
            unit="none",
            queries={"workers": f"max(wakeboard_workers{S})"},
        ),
        Panel(
            title="Last worker seen",
            description="Above three minutes, nothing runs.",
            unit="s",
            queries={"age": f"max(wakeboard_last_worker_age_seconds{S})"},
            thresholds=WORKER_AGE,
        ),
        Panel(
            title="Leases expired",
            description="Leases that the operator took back. crashed: the worker was killed or lost the database."
            " timed_out: the run's own timeout. Leases that workers take back are not counted.",
            unit="cpm",
            queries={"{{kind}}": per_minute("wakeboard_leases_expired_total", "kind")},
            stacked=True,
        ),
        Panel(
            title="Attempts whose worker ended",
            description="Attempts that ended because the kubelet reported the end of their worker, by cause.",
            unit="cpm",
            queries={"{{cause}}": per_minute("wakeboard_attempts_terminated_total", "cause")},
            stacked=True,
        ),
    ],
    "Schedules": [
        Panel(
            title="Schedules by condition",
            description="Number of schedules by condition and status.",
            unit="none",
            queries={"{{condition}} {{status}}": f"max by (condition, status) (wakeboard_schedules{S})"},
            width=12,
        ),
        Panel(
            title="Late schedules",
            description="Schedules whose next tick is more than five minutes overdue. Expected: 0.",
            unit="none",
            queries={"late": f"max(wakeboard_late_schedules{S})"},
            thresholds=ZERO_IS_GOOD,
            width=6,
        ),
        Panel(
            title="Ticks enqueued by the operator",
            description="Workers enqueue ticks too. They are not counted.",
            unit="cpm",
            queries={"ticks": f"sum(rate(wakeboard_ticks_enqueued_total{S}[$__rate_interval])) * 60"},
            width=6,
        ),
        Panel(
            title="Sync lag",
            description="From an edit to its commit, for the last batch of edits.",
            unit="s",
            queries={"sync lag": f"max(wakeboard_sync_lag_seconds{S})"},
        ),
        Panel(
            title="Complete lists",
            description="Time since the last complete list was synced, and its duration.",
            unit="s",
            queries={
                "age": f"time() - max(wakeboard_last_reconcile_timestamp_seconds{S})",
                "duration": f"max(wakeboard_reconcile_seconds{S})",
            },
        ),
        Panel(
            title="Status writes",
            description="Statuses written, writes that conflicted with a newer version, and repairs of statuses that"
            " another client had overwritten.",
            unit="cpm",
            queries={
                "written": f"sum(rate(wakeboard_status_writes_total{S}[$__rate_interval])) * 60",
                "conflicts": f"sum(rate(wakeboard_status_conflicts_total{S}[$__rate_interval])) * 60",
                "repairs": f"sum(rate(wakeboard_status_repairs_total{S}[$__rate_interval])) * 60",
            },
        ),
    ],
    "Operators": [
        Panel(
            title="Leadership",
            description="Which pod is the leader. A handover takes two seconds, after a crash seventeen.",
            unit="none",
            queries={"{{pod}}": f"wakeboard_leader{S}"},
            kind="state-timeline",
            width=12,
            thresholds=[("blue", None), ("green", 1)],
            words={"0": "standby", "1": "leader"},
        ),
        Panel(
            title="Database and API server",
            description="Whether each pod reaches the database, and whether the leader could list JobSchedules.",
            unit="none",
            queries={
                "{{pod}}: database": f"wakeboard_database_up{S}",
                "{{pod}}: API server": f"wakeboard_api_server_up{S}",
            },
            kind="state-timeline",
            width=12,
            thresholds=[("red", None), ("green", 1)],
            words={"0": "down", "1": "up"},
        ),
        Panel(
            title="Term",
            description="Increases with each handover.",
            unit="none",
            queries={"term": f"max(wakeboard_leader_term{S})"},
            width=6,
        ),
        Panel(
            title="Maintenance failures",
            description="By maintenance task. The operator's log has the error.",
            unit="cpm",
            queries={"{{task}}": per_minute("wakeboard_maintenance_failures_total", "task")},
            stacked=True,
            width=6,
        ),
        Panel(
            title="Watch restarts",
            description="stalled: the watch had not delivered what a list showed, and was restarted.",
            unit="none",
            queries={
                "restarts": f"sum(increase(wakeboard_watch_restarts_total{S}[$__rate_interval]))",
                "stalled": f"sum(increase(wakeboard_watch_stalled_total{S}[$__rate_interval]))",
            },
            width=6,
        ),
        Panel(
            title="Watch silence",
            description="Time since the last watch event. Long if there are no edits and no runs.",
            unit="s",
            queries={"{{pod}}": f"wakeboard_watch_last_event_age_seconds{S}"},
            width=6,
        ),
    ],
}


def render(panel: Panel, number: int, x: int, y: int, height: int) -> dict[str, Any]:
    """The panel as Grafana's JSON."""
    colours = [{"color": colour, "value": value} for colour, value in panel.thresholds]
    mappings = [{"type": "value", "options": {value: {"text": text} for value, text in panel.words.items()}}]
    defaults: dict[str, Any] = {
        "unit": panel.unit,
        "min": 0,
        "color": {"mode": "palette-classic" if panel.kind == "timeseries" else "thresholds"},
        "thresholds": {"mode": "absolute", "steps": colours},
        "mappings": mappings if panel.words else [],
    }
    if panel.kind == "timeseries":
        defaults["custom"] = {
            "fillOpacity": 30 if panel.stacked else 5,
            "showPoints": "never",
            "stacking": {"mode": "normal" if panel.stacked else "none"},
            "thresholdsStyle": {"mode": "line" if len(panel.thresholds) > 1 else "off"},
        }
    return {
        "id": number,
        "type": panel.kind,
        "title": panel.title,
        "description": panel.description,
        "datasource": SOURCE,
        "gridPos": {"x": x, "y": y, "w": panel.width, "h": height},
        "fieldConfig": {"defaults": defaults, "overrides": []},
        "options": options(panel),
        "targets": [
            {"refId": chr(ord("A") + place), "datasource": SOURCE, "expr": query, "legendFormat": legend or "__auto"}
            for place, (legend, query) in enumerate(panel.queries.items())
        ],
    }


def options(panel: Panel) -> dict[str, Any]:
    """The display options of a kind of panel."""
    if panel.kind == "stat":
        return {"colorMode": "background", "graphMode": "area", "reduceOptions": {"calcs": ["lastNotNull"]}}
    if panel.kind == "state-timeline":
        return {"showValue": "auto", "mergeValues": True, "legend": {"showLegend": False}}
    return {"legend": {"displayMode": "list", "placement": "bottom"}, "tooltip": {"mode": "multi", "sort": "desc"}}


def panels() -> list[dict[str, Any]]:
    """Every row and its panels, laid out from left to right."""
    found: list[dict[str, Any]] = []
    y = 0
    for title, row in ROWS.items():
        place = {"x": 0, "y": y, "w": COLUMNS, "h": 1}
        found.append(
            {"id": len(found) + 1, "type": "row", "title": title, "collapsed": False, "gridPos": place, "panels": []}
        )
        x, y, height = 0, y + 1, 4 if row[0].kind == "stat" else 8
        for panel in row:
            if x + panel.width > COLUMNS:
                x, y = 0, y + height
            found.append(render(panel, len(found) + 1, x, y, height))
            x += panel.width
        y += height
    return found


def variable(name: str, label: str, values: str) -> dict[str, Any]:
    """A dashboard variable with the values of a label."""
    query = {"query": values, "refId": name}
    source = {"type": "query", "datasource": SOURCE}
    return {"name": name, "label": label, **source, "query": query, "refresh": 2, "sort": 1}


def dashboard() -> dict[str, Any]:
    """The dashboard as Grafana's JSON."""
    return {
        "uid": "wakeboard",
        "title": "wakeboard",
        "description": "Schedules, runs, workers and operators of a wakeboard installation.",
        "tags": ["wakeboard"],
        "schemaVersion": 39,
        "editable": True,
        "graphTooltip": 1,
        "refresh": "1m",
        "time": {"from": "now-6h", "to": "now"},
        "templating": {
            "list": [
                {"name": "datasource", "label": "Prometheus", "type": "datasource", "query": "prometheus"},
                variable("namespace", "Namespace", "label_values(wakeboard_leader, namespace)"),
                variable("job", "Job", 'label_values(wakeboard_leader{namespace="$namespace"}, job)'),
            ]
        },
        "panels": panels(),
    }


if __name__ == "__main__":
    print(json.dumps(dashboard(), indent=1))
