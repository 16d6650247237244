"""Job types that every worker knows: `ping` always, `http` and `command` as far as settings allow."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wakeboard.handlers import Handler

if TYPE_CHECKING:
    from wakeboard.handlers import Run
    from wakeboard.settings import Settings


def builtin_handlers(settings: Settings) -> dict[str, Handler]:
    """The built-in handlers under these settings, by job type."""
    del settings
    return {"ping": Handler("ping", ping)}


async def ping(run: Run) -> dict[str, int]:
    """Proves the whole path, from the schedule to the stored result."""
    return {"pong": run.attempt}
