"""Reads what a delivery of an alert's notification needs, over a connection of its own: deliveries are rare."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from wakeboard.store.connection import connect
from wakeboard.store.statements import call

if TYPE_CHECKING:
    from datetime import datetime


class Delivery(NamedTuple):
    """The verdict (send, skip or wait; see the SQL function `alert_delivery`) and the alert."""

    verdict: str
    rule: str
    severity: str
    summary: str
    examples: list[str]
    opened_at: datetime | None
    resolved_at: datetime | None


async def read_delivery(dsn: str, alert_id: int, receiver: str, notification: str) -> Delivery:
    """What to do with this notification. Raises WakeboardError."""
    columns = "verdict, rule, severity, summary, examples, opened_at, resolved_at"
    async with await connect(dsn, name="wakeboard alert") as conn:
        rows = await call(
            conn, f"select {columns} from wakeboard.alert_delivery(%s, %s, %s)", alert_id, receiver, notification
        )
        return Delivery(*rows[0])
