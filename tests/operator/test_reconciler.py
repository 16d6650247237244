"""Resources as values, a real board: what reconciling makes of them."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from tests.operator.examples import NOW, resource
from wakeboard.actions.admin_api import AdminStore
from wakeboard.errors import LeadershipLost
from wakeboard.schedules import calls
from wakeboard.schedules.leader_api import LeaderStore, OperatorStore
from wakeboard.store.connection import connect
from wakeboard_operator.cache import ResourceCache
from wakeboard_operator.kube_client import Listing
from wakeboard_operator.reconciler import Reconciler
from wakeboard_operator.resources import Annotated
from wakeboard_operator.settings import OperatorSettings, read_operator_settings
from wakeboard_operator.tenancy import Tenant
from wakeboard_operator.watch import Deleted

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Iterable, Mapping

    from wakeboard.schedules.sync import SyncReport
    from wakeboard_operator.resources import Resource

pytestmark = pytest.mark.anyio

SOURCE = "k8s:one"


class ReconcilerHarness:
    """A reconciler that leads one source of one database."""

    def __init__(self, store: LeaderStore, reconciler: Reconciler) -> None:
        self.store, self.reconciler = store, reconciler
        self.now = 1000.0  # monotonic seconds

    async def list(self, *resources: Resource) -> SyncReport:
        """A complete list shows these, and no others, as does the next one if another is wanted."""
        report = await self.list_once(*resources)
        return report if self.reconciler.resync_in_s is None else await self.list_once(*resources)

    async def list_once(self, *resources: Resource) -> SyncReport:
        """A complete list, at the time when the one before wanted it."""
        self.now += self.reconciler.resync_in_s or 1.0
        listed_at: datetime = await self.store.now()
        return await self.reconciler.resync(self.store, Listing(resources, "1"), listed_at, self.now)

    async def change(self, *resources: Resource) -> bool:
        return await self.reconciler.apply_changes(self.store, {each.key: each for each in resources})

    def refused(self) -> set[str]:
        """The schedules whose action met a lock."""
        return {name for (_, name), *_ in self.reconciler.refused_actions}

    async def rows(self, columns: str = "name, generation", source: str = SOURCE) -> list[tuple[Any, ...]]:
        query = (
            f"select {columns} from wakeboard.job_definitions where source = %s and removed_at is null order by name"
        )
        return await (await self.store.conn.execute(query.encode(), [source])).fetchall()

    def problem(self, name: str) -> str | None:
        return self.problem_of(("billing", name))

    def problem_of(self, key: tuple[str, str]) -> str | None:
        known = self.reconciler.cache.get(key)
        assert known is not None
        return known.problem.reason if known.problem else None


async def reconciler_harness(
    conn: psycopg.AsyncConnection[Any], source: str = SOURCE, **settings: Any
) -> ReconcilerHarness:
    led = await OperatorStore(conn).acquire_leadership(source, "me", "1.0", 60)
    store = LeaderStore(conn, source, led.term)
    installation = await store.installation()
    chosen = OperatorSettings(**settings)
    return ReconcilerHarness(store, Reconciler(chosen, source, installation, ResourceCache()))


@pytest.fixture
async def conn(database: str) -> AsyncGenerator[psycopg.AsyncConnection[Any]]:
    async with await connect(database) as opened:
        yield opened


@pytest.fixture
async def harness(conn: psycopg.AsyncConnection[Any]) -> ReconcilerHarness:
    return await reconciler_harness(conn)


def named(name: str, version: int = 1, **given: Any) -> Resource:
    return resource(name=name, uid=f"uid of {name}", resource_version=str(version), **given)


def annotated(name: str, at: datetime, *, with_spec: bool = False) -> Resource:
    return named(name, 2, annotations={"run-now": "1"}, annotated={"run-now": Annotated(at, with_spec)})


async def test_a_list_creates_edits_and_removes(harness: ReconcilerHarness) -> None:
    await harness.list(named("a"), named("b"))
    assert await harness.rows() == [("a", 3), ("b", 3)]
    report = await harness.list(named("a", 2, generation=4, spec={"jobType": "ping", "schedule": "@daily"}))
    assert await harness.rows("name, generation, schedule") == [("a", 4, "@daily")]
    assert report.removed == ["billing/b"]
    assert harness.reconciler.cache.get(("billing", "b")) is None


async def test_a_batch_of_changes_removes_nothing(harness: ReconcilerHarness) -> None:
    await harness.list(named("a"), named("b"))
    assert await harness.change(named("a", 2)) is False
    assert await harness.reconciler.apply_changes(harness.store, {("billing", "b"): Deleted("uid of b")}) is True
    assert await harness.rows() == [("a", 3), ("b", 3)]


async def test_an_older_version_that_comes_late_changes_nothing(harness: ReconcilerHarness) -> None:
    await harness.list(named("a", 7, generation=4, spec={"jobType": "new"}))
    await harness.change(named("a", 5, generation=3, spec={"jobType": "old"}))
    assert await harness.rows("job_type, generation") == [("new", 4)]


async def test_a_list_that_is_older_than_what_is_known_removes_nothing(harness: ReconcilerHarness) -> None:
    """While a list of thousands is under way, statuses are written: what it shows then is known in a newer version."""
    await harness.list(named("a", 5), named("b", 5))
    report = await harness.list(named("a", 4), named("b", 4))
    assert report.removed == []
    assert await harness.rows("name") == [("a",), ("b",)]


async def test_a_failed_sync_is_reported_in_the_status(harness: ReconcilerHarness, database: str) -> None:
    await harness.list()
    with psycopg.connect(database, autocommit=True) as other:
        other.execute("update wakeboard.leadership set expires_at = 'epoch'")
    with pytest.raises(LeadershipLost):
        await harness.reconciler.resync(harness.store, Listing([named("a")], "1"), NOW)
    assert harness.reconciler.pending_keys == {("billing", "a")}


async def test_no_status_is_computed_before_the_row_is_stored(
    harness: ReconcilerHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise ten thousand new schedules would be reported as missing in the store, and written twice."""
    answer, too_soon = calls.list_definitions, set[Any]()

    async def asked(store: LeaderStore, source: str) -> Any:
        too_soon.update(harness.reconciler.pending_keys)
        return await answer(store, source)

    monkeypatch.setattr(calls, "list_definitions", asked)
    await harness.list(named("a"))
    assert harness.reconciler.pending_keys == {("billing", "a")}
    harness.reconciler.take_pending()  # as the writer does
    await harness.change(named("b"))
    assert harness.reconciler.pending_keys == {("billing", "b")}
    assert not too_soon


