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
    queries: dict[str, str]
    unit: str = "none"
    kind: str = "timeseries"
    width: int = 8
    thresholds: Thresholds = field(default_factory=lambda: [("green", None)])
    stacked: bool = False
    words: dict[str, str] = field(default_factory=dict[str, str])  # value mappings


def stat(title: str, description: str, query: str, thresholds: Thresholds, unit: str = "none") -> Panel:
    """A single number with threshold colours."""
    return Panel(title, description, {"": query}, unit, kind="stat", width=4, thresholds=thresholds)


def latest(metric: str, by: str = "") -> str:
    """The value of a gauge, which the leader exports; one for each value of the labels `by`."""
    return f"max{by and f' by ({by}) '}(wakeboard_{metric}{S})"


def per_minute(metric: str, by: str = "") -> str:
    """The increase of a counter per minute, over all operators: each counts only while it is the leader."""
    return f"sum{by and f' by ({by}) '}(rate(wakeboard_{metric}{S}[$__rate_interval])) * 60"


def outcomes(title: str, description: str, metric: str, by: str, width: int = 8) -> Panel:
    """The increase of a counter per minute, stacked by a label."""
    return Panel(title, description, {f"{{{{{by}}}}}": per_minute(metric, by)}, "cpm", width=width, stacked=True)


def slowest(title: str, description: str, metric: str) -> Panel:
    """The time below which 95 of 100 runs of each queue are, from a histogram."""
    query = f"histogram_quantile(0.95, sum by (le, queue) (rate(wakeboard_{metric}_bucket{S}[$__rate_interval])))"
    return Panel(title, description, {"{{queue}}": query}, "s", width=12)


def by_queue(title: str, description: str, metric: str, unit: str = "none") -> Panel:
    """A gauge for each queue."""
    return Panel(title, description, {"{{queue}}": latest(metric, by="queue")}, unit, width=12)


