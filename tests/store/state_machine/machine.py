"""The state machine: calls operations in random order on a real store and in the model, and compares both after each.

An operation picks a worker, a lease or a run by a number modulo the number of choices. Old leases and other workers'
leases are among them, so that zombies act often. Hypothesis draws the numbers and shortens a failing example.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any, ClassVar

import psycopg
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from tests.schedules.schedules import MISFIRE_GRACE
from tests.store.sql_clients import Lease
from tests.store.state_machine.backfills import BackfillModel
from tests.store.state_machine.comparison import differences
from tests.store.state_machine.dependencies import DependencyModel
from tests.store.state_machine.model import ALL_DAY, QUEUES, TYPES, StoreModel
from tests.store.state_machine.model_rows import ModelRun
from tests.store.state_machine.operations import ANY_OPERATION, JOB, SPEC
from tests.store.tick_model import ModelPlan, ModelSpec, TickModel, older
from wakeboard.schedules import calls
from wakeboard.schedules.scheduler import plan_ticks, schedule_due_ticks

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tests.store.state_machine.database import StoreHarness
    from wakeboard.schedules.calls import TickPlan

MAX_LIVE_RUNS = 8  # with few runs, the operations of an example meet more often


class StoreMachine(RuleBasedStateMachine):
    """One example: a store, its model, and every lease that was ever claimed."""

    harness: ClassVar[StoreHarness]

    def __init__(self) -> None:
        super().__init__()
        self.harness.clear()
        self.model = StoreModel()
        self.ticks = TickModel(self.model)
        self.backfills = BackfillModel(self.model, self.ticks)
        self.dependencies = DependencyModel(self.model, self.ticks, self.backfills)
        self.leases: list[tuple[int, Lease]] = []
        self.uuids: dict[int, str] = {}
        self.open_transaction: tuple[int, Lease, str, bool] | None = None  # of the handler
        self.old_plans: list[tuple[TickPlan, ModelPlan]] = []
        self.moment = 0
        self.before = self._statuses()

    # -- choosing ------------------------------------------------------------------------------------------------------

    def _lease(self, pick: int, *, by_other: bool) -> tuple[int, Lease] | None:
        """A valid lease in most cases, else an old one or another worker's."""
        holding = [(worker, lease) for worker, lease in self.leases if self.model.lease(worker, lease)]
        over = [named for named in self.leases if named not in holding]
        choices = [*holding * 2, *over[-6:]]
        if not choices:
            return None
        worker, lease = choices[pick % len(choices)]
        return (worker % 3 + 1 if by_other else worker), lease

    def _batch(self, pick: int, *, by_other: bool, all_of_it: bool) -> tuple[int, list[Lease]]:
        """Leases of one worker and one epoch."""
        chosen = self._lease(pick, by_other=by_other)
        if chosen is None:
            return 1, []
        worker, lease = chosen
        same = [one for by, one in self.leases if by == worker and one.epoch == lease.epoch] if all_of_it else []
        return worker, list(dict.fromkeys([lease, *same]))

    def _run(self, pick: int, *statuses: str) -> int:
        """A run, in most cases with such a status, else any live or finished one, or the id of none."""
        runs = list(reversed(self.model.runs.values()))
        choices = [*[run.id for run in runs if run.status in statuses] * 2, *(run.id for run in runs), 0]
        return choices[pick % len(choices)]

    def _free_run(self, pick: int) -> ModelRun | None:
        waiting = [run for run in self.model.live() if run.waits]
        return waiting[pick % len(waiting)] if waiting else None

    def _next_moment(self) -> int:
        self.moment += 1
        return self.moment

    @rule(operation=ANY_OPERATION)
    def call(self, operation: tuple[str, dict[str, Any]]) -> None:
        self.apply(operation)

    def apply(self, operation: tuple[str, dict[str, Any]]) -> None:
        """Calls a method of this machine, which runs an operation in the store and in the model."""
        name, arguments = operation
        getattr(self, name)(**arguments)

    # -- applications --------------------------------------------------------------------------------------------------

    @initialize(
        specs=st.tuples(SPEC, SPEC),
        hours=st.sampled_from([0, 1, 3]),
        jobs=st.lists(st.fixed_dictionaries(JOB), max_size=8),
    )
    def initial_load(self, specs: tuple[ModelSpec, ModelSpec], hours: int, jobs: list[dict[str, Any]]) -> None:
        """Registers workers, schedules and jobs, so that most operations have an effect from the first one on."""
        for worker in (1, 2, 3):
            self.register(worker)
        for name, spec in zip("xy", specs, strict=True):
            self.declare(name, spec)
        self.hours_pass(hours)
        for job in jobs:
            self.enqueue(**job)

    def enqueue(
        self,
        job_type: str,
        queue: str,
        priority: int,
        limit_key: str | None,
        max_attempts: int,
        key: tuple[str, int] | None,
        *,
        later: bool,
    ) -> None:
        if len(self.model.live()) > MAX_LIVE_RUNS:
            return
        name, payload = key or (None, 0)
        moment = self._next_moment()
        at = f"{'2900' if later else '2000'}-01-01 {moment // 3600:02}:{moment // 60 % 60:02}:{moment % 60:02}Z"
        known = self.model.keys.get((job_type, name)) if name else None
        query = (
            "select id, created from enqueue(%s, %s::text::jsonb, %s, %s, run_at => %s, idempotency_key => %s,"
            " limit_key => %s, max_attempts => %s, timeout_s => %s, backoff_base_s => %s, backoff_cap_s => %s)"
        )
        values = job_type, f'{{"n": {payload}}}', queue, priority, at, name, limit_key, max_attempts
        times = 2 * ALL_DAY, 4 * ALL_DAY, 4 * ALL_DAY
        if known and known[1] != payload:
            with pytest.raises(psycopg.Error, match="has another payload"):
                self.harness.user.sql(query, *values, *times)
            return
        number, created = self.harness.user.sql(query, *values, *times)[0]
        if known:
            assert (number, created, payload) == (known[0], False, known[1])
            return
        assert created
        self.model.runs[number] = ModelRun(
            *(number, job_type, queue, priority, limit_key, max_attempts), due=not later, rank=(0, moment)
        )
        if name:
            self.model.keys[job_type, name] = number, payload

    # -- workers -------------------------------------------------------------------------------------------------------

    def _record_leases(self, worker: int, leases: Sequence[Lease], expected: Sequence[int]) -> None:
        assert {lease.id for lease in leases} == set(expected)
        assert set(leases) == self.model.claimed(worker, expected)
        self.leases += [(worker, lease) for lease in leases]

    def claim(self, worker: int, count: int, scan_limit: int | None) -> None:
        expected = self.model.claimable(worker, count, scan_limit)
        leases = self.harness.workers[worker].claim(
            count, types=TYPES[worker], queues=QUEUES[worker], lease_s=ALL_DAY, scan_limit=scan_limit
        )
        self._record_leases(worker, leases, expected)

    def claim_limited(self, worker: int, count: int) -> None:
        client, queues = self.harness.workers[worker], list(QUEUES[worker])
        keys = client.column("select due_limit_keys(%s)", queues)
        assert keys == self.model.due_limit_keys(worker)
        by_priority = {key: self.model.limited(worker, key, oldest_first=False) for key in keys}
        by_age = {key: self.model.limited(worker, key, oldest_first=True) for key in keys}
        free_slots: dict[str, int] = {}
        for key in keys:
            shared = self.model.shared_key_of(key)
            free_slots[shared] = min(self.model.slots(shared), free_slots.get(shared, 0) + len(by_priority[key]))
        leases = (
            client.claim_limited(*keys, count=count, types=TYPES[worker], queues=queues, lease_s=ALL_DAY)
            if keys
            else []
        )
        for key in keys:
            for needed in (key, self.model.shared_key_of(key)):
                self.model.limits.setdefault(needed, 1)
            mine = {lease.id for lease in leases if self.model.runs[lease.id].limit_key == key}
            # The first ones in one of the two orders, and never more than there are free slots.
            assert mine in (set(by_priority[key][: len(mine)]), set(by_age[key][: len(mine)]))
        assert len(leases) == min(count, sum(max(0, free) for free in free_slots.values()))
        self._record_leases(worker, leases, [lease.id for lease in leases])

    def claim_quarantined(self, worker: int) -> None:
        query = "select id, lease_epoch from claim_quarantined(%s, %s, %s, %s)"
        client, expected = self.harness.workers[worker], self.model.quarantined(worker)
        rows = client.sql(query, worker, ALL_DAY, list(QUEUES[worker]), list(TYPES[worker]))
        self._record_leases(worker, [Lease(*row) for row in rows], expected)

    def renew(self, worker: int, pick: int, *, all_of_it: bool) -> None:
        mine = list(dict.fromkeys(lease for by, lease in self.leases if by == worker))
        chosen = mine if all_of_it or not mine else [mine[pick % len(mine)]]
        newest = list({lease.id: lease for lease in chosen}.values())  # a worker sends each run once
        assert self.harness.workers[worker].renew(*newest, lease_s=ALL_DAY) == self.model.renew(worker, newest)

    def complete(self, pick: int, *, by_other: bool, all_of_it: bool) -> None:
        worker, leases = self._batch(pick, by_other=by_other, all_of_it=all_of_it)
        refused = self.harness.workers[worker].complete(*leases)
        assert set(refused) == self.model.complete(worker, leases)
        self._check_leases(worker, leases, refused)

    def fail(self, pick: int, outcome: str, delay_s: float | None, *, by_other: bool, all_of_it: bool) -> None:
        worker, leases = self._batch(pick, by_other=by_other, all_of_it=all_of_it)
        refused = self.harness.workers[worker].fail(*leases, outcome=outcome, delay_s=delay_s)
        assert set(refused) == self.model.fail(worker, leases, outcome, at_once=delay_s == 0.0)
        self._check_leases(worker, leases, refused)

    def release(self, pick: int, *, by_other: bool, all_of_it: bool, delayed: bool, reason: str) -> None:
        worker, leases = self._batch(pick, by_other=by_other, all_of_it=all_of_it)
        refused = self.harness.workers[worker].release(*leases, delay_s=ALL_DAY * delayed, reason=reason)
        assert set(refused) == self.model.release(worker, leases, delayed=delayed, reason=reason)
        self._check_leases(worker, leases, refused)

    def _check_leases(self, worker: int, leases: Sequence[Lease], refused: Sequence[int]) -> None:
        """Of the runs that were not accepted, those that another transaction has locked are still leased."""
        asked = [lease for lease in leases if lease.id in refused]
        held = {lease.id for lease in asked if self.model.lease(worker, lease)}
        ids, epochs = [lease.id for lease in asked], [lease.epoch for lease in asked]
        client = self.harness.workers[worker]
        assert set(client.column("select still_leased(%s, %s, %s)", worker, ids, epochs)) == held

    def register(self, worker: int) -> None:
        self.harness.register(worker)
        self.model.present[worker] = True

    def deregister_worker(self, worker: int) -> None:
        self.harness.workers[worker].sql("select deregister_worker(%s)", worker)
        self.model.present.pop(worker, None)

    # -- handlers ------------------------------------------------------------------------------------------------------

    def _call(self, do: Callable[[], Any]) -> Any:
        """The result of a handler's call; None: the lease is lost; "in doubt": the end of an effect is unknown."""
        try:
            return do()
        except psycopg.Error as error:
            if error.sqlstate not in {"WB001", "WB006"}:
                raise
            return None if error.sqlstate == "WB001" else "in doubt"

    def once(self, pick: int, key: str, *, by_other: bool, commit: bool, forever: bool) -> None:
        """Calls `once` and inserts the effect, in a transaction that is committed now or stays open."""
        chosen = self._lease(pick, by_other=by_other)
        if chosen is None or self.open_transaction:
            return
        worker, lease = chosen
        handler = self.harness.handler
        handler.worker_id = worker
        handler.sql("begin")
        answer = self._call(lambda: handler.once(lease, key, forever=forever))
        assert answer == self.model.once(worker, lease, key, forever=forever)
        if answer is not True:
            handler.sql("rollback")
            return
        handler.sql("insert into bank values (%s, %s)", lease.id, key)
        run = self.model.runs[lease.id]
        self.open_transaction = worker, lease, key, forever
        run.locked = True
        if commit:
            self.end_of_transaction(commit=True)

    def end_of_transaction(self, *, commit: bool) -> None:
        if self.open_transaction is None:
            return
        _, lease, key, forever = self.open_transaction
        self.harness.handler.sql("commit" if commit else "rollback")
        self.open_transaction, self.model.runs[lease.id].locked = None, False
        if commit:
            self.model.effect_done(lease, key, forever=forever)

    def effect(self, pick: int, key: str, *, by_other: bool, done: bool, forever: bool) -> None:
        chosen = self._lease(pick, by_other=by_other)
        if chosen is None or ((run := self.model.runs.get(chosen[1].id)) and run.locked):
            return
        if forever and self.open_transaction and self.open_transaction[2:] == (key, True):
            return  # it would wait for the transaction
        worker, lease = chosen
        client, model = self.harness.workers[worker], self.model.effect_forever if forever else self.model.effect
        client.worker_id = worker
        answer = self._call(lambda: (client.effect_forever if forever else client.effect)(lease, key, done=done))
        assert answer == model(worker, lease, key, done=done)

    def step(self, pick: int, name: str, result: Any, *, by_other: bool) -> None:
        chosen = self._lease(pick, by_other=by_other)
        if chosen is None:
            return
        worker, lease = chosen
        client, given = self.harness.workers[worker], [] if result is None else [result]
        answer = self._call(lambda: client.step(lease, name, *given))
        assert (answer and tuple(answer)) == self.model.step(worker, lease, name, result)

    # -- time passes ---------------------------------------------------------------------------------------------------

    def a_lease_expires(self, pick: int, *, timeout: bool) -> None:
        running = [run for run in self.model.live() if run.by and not run.locked]
        if running:
            run = running[pick % len(running)]
            self.harness.expire_lease(run.id, run.by, timeout=timeout)
            run.expired = "timeout" if timeout or run.expired == "timeout" else "crash"

    def a_lease_expires_and_is_reaped(self, pick: int, *, timeout: bool) -> None:
        self.a_lease_expires(pick, timeout=timeout)
        self.reap(always=True)

    def a_worker_stops_heartbeats(self, worker: int) -> None:
        self.harness.stops_heartbeats(worker)
        if worker in self.model.present:
            self.model.present[worker] = False

    def a_run_becomes_due(self, pick: int) -> None:
        if (run := self._free_run(pick)) and not run.waiting:
            moment = self._next_moment()
            at = "'2000-01-01 00:00Z'::timestamptz + make_interval(secs => %s)"
            self.harness.user.sql(f"update job_runs set run_at = {at} where id = %s", moment, run.id)
            run.due, run.rank = True, (0, moment)

    def a_run_has_earlier_crashes(self, pick: int, crashes: int, releases: int) -> None:
        """As if workers had crashed with it, or released it, long ago."""
        if run := self._free_run(pick):
            run.crashes, run.releases = crashes, releases
            query = "update job_runs set crash_count = %s, release_count = %s where id = %s"
            self.harness.user.sql(query, crashes, releases, run.id)

    def hours_pass(self, hours: int) -> None:
        self.harness.hours_pass(hours)
        self.ticks.hours += hours
        self.old_plans = [(older(plan, timedelta(hours=hours)), expected) for plan, expected in self.old_plans]

    def hours_pass_and_ticks_are_scheduled(self, hours: int) -> None:
        self.hours_pass(hours)
        self.schedule_due_ticks()

    # -- maintenance ---------------------------------------------------------------------------------------------------

    def report_terminated(self, worker: int, cause: str) -> None:
        query = "select released, crashed, dead, cancelled, skipped, next_id from report_worker_terminated(%s, %s)"
        *found, next_id = self.harness.user.sql(query, worker, cause)[0]
        assert tuple(found) == self.model.report_terminated(worker, disrupted=cause == "Evicted")
        assert next_id is None

    def reap(self, *, always: bool) -> None:
        assert self.harness.user.reap(always=always) == self.model.reap(always=always)
        self.harness.five_seconds_pass()

    def skip_past_deadline(self) -> None:
        assert self.harness.user.value("select skip_past_deadline()") == self.model.skip_past_deadline()

    def schedule_due_ticks(self) -> None:
        expected = self.ticks.enqueue_due_ticks(self.ticks.plans())
        made = self.harness.do(schedule_due_ticks(self.harness.store, misfire_grace=MISFIRE_GRACE))
        assert made.runs == len(expected)
        self._record_tick_runs(expected)

    def plan_ticks_for_later(self) -> None:
        """A worker computes a plan and enqueues it later."""
        due = self.harness.do(calls.due_definitions(self.harness.store))
        plans = {plan.definition: plan for plan in self.ticks.plans()}
        assert {each.id for each in due} == set(plans)
        self.old_plans += [(plan_ticks(each, MISFIRE_GRACE), plans[each.id]) for each in due]

    def enqueue_ticks_of_an_old_plan(self, pick: int) -> None:
        if not self.old_plans:
            return
        plan, expected = self.old_plans[pick % len(self.old_plans)]
        made = self.ticks.enqueue_due_ticks([expected])
        assert self.harness.do(calls.enqueue_due_ticks(self.harness.store, [plan])).runs == len(made)
        self._record_tick_runs(made)

    def _record_tick_runs(self, made: Sequence[tuple[int, int]]) -> None:
        """Adds the runs of these ticks to the model."""
        if made:
            new = "trigger = 'tick' and not id = any (%s) order by scheduled_for"
            found = self.harness.user.sql(f"select definition_id, id from job_runs where {new}", list(self.model.runs))
            assert sorted(row.definition_id for row in found) == sorted(definition for definition, _ in made)
            for definition, tick in made:
                row = found.pop(next(n for n, row in enumerate(found) if row.definition_id == definition))
                self.ticks.tick_became_run(row.id, self.ticks.definition(definition), tick)
                self.dependencies.tick_became_run(row.id, self.ticks.definition(definition), tick)

    # -- schedules -----------------------------------------------------------------------------------------------------

    def declare(self, name: str, spec: ModelSpec) -> None:
        old = self.ticks.by_name.get(name)
        report = self.harness.sync(self.harness.declared(name, spec))
        number = self.harness.user.value("select id from job_definitions where name = %s", name)
        answer, made = self._declared(name, spec, number, old.spec if old else spec)
        assert getattr(report, answer) == [f"team/{name}"]
        assert (report.failed, report.contended, report.pending_removal) == ({}, [], None)
        assert made is not None

    def _declared(self, name: str, spec: ModelSpec, number: int, old: ModelSpec) -> tuple[str, Any]:
        """Ticks of the old spec become runs as the old spec says."""
        if name in self.ticks.by_name and self.dependencies.edges:
            self.dependencies.refresh()  # also before the due ticks are enqueued
        answer, made = self.ticks.declare(name, spec, number)
        definition = self.ticks.by_name[name]
        definition.spec = old
        self._record_tick_runs(made)
        definition.spec = spec
        self.ticks.rekey(definition)
        if (old.policy != "Allow", old.limit_key) != (spec.policy != "Allow", spec.limit_key):
            self.backfills.rekey(definition)
        if answer != "unchanged":
            self.dependencies.declare(definition)
        return answer, made

    def remove(self, name: str) -> None:
        kept = [each for each in self.ticks.by_name if each != name and not self.ticks.by_name[each].removed]
        known = self.ticks.by_name.get(name)
        report = self.harness.sync(
            *(self.harness.declared(each, self.ticks.by_name[each].spec) for each in kept), prune=True
        )
        gone = known is not None and not known.removed
        assert report.removed == ([f"team/{name}"] if gone else [])
        if gone:
            self.ticks.remove(name)
            self.dependencies.remove(self.ticks.by_name[name])

    def run_now(self, pick: int) -> None:
        names = sorted(self.ticks.by_name)
        definition = self.ticks.by_name[names[pick % len(names)]]
        number, answer = self.harness.user.sql("select id, answer from run_now(%s)", definition.id)[0]
        assert answer.split(":")[0] == self.ticks.run_now(definition, number)

    # -- users ---------------------------------------------------------------------------------------------------------

    def cancel(self, pick: int) -> None:
        run = self._run(pick, "queued", "running")
        answer = self.harness.user.cancel(run)[run]
        assert answer.split(":")[0] == self.model.cancel(self.model.runs.get(run))

    def retry(self, pick: int) -> None:
        run = self._run(pick, "dead", "failed")
        answer = self.harness.user.retry(run)[run]
        assert answer.split(":")[0] == self.model.retry(self.model.runs.get(run))
        if answer == "queued":
            self.backfills.retried(self.model.runs[run])

    def discard(self, pick: int) -> None:
        run = self._run(pick, "dead")
        answer = self.harness.user.discard(run)[run]
        assert answer.split(":")[0] == self.model.discard(self.model.runs.get(run))

    def revoke(self, pick: int) -> None:
        run = self._run(pick, "running")
        answer = self.harness.user.revoke(run)[run]
        assert answer.split(":")[0] == self.model.revoke(self.model.runs.get(run))

    def replay(self, pick: int) -> None:
        run = self._run(pick, "succeeded", "cancelled")
        known = self.model.runs.get(run)
        answer, new = self.harness.user.replay(run)
        if self.dependencies.cannot_be_replayed(known):
            assert answer.startswith("refused")
            return
        assert answer.split(":")[0] == self.model.replay(known, new, self.ticks.keys_of)
        if new is not None:
            self.dependencies.replayed(self.model.runs[run], self.model.runs[new])

    def set_limit(self, key: str, most: int) -> None:
        self.harness.user.sql("select set_limit(%s, %s)", key, most)
        self.model.limits[key] = most
        self.model.explicit_limits.add(key)

    def _pause_named(self, what: str, pick: int) -> str | None:
        ids = sorted(each.id for each in self.ticks.by_name.values() if not each.removed)
        return what if what != "schedule" else f"schedule:{ids[pick % len(ids)]}" if ids else None

    def pause(self, what: str, pick: int) -> None:
        if named := self._pause_named(what, pick):
            assert self.harness.user.value("select pause(%s)", named) == (named not in self.model.pauses)
            self.model.pauses.add(named)

    def resume(self, pick: int) -> None:
        if not self.model.pauses:
            return
        named = sorted(self.model.pauses)[pick % len(self.model.pauses)]
        assert self.harness.user.value("select resume(%s)", named) is True
        self.model.pauses.remove(named)

    # -- after each operation ------------------------------------------------------------------------------------------

    def _statuses(self) -> dict[int, tuple[int | None, str, bool]]:
        return {run.id: (run.definition, run.status, run.live) for run in self.model.runs.values()}

    @invariant()
    def the_store_equals_the_model(self) -> None:
        seen = self.harness.snapshot()
        assert not differences(self, seen)
        for number, uuid in seen["uuids"]:  # a run keeps its uuid whatever happens, and a replay has a new one
            assert self.uuids.setdefault(number, uuid) == uuid
        assert len(set(self.uuids.values())) == len(self.uuids)
        now = self._statuses()
        changed = {now[number][0] for number in now if now[number] != self.before.get(number)} - {None}
        assert changed <= set(seen["changed"]), "a run changed, and its schedule is not in definition_changes"
        self.before = now