async def test_a_bad_spec_leaves_the_last_good_one_in_force(harness: ReconcilerHarness) -> None:
    await harness.list(named("a"))
    await harness.list(named("a", 2, generation=4, spec={"jobType": "ping", "schedule": "0 0 31 2 *"}))
    assert await harness.rows("generation, schedule") == [(3, "0 8 * * *")]
    assert harness.problem("a") == "InvalidSpec"
    await harness.list(named("a", 3, generation=5))
    assert harness.problem("a") is None
    assert await harness.rows("generation") == [(5,)]


async def test_unknown_fields_of_a_newer_definition_are_ignored(harness: ReconcilerHarness) -> None:
    newer = {
        "jobType": "ping",
        "newer": {"deep": 1},
        "backoff": {"baseSeconds": 5, "newer": True},
        "payload": {"newer": 2},
    }
    await harness.list(named("a", spec=newer))
    assert harness.problem("a") is None
    assert await harness.rows("backoff_base_s, payload") == [(5, {"newer": 2})]


async def test_a_spec_outside_the_policy_is_not_allowed(conn: psycopg.AsyncConnection[Any]) -> None:
    harness = await reconciler_harness(conn, tenancy=[Tenant(namespaces=["billing"], queues=["billing"])])
    await harness.list(named("a"), named("b", spec={"jobType": "ping", "queue": "billing"}))
    assert await harness.rows("name") == [("b",)]
    assert harness.problem("a") == "NotAllowed"


def run_by(installation: str, release: str | None = None, name: str = "a", version: int = 1) -> Resource:
    status = {"installation": installation, "observedGeneration": 3} | ({"release": release} if release else {})
    return named(name, version, status=status)


async def test_what_another_database_runs_is_left_alone_until_adopted(conn: psycopg.AsyncConnection[Any]) -> None:
    harness = await reconciler_harness(conn)
    await harness.list(run_by("another"))
    assert await harness.rows() == []
    assert harness.problem("a") == "OtherInstallation"
    adopting = await reconciler_harness(conn, adopt_foreign_schedules=True)
    await adopting.list(run_by("another"))
    assert await adopting.rows() == [("a", 3)]


