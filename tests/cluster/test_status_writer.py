"""Statuses reach a real API server: only what is new, what matters first, and never over another client's change."""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

from testbed.cluster.job_schedules import job_schedule, path
from tests.operator.test_reconciler import ReconcilerHarness, reconciler_harness
from wakeboard.errors import WakeboardError
from wakeboard.schedules import calls
from wakeboard.store.connection import connect
from wakeboard_operator import status_writer
from wakeboard_operator.cache import ResourceCache
from wakeboard_operator.kube_client import Cluster, login
from wakeboard_operator.metrics import Metrics
from wakeboard_operator.ownership import REPAIR_TIMEOUT_S
from wakeboard_operator.reconciler import Reconciler
from wakeboard_operator.resources import GROUP, PLURAL, resource
from wakeboard_operator.settings import read_operator_settings
from wakeboard_operator.status_writer import StatusWriter

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable

    from testbed.cluster.cluster import Cluster as TestCluster
    from wakeboard.kube.client import ApiClient

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("crds")]


class WriterHarness:
    """A leader's reconciler and writer, for one namespace with one schedule."""

    def __init__(
        self, harness: ReconcilerHarness, cluster: Cluster, control_plane: TestCluster, namespace: str
    ) -> None:
        self.harness, self.cluster, self._plane, self._path = harness, cluster, control_plane, path(namespace, "report")
        self.key = (namespace, "report")
        self.is_leader: Callable[[], bool] = lambda: True
        self.metrics = Metrics()
        self.writer = self.another_writer(min_interval_s=0.0)

    def another_writer(self, cluster: Cluster | None = None, **settings: Any) -> StatusWriter:
        reconciler = self.harness.reconciler
        chosen: dict[str, Any] = {"per_second": 1000.0, "min_interval_s": 0.0, **settings}
        return StatusWriter(cluster or self.cluster, reconciler, self.metrics, self.is_leader, **chosen)

    def start_term(self) -> None:
        """Another leader begins, which knows nothing."""
        was = self.harness.reconciler
        self.harness.reconciler = Reconciler(
            read_operator_settings(), "k8s:one", was.installation, ResourceCache(), self.cluster
        )
        self.writer = self.another_writer()

    def conflicts(self) -> float | None:
        """Status writes that met a newer version so far."""
        return self.metrics.registry.get_sample_value("wakeboard_status_conflicts_total")

    async def list(self) -> None:
        await self.harness.list(*(await self.cluster.listed()).resources)

    async def write(self) -> int:
        return await self.writer.write(self.harness.store.conn)

    async def stream(self) -> None:
        """The stream shows the resource as it is now."""
        await self.harness.change(*(await self.cluster.listed()).resources)

    async def write_when_it_is_time(self) -> None:
        """Nothing happens but that time passes."""
        async with asyncio.timeout(20):
            while await self.write() == 0:  # noqa: ASYNC110 - the event is the clock's
                await asyncio.sleep(0.1)

    async def change(self, statement: str) -> None:
        """Something happens on the board."""
        await self.harness.store.conn.execute(statement.encode())
        reconciler = self.harness.reconciler
        reconciler.mark_pending(reconciler.cache.keys_for(await calls.pop_changed_definitions(self.harness.store)))

    def edit(self, document: dict[str, Any]) -> None:
        """Another client changes the resource."""
        self._plane.call("PATCH", self._path, document, MERGE_PATCH)

    def edit_status(self, document: dict[str, Any]) -> None:
        """Another client writes into its status."""
        self._plane.call("PATCH", f"{self._path}/status", {"status": document}, MERGE_PATCH)

    def condition(self, kind: str) -> dict[str, str]:
        """A condition in the cluster."""
        return next(each for each in self.seen()["status"]["conditions"] if each["type"] == kind)

    def reason(self, condition: str) -> str:
        """The reason of a condition in the cluster."""
        return self.condition(condition)["reason"]

    def message(self, condition: str) -> str:
        """The message of a condition."""
        return next(each["message"] for each in self.seen()["status"]["conditions"] if each["type"] == condition)

    def events(self) -> list[str]:
        """The reasons of the events about it."""
        namespace, name = self.key
        found = self._plane.call("GET", f"/api/v1/namespaces/{namespace}/events")["items"]
        return [each["reason"] for each in found if each["involvedObject"]["name"] == name]

    def seen(self) -> dict[str, Any]:
        return self._plane.call("GET", self._path)


