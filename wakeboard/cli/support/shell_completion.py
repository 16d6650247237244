"""Completes names of schedules, queues and sources from the database; offers nothing if there is none."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, TypeVar

from typer import Context

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from wakeboard.cli.support.session import CommandSession, DatabaseSession

_Session = TypeVar("_Session")
QUERY_TIMEOUT_S = 1.0  # the user is waiting at the prompt
MAX_NAMES = 500


def complete_schedule(incomplete: str) -> list[str]:
    """Schedules as namespace/name, and as bare names while no namespace is typed."""

    async def query(session: CommandSession) -> list[str]:
        found = await session.listings.schedule_names(incomplete, MAX_NAMES)
        names = [known for known in found if not known.removed]
        return [known.short for known in names] + [known.name for known in names if "/" not in incomplete]

    return _complete(incomplete, lambda: _asked(query))


def complete_queue(incomplete: str) -> list[str]:
    """Queues that are in use."""
    return _complete(incomplete, lambda: _asked(lambda session: session.listings.queues()))


def complete_pause_name(context: Context, incomplete: str) -> list[str]:
    """The name after `pause queue` or `pause schedule`."""
    kind = context.params.get("kind")
    if kind == "queue":
        return complete_queue(incomplete)
    return complete_schedule(incomplete) if kind == "schedule" else []


def complete_source(incomplete: str) -> list[str]:
    """Sources with a pending removal."""

    async def query(session: DatabaseSession) -> list[str]:
        return [row.source for row in await session.listings.removals()]

    from wakeboard.cli.support.session import with_database

    return _complete(incomplete, lambda: with_database(_in_time(query)))


def _asked(query: Callable[[CommandSession], Awaitable[list[str]]]) -> list[str]:
    from wakeboard.cli.support.session import with_session

    return with_session(_in_time(query))


def _in_time(query: Callable[[_Session], Awaitable[list[str]]]) -> Callable[[_Session], Awaitable[list[str]]]:
    async def query_in_time(session: _Session) -> list[str]:
        async with asyncio.timeout(QUERY_TIMEOUT_S):
            return await query(session)

    return query_in_time


def _complete(incomplete: str, ask: Callable[[], list[str]]) -> list[str]:
    try:
        names = ask()
    except Exception:  # noqa: BLE001 - a failed completion must not disturb the prompt
        return []
    return sorted({name for name in names if name.startswith(incomplete)})[:MAX_NAMES]