async def test_a_release_that_was_given_another_database_takes_its_schedules_over(
    conn: psycopg.AsyncConnection[Any], caplog: pytest.LogCaptureFixture
) -> None:
    harness = await reconciler_harness(conn, release="jobs/wakeboard")
    await harness.list(run_by("the former", "jobs/wakeboard"), run_by("another", "other/wakeboard", "b"))
    assert await harness.rows() == [("a", 3)]
    assert harness.problem("a") is None
    assert harness.problem("b") == "OtherInstallation"
    assert "took over 1 schedule that installation the former ran" in caplog.text


async def test_a_forged_status_does_not_silence_a_schedule(harness: ReconcilerHarness) -> None:
    """The database that has its row runs it, whatever another client writes into its status."""
    await harness.list(named("a"))
    await harness.change(run_by("forged", version=2))
    assert harness.problem("a") is None
    again = await reconciler_harness(harness.store.conn)  # the next term
    await again.list(run_by("forged", version=2))
    assert again.problem("a") is None
    edited = replace(run_by("forged", version=3), generation=4, spec={"jobType": "edited"})
    await again.change(edited)
    assert await again.rows("job_type, generation") == [("edited", 4)]


async def test_two_clusters_on_one_database_touch_nothing_of_each_other(conn: psycopg.AsyncConnection[Any]) -> None:
    one, two = await reconciler_harness(conn), await reconciler_harness(conn, "k8s:two")
    await one.list(named("a"))
    await two.list(named("a"), named("b"))
    await one.list()
    assert await one.rows() == []
    assert await one.rows(source="k8s:two") == [("a", 3), ("b", 3)]


def many(count: int, first: int = 0, namespace: str = "billing") -> list[Resource]:
    return [named(f"s{number}", namespace=namespace) for number in range(first, count)]


async def test_a_removal_of_very_many_is_pending_until_it_is_confirmed(harness: ReconcilerHarness) -> None:
    await harness.list(*many(30))
    report = await harness.list(named("s0"))
    assert report.removed == []
    assert "wakeboard confirm removal k8s:one" in (harness.reconciler.pending_removal or "")
    assert len(await harness.rows()) == 30
    assert not await harness.store.is_removal_confirmed(SOURCE)
    await AdminStore(harness.store.conn).confirm_removal(SOURCE)
    assert await harness.store.is_removal_confirmed(SOURCE)
    report = await harness.list(named("s0"))
    assert len(report.removed) == 29
    assert harness.reconciler.pending_removal is None


async def test_a_removal_that_appears_bit_by_bit_removes_nothing(harness: ReconcilerHarness) -> None:
    await harness.list(*many(100))
    for left in (95, 85, 60, 30):  # as lists show it while it is under way
        assert (await harness.list_once(*many(left))).removed == []
    assert harness.reconciler.pending_removal is None, "it is not over yet"
    await harness.list_once(*many(30))
    assert "70 of 100 schedules" in (harness.reconciler.pending_removal or "")
    assert len(await harness.rows()) == 100


async def test_deletions_that_the_api_server_has_reported_need_no_confirmation(harness: ReconcilerHarness) -> None:
    await harness.list(*many(30))
    for number in range(5, 30):
        harness.reconciler.missing.record_deletion(f"uid of s{number}", harness.now)
        if number == 20:
            assert (await harness.list_once(*many(30, 20))).removed == [], "they are not over yet"
    report = await harness.list(*many(5))
    assert len(report.removed) == 25
    assert harness.reconciler.pending_removal is None


async def test_the_first_reported_deletions_wait_for_the_others(harness: ReconcilerHarness) -> None:
    """Ten may be the first ones of a deleted resource definition."""
    await harness.list(*many(12))
    for number in range(10):
        harness.reconciler.missing.record_deletion(f"uid of s{number}", harness.now)
    assert (await harness.list_once(*many(12, 10))).removed == []
    assert 0 < (harness.reconciler.resync_in_s or 0) <= 2
    harness.reconciler.missing.clear()
    assert (await harness.list()).removed == []
    assert "12 of 12 schedules" in (harness.reconciler.pending_removal or "")


async def test_deletions_of_a_resource_definition_remove_nothing(harness: ReconcilerHarness) -> None:
    await harness.list(*many(30))
    for number in range(30):
        harness.reconciler.missing.record_deletion(f"uid of s{number}", harness.now)
    assert (await harness.list_once()).removed == []
    assert (harness.reconciler.resync_in_s or 0) > 5, "the definition may be about to go"
    harness.reconciler.missing.clear()
    assert (await harness.list()).removed == []
    assert "30 of 30 schedules" in (harness.reconciler.pending_removal or "")


