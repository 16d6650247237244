"""Reads what was recorded for a delivery, over a connection of its own: deliveries are rare."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple

from wakeboard.store.connection import connect
from wakeboard.store.statements import call

if TYPE_CHECKING:
    from datetime import datetime

    from wakeboard.alerts.rules.messages import Notification


class RecordedDelivery(NamedTuple):
    """What a run delivers to which receiver: see the SQL function `alert_delivery`.

    `verdict`: send, skip or wait. `notification`: open, repeat or resolved, with the alert; heartbeat or test, without.
    """

    verdict: str
    receiver: str
    notification: Notification | Literal["heartbeat"]
    alert_id: int
    rule: str
    severity: str
    summary: str
    examples: list[str]
    opened_at: datetime | None
    resolved_at: datetime | None


async def read_delivery(dsn: str, run_id: int) -> RecordedDelivery | None:
    """What was recorded for this run. None: nothing, so it must not send anything. Raises WakeboardError."""
    columns = "verdict, receiver, notification, alert_id, rule, severity, summary, examples, opened_at, resolved_at"
    async with await connect(dsn, name="wakeboard alert") as conn:
        rows = await call(conn, f"select {columns} from wakeboard.alert_delivery(%s)", run_id)
        return RecordedDelivery(*rows[0]) if rows else None