def may_write(namespace: str, user: str) -> list[dict[str, Any]]:
    """The rights that a user needs to write statuses."""
    role = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "Role",
        "metadata": {"name": "writer", "namespace": namespace},
        "rules": [{"apiGroups": [GROUP], "resources": [f"{PLURAL}/status"], "verbs": ["patch"]}],
    }
    binding = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "RoleBinding",
        "metadata": {"name": "writer", "namespace": namespace},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "writer"},
        "subjects": [{"kind": "User", "name": user, "apiGroup": "rbac.authorization.k8s.io"}],
    }
    return [role, binding]


@pytest.fixture
async def leader(
    control_plane: TestCluster, api: ApiClient, namespace: str, database: str
) -> AsyncGenerator[WriterHarness]:
    control_plane.call("POST", path(namespace), job_schedule())
    async with await connect(database) as conn:
        made = WriterHarness(
            await reconciler_harness(conn), Cluster(api, [namespace], "k8s:one"), control_plane, namespace
        )
        await made.list()
        yield made


MERGE_PATCH = "application/merge-patch+json"
ENQUEUE = """
set search_path = pg_catalog, wakeboard, pg_temp;
insert into wakeboard.job_runs (job_type, definition_id, schedule, run_at)
select 'ping', id, 'x', {run_at} from wakeboard.job_definitions
"""
NOTE = "insert into wakeboard.definition_changes (definition_id) select id from wakeboard.job_definitions"


