"""The queues that are compared, each with the best settings that it documents, and what each one keeps.

What a queue keeps and what guards a completion comes from its code, at the pinned version.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from bench.drains import QueueQueries
from testbed.clients import go_worker, node

if TYPE_CHECKING:
    from bench.competitors.installation import Installation

PROGRAMS: Final = Path(__file__).parent / "programs"
OUR_NAME: Final = "wakeboard"
OUR_TYPESCRIPT: Final = "wakeboard-typescript"
OUR_GO: Final = "wakeboard-go"
YARDSTICK: Final = "bare loop"


@dataclass(frozen=True, slots=True)
class Competitor:
    """A queue: its program (see programs/python_side.py), the queries of its tables, and what to know about it."""

    name: str
    program: str
    packages: tuple[str, ...]  # whose versions are reported
    settings: str
    keeps: str  # what is left of a job that succeeded
    fence: str  # what stops a worker that lost a job from finishing it all the same
    queries: QueueQueries = field(default_factory=QueueQueries)
    enqueue_one: str = ""  # enqueues a job with the payload %s; only such queues are measured at ordinary rates

    def command(self, installation: Installation, verb: str, *words: str) -> list[str]:
        """What does `verb` for this queue."""
        if verb == "work" and self.name in OUR_WORKERS:
            return OUR_WORKERS[self.name]()
        program = PROGRAMS / self.program
        runner = str(installation.node) if program.suffix == ".mjs" else sys.executable
        return [runner, str(program), verb, *words]


OUR_WORKERS: Final = {
    OUR_NAME: lambda: [sys.executable, "-m", "wakeboard_worker", "--forever"],
    OUR_TYPESCRIPT: lambda: [str(node()), str(PROGRAMS / "wakeboard_worker.mjs")],
    OUR_GO: lambda: [str(go_worker("benchmark"))],
}

COMPETITORS: Final = (
    Competitor(
        name=OUR_NAME,
        program="wakeboard_queue.py",
        packages=(),
        settings="as it comes (100 at once), prepared statements on; each run belongs to a definition, so changes are"
        " recorded; heartbeat, job types filtered, JSON log; bulk: `enqueue_many` of 10,000",
        keeps="a row in partitioned history, 30 days",
        fence="worker and lease epoch",
        enqueue_one="select wakeboard.enqueue('noop', %s::jsonb)",
    ),
    *(
        Competitor(
            name=name,
            program="wakeboard_queue.py",
            packages=(),
            settings=f"as it comes, but 1000 at once{more}; {where}",
            keeps="a row in partitioned history, 30 days",
            fence="worker and lease epoch",
        )
        for name, more, where in (
            (OUR_TYPESCRIPT, "", "clients/typescript"),
            (OUR_GO, " and GOGC=400", "clients/go"),
        )
    ),
    Competitor(
        name="graphile-worker",
        program="graphile_worker_queue.mjs",
        packages=("graphile-worker", "pg"),
        settings="its own benchmark's: 24 at once, pool of 25, refetch delay 10 ms, batch delays 0; local queue 1000 in"
        " place of 500 (faster here); bulk: `addJobs` of 10,000",
        keeps="nothing",
        fence="none: deleted by id",
        queries=QueueQueries(
            newest="select true from graphile_worker._private_jobs order by id desc limit 1",
            left="select exists (select from graphile_worker._private_jobs)",
            succeeded="select last_value - (select count(*) from graphile_worker._private_jobs)"
            " from graphile_worker.jobs_id_seq1",
        ),
        enqueue_one="select graphile_worker.add_job('noop', %s::json)",
    ),
    Competitor(
        name="pg-boss",
        program="pg_boss_queue.mjs",
        packages=("pg-boss", "pg"),
        settings="`work` with batches of 1000, two local workers, burst while batches are full, LISTEN/NOTIFY;"
        " bulk: `insert` of 10,000",
        keeps="the row where it was, 7 days",
        fence="attempt number",
        queries=QueueQueries(
            newest="select true from pgboss.job where name = 'noop' and state < 'active' and not blocked"
            " order by name desc, priority, created_on desc, start_after desc limit 1",
            left="select exists (select from pgboss.job where name = 'noop' and state <= 'active')",
            succeeded="select count(*) from pgboss.job where state = 'completed'",
        ),
    ),
    Competitor(
        name="pgqueuer",
        program="pgqueuer_queue.py",
        packages=("pgqueuer", "asyncpg", "uvloop"),
        settings="asyncpg, uvloop, two managers a process, batches of 500, durable tables, its autovacuum settings;"
        " bulk: `enqueue` of 10,000",
        keeps="log rows, one for each change of state",
        fence="none: deleted by id",
        queries=QueueQueries(
            newest="select true from pgqueuer order by id desc limit 1",
            left="select exists (select from pgqueuer)",
            succeeded="select count(*) from pgqueuer_log where status = 'successful'",
        ),
    ),
    Competitor(
        name="chancy",
        program="chancy_queue.py",
        packages=("chancy", "psycopg", "uvloop"),
        settings="coroutines, uvloop, 1000 at once, eager polling, results sent every 0.1 s in place of 1 s (faster),"
        " without metrics and workflows; bulk: `push_many` in batches of 5,000",
        keeps="the row where it was, 24 hours",
        fence="claim id",
        queries=QueueQueries(
            newest="select state in ('pending', 'retrying', 'running') from chancy_jobs order by id desc limit 1",
            left="select exists (select from chancy_jobs where queue = 'default'"
            " and state in ('pending', 'retrying', 'running'))",
            succeeded="select count(*) from chancy_jobs where state = 'succeeded'",
        ),
    ),
    Competitor(
        name="procrastinate",
        program="procrastinate_queue.py",
        packages=("procrastinate", "psycopg", "uvloop"),
        settings="asyncio worker, uvloop, 10 at once, pool of 10, LISTEN/NOTIFY (it takes jobs one by one);"
        " bulk: `batch_defer` of 10,000",
        keeps="the row where it was and an event for each change of state, for ever",
        fence="none: by id, while not finished",
        queries=QueueQueries(
            newest="select status in ('todo', 'doing') from procrastinate_jobs order by id desc limit 1",
            left="select exists (select from procrastinate_jobs where status in ('todo', 'doing'))",
            succeeded="select count(*) from procrastinate_jobs where status = 'succeeded'",
        ),
    ),
    Competitor(
        name=YARDSTICK,
        program="bare_loop.py",
        packages=("asyncpg", "uvloop"),
        settings="no queue: an asyncpg loop whose one statement finishes a batch of 1000 and claims the next; no lease,"
        " no retries, no heartbeat, no log; it listens for new jobs; bulk: `INSERT` of 10,000",
        keeps="the row where it was",
        fence="process id",
        queries=QueueQueries(
            newest="select state <> 'done' from jobs order by id desc limit 1",
            left="select exists (select from jobs where state <> 'done')",
            succeeded="select count(*) from jobs where state = 'done'",
        ),
        enqueue_one="with made as (insert into jobs (payload) values (%s::jsonb)) select pg_notify('jobs', '')",
    ),
)


def named(names: list[str]) -> list[Competitor]:
    """Those of these names, in the order of COMPETITORS; all if none is named. Raises KeyError for an unknown name."""
    known = {competitor.name: competitor for competitor in COMPETITORS}
    wanted = {known[name].name for name in names} or set(known)
    return [competitor for competitor in COMPETITORS if competitor.name in wanted]
