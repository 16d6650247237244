"""Job types that every worker knows: `ping` always; `http`, `command` where its settings name hosts or commands."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from wakeboard.handlers import Handler

if TYPE_CHECKING:
    from collections.abc import Mapping

    from wakeboard.handlers import Run
    from wakeboard.settings import Settings
    from wakeboard_worker.builtin.http import Http


def builtin_handlers(settings: Settings) -> dict[str, Handler]:
    """The built-in handlers under these settings, by job type. Raises InvalidSettings."""
    found: dict[str, Any] = {"ping": ping}
    if settings.http_allowed_hosts:
        from wakeboard_worker.builtin.http import Http

        found["http"] = Http(settings)
    if settings.commands:
        from wakeboard_worker.builtin.command import Command

        found["command"] = Command(settings)
    return {job_type: Handler(job_type, function) for job_type, function in found.items()}


async def close_builtin(handlers: Mapping[str, Handler]) -> None:
    """Ends what these handlers, made by `builtin_handlers`, keep open between runs. No run of theirs is left."""
    if "http" in handlers:
        await cast("Http", handlers["http"].function).close()


async def ping(run: Run) -> dict[str, int]:
    """Proves the whole path, from the schedule to the stored result."""
    return {"pong": run.attempt}
