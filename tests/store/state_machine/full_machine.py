"""The state machine with rates, circuits, unique windows, backfills and dependencies, and what holds in the end."""

from __future__ import annotations

import sys
from collections import Counter
from datetime import timedelta
from typing import TYPE_CHECKING

import psycopg
import pytest
from hypothesis.stateful import initialize, invariant

from tests.store.sql_clients import Lease
from tests.store.state_machine.machine import MAX_LIVE_RUNS
from tests.store.state_machine.model import QUEUES, TYPES
from tests.store.state_machine.model_rows import ModelRate, ModelRun
from tests.store.state_machine.operations import AFTER
from tests.store.state_machine.restores import Restores
from wakeboard.dependencies import calls
from wakeboard.dependencies.dependents import joined_ticks

if TYPE_CHECKING:
    from tests.store.state_machine.backfills import ModelBackfill
    from tests.store.tick_model import ModelDefinition, ModelSpec

UNIT_S = 2_678_400  # one unit comes back in 31 days, so none does during an example
PAUSE_S = 86_400
MOST_BACKFILL_TICKS = 6  # in all, so that few runs are live


class FullMachine(Restores):
    """One example."""

    @initialize(specs=AFTER)
    def initial_dependencies(self, specs: ModelSpec) -> None:
        """Declares a schedule that runs after others."""
        self.declare("z", specs)

    # -- applications --------------------------------------------------------------------------------------------------

    def enqueue_after(self, picks: tuple[int, ...], *, later: bool) -> None:
        """A run that waits for others: for live ones in most cases."""
        if len(self.model.live()) > MAX_LIVE_RUNS:
            return
        parents = [self._run(pick, "queued", "running", "failed", "dead") for pick in picks]
        query = "select id from enqueue('ping', queue => 'a', run_at => %s, after => %s, timeout_s => 7200)"
        at = "2900-01-01 00:00Z" if later else None
        wrong = self.dependencies.unusable_parent(parents)
        if wrong is not None:
            with pytest.raises(psycopg.Error, match=f"after holds run {wrong}, which"):
                self.harness.user.sql(query, at, parents)
            return
        number = self.harness.user.value(query, at, parents)
        run = ModelRun(number, max_attempts=5, due=not later, later=later, rank=self.model.rank_of_now())
        self.model.runs[number] = run
        self.dependencies.wait(run, parents)

    def enqueue_unique(self, customer: int, *, replaces: bool, window_ends: bool) -> None:
        """A run of a customer who may have one already."""
        if window_ends:
            self.harness.user.sql("update job_unique_keys set unique_until = now() - interval '1 s'")
            self.model.unique.clear()
        known = self.model.runs.get(self.model.unique.get(customer, 0))
        if known is None and len(self.model.live()) > MAX_LIVE_RUNS:
            return
        query = (
            "select id, created from enqueue('pong', %s::text::jsonb, queue => 'b', timeout_s => 7200,"
            " unique_for => 86400, unique_by => '{n}', if_exists => %s)"
        )
        number, created = self.harness.user.sql(query, f'{{"n": {customer}}}', "replace" if replaces else "keep")[0]
        now = self.model.rank_of_now()
        if known is None:
            assert created
            self.model.runs[number] = ModelRun(number, "pong", "b", max_attempts=5, rank=now)
            self.model.unique[customer] = number
            return
        assert (number, created) == (known.id, False)
        if replaces and known.waits:
            known.status, known.attempts, known.due, known.rank = "queued", 0, True, now

    # -- rates ---------------------------------------------------------------------------------------------------------

    def set_rate(self, key: str, burst: int | None) -> None:
        former = self.model.rates.pop(key, None)
        self.harness.user.sql("select set_rate_limit(%s, %s, %s, %s)", key, burst and 1, UNIT_S, burst or 1)
        if burst is not None:
            self.model.rates[key] = ModelRate(burst, min(burst, former.used if former else 0))
        if burst is not None or former is not None:
            self.model.paused_limits.discard(key)
            if key not in self.model.explicit_limits:
                self.model.limits[key] = 1 if burst is None else 1_000_000

    def units_come_back(self, key: str, units: int) -> None:
        if rate := self.model.rates.get(key):
            query = "update job_limits set next_unit_at = next_unit_at - make_interval(secs => %s) where key = %s"
            self.harness.user.sql(query, units * UNIT_S, key)
            rate.used, rate.time = max(0, rate.used - units), rate.time + units

    def consume(self, pick: int, units: int, *, by_other: bool) -> None:
        run = self._call_of_lease("consume", units, pick, by_other=by_other)
        if run and (rate := self.model.rates.get(run.rated_key or "")):
            rate.take(units)

    def pause_limit(self, pick: int, *, by_other: bool, ends: bool) -> None:
        if ends:
            self.harness.user.sql("update job_limits set paused_until = 'epoch'")
            self.model.paused_limits.clear()
        run = self._call_of_lease("pause_limit", PAUSE_S, pick, by_other=by_other)
        key = run and run.rated_key
        if key is not None and key in self.model.limits and not key.startswith("schedule:"):
            self.model.paused_limits.add(key)

    def _call_of_lease(self, function: str, value: int, pick: int, *, by_other: bool) -> ModelRun | None:
        """Calls a function for a lease. The run, if the lease holds."""
        chosen = self._lease(pick, by_other=by_other)
        if chosen is None:
            return None
        worker, lease = chosen
        client, run = self.harness.workers[worker], self.model.lease(*chosen)
        answer = self._call(lambda: client.sql(f"select {function}(%s, %s, %s, %s)", worker, *lease, value))
        assert (answer is None) == (run is None)
        return run

    # -- circuits ------------------------------------------------------------------------------------------------------

    def update_circuits(self) -> None:
        assert self.harness.user.value("select update_circuits()") == self.ticks.update_circuits()

    def close_circuit(self, pick: int) -> None:
        definition = self._definition(pick)
        named = f"schedule:{definition.id}"
        was_paused = named in self.model.pauses
        self.model.pauses.discard(named)
        closed = self.ticks.close_circuit(definition)
        assert self.harness.user.value("select resume(%s)", named) == (was_paused or closed)

    def _definition(self, pick: int) -> ModelDefinition:
        names = sorted(self.ticks.by_name)
        return self.ticks.by_name[names[pick % len(names)]]

    # -- backfills -----------------------------------------------------------------------------------------------------

    def backfill(self, pick: int, back: int, count: int, at_once: int, *, again: bool) -> None:
        definition = self.ticks.by_name["xy"[pick % 2]]
        if (
            definition.removed
            or definition.spec.after
            or sum(job.total for job in self.backfills.by_id.values()) > MOST_BACKFILL_TICKS
        ):
            return
        begin = self.ticks.hours - back
        ticks = range(begin, min(begin + count, self.ticks.hours))
        first, until = self.harness.moment(ticks[0]), self.harness.moment(ticks[-1]) + timedelta(seconds=1)
        chosen = self.backfills.chosen(definition, ticks, again=again)
        number, total = self.harness.user.sql(
            "select id, total from create_backfill(%s, %s, %s, %s, %s, %s)",
            *(definition.id, [self.harness.moment(tick) for tick in ticks], first, until, at_once, again),
        )[0]
        assert (total, number is None) == (len(chosen), not chosen)
        if chosen:
            self._record_backfill_runs(self.backfills.create(number, definition, chosen, at_once))

    def _record_backfill_runs(self, made: list[tuple[int, int]]) -> None:
        if not made:
            return
        rows = self.harness.user.sql(
            "select item.run_id, item.backfill_id, item.tick from backfill_ticks as item join job_runs as run"
            " on run.id = item.run_id and run.scheduled_for = item.tick and run.trigger = 'backfill'"
            " where not item.run_id = any (%s)",
            list(self.model.runs),
        )
        run_of = {(row.backfill_id, row.tick): row.run_id for row in rows}
        assert len(run_of) == len(made)
        for backfill, tick in made:
            self.backfills.tick_became_run(run_of[backfill, self.harness.moment(tick)], backfill, tick)

    def _backfill(self, pick: int) -> ModelBackfill | None:
        jobs = list(self.backfills.by_id.values())
        return jobs[pick % len(jobs)] if jobs else None

    def continue_backfills(self) -> None:
        made = self.backfills.proceed()
        assert self.harness.user.value("select continue_backfills()") == len(made)
        self._record_backfill_runs(made)

    def pause_backfill(self, pick: int) -> None:
        if job := self._backfill(pick):
            assert self.harness.user.value("select pause(%s)", f"backfill:{job.id}") == self.backfills.pause(job)

    def resume_backfill(self, pick: int) -> None:
        if job := self._backfill(pick):
            resumed, made = self.backfills.resume(job)
            assert self.harness.user.value("select resume(%s)", f"backfill:{job.id}") == resumed
            self._record_backfill_runs(made)

    def cancel_backfill(self, pick: int) -> None:
        if job := self._backfill(pick):
            query = "select changed, cancelled, requested from cancel_backfill(%s)"
            assert tuple(self.harness.user.sql(query, job.id)[0]) == self.backfills.cancel(job)

    # -- dependencies --------------------------------------------------------------------------------------------------

    def pass_on(self) -> None:
        """Maintenance creates the runs of schedules that run after others, and lets runs start."""
        noted = len(self.model.noted_ends)
        started, made = self.dependencies.enqueue_dependents()
        done = self.harness.do(calls.enqueue_dependents(self.harness.store, 1000))
        assert (done.ended, done.started, done.runs) == (noted, started, len(made))
        self._record_tick_runs(made)
        joins = self.harness.do(calls.joins_to_check(self.harness.store, 1000))
        assert bool(joins) == done.has_joins
        if joins:
            made = self.dependencies.join_ticks()
            assert self.harness.do(calls.enqueue_joined_ticks(self.harness.store, joined_ticks(joins))) == len(made)
            self._record_tick_runs(made)

    # -- after each operation ------------------------------------------------------------------------------------------

    @invariant()
    def a_tick_becomes_one_run(self) -> None:
        runs = [run for run in self.model.runs.values() if run.status != "skipped"]
        ticks = Counter((run.definition, run.tick) for run in runs if run.trigger == "tick")
        assert max(ticks.values(), default=1) == 1
        jobs = self.backfills.by_id.values()
        backfilled = Counter(run for job in jobs for run in job.ticks.values() if run is not None)
        assert max(backfilled.values(), default=1) == 1

    @invariant()
    def no_rate_is_exceeded(self) -> None:
        for rate in self.model.rates.values():
            for first, since in enumerate(rate.starts):
                for count, until in enumerate(rate.starts[first:], 1):
                    assert count <= rate.burst + until - since

    @invariant()
    def no_run_starts_before_those_that_it_waits_for(self) -> None:
        for run in self.model.runs.values():
            if run.epoch and run.definition is None:
                assert not self.dependencies.blocked(run)

    def teardown(self) -> None:
        """Nothing is stuck: without pauses and open transactions, every run can be claimed and completed."""
        self.end_of_transaction(commit=False)
        if sys.exc_info()[0] is not None:
            return  # the example has failed already
        self._end_pauses()
        for run in [run for run in self.model.live() if run.by]:
            self.harness.expire_lease(run.id, run.by, timeout=False)
            run.expired = run.expired or "crash"
        self.reap(always=True)
        self.check_server_changes()
        self.skip_past_deadline()
        while any(run.waits and not run.waiting for run in self.model.live()) or self.model.noted_ends:
            self._make_due()
            done = self._drain()
            assert done or self.model.noted_ends, f"stuck: {[run for run in self.model.live() if run.waits]}"
            self.pass_on()
        self.continue_backfills()
        assert all(job.finished for job in self.backfills.by_id.values())
        assert all(self.dependencies.blocked(run) for run in self.model.live() if run.waiting)
        self.the_store_equals_the_model()

    def _end_pauses(self) -> None:
        while self.model.pauses:
            self.resume(0)
        for key in ("k", "l"):
            self.set_rate(key, None)
            self.set_limit(key, 1)
        self.harness.user.sql("update job_limits set paused_until = 'epoch'")
        self.model.paused_limits.clear()
        for place in range(len(self.backfills.by_id)):
            self.resume_backfill(place)
        self.continue_backfills()
        self.pass_on()

    def _make_due(self) -> None:
        waiting = "status in ('queued', 'failed') and run_at < '2999-12-01'"
        self.harness.user.sql(f"update job_runs set run_at = now(), start_before = null where {waiting}")
        for run in self.model.live():
            run.due, run.later, run.late_from = not run.waiting, False, None

    def _drain(self) -> int:
        """Claims with every claim function and completes the runs. Returns their number."""
        me, queues, types = self.harness.workers[1], QUEUES[1], TYPES[1]
        leases = me.claim(types=types, queues=queues) + me.claim_limited(types=types, queues=queues)
        query = "select id, lease_epoch from claim_quarantined(1, 60, %s, %s)"
        leases += [Lease(*row) for row in me.sql(query, list(queues), list(types))]
        self.model.claimed(1, [lease.id for lease in leases])
        for lease in leases:
            assert me.complete(lease) == []
            assert self.model.complete(1, [lease]) == set()
        return len(leases)
