"""One campaign: starts the environment, injects the planned faults, waits until all has drained, checks the tables.

It runs as a process of its own (`python -m chaos.campaign`), and prints progress and its result as JSON lines.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import threading
import time
import traceback
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from chaos.applications import Applications, ClientRecord
from chaos.checker import check, count, first
from chaos.customers import end_customers
from chaos.environment import Environment
from chaos.exit_checks import check_exits
from chaos.faults.catalogue import BY_NAME
from chaos.held_locks import check_held_locks
from chaos.losses import check_named, set_apart
from chaos.other_release import FIRST
from chaos.plan import PlannedFault, make_plan
from chaos.recovery import check_every_worker, drain, measure_recovery
from chaos.results import RESULT, UNDONE, Result, Violation
from chaos.wal_witness import WalWitness

if TYPE_CHECKING:
    from collections.abc import Sequence

WARM_UP_S: Final = 2.0  # before the first fault
CONCURRENT_FAULTS: Final = 24


class Campaign:
    """Carries out a plan in an environment."""

    def __init__(self, plan: Sequence[PlannedFault], result: Result, environment: Environment) -> None:
        self.plan, self.result, self.environment = plan, result, environment
        self.clients = ClientRecord()
        self._lock = threading.Lock()

    def run(self) -> Result:
        """Runs it, in the main thread."""
        started = time.monotonic()
        try:
            asyncio.run(self.environment.run_in_thread(self._run))
        finally:
            self.environment.stop()
        self.result.violations += check_exits(self.environment.supervisor.exits, self.result)
        self.result.seconds = time.monotonic() - started
        return self.result

    def _run(self) -> None:
        try:
            self.environment.start()
            version = self.environment.query("show server_version")[0][0].split()[0]
            self.result.about = f"PostgreSQL {version}; other release: the code of commit {FIRST[:10]}"
            self._run_plan()
        except Exception:  # noqa: BLE001 - whatever it is, the campaign is not finished
            self._fail(traceback.format_exc())

    def _run_plan(self) -> None:
        environment = self.environment
        app_dsn, admin_dsn = (environment.dsn_through(environment.direct, role) for role in ("chaos_app", "postgres"))
        applications = Applications(app_dsn, admin_dsn, self.clients)
        applications.start()
        time.sleep(WARM_UP_S)
        self._inject_concurrently([planned for planned in self.plan if planned.at_s is not None])
        environment.restore()
        for planned in self.plan:
            if planned.at_s is None:
                self._inject_in_isolation(planned)
        if self.plan and self.plan[-1].at_s is None:  # not in a short campaign
            self.result.violations += check_held_locks(environment, self.result)
        applications.stop()
        environment.restore()
        self._drain_and_check()

    def _inject_concurrently(self, faults: Sequence[PlannedFault]) -> None:
        started = time.monotonic()
        with ThreadPoolExecutor(CONCURRENT_FAULTS, thread_name_prefix="fault") as pool:
            for planned in faults:
                time.sleep(max(0.0, started + (planned.at_s or 0.0) - time.monotonic()))
                pool.submit(self._inject, planned)

    def _inject_in_isolation(self, planned: PlannedFault) -> None:
        time.sleep(0.3)
        recovery = measure_recovery(self.environment, planned.fault, lambda: self._inject(planned))
        if recovery.serves is not None:
            self.result.recoveries.append(recovery)

    def _inject(self, planned: PlannedFault) -> str | None:
        fault = BY_NAME[planned.fault]
        target = None
        try:
            if not self._can(fault.needs):
                self._count(self.result.skipped, planned)
                return None
            started = time.time()
            target = fault().inject(self.environment, planned.draw)
            self._count(self.result.no_target if target is None else self.result.injected, planned)
            with (self.environment.logs / "faults.log").open("a") as log:
                log.write(f"{started:.3f} {time.time():.3f} {planned.number} {planned.fault}: {target}\n")
        except Exception:  # noqa: BLE001 - the report names each fault that could not be injected
            self._fail(f"fault {planned.number}, {planned.fault}:\n{traceback.format_exc()}")
        return target

    def _can(self, needs: str) -> bool:
        return {
            "disk": self.environment.in_own_namespaces,
            "network": self.environment.in_own_namespaces,
            "pooler": self.environment.pooler is not None,
        }.get(needs, True)

    def _count(self, counter: Any, planned: PlannedFault) -> None:
        with self._lock:
            counter[planned.fault] += 1
            done = sum((self.result.injected + self.result.no_target + self.result.skipped).values())
        _print_json({"done": done, "fault": planned.fault})

    def _fail(self, reason: str) -> None:
        self.result.violations.append(Violation("other", UNDONE, reason[-3000:]))

    def _drain_and_check(self) -> None:
        """Waits until everything has drained, checks that every worker works, stops all, and checks the tables."""
        environment, result = self.environment, self.result
        drained_s, stuck = drain(environment, self.clients)
        result.drained_s.append(round(drained_s, 1))
        result.violations += stuck + end_customers(environment)
        result.violations += check_every_worker(environment)
        environment.supervisor.stop()
        for wrong in sorted(self.clients.wrong):
            self._fail(f"applications: {wrong}")
        with environment.connect() as conn:
            ledger = environment.supervisor.ledger
            found = check(conn, self.clients, ledger)
            count(conn, result)
            witness = WalWitness(environment.archive, environment.server.binaries)
            found += witness.check(conn, self.clients, ledger)
            if environment.may_lose and len(witness.timelines) > 1:  # only a promotion explains a loss
                found, lost = set_apart(found)
                result.counts += lost
                found += check_named(conn, witness.timelines)
        result.violations += first(found)
        result.counts += witness.counts
        if not result.violations:
            environment.archive.remove()
        result.counts["acknowledged enqueues"] += len(self.clients.acknowledged)
        result.counts["enqueues without a reply"] += len(self.clients.unsure - self.clients.acknowledged.keys())
        result.counts["server starts"] += environment.server.starts
        result.counts["failovers"] += environment.server.failovers
        result.counts["ends of PgBouncer by itself"] += environment.pooler_ends


def _print_json(message: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


def main() -> None:
    """Runs one campaign. The last line is its result."""
    parser = argparse.ArgumentParser(prog="python -m chaos.campaign")
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--faults", type=int, required=True)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--own-namespaces", action="store_true")
    parser.add_argument("--failover", action="store_true")
    parser.add_argument("--asynchronous", action="store_true")
    parser.add_argument("--only", action="append", default=[])
    given = parser.parse_args()
    environment = Environment(
        given.folder,
        in_own_namespaces=given.own_namespaces,
        failover=given.failover,
        asynchronous=given.asynchronous,
    )
    plan = make_plan(given.seed, given.faults, failover=given.failover, only=given.only)
    campaign = Campaign(plan, Result(seeds=[given.seed], faults=given.faults), environment)
    _print_json({"result": RESULT.dump_python(campaign.run(), mode="json")})


if __name__ == "__main__":
    main()
