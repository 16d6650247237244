"""The SQL function of declared limits, typed."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from wakeboard.engine.maintenance_api import MaintenanceStore


async def declare_limits(
    store: MaintenanceStore,
    source: str,
    limits: Sequence[Mapping[str, Any]],
    *,
    actor: str | None = None,
    program: str = "sql",
) -> dict[str, str]:
    """Makes `limits` (key, max_running, rate_count, rate_period_s, rate_burst) those that `source` declares.

    Returns the keys that changed: 'set', 'removed', or 'kept' because an administrator has set another limit; and
    those that are 'locked' by another transaction: call it again.
    """
    query = "select key, answer from wakeboard.declare_limits(%s, %s::pg_catalog.jsonb, %s, %s)"
    return dict(await store.rows(query, source, json.dumps(limits), actor, program))


def locked_limits(changed: Mapping[str, str]) -> str:
    """The sentence about the keys that an answer of `declare_limits` calls locked."""
    keys = ", ".join(sorted(key for key, answer in changed.items() if answer == "locked"))
    return f"the limits of {keys} are not set: another transaction has locked them; try again"
