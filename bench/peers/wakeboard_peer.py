"""wakeboard as a peer: the real worker process, with every real feature on."""

from __future__ import annotations

import os
from pathlib import Path

from peer import Peer

HERE = Path(__file__).parent
PROJECT = Path(os.environ.get("WAKEBOARD_ROOT") or Path(__file__).resolve().parents[2])

FINISHED_ROWS = """
insert into wakeboard.job_run_history (
  id, uuid, scheduled_for, run_at, created_at, started_at, finished_at, locked_by, lease_epoch, status, trigger,
  backoff_strategy, backoff_base_s, backoff_cap_s, timeout_s, attempts, max_attempts, crash_count, release_count,
  priority, queue, job_type, payload, definition_id, definition_generation, schedule)
select nextval('wakeboard.job_runs_id_seq'), gen_random_uuid(), now(), now(), now(), now(), now(), 1, 1, 'succeeded',
       'application', 'exponential', 10, 3600, 600, 1, 5, 0, 0, 3, 'default', 'noop', '{{}}', 1, 1, 'bench/noop'
  from generate_series(1, {n})
"""
PEER = Peer(
    name="wakeboard",
    program=[str(PROJECT / ".venv/bin/python"), str(HERE / "wakeboard_prog.py")],
    env={"PYTHONPATH": os.pathsep.join(map(str, (HERE, PROJECT, PROJECT / "worker")))},
    settings="the real `python -m wakeboard_worker --forever`: claims and completions in fenced batches by SQL "
    "functions, history kept, heartbeat thread, job types filtered, JSON log; each run belongs to a definition, so "
    "change rows are written; bulk = enqueue_many of 10,000",
    sql_ok="select count(*) from wakeboard.job_run_history where status = 'succeeded'",
    sql_newest="select true from wakeboard.job_runs order by id desc limit 1",
    sql_pending="select false",  # the next question says it all: finished runs are elsewhere
    sql_unfinished="select exists (select from wakeboard.job_runs)",
    sql_history=[FINISHED_ROWS],
)
