"""The promise "a held lock stops only what it locks": while a transaction holds locks, everything else goes on.

After the isolated faults, a session takes all of LOCKS at once and keeps them for longer than every timeout of the
product. Each worker that runs forever executes runs that meet these locks (`_OCCUPY`). Meanwhile probes, which have
nothing to do with the locked rows, must end within a bound, and the operator's maintenance must evaluate its alerts.
The same probes without locks are the control: a busy machine gets a longer bound, or no verdict. A worker that was
killed meanwhile gets none either, and none may end by itself. Only what is late twice is reported: then with each lock
held alone, which says what did it.
"""

from __future__ import annotations

import signal
import time
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import psycopg
from psycopg.types.json import Jsonb

from chaos.results import Violation
from wakeboard.ticks.cron_parser import parse_cron

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping, Sequence

    from chaos.environment import Environment
    from chaos.processes import ManagedProcess
    from chaos.results import Result

PROMISE: Final = "a held lock stops only what it locks"
SLOTS: Final = ("forever", "prepares", "poolforever")  # the workers that no wake replaces
MAINTENANCE: Final = "maintenance"  # the slot of the operator's maintenance
KILLED_WITHIN_S: Final = 5.0
BOUND_S: Final = 5.0  # from enqueued to succeeded, for a probe
SLOWER: Final = 3.0  # than the control, which raises the bound; one of the probes is retried after a second
BUSY_S: Final = 3.0  # a control that takes longer allows no verdict
PROBING_S: Final = 6.0  # after the first probe, the last one; then the bound of that one passes
MAINTENANCE_S: Final = 11.0  # alerts are evaluated every five seconds; each task may wait two seconds for a lock
CONTROLS: Final = 5  # at most, until one is fast
SETUP_TIMEOUT_S: Final = 8.0  # a user may have cancelled some
ATTEMPTS: Final = 5  # to take the locks: other transactions may hold some of them
OCCUPIED: Final = 14  # runs on each worker: 11 of _OCCUPY and 3 of a backfill; a worker runs 20 at once

DECLARED: Final = "declared"  # the limit key that the operator's file declares, with 2 slots
LIMIT: Final = 50  # of the keys of the held runs
RATE: Final = (1000, 1, 1000)
LIMITS: Final = {
    **{f"held-{slot}": LIMIT for slot in SLOTS},
    **{f"probe-{slot}": 1 for slot in SLOTS},
}


@dataclass(frozen=True, slots=True)
class HeldLock:
    """`query` takes the locks. Its parameters: %(locked)s and %(cancelled)s, runs that are running."""

    name: str
    query: str


LOCKS: Final = (
    HeldLock("rows of job_runs", "select from wakeboard.job_runs where id = any (%(locked)s) for update"),
    HeldLock("an open cancel", "select wakeboard.cancel(%(cancelled)s)"),
    HeldLock("rows of workers", "select from wakeboard.workers order by worker_id for update"),
    HeldLock(
        "rows of job_limits", "select from wakeboard.job_limits where key not like 'probe-%%' order by key for update"
    ),
    HeldLock("rows of backfills", "select from wakeboard.backfills order by id for update"),
    HeldLock("rows of backfill_ticks", "select from wakeboard.backfill_ticks order by backfill_id, tick for update"),
    HeldLock("rows of job_definitions", "select from wakeboard.job_definitions order by id for update"),
    HeldLock("an open reap", "select wakeboard.reap(0, 5000, true)"),
    HeldLock("the row of installation", "select from wakeboard.installation for update"),
)

