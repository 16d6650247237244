"""Measures one queue: enqueues jobs, or drains a fresh database with workers, in a bounded time."""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

import psycopg

from bench.competitors.catalogue import OUR_NAME, OUR_WORKERS
from bench.drains import Drain, watch_drain
from bench.lateness import feed
from bench.ordinary import cost_at
from bench.workers import NotDone, worker_environment, worker_group
from testbed.clients import typescript_worker
from testbed.processes import ROOT, inherited_environment

if TYPE_CHECKING:
    from bench.competitors.catalogue import Competitor
    from bench.competitors.installation import Installation
    from bench.database import BenchmarkServer, Database
    from bench.ordinary import Cost

LEAVE_WITHIN_S: Final = 5.0
LONGEST_WHY: Final = 300  # characters


@dataclass(frozen=True, slots=True)
class Failed:
    """A queue could not do it; `why` is shown to the reader."""

    why: str


class Comparison:
    """Queues on one server, each in databases of its own."""

    def __init__(self, server: BenchmarkServer, installation: Installation, enqueue_within_s: float) -> None:
        self._server, self._installation, self._enqueue_within_s = server, installation, enqueue_within_s

    def drain(self, competitor: Competitor, jobs: int, processes: int, within_s: float) -> Drain | Failed:
        """How fast it empties its queue; one that takes too long is measured by what it did in that time."""

        def prepare(dsn: str) -> None:
            self._do(competitor, dsn, "prepare")
            self._do(competitor, dsn, "enqueue", str(jobs))

        try:
            with self._server.copy_of(_template(competitor, jobs), prepare) as database, worker_group() as workers:

                def start() -> None:
                    for _ in range(processes):
                        command = competitor.command(self._installation, "work")
                        workers.start_command(command, self._environment(competitor, database.dsn))

                return watch_drain(
                    self._server, database, workers, start, competitor.queries, within_s, stop_within_s=LEAVE_WITHIN_S
                )
        except (NotDone, EnqueueFailed, psycopg.Error) as failed:
            return Failed(_in_one_line(str(failed)))

    def cost_at(self, competitor: Competitor, rate: int, seconds: float) -> Cost | Failed:
        """What a job costs at an ordinary rate, in one worker."""

        def enqueue(database: Database, payload: dict[str, float], _: object) -> None:
            database.ask(competitor.enqueue_one, json.dumps(payload))

        try:
            with (
                self._server.copy_of(_template(competitor, 0), lambda dsn: self._prepare(competitor, dsn)) as database,
                worker_group() as workers,
            ):
                environment = self._environment(competitor, database.dsn)
                worker = workers.start_command(competitor.command(self._installation, "work"), environment)
                feed_jobs = partial(feed, database, enqueue=enqueue)
                return cost_at(self._server, database, workers, worker, feed_jobs, rate, seconds)
        except (NotDone, EnqueueFailed, psycopg.Error) as failed:
            return Failed(_in_one_line(str(failed)))

    def enqueue_rate(self, competitor: Competitor, jobs: int) -> float | Failed:
        """Jobs per second that it takes in bulk from one connection."""
        try:
            with self._server.copy_of(_template(competitor, 0), lambda dsn: self._prepare(competitor, dsn)) as database:
                return jobs / float(self._do(competitor, database.dsn, "enqueue", str(jobs)))
        except (EnqueueFailed, psycopg.Error) as failed:
            return Failed(_in_one_line(str(failed)))

    def drop_template(self, competitor: Competitor, jobs: int) -> None:
        """Its database with so many jobs is needed no more."""
        self._server.drop_template(_template(competitor, jobs))

    def _prepare(self, competitor: Competitor, dsn: str) -> None:
        self._do(competitor, dsn, "prepare")

    def _environment(self, competitor: Competitor, dsn: str) -> dict[str, str]:
        variables = {"BENCH_DSN": dsn, "BENCH_NODE_PACKAGES": str(self._installation.node_packages)}
        if competitor.name == OUR_NAME:
            return {**worker_environment(dsn), **variables}
        if competitor.name in OUR_WORKERS:
            typescript = str(typescript_worker())
            return {**worker_environment(dsn, concurrency=1000), **variables, "BENCH_TYPESCRIPT": typescript}
        return {"PYTHONPATH": str(self._installation.python_packages), **variables}

    def _do(self, competitor: Competitor, dsn: str, *words: str) -> str:
        """The last line that the program prints."""
        try:
            answer = subprocess.run(
                competitor.command(self._installation, *words),
                cwd=ROOT,
                env={**inherited_environment(), **self._environment(competitor, dsn)},
                capture_output=True,
                text=True,
                timeout=self._enqueue_within_s,
                check=True,
            )
        except subprocess.TimeoutExpired as late:
            raise EnqueueFailed(f"{words[0]} took more than {self._enqueue_within_s:.0f} s") from late
        except subprocess.CalledProcessError as broken:
            raise EnqueueFailed(f"{words[0]} failed: {_last_line(broken.stderr)}") from broken
        return _last_line(answer.stdout)


class EnqueueFailed(RuntimeError):
    """Its tables could not be made or filled."""


def _template(competitor: Competitor, jobs: int) -> str:
    return f"{competitor.name}_{jobs}".replace("-", "_").replace(" ", "_")


def _in_one_line(text: str) -> str:
    return " ".join(text.split())[:LONGEST_WHY]


def _last_line(text: str) -> str:
    lines = [line for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else ""
