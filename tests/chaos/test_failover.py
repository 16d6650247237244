"""A failover to an asynchronous standby loses the last commits, and later runs get the ids of those that are lost."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import signal
from typing import TYPE_CHECKING

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from testbed.standby import Standby
from tests.chaos.processes import Watcher, Worker, wait_until
from wakeboard.local.postgres import EmbeddedPostgres
from wakeboard.store.migrate import migrate

if TYPE_CHECKING:
    from pathlib import Path

RUNS = 16
SETTINGS = {"handlers": "tests.chaos.failover_handlers", "lease_seconds": 40, "threads": 40}
# No outcome, heartbeat, step or effect of a lost run comes before the claim of the run that has its id.
UNTIL_ALL_ARE_CLAIMED = """
lock table wakeboard.workers, wakeboard.job_run_history, wakeboard.job_steps, wakeboard.job_effects in share mode
"""
FOREIGN = """
select 'outcome', id from wakeboard.all_runs where status <> 'succeeded' or result <> '"given"' or attempts <> 1
 union all select 'step', run_id from wakeboard.job_steps where result <> '"given"'
 union all select 'effect', run_id from wakeboard.job_effects
            where run_uuid not in (select uuid from wakeboard.all_runs)
 union all select 'payment', null from paid where tag <> 'given'
"""


def enqueue(watcher: Watcher, folder: Path, tag: str, *gates: str) -> list[int]:
    """Enqueues a run of each kind for each gate: a file that lets its handler go on."""
    kinds = itertools.product(("coroutine", "plain"), (True, False), gates, range(RUNS // 4 // len(gates)))
    ids = list[int]()
    for number, (job_type, notes, gate, _) in enumerate(kinds):
        payload = {"tag": tag, "notes": notes, "gate": str(folder / gate), "events": str(folder / f"{tag}-{number}")}
        ids.append(watcher.ask("select id from wakeboard.enqueue(%s, %s)", job_type, json.dumps(payload)))
    return ids


def test_after_a_failover_no_lost_attempt_changes_another_run(postgres_folder: Path, tmp_path: Path) -> None:
    settings = {"max_connections": "100", "fsync": "off"}
    promoted = postgres_folder / "promoted"  # the worker finds the new primary there, once it exists
    with EmbeddedPostgres(postgres_folder / "primary", settings=settings, trusting=True) as primary:
        asyncio.run(migrate(primary.dsn))
        standby = Standby(primary, postgres_folder / "standby")
        both = make_conninfo(primary.dsn, host=f"{conninfo_to_dict(primary.dsn)['host']},{promoted}")
        with standby.streaming(), Worker(both, tmp_path, "--forever", **SETTINGS) as worker:

            def wait_for_handlers(tag: str, event: str) -> None:
                wait_until(lambda: len(list(tmp_path.glob(f"{tag}-*.{event}"))) == RUNS, f"{tag} handlers: {event}")

            with Watcher(primary.dsn) as watcher:
                watcher.do("create table paid (run_uuid uuid, tag text)")
                # By the first `reap` of the worker.
                watcher.wait("select server_timeline is not null from wakeboard.installation")
                standby.fall_behind()
                lost = enqueue(watcher, tmp_path, "lost", "outage", "later")
                wait_for_handlers("lost", "began")
            assert primary.pid
            os.kill(primary.pid, signal.SIGKILL)
            (tmp_path / "outage").touch()
            standby.promote()
            with Watcher(standby.dsn) as watcher, psycopg.connect(standby.dsn) as holder:
                holder.execute(UNTIL_ALL_ARE_CLAIMED)
                assert enqueue(watcher, tmp_path, "given", "end", "end") == lost
                promoted.symlink_to(str(conninfo_to_dict(standby.dsn)["host"]))
                wait_for_handlers("given", "began")
                holder.commit()
                (tmp_path / "later").touch()
                wait_for_handlers("lost", "ended")
                (tmp_path / "end").touch()
                watcher.wait("select not exists (select from wakeboard.job_runs where locked_by <> 0)")
                assert watcher.rows(FOREIGN) == []
                assert watcher.ask("select count(*) from wakeboard.job_run_history") == RUNS
                assert watcher.rows("select kind, lost from wakeboard.server_changes") == [("promoted", True)]
                assert worker.log.count("the database went back in time") == 1