ROWS: dict[str, list[Panel]] = {
    "Overview": [
        stat("Leaders", "One is the leader, the others are on standby.", f"sum(wakeboard_leader{S})", ZERO_IS_BAD),
        stat("Workers", "Seen in the last three minutes.", latest("workers"), ZERO_IS_BAD),
        stat(
            "Last worker seen",
            "Workers start each minute, so a growing age means that nothing runs.",
            latest("last_worker_age_seconds"),
            WORKER_AGE,
            "s",
        ),
        stat(
            "Oldest due run",
            "How long the oldest due run that is not paused has waited.",
            latest("oldest_due_seconds"),
            QUEUE_WAIT,
            "s",
        ),
        stat("Dead runs", "They wait for a user to retry or discard them.", latest("dead_runs"), ZERO_IS_GOOD),
        stat(
            "Pending removals",
            "Mass removals that wait for `wakeboard confirm removal`.",
            latest("pending_removals"),
            ZERO_IS_GOOD,
        ),
    ],
    "Runs": [
        outcomes(
            "Runs finished",
            "By outcome. Dead runs are counted when they are discarded.",
            "runs_finished_total",
            "outcome",
            12,
        ),
        Panel(
            "Running and dead runs",
            "Runs that workers execute, and runs without attempts left.",
            {"running": latest("running_runs"), "dead": latest("dead_runs")},
            width=12,
        ),
        slowest("Duration of 95 in 100 runs", "For each queue, of runs that succeeded.", "run_duration_seconds"),
        slowest("Lateness of 95 in 100 runs", "For each queue, how late they started.", "run_lateness_seconds"),
        by_queue("Due runs not yet claimed", "For each queue. Counts at most 10,000 of each priority.", "due_runs"),
        by_queue(
            "Backlog for autoscalers",
            "For each queue: runs that execute, are due, or become due within a minute, ticks included.",
            "backlog_runs",
        ),
        by_queue(
            "Oldest due run",
            "For each queue, how long its oldest due run has waited. 0 if the queue is paused.",
            "oldest_due_seconds",
            "s",
        ),
    ],
    "Workers": [
        Panel(
            "Workers",
            "Seen in the last three minutes, including workers that have exited.",
            {"workers": latest("workers")},
        ),
        Panel(
            "Last worker seen",
            "Above three minutes, nothing runs.",
            {"age": latest("last_worker_age_seconds")},
            unit="s",
            thresholds=WORKER_AGE,
        ),
        outcomes(
            "Leases expired",
            "Leases that the operator took back. crashed: the worker was killed or lost the database."
            " timed_out: the run's own timeout. Leases that workers take back are not counted.",
            "leases_expired_total",
            "kind",
        ),
        outcomes(
            "Attempts whose worker ended",
            "Attempts that ended because the kubelet reported the end of their worker, by cause.",
            "attempts_terminated_total",
            "cause",
        ),
    ],
    "Schedules": [
        Panel(
            "Schedules by condition",
            "Number of schedules by condition and status.",
            {"{{condition}} {{status}}": latest("schedules", by="condition, status")},
            width=12,
        ),
        Panel(
            "Late schedules",
            "Schedules whose next tick is more than five minutes overdue. Expected: 0.",
            {"late": latest("late_schedules")},
            thresholds=ZERO_IS_GOOD,
            width=6,
        ),
        Panel(
            "Ticks enqueued by the operator",
            "Workers enqueue ticks too. They are not counted.",
            {"ticks": per_minute("ticks_enqueued_total")},
            unit="cpm",
            width=6,
        ),
        Panel(
            "Sync lag",
            "From an edit to its commit, for the last batch of edits.",
            {"sync lag": latest("sync_lag_seconds")},
            unit="s",
        ),
        Panel(
            "Complete lists",
            "Time since the last complete list was synced, and its duration.",
            {
                "age": f"time() - max(wakeboard_last_reconcile_timestamp_seconds{S})",
                "duration": latest("reconcile_seconds"),
            },
            unit="s",
        ),
        Panel(
            "Status writes",
            "Statuses written, writes that conflicted with a newer version, and repairs of statuses that"
            " another client had overwritten.",
            {
                "written": per_minute("status_writes_total"),
                "conflicts": per_minute("status_conflicts_total"),
                "repairs": per_minute("status_repairs_total"),
            },
            unit="cpm",
        ),
    ],
    "Operators": [
        Panel(
            "Leadership",
            "Which pod is the leader. A handover takes less than a second, after the loss of a node 16 seconds.",
            {"{{pod}}": f"wakeboard_leader{S}"},
            kind="state-timeline",
            width=12,
            thresholds=[("blue", None), ("green", 1)],
            words={"0": "standby", "1": "leader"},
        ),
        Panel(
            "Database and API server",
            "Whether each pod reaches the database, and whether the leader could list JobSchedules.",
            {"{{pod}}: database": f"wakeboard_database_up{S}", "{{pod}}: API server": f"wakeboard_api_server_up{S}"},
            kind="state-timeline",
            width=12,
            thresholds=[("red", None), ("green", 1)],
            words={"0": "down", "1": "up"},
        ),
        Panel("Term", "Increases with each handover.", {"term": latest("leader_term")}, width=6),
        outcomes(
            "Maintenance failures",
            "By maintenance task. The operator's log has the error.",
            "maintenance_failures_total",
            "task",
            6,
        ),
        Panel(
            "Watch restarts",
            "stalled: the watch had not delivered what a list showed, and was restarted.",
            {
                "restarts": f"sum(increase(wakeboard_watch_restarts_total{S}[$__rate_interval]))",
                "stalled": f"sum(increase(wakeboard_watch_stalled_total{S}[$__rate_interval]))",
            },
            width=6,
        ),
        Panel(
            "Watch silence",
            "Time since the last watch event. Long if there are no edits and no runs.",
            {"{{pod}}": f"wakeboard_watch_last_event_age_seconds{S}"},
            unit="s",
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