async def test_statuses_are_written_before_events(
    leader: WriterHarness, control_plane: TestCluster, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ten thousand new schedules should be readable in `kubectl get` before their histories are."""
    calls: list[str] = []

    def note(name: str) -> None:
        ask = getattr(leader.cluster, name)

        def noted(*words: Any, **named: Any) -> Any:
            calls.append(name)
            return ask(*words, **named)

        monkeypatch.setattr(leader.cluster, name, noted)

    control_plane.call("POST", path(namespace), job_schedule("another"))
    await leader.list()
    note("patch_status")
    note("post_event")
    assert await leader.write() == 2
    assert calls == ["patch_status", "patch_status", "post_event", "post_event"]


async def test_statuses_stay_due_while_the_database_is_away(leader: WriterHarness, database: str) -> None:
    async with await connect(database) as gone:
        pass
    with pytest.raises(WakeboardError):
        await leader.writer.write(gone)
    assert await leader.write() == 1


async def test_a_conflict_is_recomputed_for_the_newer_version(leader: WriterHarness) -> None:
    leader.edit({"metadata": {"finalizers": ["example.com/another-client"]}})
    assert await leader.write() == 0
    assert leader.conflicts() == 1
    assert await leader.write() == 1
    assert leader.seen()["status"]["conditions"][0]["status"] == "True"
    assert leader.seen()["metadata"]["finalizers"] == ["example.com/another-client"]
    leader.edit({"metadata": {"finalizers": None}})


async def test_an_edit_after_a_conflict_is_synced_when_the_watch_delivers_it(leader: WriterHarness) -> None:
    leader.edit({"spec": {"priority": 5}})
    assert await leader.write() == 0
    assert leader.conflicts() == 1
    await leader.stream()
    assert await leader.harness.rows("generation, priority") == [(2, 5)]
    assert await leader.write() == 1
    assert leader.seen()["status"]["observedGeneration"] == 2


async def test_an_action_after_a_conflict_is_done_when_the_watch_delivers_it(leader: WriterHarness) -> None:
    leader.edit({"metadata": {"annotations": {"wakeboard.dev/run-now": "one"}}})
    assert await leader.write() == 0
    await leader.stream()
    assert await leader.write() == 1
    assert leader.seen()["status"]["lastAction"]["token"] == "one"


async def test_an_edit_between_computing_and_writing_is_a_conflict(leader: WriterHarness) -> None:
    def edited_at_the_last_moment() -> bool:
        leader.edit({"spec": {"priority": 5}})
        leader.harness.reconciler.cache.observe(resource(leader.seen()), None)
        return True

    leader.is_leader = edited_at_the_last_moment
    leader.writer = leader.another_writer()
    assert await leader.write() == 0
    assert leader.conflicts() == 1


async def test_a_schedule_of_a_silent_installation_reports_that_and_what_to_type(
    leader: WriterHarness, database: str
) -> None:
    """Its database was replaced by an empty one, and it was another release that ran it."""
    leader.edit_status({"installation": "gone", "observedGeneration": 1, "nextRunTime": "2026-01-01T00:00:00Z"})
    await leader.harness.store.conn.execute(b"delete from wakeboard.job_definitions")
    leader.start_term()
    await leader.list()
    assert await leader.write() == 1
    assert leader.reason("Ready") == leader.reason("Stalled") == "OtherInstallation"
    assert "operator.adoptForeignSchedules=true" in leader.message("Ready")
    status = leader.seen()["status"]
    assert status["installation"] == "gone"
    assert "nextRunTime" not in status
    await leader.stream()
    assert await leader.write() == 0
    assert leader.harness.reconciler.ownership.counts(time.monotonic()) == {"answers": 0, "silent": 0}, (
        "it may still answer"
    )
    assert leader.harness.reconciler.ownership.counts(time.monotonic() + REPAIR_TIMEOUT_S) == {
        "answers": 0,
        "silent": 1,
    }
    assert leader.events() == ["OtherInstallation"]


async def test_a_schedule_whose_own_operator_answers_is_left_to_it(leader: WriterHarness) -> None:
    leader.edit_status({"installation": "another", "observedGeneration": 1})
    await leader.harness.store.conn.execute(b"delete from wakeboard.job_definitions")
    leader.start_term()
    await leader.list()
    assert await leader.write() == 1
    leader.edit_status({"conditions": None, "queued": 7})  # its operator repairs it
    await leader.stream()
    assert await leader.write() == 0
    assert leader.seen()["status"]["queued"] == 7
    assert leader.harness.reconciler.ownership.counts(time.monotonic()) == {"answers": 1, "silent": 0}


async def test_a_forged_status_is_repaired_without_events_and_more_and_more_slowly(leader: WriterHarness) -> None:
    await leader.write()
    events = leader.events()
    written = 0
    for number in range(60):
        leader.edit_status({"installation": f"forged {number}", "conditions": None})
        await leader.stream()
        written += await leader.write()
    assert 1 <= written <= 12
    assert leader.events() == events
    assert leader.harness.problem_of(leader.key) is None, "it runs on"


async def test_transition_times_are_those_of_the_database(
    leader: WriterHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The clock of an operator's node may be wrong."""

    async def now(_: object) -> datetime:
        return datetime(2031, 2, 3, 4, 5, 6, tzinfo=UTC)

    monkeypatch.setattr("wakeboard.engine.maintenance_api.MaintenanceStore.now", now)
    await leader.write()
    assert {each["lastTransitionTime"] for each in leader.seen()["status"]["conditions"]} == {"2031-02-03T04:05:06Z"}


async def test_a_job_type_without_a_handler_is_reported_as_time_passes(leader: WriterHarness) -> None:
    await leader.change(ENQUEUE.format(run_at="now() - interval '9 minutes 59 seconds'"))
    await leader.change(NOTE)
    await leader.write()
    assert leader.condition("Healthy")["status"] == "Unknown"
    await leader.write_when_it_is_time()
    assert (leader.condition("Healthy")["status"], leader.reason("Healthy")) == ("False", "NoWorker")
    assert await leader.write() == 0


async def test_a_refused_condition_change_is_retried_though_its_counts_wait(
    leader: WriterHarness, control_plane: TestCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(status_writer, "RETRY_S", 0.2)
    await leader.write()
    async with login(control_plane.kubeconfig_of_user("late")) as api:
        leader.writer = leader.another_writer(Cluster(api, [leader.key[0]], "k8s:one"), min_interval_s=3600.0)
        await leader.change(ENQUEUE.format(run_at="now()"))
        await leader.change(NOTE)
        assert await leader.write() == 0
        await leader.change("select wakeboard.pause('all')")
        assert await leader.write() == 0
        control_plane.apply(*may_write(leader.key[0], "late"))
        await leader.write_when_it_is_time()
    assert leader.reason("Suspended") == "PausedInDatabase"


async def test_a_former_leader_writes_nothing(leader: WriterHarness) -> None:
    leader.is_leader = lambda: False
    leader.writer = leader.another_writer()
    assert await leader.write() == 0
    assert (
        "observedGeneration" not in leader.seen().get("status", {})
        or leader.seen()["status"]["observedGeneration"] == -1
    )


async def test_a_deleted_resource_leaves_the_cache(leader: WriterHarness) -> None:
    leader.harness.reconciler.cache.remove(next(iter(leader.harness.reconciler.cache)))
    assert await leader.write() == 0
