"""The built-in job types: `ping` always, the others if the settings enable them.

`http` needs allowed hosts, `command` allowed commands, `job` namespaces, and `wakeboard.alert` a file with alert rules.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from wakeboard.engine.handlers import Handler

if TYPE_CHECKING:
    from collections.abc import Mapping

    from wakeboard.engine.run import Run
    from wakeboard.settings import Settings
    from wakeboard_worker.builtin.http import Http
    from wakeboard_worker.builtin.jobs.handler import JobHandler


def builtin_handlers(settings: Settings) -> dict[str, Handler]:
    """Return the built-in handlers that these settings enable, by job type. Raises InvalidSettings."""
    functions: dict[str, Any] = {"ping": ping}
    if settings.http_allowed_hosts:
        from wakeboard_worker.builtin.http import Http

        functions["http"] = Http(settings)
    if settings.commands:
        from wakeboard_worker.builtin.command import Command

        functions["command"] = Command(settings)
    handlers: dict[str, Handler] = {}
    if settings.jobs_namespaces:
        from wakeboard_worker.builtin.jobs.handler import STOP_GRACE_S, JobHandler

        handlers["job"] = Handler("job", JobHandler(settings), STOP_GRACE_S)
    if settings.alerts_file:
        from wakeboard.alerts.sender import JOB_TYPE, AlertSender

        functions[JOB_TYPE] = AlertSender(settings)
    return handlers | {job_type: Handler(job_type, function) for job_type, function in functions.items()}


async def offers(settings: Settings, builtin: Mapping[str, Handler]) -> dict[str, list[str]]:
    """Return what runs of the built-in job types may name, by job type."""
    named = {"http": list(settings.http_allowed_hosts), "command": list(settings.commands)}
    if "job" in builtin:
        named["job"] = await cast("JobHandler", builtin["job"].function).offered()
    return {job_type: names for job_type, names in named.items() if job_type in builtin}


async def close_builtin(handlers: Mapping[str, Handler]) -> None:
    """Close the connections that the built-in handlers keep open between runs. Call it after the last run."""
    if "http" in handlers:
        await cast("Http", handlers["http"].function).close()
    if "job" in handlers:
        await cast("JobHandler", handlers["job"].function).close()


async def ping(run: Run) -> dict[str, int]:
    """Return the attempt number. A smoke test of the whole path, from the schedule to the stored result."""
    return {"pong": run.attempt}
