"""Shell completion of names that only the board knows. It gives up quickly and says nothing when there is no board."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from typer import Context

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from wakeboard.cli.session import Session

PATIENCE_S = 1.0  # somebody has pressed a key
MOST = 500


def complete_schedule(incomplete: str) -> list[str]:
    """namespace/name of schedules, or the bare names of those whose name begins so."""

    async def ask(session: Session) -> list[str]:
        names = [known for known in await session.reports.schedule_names() if not known.removed]
        return [known.short for known in names] + [known.name for known in names if "/" not in incomplete]

    return _beginning_with(incomplete, ask)


def complete_queue(incomplete: str) -> list[str]:
    """Queues that are in use."""
    return _beginning_with(incomplete, lambda session: session.reports.queues())


def complete_paused_name(context: Context, incomplete: str) -> list[str]:
    """The name after `queue` or `schedule`."""
    what = context.params.get("what")
    if what == "queue":
        return complete_queue(incomplete)
    return complete_schedule(incomplete) if what == "schedule" else []


def complete_source(incomplete: str) -> list[str]:
    """Sources whose removal is held."""

    async def ask(session: Session) -> list[str]:
        return [row.source for row in await session.reports.removals()]

    return _beginning_with(incomplete, ask)


def _beginning_with(incomplete: str, ask: Callable[[Session], Awaitable[list[str]]]) -> list[str]:
    from wakeboard.cli.session import open_store

    async def ask_quickly(session: Session) -> list[str]:
        return await asyncio.wait_for(ask(session), PATIENCE_S)

    try:
        names = open_store(ask_quickly)
    except Exception:  # noqa: BLE001 - a completion that fails completes nothing
        return []
    return sorted({name for name in names if name.startswith(incomplete)})[:MOST]