class Deletions:
    """What the API server says of what a list did not show."""

    def __init__(self, namespaces: set[str], objects: set[str]) -> None:
        self._namespaces, self._objects = namespaces, objects
        self.asked: list[str] = []

    async def namespaces_gone(self, names: Iterable[str]) -> set[str]:
        return self._namespaces & set(names)

    async def objects_gone(self, objects: Mapping[tuple[str, str], str]) -> set[tuple[str, str]]:
        self.asked += sorted(name for _, name in objects)
        return {key for key in objects if key[1] in self._objects}


async def test_schedules_of_a_deleted_namespace_need_no_confirmation(conn: psycopg.AsyncConnection[Any]) -> None:
    harness = await reconciler_harness(conn)
    harness.reconciler = reconciler_of(harness, Deletions({"gone"}, set()))
    await harness.list(*many(20), *many(20, namespace="gone"))
    report = await harness.list(*many(20))
    assert len(report.removed) == 20
    assert harness.reconciler.pending_removal is None


async def test_pending_removals_of_deleted_objects_create_no_more_runs(conn: psycopg.AsyncConnection[Any]) -> None:
    harness = await reconciler_harness(conn)
    deletions = Deletions(set(), {f"s{number}" for number in range(1, 20)})
    harness.reconciler = reconciler_of(harness, deletions)
    await harness.list(*many(30))
    await harness.store.conn.execute("update wakeboard.job_definitions set next_run_at = now() where name = 's1'")
    assert (await harness.list(*many(1))).pending_removal
    stopped = {name for name, at in await harness.rows("name, next_run_at") if at is None}
    assert stopped == {f"s{number}" for number in range(1, 20)}
    history = await (await conn.execute("select schedule, reason from wakeboard.job_run_history")).fetchall()
    assert history == [("billing/s1", "ScheduleRemoved")]

    deletions.asked.clear()
    await harness.list(*many(1))
    assert deletions.asked == [f"s{number}" for number in sorted(range(20, 30))], "what is stopped is not asked for"

    made_again = replace(named("s1", 9), uid="made again", generation=1)
    await harness.list(named("s0"), made_again)
    assert [row for row in await harness.rows("name, next_run_at is not null") if row[0] == "s1"] == [("s1", True)]


def reconciler_of(harness: ReconcilerHarness, deletions: Deletions) -> Reconciler:
    """The same, with an API server that can be asked."""
    was = harness.reconciler
    return Reconciler(read_operator_settings(), SOURCE, was.installation, ResourceCache(), deletions)


async def test_a_thousand_edits_are_a_few_statements(harness: ReconcilerHarness) -> None:
    await harness.list(*(named(f"s{i}") for i in range(1000)))
    counted: list[str] = []
    execute = harness.store.conn.execute

    async def counting(query: Any, *values: Any, **named: Any) -> Any:
        counted.append(str(query))
        return await execute(query, *values, **named)

    harness.store.conn.execute = counting  # pyright: ignore[reportAttributeAccessIssue]
    await harness.change(*(named(f"s{i}", 2, generation=4, spec={"jobType": "other"}) for i in range(1000)))
    assert len(counted) < 30
    assert {generation for _, generation in await harness.rows()} == {4}


async def test_a_token_is_executed_once_and_not_when_first_observed(harness: ReconcilerHarness) -> None:
    await harness.list(named("a", annotations={"run-now": "old"}))
    assert await _runs(harness) == 0
    await harness.change(named("a", 2, annotations={"run-now": "new"}))
    await harness.change(named("a", 3, annotations={"run-now": "new"}))
    again = await reconciler_harness(harness.store.conn)  # another term has no memory of its own
    await again.list(named("a", 3, annotations={"run-now": "new"}))
    await again.change(named("a", 4, annotations={"run-now": "new"}))
    assert await _runs(harness) == 1


async def test_a_token_that_a_user_sets_right_after_the_creation_is_executed(harness: ReconcilerHarness) -> None:
    """The operator may see the schedule and its annotation at once, as the first state of the schedule."""
    for age_s, runs in ((3600, 0), (5, 1)):
        at = datetime.now(UTC) - timedelta(seconds=age_s)
        await harness.change(annotated(f"{age_s}-s-old", at))
        assert await _runs(harness) == runs


