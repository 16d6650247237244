"""A maintenance task that fails in each pass of an operator stops no other task."""

from __future__ import annotations

from typing import TYPE_CHECKING

import psycopg

from testbed.cluster.operators import wait_for
from tests.cluster.test_operator import env, started

if TYPE_CHECKING:
    from pathlib import Path

    from testbed.cluster.operators import Environment

__all__ = ["env"]  # a fixture
LIMITS = "{apiVersion: wakeboard.dev/v1alpha1, kind: Limits, limits: {printer: {atOnce: 2}}}"
ALERTS = "{apiVersion: wakeboard.dev/v1alpha1, kind: AlertRules, spec: {rules: [{name: dead, dead: 1}]}}"
FAILURES = 'wakeboard_maintenance_failures_total{task="limits"}'


def test_a_locked_limit_stops_neither_alerts_nor_rollups(env: Environment, tmp_path: Path) -> None:
    limits, alerts = tmp_path / "limits.yaml", tmp_path / "alerts.yaml"
    limits.write_text(LIMITS)
    alerts.write_text(ALERTS)
    with psycopg.connect(env.dsn) as holder:
        holder.execute("select wakeboard.set_limit('printer', 7)")
        with started(env, tmp_path, limits_file=limits, alerts_file=alerts) as operator:
            wait_for(lambda: "the maintenance task limits fails: " in operator.log, why=lambda: operator.log)
            wait_for(lambda: env.sql("select name from alert_rules"), why=lambda: operator.log)
            wait_for(
                lambda: env.sql("select rolled_up_at from rollup_progress where rolled_up_at > 'epoch'"),
                why=lambda: operator.log,
            )
            wait_for(lambda: f"{FAILURES} 3" in operator.ask("/metrics")[1], why=lambda: operator.log)
            assert operator.log.count("the maintenance task limits fails: ") == 1
            holder.rollback()
            wait_for(lambda: env.sql("select key from job_limits where key = 'printer' and max_running = 2"))
            wait_for(lambda: "the maintenance task limits succeeds again" in operator.log, why=lambda: operator.log)