# The operator declares the key again while it is locked: its file says 2, the tables say 3.
_UNDECLARE: Final = "update wakeboard.declared_limits set max_running = 3 where key = %s"
_REQUEST_CANCELLATION: Final = (
    "update wakeboard.job_runs set cancel_requested_at = now() where id = any (%s) and locked_by <> 0"
)
_CANCEL_BACKFILLS: Final = """
update wakeboard.backfills set cancelled_at = now(), finished_at = now(), paused_at = null
 where finished_at is null and id in (select backfill_id from wakeboard.backfill_ticks where run_id = any (%s))
"""
_DEFINE: Final = """
insert into wakeboard.job_definitions (
  source, namespace, name, spec_hash, job_type, queue, schedule, cron_fields, payload, max_attempts, timeout_s,
  next_run_at)
values ('file:chaos', 'chaos', %(name)s, '', 'held', %(queue)s, '* * * * *', %(fields)s, %(tick_payload)s, 3, 60,
        date_trunc('minute', now()) + interval '1 minute')
returning id
"""
_BACKFILL: Final = """
select wakeboard.create_backfill(%s, array_agg(tick), min(tick), max(tick) + interval '1 s', 3)
  from (select date_trunc('minute', now()) - place * interval '1 minute'
          from generate_series(1, 3) as place) as past (tick)
"""
_OCCUPY: Final = """
select enqueued.id, part
  from unnest(array['locked', 'cancelled', 'consumes', 'consumes', 'consumes',
                    'pauses', 'pauses', 'pauses', 'pauses', 'pauses', 'pauses']) as part
 cross join lateral wakeboard.enqueue(
   'held', %(payload)s::jsonb || jsonb_build_object('part', part), queue => %(queue)s, priority => 5, timeout_s => 60,
   limit_key => case when part in ('consumes', 'pauses') then %(key)s end) as enqueued
"""
_RUNNING: Final = """
select run.payload ->> 'part', array_agg(run.id) from wakeboard.job_runs as run
 where run.job_type = 'held' and run.status = 'running' and (run.payload ->> 'number')::integer = %s
   and run.trigger in ('application', 'backfill')
 group by 1
"""
_PROBES: Final = """
select enqueued.id, job_type, slot
  from unnest(%s::text[]) as slot
 cross join unnest(array['quick', 'ships', 'limited', 'flaky']) as job_type
 cross join lateral wakeboard.enqueue(
   job_type, '{"seconds": 0.02, "failures": 1}', queue => 'only-' || slot, priority => 5, max_attempts => 100,
   timeout_s => 15, backoff => 'fixed', backoff_base_s => 1,
   limit_key => case job_type when 'limited' then 'probe-' || slot end) as enqueued
"""
# A user may have cancelled it: that is an end, too.
_DONE: Final = """
select id, extract(epoch from finished_at - created_at)::float8 from wakeboard.job_run_history
 where id = any (%s)
"""


@dataclass(frozen=True, slots=True)
class _Probe:
    run: int
    job_type: str
    slot: str
    after_s: float


def set_up(conn: psycopg.Connection[Any]) -> None:
    """Creates the limits of the runs that meet the locks."""
    for slot in SLOTS:
        conn.execute("select wakeboard.set_limit(%s, %s)", (f"held-{slot}", LIMIT))
        conn.execute("select wakeboard.set_rate_limit(%s, %s, %s, %s)", (f"held-{slot}", *RATE))


def check_held_locks(environment: Environment, result: Result) -> list[Violation]:
    """Holds all locks at once. Returns what they stopped, by the lock that did it alone."""
    checks = Checks(environment, result)
    if not checks.late(LOCKS):
        return []
    by_lock = {lock.name: checks.late([lock]) for lock in LOCKS}
    if not any(by_lock.values()):
        by_lock = {"all locks together": checks.late(LOCKS)}
    return [Violation("other", PROMISE, f"{name}: {one}") for name, found in by_lock.items() for one in found]


