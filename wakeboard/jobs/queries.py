"""Reads the state of the runs of Kubernetes Jobs, over a connection of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from wakeboard.store.statements import call

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime
    from uuid import UUID

    from wakeboard.store.connection import AsyncConnection


class RunState(NamedTuple):
    """The state of a run. `run_at`: when its attempt became due, or will be. `generation`: of its schedule, if any."""

    uuid: UUID
    status: str
    run_at: datetime
    generation: int | None


class JobRunStore:
    """The SQL functions of the handler `job`, over one autocommit connection."""

    def __init__(self, conn: AsyncConnection) -> None:
        self.conn = conn

    async def run_states(self, ids: Sequence[int]) -> dict[int, RunState]:
        """The states of those runs that exist, by id."""
        query = "select id, uuid, status::pg_catalog.text, run_at, generation from wakeboard.run_states(%s)"
        return {row[0]: RunState(*row[1:]) for row in await call(self.conn, query, list(ids))}
