"""The operator as a process, on a real API server and a real database, with no rights but those of deploy/rbac.yaml."""

from __future__ import annotations

import json
import signal
import socket
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import anyio
import pytest
import yaml

from testbed.cluster.job_schedules import CRDS, install_crds, job_schedule, wait_until_served
from testbed.cluster.operators import Environment, Operator, wait_for
from tests.cluster.http_proxy import tunnelling_proxy
from wakeboard.local.postgres import EmbeddedPostgres
from wakeboard.store.migrate import migrate

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

    from testbed.cluster.cluster import Cluster
    from testbed.cluster.control_plane import ControlPlane

RBAC = Path(__file__).resolve().parents[2] / "deploy" / "rbac.yaml"


def grant(namespace: str) -> dict[str, object]:
    """The operator's rights in one namespace, for the service account `operator` of that namespace."""
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "RoleBinding",
        "metadata": {"name": "wakeboard-operator"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "wakeboard-operator"},
        "subjects": [{"kind": "ServiceAccount", "name": "operator", "namespace": namespace}],
    }


@pytest.fixture
def env(control_plane: Cluster, crds: None, namespace: str, database: str) -> Environment:
    """A namespace of the shared cluster, in which a service account has the operator's rights."""
    role = [each for each in RBAC.read_text().split("---\n") if "name: wakeboard-operator\nrules" in each]
    control_plane.kubectl("apply", "--server-side", "-f", "-", stdin=role[0])
    control_plane.call("POST", f"/api/v1/namespaces/{namespace}/serviceaccounts", {"metadata": {"name": "operator"}})
    bindings = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}/rolebindings"
    control_plane.call("POST", bindings, grant(namespace))
    return Environment(control_plane, namespace, database)


@pytest.fixture
def own_postgres(postgres_folder: Path) -> Iterator[EmbeddedPostgres]:
    """A server that the test may stop and start; it does not run yet."""
    server = EmbeddedPostgres(postgres_folder / "server")
    yield server
    server.stop()


def started(env: Environment, folder: Path, dsn: str = "", **settings: object) -> Operator:
    """An operator of this namespace, which has the rights of its service account."""
    login = env.cluster.kubeconfig_of_service_account(env.namespace, "operator")
    where = {"namespaces": env.namespace, "source": f"k8s:{env.namespace}"}
    return Operator(dsn or env.dsn, login, folder, **where, **settings)


def stop(operator: Operator) -> None:
    """Asks it to end, and waits until it has."""
    operator.send(signal.SIGTERM)
    assert operator.ended() == 0


@pytest.fixture
def operator(env: Environment, tmp_path: Path) -> Iterator[Operator]:
    with started(env, tmp_path, status_min_interval_seconds=1) as running:
        running.wait_until_leading()
        yield running


def test_a_schedule_is_created_edited_suspended_resumed_and_deleted(env: Environment, operator: Operator) -> None:
    env.create(job_schedule(schedule="0 8 * * MON", timeZone="Europe/Lisbon"))
    wait_for(lambda: env.row("report", "schedule, time_zone") == ("0 8 * * MON", "Europe/Lisbon"))
    wait_for(lambda: env.condition("report", "Ready")[:2] == ("True", "Synced"), why=lambda: operator.log)
    status = env.status("report")
    assert status["observedGeneration"] == status["acceptedGeneration"] == 1
    assert status["nextRunTime"].endswith(":00:00Z")
    assert (status["running"], status["queued"], status["dead"]) == (0, 0, 0)
    assert env.condition("report", "Stalled")[0] == env.condition("report", "Suspended")[0] == "False"
    wait_for(lambda: "Synced" in env.events("report"))

    env.edit("report", schedule="0 9 * * MON")
    wait_for(lambda: env.row("report", "schedule, generation") == ("0 9 * * MON", 2))
    wait_for(lambda: env.status("report")["acceptedGeneration"] == 2)

    env.edit("report", suspend=True)
    wait_for(lambda: env.condition("report", "Suspended")[:2] == ("True", "Suspended"))
    assert "nextRunTime" not in env.status("report")
    env.edit("report", suspend=False)
    wait_for(lambda: env.condition("report", "Suspended")[0] == "False")

    env.delete("report")
    wait_for(lambda: env.row("report", "id") is None, why=lambda: operator.log)


