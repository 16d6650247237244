"""Statuses reach a real API server: only what is new, what matters first, and never over another client's change."""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

from testbed.cluster.job_schedules import job_schedule, path
from tests.operator.test_reconciler import ReconcilerHarness, reconciler_harness
from wakeboard.store.connection import connect
from wakeboard_operator import status_writer
from wakeboard_operator.cache import ResourceCache
from wakeboard_operator.kube_client import Cluster
from wakeboard_operator.metrics import Metrics
from wakeboard_operator.ownership import REPAIR_TIMEOUT_S
from wakeboard_operator.reconciler import Reconciler
from wakeboard_operator.resources import GROUP, PLURAL, resource
from wakeboard_operator.settings import read_operator_settings
from wakeboard_operator.status_writer import StatusWriter

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from kubernetes.aio.client import ApiClient

    from testbed.cluster.cluster import Cluster as TestCluster

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("crds")]


class WriterHarness:
    """A leader's reconciler and writer, for one namespace with one schedule."""

    def __init__(
        self, harness: ReconcilerHarness, cluster: Cluster, control_plane: TestCluster, namespace: str
    ) -> None:
        self.harness, self.cluster, self._plane, self._path = harness, cluster, control_plane, path(namespace, "report")
        self.key = (namespace, "report")
        self.leads = True
        self.metrics = Metrics()
        self.writer = self.another_writer(min_interval_s=0.0)

    def another_writer(self, cluster: Cluster | None = None, **settings: Any) -> StatusWriter:
        reconciler = self.harness.reconciler
        chosen: dict[str, Any] = {"per_second": 1000.0, "min_interval_s": 0.0, **settings}
        return StatusWriter(cluster or self.cluster, reconciler, self.metrics, lambda: self.leads, **chosen)

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
        reconciler.mark_pending(reconciler.cache.keys_for(await self.harness.store.pop_changed_definitions()))

    def edit(self, document: dict[str, Any]) -> None:
        """Another client changes the resource."""
        self._plane.call("PATCH", self._path, document, MERGE_PATCH)

    def edit_status(self, document: dict[str, Any]) -> None:
        """Another client writes into its status."""
        self._plane.call("PATCH", f"{self._path}/status", {"status": document}, MERGE_PATCH)

    def reason(self, condition: str) -> str:
        """The reason of a condition in the cluster."""
        return next(each["reason"] for each in self.seen()["status"]["conditions"] if each["type"] == condition)

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
async def writer_harness(
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


async def test_what_says_nothing_new_is_not_written(writer_harness: WriterHarness) -> None:
    assert await writer_harness.write() == 1
    version = writer_harness.seen()["metadata"]["resourceVersion"]
    await writer_harness.change(NOTE)
    await writer_harness.list()
    assert await writer_harness.write() == 0
    assert writer_harness.seen()["metadata"]["resourceVersion"] == version


async def test_statuses_are_written_before_events_are_told(
    writer_harness: WriterHarness, control_plane: TestCluster, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ten thousand new schedules should be readable in `kubectl get` before their histories are."""
    calls: list[str] = []

    def note(name: str) -> None:
        ask = getattr(writer_harness.cluster, name)

        def noted(*words: Any, **named: Any) -> Any:
            calls.append(name)
            return ask(*words, **named)

        monkeypatch.setattr(writer_harness.cluster, name, noted)

    control_plane.call("POST", path(namespace), job_schedule("another"))
    await writer_harness.list()
    note("patch_status")
    note("post_event")
    assert await writer_harness.write() == 2
    assert calls == ["patch_status", "patch_status", "post_event", "post_event"]


async def test_a_conflict_is_computed_anew_for_the_newer_version(writer_harness: WriterHarness) -> None:
    writer_harness.edit({"metadata": {"labels": {"by": "another-client"}}})
    assert await writer_harness.write() == 0
    assert writer_harness.conflicts() == 1
    assert await writer_harness.write() == 1
    assert writer_harness.seen()["status"]["conditions"][0]["status"] == "True"
    assert writer_harness.seen()["metadata"]["labels"] == {"by": "another-client"}


async def test_an_edit_that_a_conflict_met_first_is_still_synced_when_the_stream_tells_of_it(
    writer_harness: WriterHarness,
) -> None:
    writer_harness.edit({"spec": {"priority": 5}})
    assert await writer_harness.write() == 0
    assert writer_harness.conflicts() == 1
    await writer_harness.stream()
    assert await writer_harness.harness.rows("generation, priority") == [(2, 5)]
    assert await writer_harness.write() == 1
    assert writer_harness.seen()["status"]["observedGeneration"] == 2


async def test_an_action_that_a_conflict_met_first_is_still_done_when_the_stream_tells_of_it(
    writer_harness: WriterHarness,
) -> None:
    writer_harness.edit({"metadata": {"annotations": {"wakeboard.dev/run-now": "one"}}})
    assert await writer_harness.write() == 0
    await writer_harness.stream()
    assert await writer_harness.write() == 1
    assert writer_harness.seen()["status"]["lastAction"]["token"] == "one"


async def test_an_edit_that_is_taken_in_between_computing_and_writing_is_a_conflict(
    writer_harness: WriterHarness,
) -> None:
    def edited_at_the_last_moment() -> bool:
        writer_harness.edit({"spec": {"priority": 5}})
        writer_harness.harness.reconciler.cache.observe(resource(writer_harness.seen()), None)
        return True

    writer_harness.writer = StatusWriter(
        writer_harness.cluster,
        writer_harness.harness.reconciler,
        writer_harness.metrics,
        edited_at_the_last_moment,
        per_second=1000.0,
        min_interval_s=0.0,
    )
    assert await writer_harness.write() == 0
    assert writer_harness.conflicts() == 1


async def test_a_schedule_of_a_silent_installation_reports_that_and_what_to_type(
    writer_harness: WriterHarness, database: str
) -> None:
    """Its database was replaced by an empty one, and it was another release that ran it."""
    writer_harness.edit_status({"installation": "gone", "observedGeneration": 1, "nextRunTime": "2026-01-01T00:00:00Z"})
    await writer_harness.harness.store.conn.execute(b"delete from wakeboard.job_definitions")
    writer_harness.start_term()
    await writer_harness.list()
    assert await writer_harness.write() == 1
    assert writer_harness.reason("Ready") == writer_harness.reason("Stalled") == "OtherInstallation"
    assert "operator.adoptForeignSchedules=true" in writer_harness.message("Ready")
    status = writer_harness.seen()["status"]
    assert status["installation"] == "gone"
    assert "nextRunTime" not in status
    await writer_harness.stream()
    assert await writer_harness.write() == 0
    assert writer_harness.harness.reconciler.ownership.counts(time.monotonic()) == {"answers": 0, "silent": 0}, (
        "it may still answer"
    )
    assert writer_harness.harness.reconciler.ownership.counts(time.monotonic() + REPAIR_TIMEOUT_S) == {
        "answers": 0,
        "silent": 1,
    }
    assert writer_harness.events() == ["OtherInstallation"]


async def test_two_operators_that_find_a_schedule_of_a_third_database_do_not_overwrite_each_other(
    writer_harness: WriterHarness,
) -> None:
    writer_harness.edit_status({"installation": "gone", "observedGeneration": 1})
    await writer_harness.harness.store.conn.execute(b"delete from wakeboard.job_definitions")
    writer_harness.start_term()
    await writer_harness.list()
    assert await writer_harness.write() == 1
    conditions = writer_harness.seen()["status"]["conditions"]
    for each in conditions:
        each["message"] = each["message"].replace("This operator", "That operator")
    writer_harness.edit_status({"conditions": conditions})
    await writer_harness.stream()
    assert await writer_harness.write() == 0
    writer_harness.edit({"spec": {"priority": 1}})
    await writer_harness.stream()
    assert await writer_harness.write() == 1
    assert writer_harness.seen()["status"]["observedGeneration"] == 2


async def test_a_schedule_whose_own_operator_answers_is_left_to_it(writer_harness: WriterHarness) -> None:
    writer_harness.edit_status({"installation": "another", "observedGeneration": 1})
    await writer_harness.harness.store.conn.execute(b"delete from wakeboard.job_definitions")
    writer_harness.start_term()
    await writer_harness.list()
    assert await writer_harness.write() == 1
    writer_harness.edit_status({"conditions": None, "queued": 7})  # its operator repairs it
    await writer_harness.stream()
    assert await writer_harness.write() == 0
    assert writer_harness.seen()["status"]["queued"] == 7
    assert writer_harness.harness.reconciler.ownership.counts(time.monotonic()) == {"answers": 1, "silent": 0}


async def test_a_forged_status_is_repaired_without_events_and_more_and_more_slowly(
    writer_harness: WriterHarness,
) -> None:
    await writer_harness.write()
    events = writer_harness.events()
    written = 0
    for number in range(221):
        writer_harness.edit_status({"installation": f"forged {number}", "conditions": None})
        await writer_harness.stream()
        written += await writer_harness.write()
    assert 1 <= written <= 12
    assert writer_harness.events() == events
    assert writer_harness.harness.problem_of(writer_harness.key) is None, "it runs on"


async def test_transition_times_are_those_of_the_database(
    writer_harness: WriterHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The clock of an operator's node may be wrong."""

    async def now(_: object) -> datetime:
        return datetime(2031, 2, 3, 4, 5, 6, tzinfo=UTC)

    monkeypatch.setattr("wakeboard.store.maintenance_api.MaintenanceStore.now", now)
    await writer_harness.write()
    assert {each["lastTransitionTime"] for each in writer_harness.seen()["status"]["conditions"]} == {
        "2031-02-03T04:05:06Z"
    }


async def test_what_another_client_writes_into_a_status_is_repaired(writer_harness: WriterHarness) -> None:
    await writer_harness.write()
    writer_harness.edit_status({"queued": 7, "dead": 7})
    await writer_harness.stream()
    assert await writer_harness.write() == 1
    assert (writer_harness.seen()["status"]["queued"], writer_harness.seen()["status"]["dead"]) == (0, 0)


async def test_that_nobody_knows_the_job_type_is_told_as_time_passes(writer_harness: WriterHarness) -> None:
    await writer_harness.change(ENQUEUE.format(run_at="now() - interval '9 minutes 59 seconds'"))
    await writer_harness.change(NOTE)
    await writer_harness.write()
    assert writer_harness.reason("Healthy") == "NoRuns"
    await writer_harness.write_when_it_is_time()
    assert writer_harness.reason("Healthy") == "NoWorker"
    assert await writer_harness.write() == 0


async def test_a_transition_that_was_refused_is_tried_again_though_its_moving_values_wait(
    writer_harness: WriterHarness, control_plane: TestCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(status_writer, "RETRY_S", 0.2)
    await writer_harness.write()
    async with control_plane.client(control_plane.kubeconfig_of_user("late")) as api:
        writer_harness.writer = writer_harness.another_writer(
            Cluster(api, [writer_harness.key[0]], "k8s:one"), min_interval_s=3600.0
        )
        await writer_harness.change(ENQUEUE.format(run_at="now()"))
        await writer_harness.change(NOTE)
        assert await writer_harness.write() == 0
        await writer_harness.change("select wakeboard.pause('all')")
        assert await writer_harness.write() == 0
        control_plane.apply(*may_write(writer_harness.key[0], "late"))
        await writer_harness.write_when_it_is_time()
    assert writer_harness.reason("Suspended") == "PausedInDatabase"


async def test_who_leads_no_more_writes_nothing(writer_harness: WriterHarness) -> None:
    writer_harness.leads = False
    assert await writer_harness.write() == 0
    assert (
        "observedGeneration" not in writer_harness.seen().get("status", {})
        or writer_harness.seen()["status"]["observedGeneration"] == -1
    )


async def test_moving_values_wait_and_ride_along_with_a_transition(writer_harness: WriterHarness) -> None:
    await writer_harness.write()
    writer_harness.writer = writer_harness.another_writer(min_interval_s=3600.0)
    await writer_harness.change(ENQUEUE.format(run_at="now()"))
    await writer_harness.change(NOTE)
    assert await writer_harness.write() == 0
    assert writer_harness.seen()["status"]["queued"] == 0
    await writer_harness.change("select wakeboard.pause('all')")
    await writer_harness.change(NOTE)
    assert await writer_harness.write() == 1
    assert writer_harness.seen()["status"]["queued"] == 1


async def test_moving_values_that_have_waited_are_written(writer_harness: WriterHarness) -> None:
    await writer_harness.write()
    await writer_harness.change(ENQUEUE.format(run_at="now()"))
    await writer_harness.change(NOTE)
    assert await writer_harness.write() == 1
    assert writer_harness.seen()["status"]["queued"] == 1


async def test_a_resource_that_is_gone_is_forgotten(writer_harness: WriterHarness) -> None:
    writer_harness.harness.reconciler.cache.remove(next(iter(writer_harness.harness.reconciler.cache)))
    assert await writer_harness.write() == 0
