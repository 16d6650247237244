"""Deletes Jobs that have not ended, and that no attempt can adopt.

Their run was cancelled or died while no worker followed it (`sweep_forever`), or a worker that had lost its lease
created the Job late, for example because it was suspended (`delete_late`). A Job of a run that this database does not
know may belong to another installation, and is left alone.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any, Final

from wakeboard.kube.client import ApiRefused
from wakeboard_worker.builtin.jobs.observed import observed_job
from wakeboard_worker.builtin.jobs.template import job_name
from wakeboard_worker.builtin.jobs.tracker import JOBS_API

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from wakeboard.jobs.queries import RunState
    from wakeboard.kube.client import ApiClient
    from wakeboard_worker.builtin.jobs.observed import ObservedJob
    from wakeboard_worker.builtin.jobs.tracker import Tracker

log = logging.getLogger("wakeboard.jobs")

SWEEP_EVERY_S: Final = 60.0
UNFOLLOWED_FOR_S: Final = 60.0
LIVE: Final = frozenset({"queued", "running", "failed"})


def is_orphan(job: ObservedJob, states: Mapping[int, RunState]) -> bool:
    """Whether no attempt can adopt an unfinished Job: its run has ended, or is at a later attempt."""
    state = states.get(job.run_id)
    if state is None or str(state.uuid) != job.run_uuid:
        return False
    return state.status not in LIVE or job.name != job_name(job.cron_job, state.uuid, state.run_at)


async def sweep_forever(
    api: ApiClient,
    tracker: Tracker,
    run_states: Callable[[Sequence[int]], Awaitable[Mapping[int, RunState]]],
    every_s: float = SWEEP_EVERY_S,
    unfollowed_for_s: float = UNFOLLOWED_FOR_S,
) -> None:
    """Deletes orphans until it is cancelled."""
    while True:
        await asyncio.sleep(every_s)
        jobs = tracker.unfollowed(unfollowed_for_s)
        if not jobs:
            continue
        try:
            states = await run_states([job.run_id for job in jobs])
            for job in jobs:
                if is_orphan(job, states):
                    await _delete(api, job, states[job.run_id].status)
        except Exception as error:  # noqa: BLE001 - the sweep never ends
            log.info("orphaned Jobs are deleted later: %s", error)


async def delete_late(
    api: ApiClient,
    creation: Awaitable[Mapping[str, Any]],
    run_states: Callable[[Sequence[int]], Awaitable[Mapping[int, RunState]]],
) -> None:
    """Waits for the creation of a Job whose attempt has lost the run, and deletes the Job if it is an orphan."""
    try:
        job = observed_job(await creation)
        states = await run_states([job.run_id])
        if not job.ended and is_orphan(job, states):
            await _delete(api, job, states[job.run_id].status)
    except Exception as error:  # noqa: BLE001 - of the creation, too
        log.info("a Job that was created late is deleted later, if there is one: %s", error)


async def _delete(api: ApiClient, job: ObservedJob, status: str) -> None:
    log.warning("the Job %s/%s is deleted: its run %d is %s", job.namespace, job.name, job.run_id, status)
    body = {"propagationPolicy": "Foreground", "preconditions": {"uid": job.uid}}
    try:
        await api.request("DELETE", f"{JOBS_API}/namespaces/{job.namespace}/jobs/{job.name}", body=body)
    except ApiRefused as error:
        log.info("the Job %s/%s was not deleted: %s", job.namespace, job.name, error)