def test_a_run_that_a_user_requests_before_the_first_sync_runs(env: Environment, tmp_path: Path) -> None:
    env.create(job_schedule())
    env.cluster.kubectl("annotate", "-n", env.namespace, "jobschedule", "report", "wakeboard.dev/run-now=first")
    with started(env, tmp_path) as operator:
        wait_for(lambda: env.status("report").get("lastAction", {}).get("token") == "first", why=lambda: operator.log)
    assert env.sql("select trigger from job_runs") == [("manual",)]


def test_an_api_server_behind_a_proxy_is_listed_and_watched_through_it(
    env: Environment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = urlsplit(env.cluster.url)
    assert real.port
    with socket.create_server(("127.0.0.1", 0)) as taken:
        closed_port = taken.getsockname()[1]  # nothing will answer there: only the proxy leads anywhere
    login = tmp_path / "login"
    text = env.cluster.kubeconfig_of_service_account(env.namespace, "operator").read_text()
    login.write_text(text.replace(env.cluster.url, f"https://127.0.0.1:{closed_port}"))
    settings = {"namespaces": env.namespace, "source": f"k8s:{env.namespace}", "reconcile_seconds": 600}
    with tunnelling_proxy(real.port) as proxy:
        monkeypatch.setenv("HTTPS_PROXY", proxy)
        with Operator(env.dsn, login, tmp_path, **settings) as operator:
            operator.wait_until_leading()
            env.create(job_schedule())  # the next list is far away: only the watch delivers it
            wait_for(lambda: env.condition("report", "Ready")[0] == "True", why=lambda: operator.log)


@pytest.mark.parametrize(("how", "within_s"), [(signal.SIGTERM, 1.0), (signal.SIGKILL, 5.0)])
def test_a_standby_leads_soon_after_the_leader_stopped_or_was_killed(
    env: Environment, tmp_path: Path, how: signal.Signals, within_s: float
) -> None:
    with started(env, tmp_path, leader_lease_seconds=60) as first:
        first.wait_until_leading()
        with started(env, tmp_path, leader_lease_seconds=60) as second:
            second.wait_until_ready()
            assert '"isLeader": false' in second.ask("/readyz")[1]
            (ended_at,) = env.sql("select clock_timestamp()")[0]
            first.send(how)
            env.create(job_schedule())
            wait_for(lambda: env.row("report", "id"), why=lambda: second.log)
            ((gap_s, led_again),) = env.sql(
                "select extract(epoch from acquired_at - %s)::double precision, acquired_at > %s from leadership",
                *(ended_at, ended_at),
            )
            ((synced_s,),) = env.sql(
                "select extract(epoch from created_at - %s)::double precision from job_definitions", ended_at
            )
            assert led_again
            assert gap_s < within_s
            assert synced_s < within_s + 2


def test_a_leader_that_was_frozen_past_its_lease_writes_nothing(env: Environment, tmp_path: Path) -> None:
    with started(env, tmp_path, leader_lease_seconds=3) as first:
        first.wait_until_leading()
        ((former,),) = env.sql("select term from leadership")
        with started(env, tmp_path, leader_lease_seconds=3) as second:
            first.send(signal.SIGSTOP)
            second.wait_until_leading()
            terms = env.sql("select term from leadership")
            env.create(job_schedule())
            wait_for(lambda: env.condition("report", "Ready")[0] == "True", why=lambda: second.log)
            first.send(signal.SIGCONT)
            wait_for(lambda: f"term {former} ended" in first.log, why=lambda: first.log)
            wait_for(lambda: '"isLeader": false' in first.ask("/readyz")[1])
            assert env.sql("select term from leadership") == terms > [(former,)]


@contextmanager
def webhook(bodies: list[dict[str, Any]]) -> Generator[str]:
    """The url of a web server on loopback, which appends the JSON documents that it gets."""

    class Answer(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            bodies.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(204)
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - its name in http.server
            """Nothing goes to stderr."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Answer) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/hook"
        server.shutdown()
        thread.join()


def test_an_operator_works_with_the_rights_of_the_manifest(
    own_control_plane: ControlPlane, database: str, tmp_path: Path
) -> None:
    own_control_plane.call("POST", "/api/v1/namespaces", {"metadata": {"name": "wakeboard"}})
    own_control_plane.call("POST", "/api/v1/namespaces", {"metadata": {"name": "billing"}})
    own_control_plane.kubectl("apply", "-f", str(RBAC))
    login = own_control_plane.kubeconfig_of_service_account("wakeboard", "wakeboard-operator")
    env = Environment(own_control_plane, "billing", database)
    with Operator(database, login, tmp_path, reconcile_seconds=2, status_min_interval_seconds=1) as operator:
        wait_for(lambda: "does not list jobschedules" in operator.log, why=lambda: operator.log)
        install_crds(own_control_plane)
        operator.wait_until_leading()
        env.create(job_schedule(schedule="@daily"))
        wait_for(lambda: env.condition("report", "Ready")[0] == "True", why=lambda: operator.log)
        uid = own_control_plane.call("GET", "/api/v1/namespaces/kube-system")["metadata"]["uid"]
        assert env.row("report", "source") == (f"k8s:{uid}",)

        # A deletion that no watch can show any more: the versions before it are gone with the API server's memory.
        env.create(job_schedule("unseen"))
        wait_for(lambda: env.row("unseen", "id"), why=lambda: operator.log)
        operator.send(signal.SIGSTOP)
        for number in range(3):
            own_control_plane.call("POST", "/api/v1/namespaces", {"metadata": {"name": f"unrelated-{number}"}})
        own_control_plane.restart_api_server()
        wait_for(own_control_plane.ready)
        env.delete("unseen")
        operator.send(signal.SIGCONT)
        wait_for(lambda: env.row("unseen", "id") is None, why=lambda: operator.log)
        env.edit("report", schedule="@weekly")
        wait_for(lambda: env.row("report", "schedule") == ("@weekly",), why=lambda: operator.log)

        own_control_plane.kubectl("delete", "clusterrolebinding", "wakeboard-operator")
        wait_for(lambda: operator.ask("/readyz")[0] == 503, why=lambda: operator.log)
        env.edit("report", schedule="@monthly")
        own_control_plane.kubectl("apply", "-f", str(RBAC))
        wait_for(lambda: env.row("report", "schedule") == ("@monthly",), why=lambda: operator.log)
        operator.wait_until_ready()

        before = len([each for each in own_control_plane.audited() if _is_status_write(each)])
        own_control_plane.kubectl("delete", "namespace", "billing", "--timeout=30s")  # nothing holds it
        wait_for(lambda: env.row("report", "id") is None, why=lambda: operator.log)
        assert 0 < before < 30
        stop(operator)


def test_an_operator_works_with_an_older_resource_definition(
    own_control_plane: ControlPlane, database: str, tmp_path: Path
) -> None:
    (document,) = yaml.safe_load_all(next(CRDS.glob("*.yaml")).read_text())
    schema = document["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]
    for field in ("installation", "lastAction"):
        del schema["status"]["properties"][field]
    del schema["spec"]["properties"]["priority"]
    own_control_plane.apply(document)
    wait_until_served(own_control_plane)
    env = Environment(own_control_plane, "default", database)
    env.create(job_schedule())
    with Operator(database, own_control_plane.admin, tmp_path, reconcile_seconds=1) as operator:
        wait_for(lambda: env.condition("report", "Ready")[0] == "True", why=lambda: operator.log)
        version = env.get("report")["metadata"]["resourceVersion"]
        env.create(job_schedule("second"))
        wait_for(lambda: env.condition("second", "Ready")[0] == "True", why=lambda: operator.log)
        assert env.get("report")["metadata"]["resourceVersion"] == version  # what is dropped is not written again
        assert env.row("report", "priority") == (3,)


def test_an_operator_survives_a_restart_of_postgres(
    own_postgres: EmbeddedPostgres, env: Environment, tmp_path: Path
) -> None:
    dsn = own_postgres.start()
    anyio.run(migrate, dsn)
    here = Environment(env.cluster, env.namespace, dsn)
    with started(env, tmp_path, dsn, leader_lease_seconds=3) as operator:
        operator.wait_until_leading()
        here.create(job_schedule())
        wait_for(lambda: here.condition("report", "Ready")[0] == "True", why=lambda: operator.log)
        own_postgres.stop()
        wait_for(lambda: operator.ask("/readyz")[0] == 503, why=lambda: operator.log)
        assert operator.ask("/healthz")[0] == 200
        here.edit("report", schedule="@daily")
        assert own_postgres.start() == dsn
        wait_for(lambda: here.row("report", "schedule") == ("@daily",), why=lambda: operator.log)
        operator.wait_until_ready()


def _is_status_write(event: dict[str, Any]) -> bool:
    return event["verb"] == "patch" and event.get("objectRef", {}).get("subresource") == "status"