async def test_what_a_restored_schedule_had_is_never_executed(harness: ReconcilerHarness) -> None:
    """A term may end after it has stored the schedule, and before it has stored the token."""
    restored = annotated("a", datetime.now(UTC) - timedelta(seconds=5), with_spec=True)
    await harness.list(replace(restored, annotations={}), named("b"))
    await (again := await reconciler_harness(harness.store.conn)).list(restored)
    recreated = replace(named("b", annotations={"run-now": "1"}), uid="later")  # its row is older than the object
    await again.list(restored, recreated)
    assert await _runs(harness) == 0


async def test_a_token_from_git_is_executed_after_a_time_without_operator(harness: ReconcilerHarness) -> None:
    await harness.list(named("a"))
    again = await reconciler_harness(harness.store.conn)
    await again.list(annotated("a", datetime.now(UTC), with_spec=True))
    assert await _runs(harness) == 1


async def test_a_former_token_that_comes_back_is_stored_as_the_newest(harness: ReconcilerHarness) -> None:
    await harness.list(named("a"))
    for version, token in enumerate(("1", "2", "1"), start=2):
        await harness.change(named("a", version, annotations={"run-now": token}))
    newest = "select token from wakeboard.action_tokens order by requested_at desc limit 1"
    assert await (await harness.store.conn.execute(newest)).fetchone() == ("1",)


@pytest.mark.parametrize(
    "hostile", [{"run-now": "1\0"}, {"run-now": "1", "traceparent": "\0"}, {"backfill": "2026-01-01/2026-01-02\0"}]
)
async def test_an_annotation_that_cannot_be_stored_stops_no_other_schedule(
    harness: ReconcilerHarness, hostile: dict[str, str]
) -> None:
    await harness.list(named("a"), named("b"), named("c"))
    await harness.list(named("a"), named("b", 2, annotations=hostile), named("c", 2, annotations={"run-now": "1"}))
    await harness.list(named("a", 2, annotations={"run-now": "1"}), named("b", 2, annotations=hostile), named("c", 2))
    assert await _runs(harness) == 2


async def test_what_a_term_remembers_ends_with_schedules_and_annotations(harness: ReconcilerHarness) -> None:
    """A term may last for months, while schedules come and go and users write annotations."""
    sizes: list[dict[str, int]] = []
    for turn in range(3):
        kept = [named(f"kept-{n}", 2 * turn + 1, annotations={"run-now": f"{turn}"}) for n in range(3)]
        passing = named(f"passing-{turn}", annotations={"run-now": "at first"})
        await harness.list(*kept, passing)
        await harness.change(replace(passing, resource_version="2", annotations={"run-now": "later"}))
        harness.reconciler.take_pending()
        sizes.append(remembered(harness.reconciler))
    assert sizes[2] == sizes[1]


def remembered(part: object) -> dict[str, int]:
    """The sizes of all collections in `part` and in its parts."""
    sizes: dict[str, int] = {}
    for name, value in vars(part).items():
        if isinstance(value, dict | set | list):
            sizes[name] = len(value)  # pyright: ignore[reportUnknownArgumentType]
        elif type(value).__module__.startswith("wakeboard_operator.") and hasattr(value, "__dict__"):
            sizes |= {f"{name}.{inner}": size for inner, size in remembered(value).items()}
    return sizes


async def test_a_range_is_backfilled_once_and_not_when_first_observed(harness: ReconcilerHarness) -> None:
    january = {"backfill": "2026-01-01/2026-02-01 at-once=2"}
    daily = {"jobType": "ping", "schedule": "0 2 * * *", "timeZone": "Europe/Lisbon"}
    await harness.list(named("a", spec=daily, annotations={"backfill": "2025-01-01/2025-02-01"}))
    assert await _runs(harness) == 0
    await harness.change(named("a", 2, spec=daily, annotations=january))
    again = await reconciler_harness(harness.store.conn)
    await again.list(named("a", 2, spec=daily, annotations=january))
    await again.change(named("a", 3, spec=daily, annotations=january))
    assert await _runs(harness) == 31
    row = await (
        await harness.store.conn.execute("select at_once, source::text, reason, range_begin from wakeboard.backfills")
    ).fetchone()
    assert row == (2, "kubectl", f"wakeboard.dev/backfill={january['backfill']}", datetime(2026, 1, 1, tzinfo=UTC))


async def _runs(harness: ReconcilerHarness) -> int:
    row = await (await harness.store.conn.execute("select count(*) from wakeboard.job_runs")).fetchone()
    return row[0] if row else 0
