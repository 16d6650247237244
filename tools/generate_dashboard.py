"""Prints the Grafana dashboard: `python -m tools.generate_dashboard`. What it shows is in ROWS, the rest is form."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any, Final

S = '{namespace="$namespace",job="$job"}'  # what finds the operator's metrics
COLUMNS = 24  # of Grafana's grid
SOURCE = {"type": "prometheus", "uid": "${datasource}"}

Thresholds = list[tuple[str, float | None]]  # a colour, and from which value on
SEEN_WELL: Final[Thresholds] = [("green", None), ("orange", 120), ("red", 180)]
NONE_IS_WELL: Final[Thresholds] = [("green", None), ("orange", 1)]
SOME_ARE_WELL: Final[Thresholds] = [("red", None), ("green", 1)]
WAIT: Final[Thresholds] = [("green", None), ("orange", 60), ("red", 300)]


@dataclass(frozen=True, kw_only=True)
class Panel:
    """One picture. `queries`: PromQL by legend; `unit`: in Grafana's words (`s` seconds, `cpm` so many a minute)."""

    title: str
    says: str
    unit: str
    queries: dict[str, str]
    kind: str = "timeseries"
    width: int = 8
    thresholds: Thresholds = field(default_factory=lambda: [("green", None)])
    stacked: bool = False
    words: dict[str, str] = field(default_factory=dict[str, str])  # for values


def stat(title: str, says: str, unit: str, query: str, thresholds: Thresholds) -> Panel:
    """One number, coloured by whether it is well."""
    return Panel(title=title, says=says, unit=unit, queries={"": query}, kind="stat", width=4, thresholds=thresholds)


def a_minute(metric: str, by: str) -> str:
    """How much a counter grows in a minute, over all operators: each counts what it did while it led."""
    return f"sum by ({by}) (rate({metric}{S}[$__rate_interval])) * 60"