class Checks:
    """Each call of `late` is one time in which some locks are held."""

    def __init__(self, environment: Environment, result: Result) -> None:
        self._environment, self._result = environment, result
        self._number = 0

    def late(self, locks: Sequence[HeldLock]) -> list[str]:
        """What was late while a session held these locks."""
        if (bound_s := self._bound_s()) is None:
            self._result.counts["held locks without a verdict"] += 1
            return []
        self._number += 1
        try:
            return self._late(locks, bound_s)
        finally:  # the runs that met the locks end
            self._environment.query("insert into chaos.held values (%s)", 2 * self._number + 1)

    def _late(self, locks: Sequence[HeldLock], bound_s: float) -> list[str]:
        runs = self._occupy()
        before = {name: process for name, process in self._processes().items() if name in SLOTS}
        with held(self._environment, locks, runs) as are_held:
            if not are_held:
                self._result.counts["held locks without a verdict"] += 1
                return []
            self._environment.query("insert into chaos.held values (%s)", 2 * self._number)
            if (maintenance := self._processes().get(MAINTENANCE)) is not None:  # so that it meets the locks at once
                maintenance.send(signal.SIGKILL)
                maintenance.wait(KILLED_WITHIN_S)
            found = self.probe(bound_s, runs.get("waits", []))
        ended = {slot: process for slot, process in before.items() if process.code() is not None}
        late = [text for who, text in found if who not in ended]
        return late + [f"the worker in {slot} ended" for slot, process in ended.items() if not process.signalled]

    def _processes(self) -> dict[str, ManagedProcess]:
        return {process.slot.name: process for process in self._environment.supervisor.running()}

    def _bound_s(self) -> float | None:
        """The bound for the probes, or None if the machine is too busy: their duration without locks decides."""
        took_s = BUSY_S
        for _ in range(CONTROLS):  # after a lock that stopped much, work is waiting
            took_s = self._control_s()
            if SLOWER * took_s <= BOUND_S:
                break
        return max(BOUND_S, SLOWER * took_s) if took_s < BUSY_S else None

    def _control_s(self) -> float:
        began = time.monotonic()
        probes = self._enqueue(0.0)
        while (took_s := time.monotonic() - began) < BUSY_S:
            if probes and len(self._environment.query(_DONE, [probe.run for probe in probes])) == len(probes):
                return took_s
            time.sleep(0.05)
        return took_s

    def _occupy(self) -> dict[str, list[int]]:
        """Starts the runs that meet the locks, on each worker. Returns them by what they do."""
        fields = parse_cron("* * * * *", name="held").to_text()
        with self._environment.connect() as conn:
            conn.execute("update wakeboard.job_limits set max_running = 3 where key = %s", (DECLARED,))
            for slot in SLOTS:
                values = {
                    "name": f"held-{slot}-{self._number}",
                    "queue": f"only-{slot}",
                    "key": f"held-{slot}",
                    "fields": fields,
                    "payload": Jsonb({"number": self._number}),
                    "tick_payload": Jsonb({"number": self._number, "part": "waits"}),
                }
                conn.execute(_OCCUPY.encode(), values)
                ((definition,),) = conn.execute(_DEFINE.encode(), values).fetchall()
                conn.execute(_BACKFILL.encode(), (definition,))
        deadline, runs = time.monotonic() + SETUP_TIMEOUT_S, dict[str, list[int]]()
        while sum(map(len, runs.values())) < OCCUPIED * len(SLOTS) and time.monotonic() < deadline:
            time.sleep(0.05)
            runs = {part: list(ids) for part, ids in self._environment.query(_RUNNING, self._number)}
        self._environment.query(
            _CANCEL_BACKFILLS, runs.get("waits", [])
        )  # their runs are asked to stop under the locks
        return runs

    def _enqueue(self, after_s: float) -> list[_Probe]:
        """Some probes for each worker, or none if that takes longer than an application would wait."""
        with self._environment.connect() as conn:
            conn.execute("select set_config('statement_timeout', %s, false)", (str(int(1000 * BOUND_S)),))
            try:
                rows = conn.execute(_PROBES, (list(SLOTS),)).fetchall()
            except psycopg.errors.OperationalError:
                return []
        return [_Probe(run, job_type, slot, after_s) for run, job_type, slot in rows]

    def probe(self, bound_s: float, waits: Sequence[int]) -> list[tuple[str, str]]:
        """Enqueues probes, lets runs of cancelled backfills stop, and waits for the bound.

        Returns what was late: the process, and what to say of it.
        """
        environment, began = self._environment, time.monotonic()
        probes, found = list[_Probe](), list[tuple[str, str]]()
        environment.query("update wakeboard.alert_rules set evaluated_at = 'epoch'")
        while (after_s := time.monotonic() - began) < PROBING_S:
            environment.query(_REQUEST_CANCELLATION, [run for run in waits if run % 4 == int(after_s) % 4])
            new = self._enqueue(after_s)
            probes += new
            if not new:
                found.append(("applications", f"an enqueue after {after_s:.1f} s was refused or took {BOUND_S:.0f} s"))
            time.sleep(1.0)
        time.sleep(max(0.0, began + max(after_s + bound_s, MAINTENANCE_S) - time.monotonic()))
        done = dict(environment.query(_DONE, [probe.run for probe in probes]))
        self._result.counts["probes beside held locks"] += len(probes)
        for slot in SLOTS:
            late = [probe for probe in probes if probe.slot == slot and done.get(probe.run, bound_s + 1) > bound_s]
            if late:
                found.append(
                    (slot, f"in {slot}, {len(late)} of {len(probes) // len(SLOTS)} were late: {_words(late, done)}")
                )
        if environment.query("select name from wakeboard.alert_rules where evaluated_at < now() - interval '1 h'"):
            found.append((MAINTENANCE, f"no alert was evaluated in {time.monotonic() - began:.0f} s"))
        return found


def _words(late: Sequence[_Probe], done: Mapping[int, float]) -> str:
    first = {probe.job_type: probe for probe in reversed(late)}
    return ", ".join(
        f"{job_type} enqueued after {probe.after_s:.1f} s "
        + (f"took {done[probe.run]:.1f} s" if probe.run in done else "did not end")
        for job_type, probe in first.items()
    )


@contextmanager
def held(environment: Environment, locks: Sequence[HeldLock], runs: Mapping[str, list[int]]) -> Generator[bool]:
    """Holds the locks in one transaction, which is rolled back. False: it could not get them."""
    with environment.connect() as conn:
        for _ in range(ATTEMPTS):
            try:
                conn.execute("begin")
                conn.execute("set local lock_timeout = '3s'")
                for lock in locks:
                    values = {"locked": runs.get("locked", []), "cancelled": runs.get("cancelled", [])}
                    conn.execute(lock.query.encode(), values)
            except psycopg.errors.OperationalError:  # a lock was not available in time, or a deadlock
                conn.execute("rollback")
                continue
            environment.query(_UNDECLARE, DECLARED)
            yield True
            conn.execute("rollback")
            return
    yield False
