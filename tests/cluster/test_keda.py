"""KEDA's own schema accepts what the chart renders, and KEDA's query works with the role that the chart gives it."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
import yaml

from testbed.cluster.cluster import Refused
from tests.chart.rendering import CHART, named, rendered

if TYPE_CHECKING:
    from testbed.cluster.cluster import Cluster

DEFINITIONS = sorted(Path(__file__).with_name("keda").glob("*.json"))
VALUES = yaml.safe_load((CHART / "ci" / "scaling-values.yaml").read_text())
KINDS = ("ScaledJob", "ScaledObject", "TriggerAuthentication")
STRICT = ("apply", "--server-side", "--dry-run=server", "--validate=strict", "--filename=-", "--namespace")


@pytest.fixture
def keda(control_plane: Cluster) -> Cluster:
    """The shared API server, which knows KEDA's resources."""
    for definition in DEFINITIONS:
        control_plane.kubectl("apply", "--server-side", "--filename", str(definition))
    control_plane.wait_for(
        "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
        lambda found: sum(map(is_served, found)) == len(DEFINITIONS),
    )
    return control_plane


def is_served(definition: dict[str, Any]) -> bool:
    """Whether this is a definition of KEDA's whose resources the API server serves."""
    conditions: list[dict[str, str]] = definition.get("status", {}).get("conditions") or []
    established = any((each["type"], each["status"]) == ("Established", "True") for each in conditions)
    return definition["spec"]["group"] == "keda.sh" and established


def scaled(values: dict[str, Any] = VALUES) -> list[dict[str, Any]]:
    return [each for each in rendered(values) if each["kind"] in KINDS]


def test_keda_accepts_what_the_chart_renders(keda: Cluster, namespace: str) -> None:
    documents = scaled()
    assert [each["kind"] for each in documents].count("ScaledObject") == 2
    for document in documents:
        document["metadata"].pop("namespace")
    keda.kubectl(*STRICT, namespace, stdin=yaml.safe_dump_all(documents))


@pytest.mark.parametrize("kind", ["ScaledJob", "ScaledObject"])
def test_a_misspelt_field_is_found(keda: Cluster, namespace: str, kind: str) -> None:
    document = copy.deepcopy(next(each for each in scaled() if each["kind"] == kind))
    document["metadata"].pop("namespace")
    document["spec"]["maxReplicas"] = 3
    with pytest.raises(Refused, match="field not declared"):
        keda.kubectl(*STRICT, namespace, stdin=yaml.safe_dump(document))


def test_the_query_counts_runs_and_the_ticks_of_the_lead_time(database: str) -> None:
    """A tick 80 seconds away is within the 90 seconds of the pool `shop`, and not within the 60 of `default`."""
    shop = named(scaled(), "ScaledObject", "wakeboard-worker-shop")["spec"]["triggers"][0]["metadata"]["query"]
    default = named(scaled(), "ScaledJob", "wakeboard-wake-default")["spec"]["triggers"][0]["metadata"]["query"]
    with psycopg.connect(database, autocommit=True) as conn:
        for queue in ("mail", "default"):
            conn.execute(
                "insert into wakeboard.job_definitions"
                " (source, namespace, name, spec_hash, job_type, queue, schedule, cron_fields, next_run_at)"
                " values ('file:t', 't', %s, '-', 'ping', %s, '0 8 * * *', '-', now() + interval '80 s')",
                (queue, queue),
            )
        conn.execute("select wakeboard.enqueue('ping', queue => 'shop')")
        assert conn.execute(shop.encode()).fetchone() == (2.0,)
        assert conn.execute(default.encode()).fetchone() == (0.0,)