ROWS: dict[str, list[Panel]] = {
    "Is all well?": [
        stat(
            "Leading operators", "One leads, the others stand by.", "none", f"sum(wakeboard_leader{S})", SOME_ARE_WELL
        ),
        stat("Workers", "Seen in the last three minutes.", "none", f"max(wakeboard_workers{S})", SOME_ARE_WELL),
        stat(
            "Last worker seen",
            "The dead-man switch: workers wake each minute.",
            "s",
            f"max(wakeboard_last_worker_age_seconds{S})",
            SEEN_WELL,
        ),
        stat(
            "Oldest due run",
            "How long the oldest run waits that is due and not paused.",
            "s",
            f"max(wakeboard_oldest_due_seconds{S})",
            WAIT,
        ),
        stat("Dead runs", "They wait for a person.", "none", f"max(wakeboard_dead_runs{S})", NONE_IS_WELL),
        stat(
            "Removals held",
            "Mass removals that wait for `wakeboard confirm removal`.",
            "none",
            f"max(wakeboard_pending_removals{S})",
            NONE_IS_WELL,
        ),
    ],
    "Runs": [
        Panel(
            title="Runs finished",
            says="By how they ended. Dead ones are counted here when somebody discards them.",
            unit="cpm",
            queries={"{{outcome}}": a_minute("wakeboard_runs_finished_total", "outcome")},
            stacked=True,
            width=12,
        ),
        Panel(
            title="Runs in flight, and dead",
            says="What is being executed, and what was given up and waits for a person.",
            unit="none",
            queries={"running": f"max(wakeboard_running_runs{S})", "dead": f"max(wakeboard_dead_runs{S})"},
            width=12,
        ),
        Panel(
            title="Due runs that nobody has taken",
            says="For each queue. A bounded look: at most 10,000 of each priority are counted.",
            unit="none",
            queries={"{{queue}}": f"max by (queue) (wakeboard_due_runs{S})"},
            width=12,
        ),
        Panel(
            title="Oldest due run",
            says="For each queue, how long its oldest due run waits; 0 where it is paused.",
            unit="s",
            queries={"{{queue}}": f"max by (queue) (wakeboard_oldest_due_seconds{S})"},
            width=12,
        ),
    ],
    "Workers": [
        Panel(
            title="Workers",
            says="Seen in the last three minutes: those that wake and go are counted a little after they went.",
            unit="none",
            queries={"workers": f"max(wakeboard_workers{S})"},
        ),
        Panel(
            title="Last worker seen",
            says="Where it climbs past three minutes, nothing runs.",
            unit="s",
            queries={"age": f"max(wakeboard_last_worker_age_seconds{S})"},
            thresholds=SEEN_WELL,
        ),
        Panel(
            title="Leases taken back by the operator",
            says="crashed: the worker was killed or lost the database. timed_out: the run's own timeout. Waking workers"
            " take leases back, too; those are not counted here.",
            unit="cpm",
            queries={"{{kind}}": a_minute("wakeboard_leases_expired_total", "kind")},
            stacked=True,
        ),
    ],
    "Schedules": [
        Panel(
            title="Schedules by condition",
            says="How many are Ready, Healthy, Suspended, Stalled, and how many are not.",
            unit="none",
            queries={"{{condition}} {{status}}": f"max by (condition, status) (wakeboard_schedules{S})"},
            width=12,
        ),
        Panel(
            title="Late schedules",
            says="Schedules whose tick is five minutes past and was made by nobody. It should be 0.",
            unit="none",
            queries={"late": f"max(wakeboard_late_schedules{S})"},
            thresholds=NONE_IS_WELL,
            width=6,
        ),
        Panel(
            title="Ticks made by the operator",
            says="Waking workers make ticks, too: whoever comes first.",
            unit="cpm",
            queries={"ticks": f"sum(rate(wakeboard_ticks_enqueued_total{S}[$__rate_interval])) * 60"},
            width=6,
        ),
        Panel(
            title="From an edit to the database",
            says="For the last batch of edits that the stream brought.",
            unit="s",
            queries={"sync lag": f"max(wakeboard_sync_lag_seconds{S})"},
        ),
        Panel(
            title="Complete lists",
            says="Since the last complete list was synced (a saw of operator.reconcileSeconds), and what it took.",
            unit="s",
            queries={
                "age of the last": f"time() - max(wakeboard_last_reconcile_timestamp_seconds{S})",
                "taken by the last": f"max(wakeboard_reconcile_seconds{S})",
            },
        ),
        Panel(
            title="Status writes",
            says="Statuses written, writes that met a newer version and were computed again, and repairs of what"
            " somebody else had written.",
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
            says="Which pod leads. A handover takes two seconds, after a crash seventeen.",
            unit="none",
            queries={"{{pod}}": f"wakeboard_leader{S}"},
            kind="state-timeline",
            width=12,
            thresholds=[("blue", None), ("green", 1)],
            words={"0": "stands by", "1": "leads"},
        ),
        Panel(
            title="Database and API server",
            says="Whether each pod reaches the database, and whether the leader could list JobSchedules.",
            unit="none",
            queries={
                "{{pod}}: database": f"wakeboard_database_up{S}",
                "{{pod}}: API server": f"wakeboard_api_server_up{S}",
            },
            kind="state-timeline",
            width=12,
            thresholds=[("red", None), ("green", 1)],
            words={"0": "away", "1": "answers"},
        ),
        Panel(
            title="Term",
            says="Grows with each handover.",
            unit="none",
            queries={"term": f"max(wakeboard_leader_term{S})"},
            width=6,
        ),
        Panel(
            title="Maintenance tasks that failed",
            says="By the name of the duty. The operator's log has the error.",
            unit="cpm",
            queries={"{{duty}}": a_minute("wakeboard_maintenance_failures_total", "duty")},
            stacked=True,
            width=6,
        ),
        Panel(
            title="Stream of changes: begun again",
            says="deaf: it did not show what a list showed, and was replaced.",
            unit="none",
            queries={
                "begun again": f"sum(increase(wakeboard_watch_restarts_total{S}[$__rate_interval]))",
                "deaf": f"sum(increase(wakeboard_watch_stalled_total{S}[$__rate_interval]))",
            },
            width=6,
        ),
        Panel(
            title="Stream of changes: silence",
            says="Since the stream showed anything. Long where nobody edits and nothing runs.",
            unit="s",
            queries={"{{pod}}": f"wakeboard_watch_last_event_age_seconds{S}"},
            width=6,
        ),
    ],
}


def drawn(panel: Panel, number: int, x: int, y: int, height: int) -> dict[str, Any]:
    """The panel in Grafana's words."""
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
        "description": panel.says,
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
    """How a kind of panel looks."""
    if panel.kind == "stat":
        return {"colorMode": "background", "graphMode": "area", "reduceOptions": {"calcs": ["lastNotNull"]}}
    if panel.kind == "state-timeline":
        return {"showValue": "auto", "mergeValues": True, "legend": {"showLegend": False}}
    return {"legend": {"displayMode": "list", "placement": "bottom"}, "tooltip": {"mode": "multi", "sort": "desc"}}


def panels() -> list[dict[str, Any]]:
    """Every row and its panels, from left to right and down."""
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
            found.append(drawn(panel, len(found) + 1, x, y, height))
            x += panel.width
        y += height
    return found


def chosen(name: str, label: str, values: str) -> dict[str, Any]:
    """A list at the top, of the values of a label."""
    query = {"query": values, "refId": name}
    return {
        "name": name,
        "label": label,
        "type": "query",
        "datasource": SOURCE,
        "query": query,
        "refresh": 2,
        "sort": 1,
    }


def dashboard() -> dict[str, Any]:
    """All of it."""
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
                chosen("namespace", "Namespace", "label_values(wakeboard_leader, namespace)"),
                chosen("job", "Job", 'label_values(wakeboard_leader{namespace="$namespace"}, job)'),
            ]
        },
        "panels": panels(),
    }


if __name__ == "__main__":
    print(json.dumps(dashboard(), indent=1))
